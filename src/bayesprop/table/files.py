"""Tables in files that are not text: Parquet, Feather, JSON lines, Excel, databases; packed text.

Polars reads them, and fastexcel sheets; what they complain of is said in one line.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from contextvars import ContextVar
from datetime import date, time
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import polars as pl
import polars.selectors as cs

from bayesprop.table.delimited import check_number, column_names
from bayesprop.table.errors import Message, TableError, listed, listing, one_line, quoted
from bayesprop.table.values import as_integers

PART = "::"
"""Between a file and the sheet or table in it."""
FOLDER = "folder"
"""Kind of what is no file."""
DATABASES = (".db", ".sqlite", ".sqlite3", ".duckdb", ".ddb")
"""Read in place: what else is in the base is not opened."""

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

UNPACK: dict[str, Callable] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": zstd.open,
}
MOST_BYTES: ContextVar[int] = ContextVar("most_bytes", default=4 * 2**30)
"""Of a table that is read into memory, unpacked."""
_OF_LIBRARIES = 2 * 2**30
_CELL_BYTES = 64
"""That a cell of a database or of JSON takes while it is read, about."""
_EPOCH = date(1970, 1, 1).toordinal()
_DAYS = date.min.toordinal() - _EPOCH, date.max.toordinal() + 1 - _EPOCH
"""The first day of the year 1, and the last of the year 9999, since 1970."""
_PER_DAY = {"Date": 1, "Time": 86_400 * 10**9, "ms": 86_400 * 10**3, "us": 86_400 * 10**6}
_PER_DAY["ns"] = _PER_DAY["Time"]
_JSON_NAME = re.compile(rb'"([^"\\]*)"\s*:')
_DAMAGED = (OSError, EOFError, lzma.LZMAError, zlib.error, zstd.ZstdError)


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
        with UNPACK[suffixes[-1]](io.BytesIO(content)) as file:
            content = limited(file, where)
    except _DAMAGED as error:
        reason = one_line(str(error))[:120]
        raise TableError(Message.of("file.damaged", where=where, reason=reason)) from error
    return content, suffixes[-2] if len(suffixes) > 1 else ""


def limited(file: IO[bytes], where: str) -> bytes:
    """Read a file whole; TableError if it is longer than what is held in memory."""
    content = file.read(MOST_BYTES.get() + 1)
    if len(content) > MOST_BYTES.get():
        raise TableError(Message.of("file.too_large", where=where, limit=_too_large()))
    return content


def _too_large() -> str:
    return (
        f"at most {MOST_BYTES.get() / 2**30:.3g} GiB are read into memory; save it as Parquet,"
        " which is read in parts, or allow more: the option max-size; in Python give a frame"
    )


def excel(content: bytes, place: Place) -> pl.DataFrame:
    """Read a sheet of a workbook: the first, or the one of a name.

    Sheets hold floats and moments only: whole numbers become integers, midnights dates.
    """
    names, first, sheet = _read_in_child("fastexcel", "sheet", place.part, content)
    if first is None:
        own = {"part": place.part, "names": listed(names)}
        raise TableError(Message.of("file.absent_sheet", where=quoted(place.path), **own))
    if sheet.is_empty():
        return sheet
    own_names = [(name or "").strip() for name in first]
    if own_names[0] and len(own_names) > 2 and not any(own_names[1:]):
        own = {"where": quoted(place.path), "title": own_names[0]}
        raise TableError(Message.of("header.sheet_title", **own))
    named = zip(sheet, own_names, column_names(own_names, quoted(place.path)), strict=True)
    return pl.DataFrame(
        _as_date(as_integers(column)).alias(name)
        for column, own_name, name in named
        if own_name or column.null_count() < len(column)
    )


def _read_in_child(
    package: str, kind: str, part: str | None, content: bytes = b"", *words: str
) -> tuple[list[str], list[str | None] | None, pl.DataFrame]:
    """Return the names of sheets or tables, and the first row, None if none is so named, of one."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise ImportError("it reads such files", name=package)
    script = str(Path(__file__).with_name("in_child.py"))
    most = str(MOST_BYTES.get() + _OF_LIBRARIES)
    command = [sys.executable, "-P", script, most, kind, *words, *([] if part is None else [part])]
    done = subprocess.run(command, input=content, capture_output=True, check=False)
    if done.returncode:
        is_refused = done.returncode == 1 and b"PanicException" not in done.stderr
        reason = done.stderr.decode(errors="replace").strip().split("\n")[-1]
        raise ValueError(reason if is_refused else f"it is damaged, or large: {_too_large()}")
    said, _, table = done.stdout.partition(b"\n")
    names, first = json.loads(said)
    return names, first, pl.DataFrame() if first is None else pl.read_ipc_stream(table)


