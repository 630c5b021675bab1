"""Read a sheet or a table of DuckDB in a process of its own.

`python -P in_child.py MOST_BYTES sheet [NAME]` reads a workbook on standard input, `python -P
in_child.py MOST_BYTES duckdb PATH [NAME]` a database. Out come a line of JSON, with the names of
all sheets or tables and the first row of the one read, and that one as Arrow. What a damaged file
can do to its reader, abort it or ask for all memory there is, ends this process alone. It imports
nothing of bayesprop.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from functools import partial

import polars as pl


def main(most_bytes: int, kind: str, *words: str) -> None:
    """Read a sheet or table, the first or only one or the one of a name; none if it has none so."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    except (ImportError, ValueError):  # Windows has no limits, macOS none of this kind
        pass
    (read_sheet if kind == "sheet" else read_duckdb)(*words)


def read_sheet(sheet: str | None = None) -> None:
    """Read a workbook on standard input."""
    import fastexcel

    logging.getLogger("fastexcel").setLevel(logging.ERROR)  # it warns of columns without values
    book = fastexcel.read_excel(sys.stdin.buffer.read())
    names = book.sheet_names
    if sheet is not None and sheet not in names:
        return write(names)
    load = partial(book.load_sheet, 0 if sheet is None else sheet)
    # Of all rows: a type guessed from the first thousand loses what stands below, unsaid.
    frame = load(schema_sample_rows=None, skip_whitespace_tail_rows=True).to_polars()
    first: list[str | None] = []
    if not frame.is_empty():
        first = [*load(header_row=None, n_rows=1, dtypes="string").to_polars().row(0)]
    return write(names, first, frame)


def read_duckdb(path: str, table: str | None = None) -> None:
    """Read a table or view of a database, whole."""
    import duckdb

    # A view of a stranger's base could read other files.
    with duckdb.connect(path, True, {"enable_external_access": "false"}) as base:
        result = base.execute(
            "select table_schema, table_name from information_schema.tables order by all"
        )
        names = {
            name if schema == "main" else f"{schema}.{name}": f"{escaped(schema)}.{escaped(name)}"
            for schema, name in result.fetchall()
        }
        chosen = next(iter(names)) if table is None and len(names) == 1 else table
        if chosen not in names:
            return write(names)
        frame = pl.DataFrame(base.sql(f"select * from {names[chosen]}"))
    # Text goes through bytes, so that what is no UTF-8 is refused here.
    return write(names, [], frame.with_columns(pl.col(pl.String).cast(pl.Binary).cast(pl.String)))


def escaped(name: str) -> str:
    """Put a name in quotation marks, for SQL."""
    return '"' + name.replace('"', '""') + '"'


def write(
    names: Iterable[str], first: list[str | None] | None = None, frame: pl.DataFrame | None = None
) -> None:
    """Write names, the first row and a table to standard output; None: there was none so named."""
    sys.stdout.buffer.write(json.dumps([[*names], first]).encode() + b"\n")
    if frame is not None:
        frame.write_ipc_stream(sys.stdout.buffer)


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), *sys.argv[2:])
    except Exception as error:
        sys.exit(" ".join(str(error).split()))
