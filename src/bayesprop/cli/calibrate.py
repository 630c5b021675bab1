"""`predict --calibrate`: intervals stretched until they hold what they promise, by MAPIE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesprop.cli.console import figure, note, progress, warn
from bayesprop.cli.failures import InputError, refusals_of_estimator
from bayesprop.cli.scores import far_rows_by_name
from bayesprop.cli.sources import encoding_of, rows_to_judge, table_name

if TYPE_CHECKING:
    from bayesprop.store import SavedModel


def check_options(calibrate: str | None, table: str, *, any_quantiles: bool) -> None:
    """Refuse, before anything is read, what cannot go together."""
    if calibrate is None:
        return
    if calibrate == table == "-":
        raise InputError("--calibrate and TABLE cannot both be standard input; name a file")
    if any_quantiles:
        raise InputError("--calibrate stretches intervals only; leave --quantiles out")


def stretches(
    saved: SavedModel, table: str, levels: tuple[float, ...], *, quiet: bool
) -> tuple[float, ...]:
    """Return how many std an interval of each level reaches from the mean, learnt from a table.

    table
        Rows with the target, that the fit did not see.
    levels
        Shares of new observations that the intervals should hold.
    """
    from bayesprop.decisions.conformal import ConformalRegressor

    with progress(f"calibrating on {table}", quiet=quiet):
        rows = rows_to_judge(saved, table)
        with (
            refusals_of_estimator(ValueError, ImportError),
            far_rows_by_name(rows.features, encoding_of(saved), rows.row_numbers),
        ):
            found = tuple(
                ConformalRegressor(saved.estimator, coverage=level)
                .calibrate(rows.features, rows.target)
                .stretch_
                for level in levels
            )
    warn(rows.warnings)
    told = ", ".join(
        f"{100 * level:g} %: mean ± {figure(stretch)} std"
        for level, stretch in zip(levels, found, strict=True)
    )
    note(f"calibrated on {len(rows.target)} rows of {table_name(table)}: {told}", quiet=quiet)
    return found
