"""Figure 2 of Hernández-Lobato & Adams (2015): test RMSE as rows are added, actively or by chance.

These are the runs of Table 2 on three sets; those that its file in the same folder holds are taken
from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from papers import markdown, pbp_table2
from papers.compare import Estimate
from papers.pbp_table2 import COLLECTION, COLUMNS, PRINTED, Config
from papers.protocol import Experiment
from papers.rows import Row

if TYPE_CHECKING:
    from papers.figures.active_figure import Curve

NAME = "pbp-active-curves"
DATASETS = ("boston", "yacht", "energy")


def draw(rows: Sequence[Row], stem: Path) -> None:
    """Draw a panel a data set, a curve a method and collection."""
    from papers.figures import active_figure

    panels = {dataset: _curves(rows, dataset) for dataset in DATASETS}
    panels = {dataset: methods for dataset, methods in panels.items() if methods}
    if panels:
        active_figure.draw(stem, panels=panels)


def _curves(rows: Sequence[Row], dataset: str) -> dict[str, dict[str, Curve]]:
    from papers.figures.active_figure import Curve

    found = {}
    for method, column in COLUMNS.items():
        lines = {}
        for collection in COLLECTION:
            errors = np.array(pbp_table2.curves(rows, dataset, method, collection))
            if len(errors) > 1:
                se = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
                lines[collection] = Curve(errors.mean(axis=0), se)
        if lines:
            found[column.label] = lines
    return found


def section(rows: Sequence[Row]) -> str:
    """Write where the curves start and how they fall."""
    finished = markdown.latest(rows)
    lines = []
    for dataset in DATASETS:
        for method, column in COLUMNS.items():
            for collection in COLLECTION:
                errors = np.array(pbp_table2.curves(finished, dataset, method, collection))
                if len(errors):
                    shown = [Estimate.of(errors[:, at].tolist()) for at in _shown(errors.shape[1])]
                    label = f"{dataset}, {column.label}, {collection}"
                    lines.append((label, str(len(errors)), *map(markdown.estimate, shown)))
    return markdown.section(NAME, rows, finished, table=markdown.table(_HEADER, lines))


_HEADER = ("set, method, collection", "repeats", "no row added", "a third", "two thirds", "all")


def _shown(n: int) -> list[int]:
    """Places of the start, both thirds and the end among n errors."""
    return [round(share * (n - 1) / 3) for share in range(4)]


EXPERIMENT = Experiment(
    name=NAME,
    config=Config,
    parts=(*DATASETS, *PRINTED),
    cells=partial(pbp_table2.cells, datasets=DATASETS, methods=PRINTED),
    work=pbp_table2.fit_cell,
    section=section,
    draw=draw,
    reuses=pbp_table2.NAME,
)
