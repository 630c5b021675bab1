"""What departing from the paper costs or brings: stochastic EP, longer training, mini-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from bayesprop.estimators.pbp import PBPRegressor
from papers import markdown, uci
from papers.protocol import Cell, Experiment, Key, Selection
from papers.rows import Row, results

NAME = "pbp-variants"
DATASETS = ("concrete", "energy", "wine_red", "yacht")
VARIANTS: dict[str, dict[str, Any]] = {
    "the paper's: ADF, 40 epochs": {},
    "ADF, 200 epochs": {"n_epochs": 200},
    "stochastic EP, 40 epochs": {"inference": "sep"},
    "stochastic EP, 200 epochs": {"inference": "sep", "n_epochs": 200},
    "batches of 8": {"batch_size": 8},
    "batches of 32": {"batch_size": 32},
    "batches of 128": {"batch_size": 128},
}


@dataclass(frozen=True)
class Config:
    """Settings of the comparison: one hidden layer of 50 units."""

    seed: int = 1
    n_hidden: int = 50


def cells(_config: Config, asked: Selection) -> list[Cell]:
    """List the fits of every variant. Quick: two splits of each set."""
    datasets = uci.at_hand(asked.parts, quick=False)
    return [
        Cell({"dataset": dataset, "split": split, "variant": variant}, uci.cost(dataset, 50))
        for split in range(max(uci.n_splits(dataset, quick=asked.quick) for dataset in datasets))
        for dataset in datasets
        for variant in VARIANTS
    ]


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one variant on one split; all variants start from the same means."""
    seed = uci.cell_seed(config.seed, key["split"])
    model = PBPRegressor((config.n_hidden,), random_state=seed, **VARIANTS[key["variant"]])
    return uci.fit_and_score(uci.train_test(key["dataset"], key["split"]), model)


def section(rows: Sequence[Row]) -> str:
    """Write the table: a line for each data set and variant."""
    finished = markdown.latest(rows)
    lines = [
        line
        for dataset in DATASETS
        for variant in VARIANTS
        if (line := _line(dataset, variant, finished))
    ]
    return markdown.section(NAME, rows, finished, table=markdown.table(_HEADER, lines))


_HEADER = (
    "data set | variant | splits | RMSE | log-likelihood | 90 % interval held | epistemic share"
)


def _line(dataset: str, variant: str, rows: Sequence[Row]) -> list[str] | None:
    found = results(rows, dataset=dataset, variant=variant)
    if not found:
        return None
    return [
        dataset,
        variant,
        str(len(found)),
        *markdown.means(found, ("rmse", "log_likelihood")),
        *(f"{fmean(r[name] for r in found):.1%}" for name in ("coverage_90", "epistemic_share")),
    ]


EXPERIMENT = Experiment(
    name=NAME, config=Config, parts=DATASETS, cells=cells, work=fit_cell, section=section
)
