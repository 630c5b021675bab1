"""Numbers of which only a limit is known, such as "<0.5" below what an instrument detects."""

from __future__ import annotations

import numpy as np
import polars as pl

from bayesprop.table.errors import Remark, TableError, counted, quoted
from bayesprop.table.stray_words import are_few
from bayesprop.table.values import cleaned

BELOW, ABOVE = "below", "above"
SIDES = (BELOW, ABOVE)
"""On which side of its limit a number lies."""
Ends = tuple[float | None, float | None]
"""The limit below and the one above, None where there is none."""
_LIMIT = r"^\s*([<>≤≥])=?\s*(.*\d.*)$"
_SIDE_OF = {"<": BELOW, "≤": BELOW, ">": ABOVE, "≥": ABOVE}


def is_text(series: pl.Series) -> bool:
    """Whether a column can hold limits."""
    return series.dtype in (pl.String, pl.Categorical, pl.Enum)


def sides(series: pl.Series) -> pl.Series:
    """Return on which side of its limit each value lies, null where it has none."""
    if not is_text(series):
        return pl.repeat(None, len(series), dtype=pl.String, eager=True)
    signs = series.cast(pl.String).str.extract(_LIMIT, 1)
    return signs.replace_strict(_SIDE_OF, default=None, return_dtype=pl.String)


def has_limits(series: pl.Series) -> bool:
    """Whether some values are limits, and all of them too many different ones to be levels."""
    is_limited = sides(series).is_not_null().any()
    return is_limited and not are_few(cleaned(series).drop_nulls())


def limits_as_values(series: pl.Series) -> pl.Series:
    """Return the limits in place of what is known to lie beyond them, the others as they are."""
    if not is_text(series):
        return series
    return series.cast(pl.String).str.replace(_LIMIT, "${2}")


def ends_of(side: pl.Series, numbers: pl.Series) -> Ends:
    """Return the limits below and above that cost least; TableError where nothing lies between.

    One costs the measurements beyond it and the rows whose own limit lies within, none at all the
    rows that have one.

    side
        Of every number that stands for a limit.
    """
    measured = numbers.filter(side.is_null()).drop_nulls()
    if measured.is_empty():
        raise TableError(f"target {quoted(numbers.name)} holds limits only: no value was measured")
    low = _cheapest(numbers.filter(side == BELOW), measured)
    high = _cheapest(-numbers.filter(side == ABOVE), -measured)
    high = None if high is None else -high
    if low is not None and high is not None and low >= high:
        raise TableError(
            f"target {quoted(numbers.name)} has a limit below at {low:g} and one above at"
            f" {high:g}, and nothing can lie between: correct them, or leave them empty"
        )
    return low, high


def _cheapest(limits: pl.Series, measured: pl.Series) -> float | None:
    """Return the limit, below, that leaves most rows as they are; of equal ones the largest.

    None where it is cheaper to leave out all rows with one.
    """
    values, others = np.sort(measured.to_numpy()), np.sort(limits.to_numpy())
    each = np.unique(others)[::-1]
    cost = np.searchsorted(values, each) + len(others) - np.searchsorted(others, each, "right")
    return float(each[np.argmin(cost)]) if (cost < len(others)).any() else None


def within(numbers: pl.Series, side: pl.Series, ends: Ends) -> pl.Series:
    """Return numbers, what lies beyond a limit as that, null where a limit of its own is wider."""
    low, high = ends
    bounds = (BELOW, -np.inf if low is None else low), (ABOVE, np.inf if high is None else high)
    is_narrow = pl.Series([True] * len(numbers))
    for (one, limit), sign in zip(bounds, (1.0, -1.0), strict=True):
        is_narrow &= ((side != one) | (sign * numbers <= sign * limit)).fill_null(value=True)
    return numbers.clip(low, high).set(~is_narrow, None)


def ends_in_words(series: pl.Series, numbers: pl.Series, ends: Ends) -> str:
    """Say what stands for a limit in a target.

    numbers
        The values and limits that it holds.
    """
    side = sides(series)
    limited = series.filter(side.is_not_null())
    each = zip(ends, ("less", "more"), strict=True)
    meant = [f"{end:.15g} stands for {end:.15g} or {word}" for end, word in each if end is not None]
    n_wide = within(numbers, side, ends).null_count() - numbers.null_count()
    if n_wide:
        meant.append(f"{counted(n_wide, 'row')} with another limit left out")
    return (
        f"target {quoted(series.name)} holds limits, as {quoted(limited[0])}, in"
        f" {counted(len(limited), 'row')}: {', '.join(meant)}"
    )


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
