"""`predict --calibrate`: intervals stretched until they hold what they promise."""

from __future__ import annotations

from bayesprop.cli.console import InputError, figure, note, progress, refusals_of_estimator, warn
from bayesprop.cli.opened import OpenedModel
from bayesprop.cli.predictions import far_rows_by_name
from bayesprop.cli.tables import table_name
from bayesprop.decisions.conformal import ConformalRegressor
from bayesprop.table.encoding import Rows


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
        rows = _unseen_rows(model, table)
        with (
            refusals_of_estimator(ValueError),
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


def _unseen_rows(model: OpenedModel, table: str) -> Rows:
    """Read the rows that have a target; InputError if they are those that the model has learnt."""
    rows = model.rows_of(model.read(table), table)
    seen = model.seen_before(rows.y, table)
    if seen is not None:
        raise InputError(
            f"--calibrate needs rows that the fit did not see: {seen}, and intervals calibrated on "
            "them would be too narrow"
        )
    return rows
