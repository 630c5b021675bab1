"""Tables in databases that are one file: SQLite and DuckDB, opened for reading only."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

from bayesprop.table.errors import TableError, listed, quoted

DATABASES = (".db", ".sqlite", ".sqlite3", ".duckdb", ".ddb")
"""Read in place: what else is in the base is not opened."""


def database(part: str | None, path: Path) -> pl.DataFrame:
    """Read a table or view of a database, whole: the only one, or the one of a name."""
    with path.open("rb") as file:
        is_duckdb = file.read(12)[8:] == b"DUCK"
    return _duckdb(part, path) if is_duckdb else _sqlite(part, path)


def _sqlite(part: str | None, path: Path) -> pl.DataFrame:
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
        known = base.execute("select name from sqlite_master where type in ('table', 'view')")
        name = _chosen([str(name) for (name,) in known], part, path)
        found = base.execute(f"select * from {_escaped(name)}")
        columns = [column[0] for column in found.description]
        rows = found.fetchall()
        # A column may hold numbers and text; what is text anywhere is text, to be looked at.
        values = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in columns]
        return pl.DataFrame([_series(*pair) for pair in zip(columns, values, strict=True)])


def _duckdb(part: str | None, path: Path) -> pl.DataFrame:
    import duckdb

    # A view of a stranger's base could read other files.
    closed: dict[str, Any] = {"enable_external_access": "false"}
    with duckdb.connect(str(path), read_only=True, config=closed) as base:
        known = base.execute(
            "select table_schema, table_name from information_schema.tables order by all"
        )
        names = {
            name if schema == "main" else f"{schema}.{name}": f"{_escaped(schema)}.{_escaped(name)}"
            for schema, name in known.fetchall()
        }
        return pl.DataFrame(base.sql(f"select * from {names[_chosen(list(names), part, path)]}"))


def _chosen(names: list[str], part: str | None, path: Path) -> str:
    """Return the name of the table to read."""
    if part is None and len(names) != 1:
        raise TableError(f"{quoted(path)} holds {listed(names)}: name one, as in FILE::TABLE")
    if part is not None and part not in names:
        raise TableError(f"{quoted(path)} has no table {quoted(part)}: {listed(names)}")
    return names[0] if part is None else part


def _escaped(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _series(name: str, values: list[Any]) -> pl.Series:
    kinds = {type(value) for value in values} - {type(None)}
    if str in kinds and len(kinds) > 1:
        values = [None if value is None else str(value) for value in values]
    return pl.Series(name, values, strict=kinds != {int, float})
