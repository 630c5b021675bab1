"""Numbers of which only a limit is known, such as "<0.5" below what an instrument detects."""

from __future__ import annotations

import polars as pl

from bayesprop.table.errors import counted, quoted
from bayesprop.table.remarks import Remark

BELOW, ABOVE = "below", "above"
SIDES = (BELOW, ABOVE)
"""On which side of its limit a number lies."""
_LIMIT = r"^\s*([<>≤≥])=?\s*(.*\d.*)$"
_SIDE_OF = {"<": BELOW, "≤": BELOW, ">": ABOVE, "≥": ABOVE}


def sides(series: pl.Series) -> pl.Series:
    """Return on which side of its limit each value lies, null where it has none."""
    if series.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return pl.Series(series.name, [None] * len(series), pl.String)
    signs = series.cast(pl.String).str.extract(_LIMIT, 1)
    return signs.replace_strict(_SIDE_OF, default=None, return_dtype=pl.String)


def limits_as_values(series: pl.Series) -> pl.Series:
    """Return the limits in place of what is known to lie beyond them, the others as they are."""
    if series.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return series
    return series.cast(pl.String).str.replace(_LIMIT, "${2}")


def read_limits(series: pl.Series, side: pl.Series) -> tuple[Remark, ...]:
    """Say how limits are read, if there are any."""
    return _remark(series, side, "read as that number, and marked in a column beside")


def unknown_limits(series: pl.Series, side: pl.Series) -> tuple[Remark, ...]:
    """Say what becomes of limits on a side that the training data had none on."""
    return _remark(series, side, "where the training data had no such limit: taken for missing")


def _remark(series: pl.Series, side: pl.Series, how: str) -> tuple[Remark, ...]:
    n = int(side.is_not_null().sum())
    if not n:
        return ()
    first = quoted(series.filter(side.is_not_null())[0])
    rows = counted(n, "row")
    shared = f"of numbers of which some are limits, {how}"
    return (Remark(f" holds limits, as {first}, in {rows}, {how}", shared, series.name, first),)
