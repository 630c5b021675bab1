"""Tables by file or name, and what is checked before anything is computed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesprop.cli.actions import Learning
from bayesprop.cli.console import InputError
from bayesprop.datasets import registry
from bayesprop.table.columns import column_of
from bayesprop.table.errors import listing, one_line
from bayesprop.table.read import read_table
from bayesprop.table.split import Parts, divide

if TYPE_CHECKING:
    import polars as pl


def read_source(source: str, text: Collection[str] = ()) -> pl.DataFrame:
    """Read a table, or a data set, whose name wins over a file of that name (then `./name`).

    text
        Columns that stay text, as `read_table` takes them.
    """
    if registry.find(source) is not None:
        return registry.load(source).frame()
    if source != "-" and not Path(source).suffix and not Path(source).exists():
        sets = ", ".join(registry.names())
        raise InputError(f"there is no file {one_line(source)!r}; data sets: {sets}")
    return read_table(source, text)


def fingerprint(target: np.ndarray) -> str:
    """Return a digest by which the table of a fit is known again, whatever its file is called."""
    return hashlib.sha256(np.ascontiguousarray(target).tobytes()).hexdigest()


def table_name(source: str) -> str:
    """Return what messages call a table."""
    return "standard input" if source == "-" else one_line(source)


def column(frame: pl.DataFrame, name: str, source: str) -> pl.Series:
    """Return a column of a table that came from somewhere."""
    return column_of(frame, name, table_name(source))


class Target(NamedTuple):
    """The column to predict, its unit, and the task where a known data set says it."""

    name: str
    unit: str
    task: str | None


def target_of(options: Learning, frame: pl.DataFrame) -> Target:
    """Find the column to predict: the one asked for, or a known data set's own."""
    known = registry.find(options.table)
    name = options.target or (known.target if known is not None else None)
    if name is None:
        raise InputError(
            "--target is needed: the column to predict; columns: "
            + one_line(listing(frame.columns))
        )
    column(frame, name, options.table)
    own = known if known is not None and known.target == name else None
    return Target(name, "", None) if own is None else Target(name, own.unit, own.task)


def divided(options: Learning, frame: pl.DataFrame, target: str, task: str | None) -> Parts:
    """Divide a table into training and held-out rows, as asked."""
    return divide(
        frame,
        target,
        task,
        test_fraction=options.test_fraction,
        seed=options.seed,
        weights=options.weights,
        drop=options.drop,
        where=table_name(options.table),
    )


def check_output(path: Path, option: str, inputs: Iterable[str | Path | None] = ()) -> None:
    """Refuse, before any work is done, a path that could not be written or holds an input."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{option} {path}: the folder {folder} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option} {path}: the folder {folder} is not writable")
    for source in inputs:
        if source and path.exists() and Path(source).exists() and path.samefile(source):
            raise InputError(f"{option} {path} would overwrite an input; choose another name")
