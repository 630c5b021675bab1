"""A column as numbers: what every kind of column has, what its gaps become, and what levels share.

Levels are text, or whole numbers that name things.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Shaped

from bayesprop.table.errors import Message, StrayError, TableError, listing, quoted
from bayesprop.table.values import (
    as_levels,
    as_numbers,
    check_dtype,
    cleaned,
    levels_known,
    without,
)

_ROUNDS = 4  # words, then marks of other numbers, then infinities, then nothing
_SHOWN = 30  # characters of a level in a message
_WHOLE = re.compile(r"-?\d+")


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
        if not self.words or series.dtype not in (pl.String, pl.Categorical, pl.Enum):
            return series
        return without(cleaned(series), self.words)

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
