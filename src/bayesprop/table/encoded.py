"""A column as numbers: what every kind of column has, what its gaps become, and what levels share.

Levels are text, or whole numbers that name things. Some values among numbers measure nothing: of
"<0.5", below what an instrument detects, only the limit is known; words stand in a few rows; a
number such as -999 may stand for a missing value; and some columns number the rows.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Shaped

from bayesprop.table.errors import Message, StrayError, TableError, counted, listing, quoted
from bayesprop.table.values import (
    are_codes,
    as_levels,
    as_numbers,
    check_dtype,
    cleaned,
    has_unit,
    is_number,
    is_text,
    levels_known,
    looks_like_number,
    typed,
    unmarked,
    without,
)

_ID_NAME = re.compile(
    r"(?i:unnamed.*|index|idx|id|row|row[_. ]?(id|no|nr|numbers?|names?)|.*[_. ]id"
    r"|(study|case|subj(ect)?|pt|patient|person|user|customer|client|record|obs|row|p|u)id)"
    r"|.*[a-z](ID|Id)"
)
_COUNTER_NAME = re.compile(r"X|#|(?i:no|nr|num|number|obs|observation|case|record|seqn?|serial)\.?")
_LEAST_ROWS = 11
_MOSTLY = 0.9  # of the rows have a number of their own
_FIRST, _DENSITY = 10.0, 0.5
"""What a counter of rows may begin with, and rows a whole number, for some rows may be gone."""
FEW_LEVELS = 10
"""Text with so few different values is a category whatever it looks like."""
_REPEATED = [float(digit * (10**n // 9)) for n in range(2, 16) for digit in range(1, 10)]
"""Numbers of one digit only, two times to 15 times, which floats still hold."""
_OFTEN = 3
"""Rows from which a number that repeats another digit than 9 may stand for a missing value."""
_MOST_ROWS, _FEW_ROWS = 0.5, 0.1
"""Shares of the rows that may hold a few words; and many, or numbers with marks of their own."""
BELOW, ABOVE = "below", "above"
SIDES = (BELOW, ABOVE)
"""On which side of its limit a number lies."""
Ends = tuple[float | None, float | None]
"""The limit below and the one above, None where there is none."""
_LIMIT = r"^\s*([<>≤≥])=?\s*(.*[0-9].*)$"
_RANGE = r"^((?:[1-9][0-9]*|0)(?:\.[0-9]+)?)(?: +(?:-|to) +| *– *)([1-9][0-9]*(?:\.[0-9]+)?)$"
_WIDEST = 100.0  # the end of a range over its beginning; further apart are numbers of telephones
_SIDE_OF = {"<": BELOW, "≤": BELOW, ">": ABOVE, "≥": ABOVE}
_ROUNDS = 4  # words, then marks of other numbers, then infinities, then nothing
_SHOWN = 30  # characters of a level in a message
_WHOLE = re.compile(r"-?\d+")


def numbers_rows(numbers: pl.Series) -> bool:
    """Say whether a column named like an identifier holds another whole number in nearly each row.

    Where the name may as well be that of a number, as "case", only if they rise with the rows.
    """
    known, name = numbers.drop_nulls(), numbers.name.strip()
    if len(known) < _LEAST_ROWS or known.n_unique() < _MOSTLY * len(known):
        return False
    if not bool((known == known.round()).all()):
        return False
    if _ID_NAME.fullmatch(name):
        return True
    counts_up = 0.0 <= known[0] <= _FIRST and _are_dense(known) and known.is_sorted()
    return bool(_COUNTER_NAME.fullmatch(name)) and counts_up and known.n_unique() == len(known)


def are_numbered(text: pl.Series) -> bool:
    """Say whether the digits of texts number the rows, as those of "p1" and "p2" do, in any order.

    Rows are often sorted by what is to be predicted: their numbers then tell of the table alone.
    """
    known = text.drop_nulls().str.replace_all(r"\D", "").cast(pl.Float64, strict=False)
    if known.null_count() or known.n_unique() < len(known):
        return False
    return bool(_ID_NAME.fullmatch(text.name.strip())) or _are_dense(known.sort())


def _are_dense(known: pl.Series) -> bool:
    return len(known) >= _DENSITY * (known[-1] - known[0])


def are_few(known: pl.Series) -> bool:
    """Whether different values are so few that they are levels."""
    n_levels = known.n_unique()
    return n_levels <= FEW_LEVELS and (n_levels <= len(known) / 2 or n_levels <= 2)


def stray_words(text: pl.Series) -> tuple[str, ...]:
    """Return the words beside which cleaned text holds numbers, in at most half of its rows.

    Or the numbers of another unit, in at most a tenth.

    None where these are few levels in all, or where the numbers are codes: where words are many, as
    in "113803" beside "A/5 21171", or numbers begin with 0.
    """
    known = text.drop_nulls()
    hold_codes = known.str.contains(r"^0[0-9]+(\.[0-9]+)?$").any()  # "01.1" beside "A"
    if known.is_empty() or are_few(known) or are_codes(known) or hold_codes:
        return ()
    plain, marked = is_number(known), looks_like_number(known)
    kinds = (plain | marked, _MOST_ROWS), (plain, _FEW_ROWS), (has_unit(known), _FEW_ROWS)
    for are_numbers, most in kinds:
        strays = known.filter(~are_numbers)
        words = strays.unique().sort().to_list()
        others = without(text, words)
        are_read = typed(others).dtype.is_numeric() or unmarked(others) is not None
        most = most if len(words) <= FEW_LEVELS else _FEW_ROWS
        if are_read and len(strays) <= most * len(known):
            return tuple(words)
    return ()


def taken_for_missing(text: pl.Series, words: tuple[str, ...], others: str) -> tuple[Message, ...]:
    """Say that words count as missing, if there are any.

    others
        What else the column holds.
    """
    n = int(text.is_in(list(words)).sum()) if text.dtype == pl.String else 0
    shown = f"{listing([quoted(word, 30) for word in words], 3)} in {counted(n, 'row')}"
    return (Message.of("column.words", text.name, others=others, words=shown),) if n else ()


def stand_in(numbers: pl.Series, what: str = "column") -> tuple[Message, ...]:
    """Ask about numbers that people write for missing values, where they are far from all others.

    Such a number repeats one digit, or is -9, and occurs several times. Far: below 0 where no other
    is, or of three digits, beyond others by more than their range and of twice their size, as -999
    is of temperatures.

    what
        The numbers are: a column, or the target.
    """
    codes = numbers.filter(numbers.abs().is_in(_REPEATED) | (numbers == -9.0))
    asked = []
    for value, n in sorted(codes.alias("").value_counts(name="n").rows()):
        least = _OFTEN if str(value).strip("-9.0") else 2
        others = numbers.filter(numbers != value)
        if n < least or others.is_empty():
            continue
        low, high = float(cast(float, others.min())), float(cast(float, others.max()))
        is_far = not 0.0 < value < 100.0 and max(low - value, value - high) > high - low
        if (value < 0.0 <= low) or (is_far and abs(value) > 2.0 * max(abs(low), abs(high))):
            asked.append(Message.of(f"{what}.stand_in", numbers.name, value=value, n=n))
    return tuple(asked)


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


def middles(text: pl.Series) -> pl.Series:
    """Return the middle of each range, as "10 - 20", null for anything else."""
    if not is_text(text):
        return pl.repeat(None, len(text), dtype=pl.Float64, eager=True)
    ends = text.cast(pl.String).str.strip_chars().str.extract_groups(_RANGE).struct.unnest()
    low, high = ends["1"].cast(pl.Float64), ends["2"].cast(pl.Float64)
    is_range = (low < high) & ((high <= _WIDEST * low) | (low < 1.0))
    return ((low + high) / 2.0).set(~is_range, None)


def ranges_as_values(text: pl.Series) -> pl.Series:
    """Return the middles in place of ranges, the others as they are."""
    return middles(text).cast(pl.String).fill_null(text).alias(text.name)


def has_ranges(text: pl.Series) -> bool:
    """Whether cleaned text holds ranges, no fewer plain numbers, and too many for levels."""
    n, known = middles(text).count(), text.drop_nulls()
    return 0 < n <= is_number(known).sum() and not are_few(known)


def on_ranges(series: pl.Series) -> tuple[Message, ...]:
    """Say how ranges are read, if there are any."""
    is_range = middles(series).is_not_null()
    if not is_range.any():
        return ()
    such = {"example": series.filter(is_range)[0], "n": is_range.sum()}
    return (Message.of("column.ranges", series.name, **such),)


def ends_of(side: pl.Series, numbers: pl.Series) -> Ends:
    """Return the limits below and above that cost least; TableError where nothing lies between.

    One costs the measurements beyond it and the rows whose own limit lies within, none at all the
    rows that have one.

    side
        Of every number that stands for a limit.
    """
    measured = numbers.filter(side.is_null()).drop_nulls()
    if measured.is_empty():
        raise TableError(Message.of("target.limits_only", numbers.name))
    low = _cheapest(numbers.filter(side == BELOW), measured)
    high = _cheapest(-numbers.filter(side == ABOVE), -measured)
    high = None if high is None else -high
    if low is not None and high is not None and low >= high:
        raise TableError(Message.of("target.limits_crossed", numbers.name, low=low, high=high))
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
    is_narrow = pl.Series([True] * len(numbers), dtype=pl.Boolean)
    for (one, limit), sign in zip(bounds, (1.0, -1.0), strict=True):
        is_narrow &= ((side != one) | (sign * numbers <= sign * limit)).fill_null(value=True)
    return numbers.clip(low, high).set(~is_narrow, None)


def ends_in_words(series: pl.Series, numbers: pl.Series, ends: Ends) -> Message:
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
    own = {"example": limited[0], "n": len(limited), "meant": ", ".join(meant)}
    return Message.of("target.limits", series.name, **own)


def on_limits(series: pl.Series, side: pl.Series, code: str) -> tuple[Message, ...]:
    """Say how limits are read, if there are any, in the words of a code."""
    n = int(side.is_not_null().sum())
    if not n:
        return ()
    first = series.filter(side.is_not_null())[0]
    return (Message.of(code, series.name, example=first, n=n),)


class Encoded(NamedTuple):
    """Columns as numbers, and remarks on values that had to be interpreted.

    X_std
        Of the error of every value, 0 where it is exact or missing. None: all are exact.
    groups
        Labels of the rows' groups by every factor, "" of a row without one. None: the model knows
        none.
    """

    X: Float[np.ndarray, "n k"]
    warnings: list[Message]
    X_std: Float[np.ndarray, "n k"] | None = None
    groups: Shaped[np.ndarray, "n f"] | None = None


@dataclass(frozen=True)
class EncodedColumn(ABC):
    """A column of a table and the columns of numbers it becomes; NaN where a value is missing.

    missing
        Whether training data had missing values.
    marked
        Whether one more column is 1 where values are missing.
    words
        What stood for missing values beside the usual marks.
    """

    kind: ClassVar[str]

    name: str
    missing: bool = False
    marked: bool = False
    words: tuple[str, ...] = ()

    @property
    def is_read_as_text(self) -> bool:
        """Whether a table is to be read without taking it for numbers."""
        return False

    @property
    @abstractmethod
    def value_names(self) -> list[str]:
        """Names of the encoded columns but that of gaps."""

    @property
    def is_good(self) -> bool:
        """Whether the fields belong together as a fit leaves them."""
        return True

    def validate(self) -> None:
        """Raise ValueError unless the fields belong together as a fit leaves them."""
        if not self.is_good:
            raise ValueError(f"the stored column {quoted(self.name)} has values that none has")

    def without_words(self, series: pl.Series) -> pl.Series:
        """Return a column with nulls for the words that stand for missing values."""
        has_words = self.words and is_text(series)
        return without(cleaned(series), self.words) if has_words else series

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded columns."""
        return [*self.value_names, *([f"{self.name} is missing"] if self.marked else [])]

    @abstractmethod
    def encode(self, series: pl.Series) -> Encoded:
        """Return a column as numbers; TableError for what it cannot hold."""

    def encode_known(self, series: pl.Series) -> Encoded:
        """Return a column as numbers; what it cannot hold is missing, with a remark."""
        return self.understood(series)[1]

    def understood(self, series: pl.Series) -> tuple[pl.Series, Encoded]:
        """Return a column with nulls for what it cannot hold, and what `encode_known` does."""
        if series.dtype in (pl.Categorical, pl.Enum):
            series = series.cast(pl.String)
        known, remarks = series, list[Message]()
        for _ in range(_ROUNDS):
            try:
                check_dtype(known)
                X, others, *_ = self.encode(known)
                return known, Encoded(X, [*remarks, *others])
            except StrayError as error:
                known = known.set(error.stray, None)
                stray = known.is_null() & series.is_not_null()
                remarks = [StrayError(series, error.holds, stray).remark]
            except TableError as error:
                remarks = [error.first.within("column.all_missing")]
                known = pl.Series(series.name, [None] * len(series), pl.String)
        X, others, *_ = self.encode(known)
        return known, Encoded(X, [*remarks, *others])

    def with_gaps(
        self, values: Float[np.ndarray, "n k"], absent: pl.Series, remarks: Iterable[Message] = ()
    ) -> Encoded:
        """Mark gaps in a column beside, if they are; count those that training rows did not have.

        remarks
            On the values.
        """
        if self.marked:
            values = np.column_stack([values, absent.to_numpy().astype(np.float64)])
        if self.missing or not absent.any():
            return Encoded(values, [*remarks])
        gaps = Message.of("column.new_gaps", self.name, n=absent.sum())
        return Encoded(values, [*remarks, gaps])


