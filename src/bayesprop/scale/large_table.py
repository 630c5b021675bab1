"""A table larger than memory: Parquet files in an order, read and encoded some rows at a time."""

from __future__ import annotations

import shutil
import weakref
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Int

from bayesprop.table.delimited import column_names
from bayesprop.table.encoded import Encoded
from bayesprop.table.errors import Message, TableError, one_line, quoted, rows_called
from bayesprop.table.files import differences, same_schema
from bayesprop.table.supervised import MAX_LEVELS
from bayesprop.table.target import MAX_CLASSES

MOST_CELLS = 10_000_000
"""Rows times columns of a Parquet table that is still read whole; SAMPLE_CELLS where the method
that learns it takes no further rows."""
SAMPLE_CELLS = 25_000_000
PIECE_ROWS, PIECE_CELLS = 131_072, 2_800_000
"""Of what is read at a time, at most."""
BUFFERED_PIECES = 4
"""Pieces from anywhere in the table whose rows are shuffled together."""
ENOUGH = 5
"""Rows of every value in a sample, where the table has so many: some are held out of a fit."""
_AT = "\0at"


class Piece(NamedTuple):
    """Some rows of a file; `place` is that of the first one in the table, from 0."""

    file: Path
    first: int
    n_rows: int
    place: int


class Part(NamedTuple):
    """Rows that were read, and their places in the table, from 0."""

    frame: pl.DataFrame
    places: Int[np.ndarray, " n"]


