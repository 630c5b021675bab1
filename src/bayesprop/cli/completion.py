"""Shell completion of methods, data sets, columns of a table, and model files.

Whatever goes wrong completes nothing: there is nobody to tell.
"""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import typer

_TABLES = (
    *(".csv", ".tsv", ".tab", ".txt", ".gz", ".bz2", ".xz", ".zst", ".json", ".jsonl", ".ndjson"),
    *(".parquet", ".pq", ".feather", ".arrow", ".xlsx", ".xlsm", ".xls", ".ods"),
    *(".db", ".sqlite", ".sqlite3", ".duckdb", ".ddb"),
)
_START = 2**20  # bytes


def methods(incomplete: str) -> list[str]:
    """Complete the name of a method."""
    from bayesprop.catalogue import METHODS

    return _beginning(METHODS, incomplete)


def models(incomplete: str) -> list[str]:
    """Complete a model file, or a folder on the way to one."""
    return _files(incomplete, (".bayesprop",))


def tables(incomplete: str) -> list[str]:
    """Complete the name of a data set, or a file that can be a table."""
    from bayesprop.datasets import registry

    return [*_beginning(registry.names(), incomplete), *_files(incomplete, _TABLES)]


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a column of the table that the command names, or the last one of a list of them."""
    *before, last = incomplete.split(",")
    prefix = "".join(f"{name}," for name in before)
    names: list[str] = []
    with suppress(Exception):
        # An option without its value, yet, leaves the words before it among the other arguments.
        names = column_names(str(ctx.params.get("table") or ctx.args[-1]))
    return [prefix + name for name in _beginning(names, last)]


def column_names(source: str) -> list[str]:
    """Read the names of a table's columns; of plain text from its start, of Parquet alone."""
    from bayesprop.datasets import registry

    if registry.find(source) is not None:
        return list(registry.load(source).frame().columns)
    path = Path(source)
    kind = path.suffix.lower()
    if kind in (".parquet", ".pq"):
        import polars as pl

        return list(pl.read_parquet_schema(path))
    from bayesprop.table import read
    from bayesprop.table.errors import TableError

    with warnings.catch_warnings(action="ignore"):
        if kind not in read.SEPARATORS:
            return read.read_table(source).columns
        with path.open("rb") as file:
            start = file.read(_START)
        lines = start if len(start) < _START else start.rpartition(b"\n")[0]
        try:
            return read.parse(lines, source).columns
        except TableError:  # rows that are broken here or by the cut
            header = start.partition(b"\n")[0]
            return read.parse(b"\n".join([header, header]), source).columns


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name and name.startswith(incomplete)]


def _files(incomplete: str, endings: tuple[str, ...]) -> list[str]:
    paths = sorted(glob.glob(f"{glob.escape(incomplete)}*"))
    named = [f"{path}/" if os.path.isdir(path) else path for path in paths]
    return [name for name in named if name.lower().endswith(("/", *endings))]
