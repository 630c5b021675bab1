"""What stands for missing values among numbers: words in a few rows, or a number such as -999."""

from __future__ import annotations

from typing import cast

import polars as pl

from bayesprop.table.errors import Remark, counted, listing, quoted
from bayesprop.table.values import (
    are_codes,
    hold_codes,
    is_number,
    looks_like_number,
    typed,
    unmarked,
    without,
)

FEW_LEVELS = 10
"""Text with so few different values is a category whatever it looks like."""
_STAND_INS = (-9.0, -99.0, -999.0, -9999.0, 999.0, 9999.0, 99999.0)
_MOST_ROWS, _FEW_ROWS = 0.5, 0.1
"""Shares of the rows that may hold a few words; and many, or numbers with marks of their own."""


def are_few(known: pl.Series) -> bool:
    """Whether different values are so few that they are levels."""
    n_levels = known.n_unique()
    return n_levels <= FEW_LEVELS and (n_levels <= len(known) / 2 or n_levels <= 2)


def stray_words(text: pl.Series) -> tuple[str, ...]:
    """Return the words beside which cleaned text holds numbers, in at most half of its rows.

    None where these are few levels in all, or where the numbers are codes: where words are many, as
    in "113803" beside "A/5 21171", or numbers begin with 0.
    """
    known = text.drop_nulls()
    if known.is_empty() or are_few(known) or are_codes(known) or hold_codes(known):
        return ()
    plain, marked = is_number(known), looks_like_number(known)
    for are_numbers, most in ((plain | marked, _MOST_ROWS), (plain, _FEW_ROWS)):
        strays = known.filter(~are_numbers)
        words = strays.unique().sort().to_list()
        others = without(text, words)
        are_read = typed(others).dtype.is_numeric() or unmarked(others) is not None
        most = most if len(words) <= FEW_LEVELS else _FEW_ROWS
        if are_read and len(strays) <= most * len(known):
            return tuple(words)
    return ()


def taken_for_missing(text: pl.Series, words: tuple[str, ...], others: str) -> tuple[Remark, ...]:
    """Say that words count as missing, if there are any.

    others
        What else the column holds.
    """
    n = int(text.is_in(list(words)).sum()) if text.dtype == pl.String else 0
    shown = f"{listing([quoted(word, 30) for word in words], 3)} in {counted(n, 'row')}"
    remark = Remark(
        f" holds {others}, but {shown}: taken for missing",
        f"of {others}, but for words, taken for missing",
        text.name,
        shown,
    )
    return (remark,) if n else ()


def stand_in(numbers: pl.Series, what: str = "column") -> tuple[str, ...]:
    """Ask about a number that people write for a missing value, where it is far from all others.

    Far: below 0 where no other is, or beyond others by more than their range and of twice their
    size, as -999 is of temperatures.

    what
        The numbers are: a column, or the target.
    """
    for value in _STAND_INS:
        n = int((numbers == value).sum())
        others = numbers.filter(numbers != value)
        if n < 2 or others.is_empty():
            continue
        low, high = float(cast(float, others.min())), float(cast(float, others.max()))
        is_far = max(low - value, value - high) > high - low
        if (value < 0.0 <= low) or (is_far and abs(value) > 2.0 * max(abs(low), abs(high))):
            return (
                f"{what} {quoted(numbers.name)} holds {value:g} in {counted(n, 'row')}, far from"
                " all others: if that stands for a missing value, leave it empty",
            )
    return ()
