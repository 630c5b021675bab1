"""Tables by file or by the name of a data set, and what messages call them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from bayesprop.datasets import registry
from bayesprop.scale.large_table import MOST_CELLS, SAMPLE_CELLS, large_table
from bayesprop.table.division import Division, divide
from bayesprop.table.errors import listing, one_line
from bayesprop.table.read import Check, read_table
from bayesprop.table.values import column_of
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.request import FitRequest, RowRequest, learns_all_rows

if TYPE_CHECKING:
    from bayesprop.scale.all_rows import AllRows


def read_source(
    source: str, text: Collection[str] = (), check: Check | None = None
) -> pl.DataFrame:
    """Read a table, or a data set, whose name wins over a file of that name (then `./name`).

    text, check
        Columns that stay text, and what else refuses a table, as `read_table` takes them.
    """
    if registry.find(source) is not None:
        return registry.load(source).frame()
    if source != "-" and not Path(source).suffix and not Path(source).exists():
        sets = ", ".join(registry.names())
        raise InputError(f"there is no file {one_line(source)!r}; data sets: {sets}")
    return read_table(source, text, check)


def fingerprint(target: np.ndarray) -> str:
    """Return a digest by which the table of a fit is known again, whatever its file is called."""
    return hashlib.sha256(np.ascontiguousarray(target).tobytes()).hexdigest()


def table_name(source: Any) -> str:
    """Return what messages call a table: by its file or name, or as a frame."""
    if not isinstance(source, str):
        return "the frame"
    return "standard input" if source == "-" else one_line(source)


def column(frame: pl.DataFrame, name: str, source: Any) -> pl.Series:
    """Return a column of a table that came from somewhere."""
    return column_of(frame, name, table_name(source))


def read_to_learn(request: RowRequest) -> pl.DataFrame:
    """Read the table of a fit; where lines of it are broken, name what else would be refused."""

    def check(frame: pl.DataFrame) -> None:
        target = target_of(request, frame)
        divided(request, frame, target.name, request.task_or(target.task))

    return read_source(request.table, check=check)


def to_learn(
    request: FitRequest, table: Any, read: Callable[[], pl.DataFrame]
) -> tuple[pl.DataFrame, AllRows | None]:
    """Read the rows of a fit; of a table too large for memory a sample, and what learns all.

    read
        Reads what is no Parquet, batches or lazy frame.
    """
    large = None if registry.find(request.table) is not None else large_table(table)
    if large is None:
        return read(), None
    if request.shards is not None and large.is_large:
        raise InputError(
            f"--shards deals rows that fit into memory, and {table_name(request.table)} has "
            f"{large.n_rows}: leave it out, so that they are streamed, or fit a dask DataFrame"
        )
    streams = learns_all_rows(request.method)
    if large.n_cells <= (MOST_CELLS if streams else SAMPLE_CELLS):
        is_there = isinstance(table, str | Path) and Path(table).exists()
        return read() if is_there else large.whole(), None
    target = target_of(request, pl.DataFrame(schema=dict.fromkeys(large.columns, pl.Null)))
    from bayesprop.scale.all_rows import AllRows, Aside

    aside = Aside(request.weights, request.group, request.time)
    return AllRows.of(large, target.name, aside, request.seed, streams=streams)


class Target(NamedTuple):
    """The column to predict, its unit, and the task where a known data set says it."""

    name: str
    unit: str
    task: str | None


def target_of(request: RowRequest, frame: pl.DataFrame) -> Target:
    """Find the column to predict: the one asked for, or a known data set's own."""
    known = registry.find(request.table)
    name = request.target or (known.target if known is not None else None)
    if name is None:
        raise InputError(
            "--target is needed: the column to predict; columns: "
            + one_line(listing(frame.columns))
        )
    column(frame, name, request.table)
    own = known if known is not None and known.target == name else None
    return Target(name, "", None) if own is None else Target(name, own.unit, own.task)


def divided(request: RowRequest, frame: pl.DataFrame, target: str, task: str | None) -> Division:
    """Divide a table into training and held-out rows, as asked."""
    return divide(frame, target, task, request, table_name(request.table))
