"""Tables in: CSV, TSV and Parquet files, standard input."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

import polars as pl

from bayesprop.table.csv_text import parse
from bayesprop.table.errors import TableError, quoted

SEPARATORS = {".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t"}
PARQUET = (".parquet", ".pq")
KINDS = ".csv, .tsv or .parquet"


def read_table(source: str, text: Collection[str] = ()) -> pl.DataFrame:
    """Read a table: a .csv, .tsv or .parquet file, "-" for CSV from standard input.

    In text, the separator of a CSV is found in its header line; empty fields, NA, NaN and null are
    missing; a column is numbers or true/false if every value is, unless it is one of `text`: a
    column whose levels a model knows means the same whatever the other rows of this table hold.
    What had to be guessed comes as TableWarning. Raises TableError, in one line.
    """
    if source == "-":
        return parse(sys.stdin.buffer.read(), "standard input", text=text)
    path, where = Path(source), quoted(source, 200)
    kind = path.suffix.lower()
    content = _content(path, where)
    if kind in PARQUET:
        return _parquet(content, where)
    if kind not in SEPARATORS:
        raise TableError(f"{where} must end in {KINDS}: save the table as one of these")
    return parse(content, where, "\t" if SEPARATORS[kind] == "\t" else None, text=text)


def _content(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise TableError(f"there is no file {where}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TableError(f"cannot read {where}: {reason}") from error


def _parquet(content: bytes, where: str) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(content)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = " ".join(str(error).split())[:120]
        raise TableError(f"{where} is not a readable Parquet file: {reason}") from error
    if frame.is_empty():
        raise TableError(f"{where} has no rows")
    return frame
