"""Tables in files that are not text: Parquet, Feather, JSON lines, Excel, SQLite; and packed text.

Polars reads them, and fastexcel sheets; what they complain of is said in one line.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from bayesprop.table.errors import TableError, listed, one_line, quoted

PART = "::"
"""Between a file and the sheet or table in it."""

UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
}
SQLITE = (".db", ".sqlite", ".sqlite3")
"""Read in place: what else is in the base is not opened."""


class Place(NamedTuple):
    """A file, and which sheet or table of it; None: the only or first one."""

    path: Path
    part: str | None

    @classmethod
    def of(cls, source: str) -> Place:
        """Take "book.xlsx::prices" apart."""
        path, sign, part = source.rpartition(PART)
        is_whole = not sign or Path(source).exists()
        return cls(Path(source), None) if is_whole else cls(Path(path), part)


def unpacked(content: bytes, path: Path, where: str) -> tuple[bytes, str]:
    """Return the content of a packed file as it was, and the suffix of what is in it."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if not suffixes or suffixes[-1] not in UNPACK:
        return content, path.suffix.lower()
    try:
        content = UNPACK[suffixes[-1]](content)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise TableError(f"{where} is damaged: {one_line(str(error))[:120]}") from error
    return content, suffixes[-2] if len(suffixes) > 1 else ""


def parquet(content: bytes, part: str | None, path: Path) -> pl.DataFrame:  # noqa: ARG001
    """Read a Parquet file."""
    return pl.read_parquet(content)


def feather(content: bytes, part: str | None, path: Path) -> pl.DataFrame:  # noqa: ARG001
    """Read an Arrow file."""
    return pl.read_ipc(io.BytesIO(content))


def json_lines(content: bytes, part: str | None, path: Path) -> pl.DataFrame:  # noqa: ARG001
    """Read one JSON object a line."""
    return pl.read_ndjson(io.BytesIO(content), infer_schema_length=None)


def excel(content: bytes, part: str | None, path: Path) -> pl.DataFrame:
    """Read a sheet of a workbook: the first, or the one of a name."""
    import fastexcel

    book = fastexcel.read_excel(content)
    if part is not None and part not in book.sheet_names:
        raise TableError(f"{quoted(path)} has no sheet {quoted(part)}: {listed(book.sheet_names)}")
    return book.load_sheet(0 if part is None else part).to_polars()


def sqlite(content: bytes, part: str | None, path: Path) -> pl.DataFrame:  # noqa: ARG001
    """Read a table of an SQLite database, whole; it is opened for reading only."""
    base = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        known = base.execute("select name from sqlite_master where type in ('table', 'view')")
        names = [str(name) for (name,) in known]
        if part is None and len(names) != 1:
            raise TableError(f"{quoted(path)} holds {listed(names)}: name one, as in FILE::TABLE")
        if part is not None and part not in names:
            raise TableError(f"{quoted(path)} has no table {quoted(part)}: {listed(names)}")
        name = (part or names[0]).replace('"', '""')
        found = base.execute(f'select * from "{name}"')
        columns = [column[0] for column in found.description]
        rows = found.fetchall()
        # A column may hold numbers and text; what is text anywhere is text, to be looked at.
        values = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in columns]
        return pl.DataFrame([_series(*pair) for pair in zip(columns, values, strict=True)])
    finally:
        base.close()


def _series(name: str, values: list[Any]) -> pl.Series:
    kinds = {type(value) for value in values} - {type(None)}
    if str in kinds and len(kinds) > 1:
        values = [None if value is None else str(value) for value in values]
    return pl.Series(name, values, strict=kinds != {int, float})


READERS: dict[str, Callable[[bytes, str | None, Path], pl.DataFrame]] = {
    ".parquet": parquet,
    ".pq": parquet,
    ".feather": feather,
    ".arrow": feather,
    ".ipc": feather,
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".xlsx": excel,
    ".xlsm": excel,
    ".xls": excel,
    ".ods": excel,
    **dict.fromkeys(SQLITE, sqlite),
}


def read_file(content: bytes, kind: str, place: Place, where: str) -> pl.DataFrame:
    """Read what is not text; TableError, in one line, for what cannot be read."""
    try:
        frame = READERS[kind](content, place.part, place.path)
    except TableError:
        raise
    except ImportError as error:
        raise TableError(f"{where} needs a package that is not there: {error}") from error
    except Exception as error:  # the readers of strangers' files fail in ways of their own
        reason = " ".join(str(error).split())[:120]
        raise TableError(f"{where} is not a readable {kind} file: {reason}") from error
    if frame.is_empty():
        raise TableError(f"{where} has no rows")
    names = [str(name).strip() or f"unnamed_{k + 1}" for k, name in enumerate(frame.columns)]
    if len(set(names)) < len(names):
        double = sorted({name for name in names if names.count(name) > 1})
        raise TableError(f"{where} has more than one column called {listed(double)}: rename them")
    return frame.rename(dict(zip(frame.columns, names, strict=True)))
