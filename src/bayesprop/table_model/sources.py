"""Tables by file, by the name of a data set, or as a person's frame; what messages call them."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from bayesprop.datasets import registry
from bayesprop.numerics.machine import check_not_forked
from bayesprop.scale.large_table import MOST_CELLS, SAMPLE_CELLS, LargeTable, written
from bayesprop.table.delimited import column_names
from bayesprop.table.division import Division, Grouping, divide, factors_of, labels_of
from bayesprop.table.encoding import EncodedRows
from bayesprop.table.errors import InputError, Message, listing, one_line
from bayesprop.table.files import parquet_files
from bayesprop.table.read import Check, read_table
from bayesprop.table.target import class_of, class_text
from bayesprop.table.values import column_of
from bayesprop.table.write import PARQUET
from bayesprop.table_model.request import FitRequest, learns_all_rows

if TYPE_CHECKING:
    import pandas as pd
    from narwhals.typing import IntoFrame
    from numpy.typing import ArrayLike
    from pyarrow import RecordBatch

    from bayesprop.scale.all_rows import AllRows, Aside

Row: TypeAlias = Mapping[str, Any]
Table: TypeAlias = "str | Path | IntoFrame | Row | Sequence[Row] | Iterable[RecordBatch]"
"""A file, the name of a data set, a frame that narwhals knows, a row, rows, batches of rows."""


def read_source(
    source: str,
    text: Collection[str] | None = None,
    check: Check | None = None,
    missing: Collection[str] | None = None,
) -> pl.DataFrame:
    """Read a table, also of a pattern; a data set's name wins over a file of that name (`./name`).

    text, check, missing
        As `read_table` takes them.
    """
    if registry.find(source) is not None:
        return registry.load(source).frame()
    pattern = None if Path(source).exists() else large_table(source)
    if pattern is not None:
        return pattern.whole()
    if source != "-" and not Path(source).suffix and not Path(source).exists():
        sets = ", ".join(registry.names())
        raise InputError(Message.of("source.absent", where=one_line(source), sets=sets))
    return read_table(source, text, check, missing)


def large_table(table: Any) -> LargeTable | None:
    """Open what may be larger than memory; None for what is read whole anyway.

    table
        A Parquet file, a folder or pattern ("big/*.parquet") of such files; a polars LazyFrame, a
        pyarrow dataset or an iterable of record batches or frames, which are written once to a
        temporary folder (TMPDIR).
    """
    if isinstance(table, str | Path):
        files = _parquet_of(str(table))
        return LargeTable.of(files, Path(table)) if files else None
    if isinstance(table, pl.LazyFrame):
        return written([table])
    if hasattr(table, "to_batches") and hasattr(table, "scanner"):
        return written(table.to_batches())
    is_list = isinstance(table, list | tuple) and len(table) > 0 and hasattr(table[0], "schema")
    return written(table) if is_list or isinstance(table, Iterator) else None


def _parquet_of(source: str) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        return parquet_files(path)
    if path.suffix.lower() in PARQUET and path.is_file():
        return [path]
    return sorted(map(Path, glob.glob(source))) if path.suffix.lower() in PARQUET else []


def from_frame(frame: Any) -> pl.DataFrame:
    """Return a frame of any kind that narwhals knows as a table; the index is no column.

    What pandas calls a category is one, even of numbers; a column of mixed kinds is text. Also rows
    as dicts, or one of them. InputError where it is no frame.
    """
    import narwhals as nw

    if (rows := _dicts(frame)) is not None:
        names = dict.fromkeys(name for row in rows for name in row)
        return pl.DataFrame(
            [pl.Series(str(one), [row.get(one) for row in rows], strict=False) for one in names]
        )
    if nw.dependencies.is_pandas_like_dataframe(frame):
        names = column_names([str(column) for column in frame.columns], "table")
        return pl.DataFrame([_column(frame.iloc[:, k], own) for k, own in enumerate(names)])
    try:
        return nw.from_native(frame, eager_only=True).to_polars()
    except TypeError as error:
        raise InputError(Message.of("source.kind", got=type(frame).__name__)) from error


def _dicts(rows: Any) -> list[dict] | None:
    """Return rows that are dicts, or one of them, as a list; None for anything else."""
    if isinstance(rows, dict):
        several = [
            one for one in rows if isinstance(rows[one], list | tuple | np.ndarray | pl.Series)
        ]
        if several:
            raise InputError(Message.of("source.row", several[0]))
        return [rows]
    are_dicts = isinstance(rows, list) and rows and all(isinstance(one, dict) for one in rows)
    return rows if are_dicts else None


def read_any(
    table: Table,
    text: Collection[str] | None = None,
    check: Check | None = None,
    missing: Collection[str] | None = None,
) -> pl.DataFrame:
    """Read what `fit` takes: a file or data set as `read_source` does, a frame as it is."""
    check_not_forked("Polars")
    if isinstance(table, str | Path):
        return read_source(str(table), text, check, missing)
    parts = large_table(table)
    return from_frame(table) if parts is None else parts.whole()


def _column(column: pd.Series, name: str) -> pl.Series:
    """Return a column of pandas as polars has it."""
    if str(column.dtype) == "category":
        levels = [str(value) for value in column.cat.categories]
        return _text(column, name).cast(pl.Enum(levels) if column.cat.ordered else pl.Categorical)
    if str(column.dtype).startswith("Sparse"):
        column = column.sparse.to_dense()
    if column.dtype == object and column.dropna().map(type).nunique() > 1:
        return _text(column, name)
    if str(column.dtype).startswith("period"):
        return _text(column, name)
    try:
        return pl.from_pandas(column).alias(name)
    except (TypeError, ValueError, NotImplementedError):  # complex numbers, intervals
        return _text(column, name)


def levels_of_numbers(
    column: pd.Series, name: str
) -> tuple[pl.Series, tuple[str, ...] | None] | None:
    """Return the numbers or truth values that a category of pandas holds, and the order of these.

    None where it is no category of such; without order where its levels have none.
    """
    is_category = str(getattr(column, "dtype", "")) == "category" and hasattr(column, "cat")
    levels = column.cat.categories if is_category else None
    if levels is None or levels.inferred_type not in ("integer", "boolean", "floating"):
        return None
    places = pl.Series(name, column.cat.codes.to_numpy().astype(np.int64))
    values = pl.Series(name, levels.tolist()).gather(places.set(places < 0, None))
    words = tuple(class_text(class_of(level)) for level in levels.tolist())
    return values, words if column.cat.ordered else None


def _text(column: pd.Series, name: str) -> pl.Series:
    pairs = zip(column.astype(object), column.isna(), strict=True)
    return pl.Series(name, [None if gone else str(value) for value, gone in pairs], pl.String)


def with_target(table: pl.DataFrame, y: Any) -> pl.DataFrame:
    """Put a target beside its rows, under its own name or "y"; InputError where it does not fit."""
    if isinstance(y, str):
        raise InputError(Message.of("y.is_name", y))
    name = getattr(y, "name", None)
    name = "y" if name is None else str(name)
    if name in table.columns:
        raise InputError(Message.of("y.name", name))
    is_pandas = hasattr(y, "dtype") and hasattr(y, "isna")
    try:
        target = _column(y, name) if is_pandas else pl.Series(name, _values(y), strict=False)
    except TypeError as error:
        raise InputError(Message.of("y.kind", got=type(y).__name__)) from error
    if len(target) != len(table):
        raise InputError(Message.of("y.length", n=len(target), n_rows=len(table)))
    return table.with_columns(target)


def index_remarks(table: Any, y: Any) -> list[str]:
    """Say that the index of a target is not that of its table: both are taken by their places."""
    have_one = all(hasattr(one, "iloc") for one in (table, y))
    if not have_one or table.index.equals(y.index):
        return []
    is_permuted = not y.index.has_duplicates and table.index.sort_values().equals(
        y.index.sort_values()
    )
    remedy = (
        "y.loc[X.index] is in the order of X" if is_permuted else "check that they belong together"
    )
    return [f"the index of y is not that of X, and its values are taken row by row: {remedy}"]


def _values(y: ArrayLike) -> list | tuple | pl.Series | np.ndarray:
    if isinstance(y, pl.Series | list | tuple):
        return y
    values = np.asarray(y)
    if values.ndim != 1:
        raise InputError(Message.of("y.kind", got=f"shape {values.shape}"))
    return values


def like(frame: Any, columns: pl.DataFrame, places: slice | np.ndarray | None = slice(None)) -> Any:
    """Return columns as a frame of the kind of another; of what is none, polars.

    places
        Rows whose index they get; None: a new index.
    """
    import narwhals as nw

    is_pandas = nw.dependencies.is_pandas_like_dataframe(frame)
    own = frame.iloc[:, :0] if is_pandas else frame  # of pandas names may be double
    native = nw.from_native(own, eager_only=True, pass_through=True)
    if isinstance(frame, pl.DataFrame) or not isinstance(native, nw.DataFrame):
        return columns
    backend = native.implementation
    values = {  # what is missing among the numbers of pandas is nan, also where all are
        one.name: one.to_numpy() if is_pandas and one.dtype.is_float() else one.to_list()
        for one in columns
    }
    made = nw.from_dict(values, backend=backend).to_native()
    if is_pandas and places is not None:
        made.index = frame.index[places]
    return made


def fingerprint(target: np.ndarray) -> str:
    """Return a digest by which the table of a fit is known again, whatever its file is called."""
    return hashlib.sha256(np.ascontiguousarray(target).tobytes()).hexdigest()


def table_name(source: Table | None) -> str:
    """Return what messages call a table: by its file or name, or as a frame."""
    if not isinstance(source, str):
        return "the frame"
    return "standard input" if source == "-" else one_line(source)


def column(frame: pl.DataFrame, name: str, source: Table | None) -> pl.Series:
    """Return a column of a table that came from somewhere."""
    return column_of(frame, name, table_name(source))


def in_groups(rows: EncodedRows, frame: pl.DataFrame, group: Grouping) -> EncodedRows:
    """Label rows of a table by the columns that group those learnt, where the table has them.

    Rows without a label are groups of their own.
    """
    factors = factors_of(group, frame.columns)
    if not any({*factor} <= {*frame.columns} for factor in factors):
        return rows
    labels = labels_of(frame, factors)
    alone = np.char.add(" row ", np.arange(1, len(labels) + 1).astype(str))[:, None]
    return rows._replace(groups=np.where(labels == "", alone, labels)[rows.numbers - 1])


def read_to_learn(request: FitRequest, table: Table) -> pl.DataFrame:
    """Read the table of a fit; where lines of it are broken, name what else would be refused."""

    def check(frame: pl.DataFrame) -> None:
        target = target_of(request, frame)
        divided(request, frame, target.name, request.task_or(target.task))

    return read_any(table, check=check, missing=request.missing)


def to_learn(request: FitRequest, table: Table) -> tuple[pl.DataFrame, AllRows | None]:
    """Read the rows of a fit; of a table too large for memory a sample, and what learns all."""
    large = None if registry.find(request.table) is not None else large_table(table)
    if large is None:
        return read_to_learn(request, table), None
    if request.shards is not None and large.is_large:
        own = {"where": table_name(request.table), "n": large.n_rows}
        raise InputError(Message.of("shards.large", **own))
    streams = learns_all_rows(request.method)
    if large.n_cells <= (MOST_CELLS if streams else SAMPLE_CELLS):
        is_named = isinstance(table, str | Path)
        return read_to_learn(request, table) if is_named else large.whole(), None
    target = target_of(request, pl.DataFrame(schema=dict.fromkeys(large.columns, pl.Null)))
    from bayesprop.scale.all_rows import AllRows

    aside = aside_of(request, large.columns)
    return AllRows.of(large, target.name, aside, request.seed, streams=streams)


def aside_of(request: FitRequest, columns: Sequence[str]) -> Aside:
    """Return the columns that are no features; of groups those that are held out together."""
    from bayesprop.scale.all_rows import Aside

    factors = factors_of(request.group, columns)
    return Aside(request.weights, factors[0][0] if factors else None, request.time)


class Target(NamedTuple):
    """The column to predict, its unit, and the task where a known data set says it."""

    name: str
    unit: str
    task: str | None


def target_of(request: FitRequest, frame: pl.DataFrame) -> Target:
    """Find the column to predict: the one asked for, or a known data set's own."""
    known = registry.find(request.table)
    name = request.target or (known.target if known is not None else None)
    if name is None:
        raise InputError(Message.of("target.absent", names=one_line(listing(frame.columns))))
    column(frame, name, request.table)
    own = known if known is not None and known.target == name else None
    return Target(name, "", None) if own is None else Target(name, own.unit, own.task)


def divided(request: FitRequest, frame: pl.DataFrame, target: str, task: str | None) -> Division:
    """Divide a table into training and held-out rows, as asked."""
    return divide(frame, target, task, request, table_name(request.table))
