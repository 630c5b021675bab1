"""Tables by file or name, and what is checked before anything is computed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesprop.cli.failures import InputError, did_you_mean, listing, one_line
from bayesprop.datasets import registry
from bayesprop.table.read import read_table

if TYPE_CHECKING:
    import polars as pl


def read_source(source: str, text: Collection[str] = ()) -> pl.DataFrame:
    """Read a table, or a data set, whose name wins over a file of that name (then `./name`).

    text
        Columns that stay text, as `read_table` takes them.
    """
    if known_set(source) is not None:
        return registry.load(source).frame()
    if source != "-" and not Path(source).suffix and not Path(source).exists():
        sets = ", ".join(registry.names())
        raise InputError(f"there is no file {one_line(source)!r}; data sets: {sets}")
    return read_table(source, text)


def fingerprint(target: np.ndarray) -> str:
    """Return a digest by which the table of a fit is known again, whatever its file is called."""
    return hashlib.sha256(np.ascontiguousarray(target).tobytes()).hexdigest()


def known_set(source: str) -> registry.DataSet | None:
    """Return what is known about a data set; None for a file or stdin."""
    return registry.describe(source) if source in registry.names() else None


def table_name(source: str) -> str:
    """Return what messages call a table."""
    return "standard input" if source == "-" else one_line(source)


def require_column(frame: pl.DataFrame, name: str, source: str) -> None:
    """Refuse a column that the table does not have, and say which ones it has."""
    if name not in frame.columns:
        hint = did_you_mean(name, frame.columns)
        raise InputError(
            f"no column {one_line(name)!r} in {table_name(source)}{hint or ';'} "
            f"columns: {one_line(listing(frame.columns))}"
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
