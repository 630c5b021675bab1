"""A target of numbers: how they are written, in what unit, and which of them are limits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from bayesprop.table.date_forms import dated
from bayesprop.table.errors import TableError, quoted
from bayesprop.table.limits import (
    ends_in_words,
    ends_of,
    has_limits,
    limits_as_values,
    sides,
    within,
)
from bayesprop.table.stray_words import FEW_LEVELS, stray_words
from bayesprop.table.values import (
    PLAIN,
    WRITTEN,
    as_numbers,
    check_dtype,
    cleaned,
    looks_like_number,
    reading,
    typed,
    unmarked,
    without_magnitudes,
)

OFTEN = 10
"""Rows for one from which a few values or words may well be classes."""


@dataclass(frozen=True)
class Marks:
    """How the numbers of a target are written (one of `WRITTEN`), and their unit, such as "$".

    low, high
        The limits below and above which numbers are not told apart, as by "<0.5"; None: none.
    sentence
        Shows how one was read; not stored.
    """

    written: str
    unit: str
    low: float | None = None
    high: float | None = None
    sentence: str = field(default="", compare=False)

    @property
    def limits(self) -> list[float]:
        """Those that there are."""
        return [limit for limit in (self.low, self.high) if limit is not None]

    def to_stored(self) -> list[Any]:
        """Return plain values."""
        return [self.written, self.unit, self.low, self.high]

    @classmethod
    def from_stored(cls, stored: Any) -> Marks:
        """Rebuild them; ValueError where they are none."""
        match stored:
            case [str(written), str(unit), *limits] if written in WRITTEN:
                ends = [one for one in limits if one is not None]
                are_numbers = all(type(one) in (int, float) and math.isfinite(one) for one in ends)
                is_whole = len(limits) in (0, 2)  # the first files had none
                if is_whole and are_numbers and ends == sorted(set(ends)):
                    return cls(written, unit, *limits)
        raise ValueError(f"the marks of a target must be a form and a unit, got {stored!r}")


def known_values(target: pl.Series, marks: Marks | None = None) -> pl.Series:
    """Return a target with clean text and without NaN; TableError for dates and the like."""
    check_dtype(target)
    if target.dtype.is_temporal() or dated(cleaned(target)) is not None:
        raise TableError(
            f"target {quoted(target.name)} holds dates or times: predict a number, such as days"
            " from a date that is known"
        )
    if target.dtype in (pl.Categorical, pl.Enum):
        return cleaned(target)  # categories by their owner's word, even if they read as numbers
    if target.dtype == pl.String:
        if marks is not None:
            return _without_marks(cleaned(target), marks)
        values = typed(cleaned(target))
        is_many = values.dtype == pl.String and values.n_unique() > FEW_LEVELS
        return _without_marks(values) if is_many else values
    if target.dtype == pl.Decimal:
        return target.cast(pl.Float64)
    return target.fill_nan(None) if target.dtype.is_float() else target


def target_numbers(target: pl.Series, marks: Marks | None = None) -> pl.Series:
    """Return a target as floats, nulls where it is missing; TableError if it is not numeric.

    What lies beyond a limit is that limit, of several the one that costs least rows.

    marks
        How an earlier table wrote its numbers, in what unit and limits; None: found out.
    """
    ends = (None, None) if marks is None else (marks.low, marks.high)
    if ends == (None, None) and not is_limited(target):
        return _numbers_of(target, marks)
    numbers, side = _numbers_of(limits_as_values(target), marks), sides(target)
    return within(numbers, side, ends_of(side, numbers) if ends == (None, None) else ends)


def is_limited(target: pl.Series) -> bool:
    """Whether a target is numbers of which some are limits."""
    if not has_limits(target):
        return False
    values = limits_as_values(cleaned(target))
    return typed(values).dtype.is_numeric() or unmarked(values) is not None


def _numbers_of(target: pl.Series, marks: Marks | None) -> pl.Series:
    values = known_values(target, marks)
    if values.dtype == pl.String:
        values = _without_marks(values, marks)
    is_words = values.dtype == pl.String and values.null_count() < len(values)
    if is_words and marks is not None and looks_like_number(values).any():
        _refuse_mixed(values, marks)
    if values.dtype == pl.Boolean or (is_words and not has_stray_words(values)):
        raise TableError(
            f"target {quoted(target.name)} must be a number, got"
            f" {quoted(values.drop_nulls()[0])}: choose another column, or code it as a number if"
            " its values have an order and a size"
        )
    return as_numbers(values)


def marks_of(target: pl.Series) -> Marks | None:
    """Return how the numbers of a target are written; None where they are plain or none."""
    if target.dtype != pl.String:
        return None
    text, has_ends = cleaned(target), is_limited(target)
    text = limits_as_values(text) if has_ends else text
    marked = unmarked(text) if typed(text).dtype == pl.String else None
    if marked is None and not has_ends:
        return None
    numbers = _numbers_of(text, None) if has_ends else text
    ends = ends_of(sides(target), numbers) if has_ends else (None, None)
    sentences = [] if marked is None else [str(reading(text, marked.numbers))]
    sentences += [ends_in_words(target, numbers, ends)] if has_ends else []
    written, unit = (PLAIN, "") if marked is None else (marked.written, marked.unit)
    return Marks(written, without_magnitudes(unit), *ends, sentence="; ".join(sentences))


def _without_marks(text: pl.Series, marks: Marks | None = None) -> pl.Series:
    """Return numbers for text in which all have one unit or are plain; else the text.

    As the marks have them where that is possible. TableError where it is another unit than theirs.
    """
    marked = None if marks is None else unmarked(text, marks.written)
    marked = unmarked(text) if marked is None and typed(text).dtype == pl.String else marked
    if marked is None:
        return typed(text)
    unit = without_magnitudes(marked.unit)
    if marks is not None and unit and marks.unit not in ("", unit):
        row = int(text.is_not_null().arg_max() or 0)
        raise TableError(
            f"target {quoted(text.name)} is {quoted(text[row])} in data row {row + 1}, and the"
            f" model has learnt it in {quoted(marks.unit)}: convert it, or leave the unit away"
        )
    return marked.numbers.alias(text.name)


def _refuse_mixed(text: pl.Series, marks: Marks) -> None:
    """Name two values of a target that no one reading serves."""
    known = text.drop_nulls().unique(maintain_order=True)
    others = (v for v in known if unmarked(pl.Series([known[0], v])) is None)
    other = next(others, known[0])
    row = int((text == other).fill_null(False).arg_max() or 0)
    unit = f"all in {quoted(marks.unit)} or all" if marks.unit else "all"
    raise TableError(
        f"target {quoted(text.name)} must be written in one way, {unit} as plain numbers, got"
        f" {quoted(known[0])}, and {quoted(other)} in data row {row + 1}"
    )


def has_stray_words(values: pl.Series) -> bool:
    """Say whether text would be numbers but for a few words, which a message then names.

    Not so where few different values occur, and the words often: "1", "2", "3 or more".
    """
    if values.dtype != pl.String or values.null_count() == len(values):
        return False
    if stray_words(values):
        return True
    known = values.drop_nulls()
    n_words = known.cast(pl.Float64, strict=False).null_count()
    is_often = known.n_unique() <= FEW_LEVELS and n_words * OFTEN >= len(known)
    return n_words <= len(known) / 2 and not is_often
