"""Table 1 of Hernández-Lobato & Adams (2015), PBP columns: nine UCI sets, and `year` if at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from papers import compare, markdown, uci
from papers.compare import Estimate
from papers.protocol import Cell, Experiment, Key, Selection
from papers.published_pbp import PublishedPBP
from papers.rows import Row, results

NAME = "pbp-table1"
YEAR_SHAPED = "year-shaped"
YEAR_TRAIN_ROWS, YEAR_INPUTS = 463_715, 90
_OTHER_WIDTHS = {"protein": (50,)}
_MEASURED_EPOCHS = 2


@dataclass(frozen=True)
class Config:
    """Settings of the table.

    reference, engine
        Always so: by these names rows are known.
    """

    seed: int = 1
    n_epochs: int = 40
    reference: bool = True
    engine: str = "auto"


def cells(_config: Config, asked: Selection) -> list[Cell]:
    """List the fits, split by split, so that a part of a run covers all sets alike; the timing.

    Quick: two splits of the sets named, or of those of at most 2000 rows. Its cells are the
    table's own.
    """
    found = [part for part in asked.parts if part != YEAR_SHAPED]
    if found:
        found = uci.at_hand(found, quick=asked.quick and not asked.named)
    fits = [
        Cell({"dataset": dataset, "split": split, "hidden": hidden}, uci.cost(dataset, hidden))
        for dataset in found
        for hidden in (uci.hidden_units(dataset), *_OTHER_WIDTHS.get(dataset, ()))
        for split in range(uci.n_splits(dataset, quick=asked.quick))
    ]
    fits = uci.by_split(fits)
    if YEAR_SHAPED in asked.parts:
        share = 0.01 if asked.quick else 0.1
        cost = share * _MEASURED_EPOCHS / Config.n_epochs * uci.cost("year", 100)
        fits.append(Cell({"dataset": YEAR_SHAPED, "share": share}, cost, alone=True))
    return fits


def work(config: Config, key: Key) -> dict[str, Any]:
    """Fit one split, or time epochs on data of the size of `year`."""
    return (time_cell if key["dataset"] == YEAR_SHAPED else fit_cell)(config, key)


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one split of one set, and score its test rows."""
    seed = uci.cell_seed(config.seed, key["split"])
    model = PublishedPBP((key["hidden"],), config.n_epochs, seed)
    return uci.fit_and_score(uci.train_test(key["dataset"], key["split"]), model)


def time_cell(config: Config, key: Key) -> dict[str, Any]:
    """Time epochs on a share of the rows of `year`, made up, and scale to the whole fit."""
    n = round(key["share"] * YEAR_TRAIN_ROWS)
    rng = np.random.default_rng(config.seed)
    X = rng.standard_normal((n, YEAR_INPUTS))
    y = np.tanh(X[:, 0]) + X[:, 1] * X[:, 2] + rng.standard_normal(n)
    model = PublishedPBP((100,), 1, 0)
    model.fit(X[:1000], y[:1000])
    seconds = model.set_params(n_epochs=_MEASURED_EPOCHS).fit(X, y).fit_report_.seconds
    epoch = seconds / _MEASURED_EPOCHS
    return {
        "n_rows": n,
        "measured_seconds": seconds,
        "microseconds_a_row": 1e6 * epoch / n,
        "epoch_seconds": epoch * YEAR_TRAIN_ROWS / n,
        "fit_seconds": config.n_epochs * epoch * YEAR_TRAIN_ROWS / n,
    }


def section(rows: Sequence[Row]) -> str:
    """Write the table of our means beside the paper's."""
    finished = markdown.latest(rows)
    paper = compare.anchors("pbp_table1.csv")
    scores = [
        _line(dataset, hidden, found, paper[dataset])
        for dataset in paper
        for hidden in (uci.hidden_units(dataset), *_OTHER_WIDTHS.get(dataset, ()))
        if (found := results(finished, dataset=dataset, hidden=hidden))
    ]
    return markdown.section(
        NAME,
        rows,
        finished,
        table=markdown.table(_HEADER, scores),
        protein=_PROTEIN if results(finished, dataset="protein", hidden=50) else "",
        absent=_absent({row.cell["dataset"] for row in finished}, paper),
        timing=_timing(finished),
    )


_HEADER = (
    "data set | splits | RMSE, paper | RMSE, ours | apart | log-likelihood, paper | "
    "log-likelihood, ours | apart | seconds a fit, paper | ours | > 2 s.e.?"
)


_PROTEIN = (
    "*Protein.* The text of the paper says 100 units for this set, but its two tables disagree on "
    "that network: Table 1 prints 4.732±0.0130, the supplement 4.688±0.0115. Our fits with 100 "
    "units agree with the supplement; Table 1 lies between ours with 100 and with 50 units, nearer "
    "to 50, and may have been made with 50. Five splits also say little about a standard error: "
    "by Welch's t-test, with about six degrees of freedom, a difference of 3.3 has p = 0.02."
)


def _line(
    dataset: str, hidden: int, found: Sequence[dict[str, Any]], paper: dict[str, str]
) -> list[str]:
    is_stated = hidden == uci.hidden_units(dataset)
    line, flags = [dataset if is_stated else f"{dataset}, {hidden} units", str(len(found))], []
    for score, label in (("rmse", "RMSE"), ("log_likelihood", "log-likelihood")):
        shown = markdown.beside(found, score, paper[score])
        line += shown.columns
        flags += [label] if shown.apart.is_flagged else []
    seconds = Estimate.of([result["fit_seconds"] for result in found]).mean
    return [*line, paper["seconds"], f"{seconds:.2g}", ", ".join(flags) or "no"]


def _absent(present: set[str], paper: dict[str, dict[str, str]]) -> str:
    absent = [name for name in paper if name not in present]
    return f"Not run, for want of the data or by choice: {', '.join(absent)}." if absent else ""


def _timing(rows: Sequence[Row]) -> str:
    timed = [row for row in rows if row.cell["dataset"] == YEAR_SHAPED]
    if not timed:
        return ""
    row = max(timed, key=lambda row: row.cell["share"])
    result = row.result or {}
    return (
        f"*Year Prediction MSD, its size only*: on made-up data of {result['n_rows']} rows "
        f"({row.cell['share']:.1%} of the {YEAR_TRAIN_ROWS} training rows) by {YEAR_INPUTS} "
        f"inputs, 100 hidden units, an epoch took {result['microseconds_a_row']:.2f} µs a row, "
        f"timed over {_MEASURED_EPOCHS} epochs. Scaled by rows that is "
        f"{result['epoch_seconds']:.1f} s for an epoch of the full size and "
        f"{result['fit_seconds']:.0f} s for all {row.config['n_epochs']}; "
        "the paper's fit took 6119 s."
    )


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=(*uci.DATASETS, YEAR_SHAPED),
    cells=cells,
    work=work,
    section=section,
)