class FittedColumn(NamedTuple):
    """How a column is to be encoded (None: dropped), and remarks where that needs any.

    is_constant
        Whether it is the same wherever it has a value: of use only if its gaps tell something.
    questions
        Remarks that ask its owner something.
    is_row_number, is_name
        Whether it was dropped for numbering the rows, or for naming them by text.
    """

    name: str
    column: EncodedColumn | None
    remarks: tuple[Message, ...] = ()
    questions: tuple[Message, ...] = ()
    is_constant: bool = False
    is_row_number: bool = False
    is_name: bool = False

    @classmethod
    def dropped(cls, why: str, name: str, **values: Any) -> FittedColumn:
        """Drop a column for a reason: the code of its remark."""
        return cls(name, None, (Message.of(f"dropped.{why}", name, **values),))


@dataclass(frozen=True, kw_only=True)
class LevelsColumn(EncodedColumn):
    """What levels have in common, whatever stands for them.

    is_numbers
        Whether they are whole numbers, which stand beside; one beyond those that are known is no
        farther than these, for it may be a name like any other.
    """

    is_numbers: bool = False

    @property
    def is_read_as_text(self) -> bool:
        """Whether they are text: "1.10" is another level than "1.1"."""
        return not self.is_numbers

    @property
    def is_good(self) -> bool:
        """Whether the fields belong together as a fit leaves them."""
        if len(set(self.known)) < max(len(self.known), 1):
            return False
        return not self.is_numbers or all(map(_WHOLE.fullmatch, self.known))

    @property
    def value_names(self) -> list[str]:
        """Names of the encoded columns but that of gaps."""
        return [self.name, *self.level_names] if self.is_numbers else self.level_names

    @property
    @abstractmethod
    def known(self) -> tuple[str, ...]:
        """Levels of the training rows."""

    @property
    @abstractmethod
    def level_names(self) -> list[str]:
        """Names of the columns that stand for the levels."""

    @abstractmethod
    def encode_levels(self, text: pl.Series) -> tuple[Float[np.ndarray, "n k"], list[Message]]:
        """Return what stands for levels, null where missing, and remarks on unknown ones."""

    def is_unseen(self, series: pl.Series) -> Bool[np.ndarray, " n"]:
        """Return where a level stands that the training rows did not have."""
        known, _ = self.understood(series)
        if self.is_numbers:
            text = _written(as_numbers(self.without_words(known)))
        else:
            text = levels_known(known, self.known)
        return text.is_not_null().to_numpy() & (places_of(text, self.known) < 0)

    def encode(self, series: pl.Series) -> Encoded:
        """Return what stands for levels, behind the numbers that they are."""
        if not self.is_numbers:
            text = levels_known(series, self.known)
            values, remarks = self.encode_levels(text)
            return self.with_gaps(values, text.is_null(), remarks)
        numbers = as_numbers(self.without_words(series))
        values, remarks = self.encode_levels(_written(numbers))
        ends = [end(float(level) for level in self.known) for end in (min, max)]
        values = np.column_stack([numbers.clip(*ends).fill_null(np.nan).to_numpy(), values])
        return self.with_gaps(values, numbers.is_null(), remarks)


