"""Supplement Table 1 of Hernández-Lobato & Adams (2015), PBP columns: 1 to 4 hidden layers.

The paper's figures stand beside the published code and beside our default,
whose guards keep the refresh of the prior inside its valid region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bayesprop.estimators.pbp import PBPRegressor
from papers import compare, markdown, uci
from papers.protocol import Cell, Experiment, Key, Selection
from papers.published_pbp import PublishedPBP
from papers.rows import Row, results

NAME = "pbp-deep"
LAYERS = (1, 2, 3, 4)
MODES = ("reference", "guarded")


@dataclass(frozen=True)
class Config:
    """Settings of the table."""

    seed: int = 1
    n_epochs: int = 40
    engine: str = "auto"


def cells(_config: Config, asked: Selection) -> list[Cell]:
    """List the fits, split by split, so that a part of a run covers all sets and depths alike.

    Quick: two splits of the sets named, or of those of at most 2000 rows. Its cells are the
    table's own.
    """
    fits = [
        Cell(
            {"dataset": dataset, "split": split, "layers": layers, "mode": mode},
            uci.cost(dataset, *(uci.hidden_units(dataset),) * layers),
        )
        for dataset in uci.at_hand(asked.parts, quick=asked.quick and not asked.named)
        for split in range(uci.n_splits(dataset, quick=asked.quick))
        for layers in LAYERS
        for mode in MODES
    ]
    return uci.by_split(fits)


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one split of one set at one depth; both modes start from the same means."""
    sizes = (uci.hidden_units(key["dataset"]),) * key["layers"]
    seed = uci.cell_seed(config.seed, key["split"], key["layers"])
    if key["mode"] == "reference":
        model = PublishedPBP(sizes, config.n_epochs, seed)
    else:
        model = PBPRegressor(sizes, config.n_epochs, random_state=seed)
    data = uci.train_test(key["dataset"], key["split"])
    result = uci.fit_and_score(data, model)
    return result | {"prior_shape": float(model.state_.prior_shape)}


def section(rows: Sequence[Row]) -> str:
    """Write the table: a line for each data set and depth."""
    finished = markdown.latest(rows)
    paper = compare.anchors("pbp_deep.csv")
    lines = [
        line
        for dataset in paper
        for layers in LAYERS
        if (line := _line(dataset, layers, finished, paper[dataset][str(layers)]))
    ]
    return markdown.section(
        NAME, rows, finished, table=markdown.table(_HEADER, lines), cut_short=_cut_short(finished)
    )


_HEADER = (
    "data set | layers | splits | RMSE, paper | reference | apart | > 2 s.e.? | guarded | "
    "log-likelihood, reference | guarded | broken prior, reference"
)


def _cut_short(rows: Sequence[Row]) -> str:
    splits: dict[str, set[int]] = {}
    for row in rows:
        splits.setdefault(row.cell["dataset"], set()).add(row.cell["split"])
    short = [name for name, found in splits.items() if len(found) < uci.n_splits(name, quick=False)]
    if not short:
        return ""
    return (
        f" Fewer splits than the paper's 20 (protein: 5) for {', '.join(sorted(short))}: the run "
        "was cut short for time, the same command adds the rest."
    )


def _line(dataset: str, layers: int, rows: Sequence[Row], printed: str) -> list[str] | None:
    reference, guarded = (
        results(rows, dataset=dataset, layers=layers, mode=mode) for mode in MODES
    )
    if not reference:
        return None
    rmse = markdown.beside(reference, "rmse", printed)
    return [
        dataset,
        str(layers),
        " / ".join(dict.fromkeys((str(len(reference)), str(len(guarded))))),
        *rmse.columns,
        "yes" if rmse.apart.is_flagged else "no",
        *markdown.means(guarded, ["rmse"]),
        *markdown.means(reference, ["log_likelihood"]),
        *markdown.means(guarded, ["log_likelihood"]),
        f"{_share_broken(reference):.0%}",
    ]


def _share_broken(found: list[dict[str, Any]]) -> float:
    shapes = [result["prior_shape"] for result in found]
    return sum(shape is None or not shape > 1.0 for shape in shapes) / len(shapes)


EXPERIMENT = Experiment(
    name=NAME, config=Config, parts=uci.DATASETS, cells=cells, work=fit_cell, section=section
)
