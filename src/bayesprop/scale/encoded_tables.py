"""Frames that are one table, encoded one after the other, as often as they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesprop.table.encoded import Encoded
from bayesprop.table.errors import TableError


class EncodedPart(NamedTuple):
    """Rows as they are and as numbers; `first` is the place of the first one, from 0."""

    frame: pl.DataFrame
    X: Float[np.ndarray, "n k"]
    first: int


class Look(NamedTuple):
    """What a look at all rows says of them."""

    n_rows: int
    has_gaps: bool
    warnings: list[str]


@dataclass
class EncodedTables:
    """Frames, encoded; a single one once only.

    tables
        May be iterated more than once.
    columns
        Of every one of them.
    """

    encode: Callable[[pl.DataFrame], Encoded]
    tables: Iterable[pl.DataFrame]
    columns: tuple[str, ...]
    _single: Encoded | None = field(default=None, init=False)

    def looked_at(self) -> Look:
        """Encode everything, so that what cannot be used is refused before anything is predicted.

        TableError names rows; of a table in parts those of the part.
        """
        n_rows, has_gaps, sentences = 0, False, {}
        for frame in self.tables:
            try:
                encoded = self.encode(frame)
            except TableError as error:
                if not n_rows and isinstance(self.tables, list):
                    raise
                where = f"of rows {n_rows + 1} to {n_rows + len(frame)}"
                raise TableError(*(f"{where}: {one}" for one in error.problems)) from error
            n_rows += len(frame)
            has_gaps |= bool(np.isnan(encoded.X).any())
            sentences |= dict.fromkeys(encoded.warnings)
            self._single = encoded if isinstance(self.tables, list) else None
        return Look(n_rows, has_gaps, list(sentences))

    def __iter__(self) -> Iterator[EncodedPart]:
        first = 0
        for frame in self.tables:
            encoded = self._single or self.encode(frame)
            yield EncodedPart(frame, encoded.X, first)
            first += len(frame)
