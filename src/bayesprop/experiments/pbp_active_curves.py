"""Figure 2 of Hernández-Lobato & Adams (2015): test RMSE as rows are added, actively or by chance.

These are the runs of Table 2 on three sets; those that its file in the same folder holds are taken
from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprop.experiments import markdown, pbp_table2, protocol
from bayesprop.experiments import rows as row_files
from bayesprop.experiments.compare import Estimate
from bayesprop.experiments.pbp_table2 import COLLECTION, COLUMNS, Config
from bayesprop.experiments.protocol import Key, Progress
from bayesprop.experiments.rows import Row

if TYPE_CHECKING:
    from bayesprop.report.active_figure import Curve

NAME = "pbp-active-curves"
DATASETS = ("boston", "yacht", "energy")


def run(
    *,
    quick: bool,
    jobs: int,
    out: Path,
    only: list[str] | None,
    seed: int,
    progress: Progress,
) -> None:
    """Take the runs of Table 2 or make them; parts are data sets and methods, as there."""
    cells = pbp_table2.cells_of(only, DATASETS, quick=quick, progress=progress)
    known = row_files.done(protocol.all_rows(out, pbp_table2.NAME))
    rows = protocol.run_cells(
        NAME,
        partial(fit_cell, known=known),
        Config(seed=seed),
        cells,
        out=out,
        jobs=jobs,
        progress=progress,
    )
    finished = protocol.all_rows(out, NAME)
    protocol.write_section(out, NAME, section(finished))
    _draw(markdown.latest(finished), out / NAME)
    protocol.check_all_done(rows)


def fit_cell(config: Config, key: Key, *, known: dict[str, Row]) -> dict[str, Any]:
    """Return the errors of one run."""
    row = known.get(row_files.identity(key, vars(config)))
    if row is not None and row.result is not None:
        return row.result
    return pbp_table2.fit_cell(config, key)


def _draw(rows: Sequence[Row], stem: Path) -> None:
    from bayesprop.report import active_figure

    panels = {dataset: _curves(rows, dataset) for dataset in DATASETS}
    panels = {dataset: methods for dataset, methods in panels.items() if methods}
    if panels:
        active_figure.draw(stem, panels=panels)


def _curves(rows: Sequence[Row], dataset: str) -> dict[str, dict[str, Curve]]:
    from bayesprop.report.active_figure import Curve

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
    return "\n\n".join(
        (
            "## Test error as rows are added (PBP paper, Figure 2)",
            "The runs of Table 2 (`pbp-table2`) on three sets: test RMSE, mean ± standard error "
            "over repeats, after none, a third, two thirds and all of the nine additions.",
            f"![Test RMSE by rows added, random and active]({NAME}.svg)",
            markdown.table(_HEADER, lines),
            "The paper prints no figures of these curves but where they end (Table 2).",
            markdown.origin(finished) if finished else "Nothing has been run.",
        )
    ) + markdown.failures(rows)


_HEADER = ("set, method, collection", "repeats", "no row added", "a third", "two thirds", "all")


def _shown(n: int) -> list[int]:
    """Places of the start, both thirds and the end among n errors."""
    return [round(share * (n - 1) / 3) for share in range(4)]