@dataclass(frozen=True)
class LargeTable:
    """Parquet files as one table; iterating gives frames, piece by piece in their order.

    names, columns
        As they are in the files, and stripped.
    """

    files: tuple[Path, ...]
    names: tuple[str, ...]
    columns: tuple[str, ...]
    pieces: tuple[Piece, ...]
    is_partitioned: bool = False
    is_temporary: bool = False

    @classmethod
    def of(cls, files: Sequence[Path], where: Path, *, is_temporary: bool = False) -> LargeTable:
        """Look at files without reading rows; TableError names one that differs or is damaged.

        is_temporary
            Whether they are ours, so that messages do not name them.
        """
        schema = same_schema(files, where)
        is_partitioned = any(
            "=" in part
            for file in files
            if file.is_relative_to(where)
            for part in file.relative_to(where).parent.parts
        )
        lazy = pl.scan_parquet(files[0], hive_partitioning=is_partitioned)
        columns = tuple(lazy.collect_schema()) if is_partitioned else tuple(schema)
        counts = [_read(pl.scan_parquet(file).select(pl.len()), file).item() for file in files]
        n_at_once = min(PIECE_ROWS, max(1, PIECE_CELLS // max(len(columns), 1)))
        starts = accumulate(counts, initial=0)
        pieces = tuple(
            Piece(file, first, min(n_at_once, n - first), start + first)
            for file, n, start in zip(files, counts, starts, strict=False)
            for first in range(0, n, n_at_once)
        )
        what = "the table" if is_temporary else quoted(where)
        stripped = column_names([name.strip() for name in columns], what)
        return cls(tuple(files), columns, tuple(stripped), pieces, is_partitioned, is_temporary)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(piece.n_rows for piece in self.pieces)

    @property
    def is_large(self) -> bool:
        """Whether it has more than MOST_CELLS."""
        return self.n_cells > MOST_CELLS

    @property
    def n_cells(self) -> int:
        """Rows times columns."""
        return self.n_rows * len(self.columns)

    @property
    def n_parts(self) -> int:
        """In how many parts, of a few pieces, it is shuffled."""
        n_at_once = BUFFERED_PIECES * max(piece.n_rows for piece in self.pieces)
        return max(1, round(self.n_rows / n_at_once))

    def __iter__(self) -> Iterator[pl.DataFrame]:
        return (self.read(piece) for piece in self.pieces)

    def read(self, piece: Piece) -> pl.DataFrame:
        """Read some rows; TableError names the file where it is damaged."""
        lazy = pl.scan_parquet(piece.file, hive_partitioning=self.is_partitioned)
        frame = _read(lazy.slice(piece.first, piece.n_rows), piece.file)
        return frame.select(self.names).rename(dict(zip(self.names, self.columns, strict=True)))

    def whole(self) -> pl.DataFrame:
        """Read all rows."""
        if not self.pieces:
            raise TableError("the table has no rows")
        return pl.concat(self)

    def in_order(self) -> Iterator[Part]:
        """Read all rows, piece by piece."""
        for piece in self.pieces:
            places = np.arange(piece.place, piece.place + piece.n_rows)
            yield Part(self.read(piece), places)

    def row_name(self, place: int) -> str:
        """Return what messages call the row at a place: its number in its file."""
        piece = self.pieces[bisect_right([one.place for one in self.pieces], place) - 1]
        number = piece.first + place - piece.place + 1
        return str(place + 1) if self.is_temporary else f"{number} of {quoted(piece.file, 200)}"

    def shuffled(self, seed: int) -> Iterator[Part]:
        """Read all rows in a random order: that of the pieces, then that of rows of a few."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(self.pieces))
        sizes = np.array([self.pieces[k].n_rows for k in order])
        part = (np.cumsum(sizes) - sizes) * self.n_parts // self.n_rows
        for number in np.unique(part):
            pieces = [self.pieces[k] for k in order[part == number]]
            places = np.concatenate([np.arange(p.place, p.place + p.n_rows) for p in pieces])
            at = rng.permutation(len(places))
            yield Part(pl.concat(map(self.read, pieces))[at], places[at])

    def sample(self, n: int, seed: int, target: str | None = None) -> Part:
        """Draw rows, each as likely as any other, and read every file for it.

        With them come a few rows of every value that would be missing, of the target and of columns
        of few values: levels, classes, and what tells that a column is not constant.
        """
        rng = np.random.default_rng(seed)
        chosen = np.sort(rng.choice(self.n_rows, min(n, self.n_rows), replace=False, shuffle=False))
        rare = RareValues.of(self.columns, target)
        frames = []
        for frame, places in self.in_order():
            first, last = np.searchsorted(chosen, [places[0], places[-1] + 1])
            frames.append(frame[chosen[first:last] - places[0]])
            rare.look(frame, places)
        return Part(*rare.beside(pl.concat(frames), chosen))


class RareValues:
    """Up to ENOUGH rows of every value of the columns that have few, from a pass over a table.

    most
        Different values, by column, beyond which it is given up: memory stays bounded.
    """

    def __init__(self, most: Mapping[str, int]) -> None:
        self.most = dict(most)
        self.numbers: dict[str, dict[object, int]] = {name: {} for name in most}
        self.frames: list[pl.DataFrame] = []
        self.places: list[Int[np.ndarray, " n"]] = []

    @classmethod
    def of(cls, columns: Iterable[str], target: str | None) -> RareValues:
        """Look for levels of all columns, and for classes of the target."""
        most = dict.fromkeys(columns, MAX_LEVELS)
        return cls(most if target is None else most | {target: MAX_CLASSES})

    def look(self, frame: pl.DataFrame, places: Int[np.ndarray, " n"]) -> None:
        """Take in the rows of values that there are too few of yet."""
        chosen: set[int] = set()
        for name, numbers in [*self.numbers.items()]:
            if frame[name].dtype.is_nested() or frame[name].n_unique() > self.most[name]:
                del self.numbers[name]
                continue
            firsts = frame.select(pl.int_range(pl.len()).alias(_AT), name).group_by(name)
            for value, at in firsts.agg(pl.col(_AT).head(ENOUGH)).iter_rows():
                number = numbers.get(value, 0)
                chosen.update(at[: ENOUGH - number])
                numbers[value] = min(number + len(at), ENOUGH)
            if len(numbers) > self.most[name]:
                del self.numbers[name]
        at = np.sort(np.fromiter(chosen, int))
        self.frames.append(frame[at])
        self.places.append(places[at])

    def only(self, names: Collection[str]) -> None:
        """Give up all other columns."""
        self.numbers = {name: each for name, each in self.numbers.items() if name in names}

    def beside(
        self, frame: pl.DataFrame, places: Int[np.ndarray, " n"]
    ) -> tuple[pl.DataFrame, Int[np.ndarray, " n"]]:
        """Return a sample, in the order of the table, with rows of the values it has too few of."""
        rows, at = pl.concat(self.frames), np.concatenate(self.places)
        is_wanted = np.zeros(len(at), bool)
        for name in self.numbers:
            counts = frame[name].value_counts(name="\0n")
            enough = counts.filter(pl.col("\0n") >= ENOUGH)[name]
            is_wanted |= ~rows[name].is_in(enough.implode(), nulls_equal=True).to_numpy()
        is_wanted &= ~np.isin(at, places)
        order = np.argsort(both := np.concatenate([places, at[is_wanted]]))
        return pl.concat([frame, rows.filter(is_wanted)])[order], both[order]


def written(batches: Iterable[Any]) -> LargeTable:
    """Write what can be read once to a folder that goes when the table does."""
    path = Path(mkdtemp(prefix="bayesprop-"))
    try:
        table = LargeTable.of(_written_files(batches, path), path, is_temporary=True)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
    weakref.finalize(table, shutil.rmtree, path, ignore_errors=True)
    return table


def _written_files(batches: Iterable[Any], path: Path) -> list[Path]:
    files, waiting, n_waiting, first = [], [], 0, None

    def write(lazy: pl.LazyFrame) -> None:
        files.append(path / f"part-{len(files):06d}.parquet")
        try:
            lazy.sink_parquet(files[-1], row_group_size=PIECE_ROWS)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise TableError(
                f"the table cannot be read, or written to {path.parent}:"
                f" {one_line(str(error))[:120]}"
            ) from error

    for number, batch in enumerate(batches, start=1):
        if isinstance(batch, pl.LazyFrame):
            if waiting:
                write(pl.concat(waiting).lazy())
            write(batch)
            waiting, n_waiting = [], 0
            continue
        frame = _frame(batch, number)
        first = frame.schema if first is None else first
        if dict(frame.schema) != dict(first):
            raise TableError(
                f"batch {number} and batch 1 differ in their columns:"
                f" {differences(first, frame.schema)}"
            )
        waiting.append(frame.select(first.names()))
        n_waiting += len(frame)
        if n_waiting >= PIECE_ROWS:
            write(pl.concat(waiting).lazy())
            waiting, n_waiting = [], 0
    if waiting:
        write(pl.concat(waiting).lazy())
    if not files:
        raise TableError("the table has no batch of rows (an iterator gives them once only)")
    return files


def _frame(batch: Any, number: int) -> pl.DataFrame:
    try:
        if isinstance(batch, pl.DataFrame) or hasattr(batch, "schema"):
            return pl.DataFrame(batch)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise TableError(f"batch {number}: {one_line(str(error))[:120]}") from error
    raise TableError(
        f"batch {number} must be a record batch or a frame of polars, got {type(batch).__name__}"
    )


def _read(lazy: pl.LazyFrame, file: Path) -> pl.DataFrame:
    try:
        return lazy.collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = one_line(str(error))[:120]
        raise TableError(
            f"{quoted(file, 200)} is not a readable .parquet file: {reason}"
        ) from error


class EncodedPart(NamedTuple):
    """Rows as they are and as numbers; `first` is the place of the first one, from 0."""

    frame: pl.DataFrame
    encoded: Encoded
    first: int


class Look(NamedTuple):
    """Statistics of all rows from one pass; `has_gaps` where an input is not known exactly."""

    n_rows: int
    has_gaps: bool
    warnings: list[Message]


@dataclass
class EncodedTables:
    """A table, encoded part by part; a frame as a whole, and once only."""

    encode: Callable[[pl.DataFrame], Encoded]
    table: LargeTable | pl.DataFrame
    _whole: Encoded | None = field(default=None, init=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.table.columns)

    def looked_at(self) -> Look:
        """Encode everything, so that what cannot be used is refused before anything is predicted.

        TableError names rows, of a large table also their file.
        """
        table, has_gaps, sentences = self.table, False, {}
        if isinstance(table, pl.DataFrame):
            self._whole = self.encode(table)
            has_gaps = _has_gaps(self._whole)
            return Look(len(table), has_gaps, list(self._whole.warnings))
        for part in table.in_order():
            with rows_called(lambda row, at=part.places: table.row_name(int(at[row]))):
                encoded = self.encode(part.frame)
            has_gaps |= _has_gaps(encoded)
            sentences |= dict.fromkeys(encoded.warnings)
        return Look(table.n_rows, has_gaps, list(sentences))

    def __iter__(self) -> Iterator[EncodedPart]:
        if isinstance(self.table, pl.DataFrame):
            encoded = self._whole or self.encode(self.table)
            yield EncodedPart(self.table, encoded, 0)
            return
        for frame, places in self.table.in_order():
            yield EncodedPart(frame, self.encode(frame), int(places[0]))


def _has_gaps(encoded: Encoded) -> bool:
    """Whether a value is missing or has a standard deviation."""
    std = encoded.X_std
    return bool(np.isnan(encoded.X).any()) or (std is not None and bool(std.any()))
