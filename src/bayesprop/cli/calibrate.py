"""`predict --calibrate`: intervals stretched until they hold what they promise."""

from __future__ import annotations

from bayesprop.cli.console import figure, note, progress, refusals_of_estimator, warn
from bayesprop.cli.opened import OpenedModel
from bayesprop.cli.predictions import far_rows_by_name
from bayesprop.cli.tables import table_name
from bayesprop.decisions.conformal import ConformalRegressor


def stretches(
    model: OpenedModel, table: str, levels: tuple[float, ...], *, quiet: bool
) -> tuple[float, ...]:
    """Return how many std an interval of each level reaches from the mean, learnt from a table.

    table
        Rows with the target, that the fit did not see.
    levels
        Shares of new observations that the intervals should hold.
    """
    with progress(f"calibrating on {table}", quiet=quiet):
        rows = model.rows_to_judge(table)
        with (
            refusals_of_estimator(ValueError, ImportError),
            far_rows_by_name(rows.X, model.encoding, rows.numbers),
        ):
            learnt = tuple(
                ConformalRegressor(model.estimator, coverage=level)
                .calibrate(rows.X, rows.y)
                .stretch_
                for level in levels
            )
    warn(rows.remarks)
    pairs = zip(levels, learnt, strict=True)
    words = ", ".join(f"{100 * level:g} %: mean ± {figure(reach)} std" for level, reach in pairs)
    note(f"calibrated on {len(rows.y)} rows of {table_name(table)}: {words}", quiet=quiet)
    return learnt