def _as_date(series: pl.Series) -> pl.Series:
    """Return moments as dates if all are midnights, else as they are."""
    if isinstance(series.dtype, pl.Datetime) and (series.dt.time() == time()).all():
        return series.cast(pl.Date)
    return series


def folder_of_parquet(path: Path) -> pl.DataFrame:
    """Read all .parquet files in a folder as one table, with the columns that folders name."""
    files = parquet_files(path)
    schema = same_schema(files, path)
    folders = [part for file in files for part in file.relative_to(path).parent.parts]
    names = dict.fromkeys(folder.partition("=")[0] for folder in folders if "=" in folder)
    frame = pl.read_parquet(files, hive_partitioning=bool(names))
    return frame.select(*dict.fromkeys((*schema, *names)))


def parquet_files(path: Path) -> list[Path]:
    """Return all .parquet files in a folder, sorted; TableError where there is none.

    Folders whose names begin with "." or "_" are those of programs, and left out.
    """
    files = [
        file
        for file in sorted(path.rglob("*.parquet"))
        if not any(part[0] in "._" for part in file.relative_to(path).parts)
    ]
    if not files:
        raise TableError(Message.of("folder.empty", where=quoted(path)))
    return files


def same_schema(files: Sequence[Path], path: Path) -> Mapping[str, pl.DataType]:
    """Return the columns of Parquet files; TableError names all that are damaged or differ.

    path
        What messages call them together.
    """
    schemas: dict[Path, Mapping[str, pl.DataType]] = {}
    problems = []
    for file in files:
        try:
            schemas[file] = pl.read_parquet_schema(file)
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = " ".join(str(error).split())[:120]
            own = {"where": quoted(file, 200), "kind": ".parquet", "reason": reason}
            problems.append(Message.of("file.wrong_kind", **own))
    for first, schema in [*schemas.items()][:1]:
        where = f"{quoted(path)}: {quoted(_within(path, first))}"
        for file, other in schemas.items():
            if dict(other) != dict(schema):
                own = {"other": _within(path, file), "how": differences(schema, other)}
                problems.append(Message.of("file.differing", where=where, **own))
    if problems:
        raise TableError(*problems)
    return schemas[files[0]]


def _within(path: Path, file: Path) -> Path:
    return file.relative_to(path) if file.is_relative_to(path) else file


def differences(one: Mapping[str, pl.DataType], other: Mapping[str, pl.DataType]) -> str:
    """Name the columns that two tables do not share, and the types of both."""
    either = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    kinds = [
        f"{quoted(name)} ({one.get(name, 'absent')}, {other.get(name, 'absent')})"
        for name in either
    ]
    return listing(kinds, 5)


def database(part: str | None, path: Path) -> pl.DataFrame:
    """Read a table or view of a database, whole: the only one, or the one of a name."""
    with path.open("rb") as file:
        is_duckdb = file.read(12)[8:] == b"DUCK"
    return _duckdb(part, path) if is_duckdb else _sqlite(part, path)


def _sqlite(part: str | None, path: Path) -> pl.DataFrame:
    """Read a table of SQLite; no other file is made beside it, and an interrupt ends a view."""
    others = [path.with_name(path.name + end) for end in ("-wal", "-journal")]
    is_still = not any(other.exists() and other.stat().st_size for other in others)
    uri = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if is_still else ''}"
    with closing(sqlite3.connect(uri, uri=True)) as base:
        base.set_progress_handler(lambda: 0, 100_000)  # here the handlers of signals run
        try:
            result = base.execute("select name from sqlite_master where type in ('table', 'view')")
            name = _chosen([str(name) for (name,) in result], part, path)
            result = base.execute(f"select * from {_escaped(name)}")
            columns, rows = [column[0] for column in result.description], []
            while batch := result.fetchmany(10_000):
                rows += batch
                check_cells(len(rows) * len(columns))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise KeyboardInterrupt from error
            raise
    # A column may hold numbers and text; what is text anywhere is text, to be looked at.
    return pl.DataFrame(rows, schema=columns, orient="row", strict=False, infer_schema_length=None)


def check_cells(n_cells: int) -> None:
    """Refuse more cells than can be held as Python's objects, before they are."""
    if n_cells > MOST_BYTES.get() // _CELL_BYTES:
        raise TableError(Message.of("file.too_many_cells", n=n_cells, limit=_too_large()))