def levels_of(series: pl.Series, *, is_numbers: bool) -> pl.Series:
    """Return the levels of a column as text, null where missing."""
    return _written(as_numbers(series)) if is_numbers else as_levels(series)


def _written(numbers: pl.Series) -> pl.Series:
    """Write numbers as levels; those that are not whole are none that a fit knows."""
    is_whole = ((numbers == numbers.round()) & (numbers.abs() < 2**53)).fill_null(value=True)
    whole = numbers.round().cast(pl.Int64, strict=False).cast(pl.String)
    return whole.zip_with(is_whole, numbers.cast(pl.String))


def places_of(text: pl.Series, levels: Sequence[str]) -> Int[np.ndarray, " n"]:
    """Return places in a list of levels, -1 for what is not there."""
    codes = text.cast(pl.Enum(levels), strict=False).to_physical().cast(pl.Int64)
    return codes.fill_null(-1).to_numpy()


def of_unseen(text: pl.Series, codes: Int[np.ndarray, " n"]) -> list[Message]:
    """Return the remark on levels without a place, if there are any."""
    unseen = text.filter((codes < 0) & text.is_not_null().to_numpy())
    if unseen.is_empty():
        return []
    levels = listing([quoted(level, _SHOWN) for level in sorted(unseen.unique())], 3)
    return [Message.of("column.unknown_levels", text.name, n=len(unseen), levels=levels)]
