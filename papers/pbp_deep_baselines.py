"""Supplement Table 1 of Hernández-Lobato & Adams (2015), columns BP: 1 to 4 layers, tuned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from papers import compare, markdown, pbp_table1_baselines, uci
from papers.protocol import Cell, Experiment, Selection
from papers.rows import Row, results
from papers.tuned_network import Config, at_hand, cost, fit_cell

NAME = "pbp-deep-baselines"
LAYERS = (1, 2, 3, 4)


def cells(_config: Config, asked: Selection) -> list[Cell]:
    """List the fits, split by split, so that a part of a run covers all sets and depths alike.

    Quick: two splits of the sets named, or of those of at most 2000 rows, with fewer trials.
    """
    fits = [
        Cell(
            {"dataset": dataset, "split": split, "method": "bp", "layers": layers},
            cost(dataset, "bp", layers),
        )
        for dataset in at_hand(asked)
        for split in range(uci.n_splits(dataset, quick=asked.quick))
        for layers in LAYERS
    ]
    return uci.by_split(fits)


def section(rows: Sequence[Row]) -> str:
    """Write the table: a line for each data set and depth."""
    finished = markdown.latest(rows)
    paper = compare.anchors("pbp_deep_baselines.csv")
    lines = [
        _line(dataset, layers, found, paper[dataset][str(layers)])
        for dataset in paper
        for layers in LAYERS
        if (found := results(finished, dataset=dataset, layers=layers))
    ]
    return markdown.section(
        NAME,
        rows,
        finished,
        protocol=markdown.paragraphs("tuned-baselines")[0],
        table=markdown.table(_HEADER, lines),
    )


_HEADER = (
    "data set | layers | splits | RMSE, paper | ours | apart | log-likelihood, ours | seconds | "
    "step, momentum, decay | > 2 s.e.?"
)


def _line(dataset: str, layers: int, found: Sequence[dict[str, Any]], printed: str) -> list[str]:
    rmse = markdown.beside(found, "rmse", printed)
    return [
        dataset,
        str(layers),
        str(len(found)),
        *rmse.columns,
        *markdown.means(found, ["log_likelihood"]),
        pbp_table1_baselines.seconds(found),
        pbp_table1_baselines.chosen(found),
        "yes" if rmse.apart.is_flagged else "no",
    ]


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=uci.DATASETS,
    cells=cells,
    work=fit_cell,
    section=section,
    quick={"n_trials": 10},
    scratch=True,
    reuses=pbp_table1_baselines.NAME,
)