def _duckdb(part: str | None, path: Path) -> pl.DataFrame:
    names, first, frame = _read_in_child("duckdb", "duckdb", part, b"", str(path))
    if first is None:
        _chosen(names, part, path)  # which refuses
    return frame


def _chosen(names: list[str], part: str | None, path: Path) -> str:
    if not names:
        raise TableError(Message.of("file.no_table", where=quoted(path, 200)))
    own = {"where": quoted(path), "names": listed(names)}
    if part is None and len(names) != 1:
        raise TableError(Message.of("file.several_tables", **own))
    if part is not None and part not in names:
        raise TableError(Message.of("file.absent_table", part=part, **own))
    return names[0] if part is None else part


def _escaped(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _quietly(read: Callable[[bytes], pl.DataFrame], content: bytes) -> pl.DataFrame:
    """Read a file; a panic of the reader becomes an error instead of terminal output."""
    try:
        terminal = os.dup(2)
    except OSError:  # closed
        return read(content)
    with TemporaryFile() as said:
        try:
            os.dup2(said.fileno(), 2)
            return read(content)
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def json_records(content: bytes, where: str) -> pl.DataFrame:
    """Read a list of objects, an object a row; or one object a line."""
    try:
        records = json.loads(content)
    except json.JSONDecodeError:
        return json_lines(content, where)
    if not (isinstance(records, list) and all(isinstance(one, dict) for one in records)):
        raise TableError(Message.of("file.json"))
    names = dict.fromkeys(name for one in records for name in one)
    check_number(names, where)
    check_cells(len(records) * len(names))
    columns = ((name, [one.get(name) for one in records]) for name in names)
    return pl.DataFrame([pl.Series(*column, strict=False) for column in columns])


def json_lines(content: bytes, where: str) -> pl.DataFrame:
    """Read one object a line; every name of any line is a column of all."""
    names = {found[1] for found in _JSON_NAME.finditer(content)}
    check_number(names, where)
    check_cells((content.count(b"\n") + 1) * len(names))
    return pl.read_ndjson(content, infer_schema_length=None)


SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods")
READERS: dict[str, Callable[[bytes, Place], pl.DataFrame]] = {
    **dict.fromkeys((".parquet", ".pq"), lambda content, _: _quietly(pl.read_parquet, content)),
    **dict.fromkeys(
        (".feather", ".arrow", ".ipc"), lambda content, _: _quietly(pl.read_ipc, content)
    ),
    **dict.fromkeys(
        (".jsonl", ".ndjson"), lambda content, place: json_lines(content, quoted(place.path))
    ),
    ".json": lambda content, place: json_records(content, quoted(place.path)),
    **dict.fromkeys(SPREADSHEETS, excel),
    **dict.fromkeys(DATABASES, lambda _, place: database(place.part, place.path)),
    FOLDER: lambda _, place: folder_of_parquet(place.path),
}


def read_file(content: bytes, kind: str, place: Place, where: str) -> pl.DataFrame:
    """Read what is not text; TableError if unreadable."""
    try:
        frame = READERS[kind](content, place)
    except TableError:
        raise
    except ImportError as error:
        package = error.name or str(error)
        what = "'bayesprop[duckdb]'" if package == "duckdb" else package
        own = {"where": where, "package": package, "what": what}
        raise TableError(Message.of("file.package", **own)) from error
    except BaseException as error:  # the readers of strangers' files fail in ways of their own
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = " ".join(str(error).split())[:120]
        own = {"where": where, "kind": kind, "reason": reason}
        raise TableError(Message.of("file.wrong_kind", **own)) from error
    if frame.is_empty():
        raise TableError(Message.of("file.no_rows", where=where))
    _check_moments(frame)
    names = column_names([str(name).strip() for name in frame.columns], where)
    return frame.rename(dict(zip(frame.columns, names, strict=True)))


def _check_moments(frame: pl.DataFrame) -> None:
    """Refuse dates and times that there are not, which a damaged file may hold."""
    for column in frame.select(cs.date() | cs.datetime() | cs.time()):
        per_day = _PER_DAY[getattr(column.dtype, "time_unit", type(column.dtype).__name__)]
        first, last = (0, 1) if column.dtype == pl.Time else _DAYS
        days = column.to_physical().drop_nulls() // per_day
        if not days.is_between(first, last, closed="left").all():
            raise TableError(Message.of("file.moments", column.name))
