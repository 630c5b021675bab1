"""A column as numbers: what every kind of column has, and what its gaps become."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesprop.table.errors import counted
from bayesprop.table.remarks import Remark
from bayesprop.table.values import cleaned, without


class Encoded(NamedTuple):
    """Columns as numbers, and sentences about values that had to be interpreted."""

    X: Float[np.ndarray, "n k"]
    warnings: list[str]


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
        """Whether all fields are such as a fit leaves."""
        is_text = all(isinstance(text, str) for text in (self.name, *self.words))
        is_text = is_text and isinstance(self.words, tuple)
        return is_text and {type(self.missing), type(self.marked)} == {bool}

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

    def with_gaps(
        self, values: Float[np.ndarray, "n k"], absent: pl.Series, sentences: Iterable[str] = ()
    ) -> Encoded:
        """Mark gaps in a column beside, if they are; count those that training rows did not have.

        sentences
            What else is to be said of the values.
        """
        if self.marked:
            values = np.column_stack([values, absent.to_numpy().astype(np.float64)])
        if self.missing or not absent.any():
            return Encoded(values, [*sentences])
        n, where = int(absent.sum()), "where the training data had none"
        gaps = Remark(
            f": {counted(n, 'value')} missing, {where}: error bars are wider there",
            f"with values missing {where}, so that error bars are wider",
            self.name,
            n,
        )
        return Encoded(values, [*sentences, gaps])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        return {"kind": self.kind, **asdict(self)}


class FittedColumn(NamedTuple):
    """How a column is to be encoded (None: dropped), and sentences where that needs any.

    is_constant
        Whether it is the same wherever it has a value: of use only if its gaps tell something.
    questions
        Sentences that ask its owner something.
    is_row_number, is_name
        Whether it was dropped for numbering the rows, or for naming them by text.
    """

    name: str
    column: EncodedColumn | None
    sentences: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    is_constant: bool = False
    is_row_number: bool = False
    is_name: bool = False

    @classmethod
    def dropped(cls, name: str, reason: str, shared: str, detail: str = "") -> FittedColumn:
        """Drop a column for a reason, which others may share."""
        remark = Remark(f" dropped: {reason}", f"dropped, {shared}", name, detail)
        return cls(name, None, (remark,))
