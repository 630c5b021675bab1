"""Tables in and out: CSV, TSV and Parquet files, standard input and output, named data sets."""

from __future__ import annotations

import io
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from bayesprop.atomic import write_atomically
from bayesprop.datasets import registry
from bayesprop.table.classes import class_codes, class_text, fit_classes
from bayesprop.table.csv_text import parse
from bayesprop.table.encoding import (
    EncodedRows,
    KnownTarget,
    TableEncoding,
    UsableRows,
    usable_rows,
)
from bayesprop.table.errors import TableError, TableWarning, listed, quoted

__all__ = [
    "EncodedRows",
    "KnownTarget",
    "TableEncoding",
    "TableError",
    "TableWarning",
    "UsableRows",
    "class_codes",
    "class_text",
    "fit_classes",
    "read_table",
    "usable_rows",
    "write_table",
]

_COMMAS, _TABS, _PARQUET = {".csv", ".txt"}, {".tsv", ".tab"}, {".parquet", ".pq"}
_KINDS = ".csv, .tsv or .parquet"


def read_table(source: str, text: Collection[str] = ()) -> pl.DataFrame:
    """Read a table: a .csv, .tsv or .parquet file, "-" for CSV from standard input, a data set.

    A name of the registry wins over a file of that name (which is then `./name`). In text, the
    separator of a CSV is found in its header line; empty fields, NA, NaN and null are missing; a
    column is numbers or true/false if every value is, unless it is one of `text`: a column whose
    levels a model knows means the same whatever the other rows of this table hold. What had to be
    guessed comes as TableWarning. Raises TableError, in one line.
    """
    if source == "-":
        return parse(_standard_input(), "standard input", text=text)
    if source in registry.names():
        return _frame(registry.load(source))
    path, where = Path(source), quoted(source, 200)
    kind = path.suffix.lower()
    content = _content(path, where)
    if kind in _PARQUET:
        return _parquet(content, where)
    if kind in _TABS:
        return parse(content, where, "\t", text=text)
    if kind in _COMMAS:
        return parse(content, where, text=text)
    raise TableError(f"{where} must end in {_KINDS}: save the table as one of these")


def write_table(columns: pl.DataFrame | Mapping[str, Any], target: str) -> None:
    """Write columns to a .csv, .tsv or .parquet file, or as CSV to standard output for "-".

    The file appears whole or not at all; one that was there before stays until then. TableError
    if it cannot be written.
    """
    frame = columns if isinstance(columns, pl.DataFrame) else pl.DataFrame(dict(columns))
    if target == "-":
        sys.stdout.write(frame.write_csv())
        return
    try:
        content = _serialised(frame, target)
        write_atomically(target, lambda file: file.write(content))
    except OSError as error:
        reason = error.strerror or str(error)
        raise TableError(
            f"cannot write {quoted(target, 200)}: {reason}; nothing changed"
        ) from error


def _serialised(frame: pl.DataFrame, target: str) -> bytes:
    kind = Path(target).suffix.lower()
    if kind in _PARQUET:
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        return buffer.getvalue()
    if kind not in _COMMAS | _TABS:
        raise TableError(f"{quoted(target, 200)} must end in {_KINDS}, or be - for standard output")
    return frame.write_csv(separator="\t" if kind in _TABS else ",").encode()


def _standard_input() -> bytes:
    return sys.stdin.buffer.read()


def _content(path: Path, where: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        sets = "" if path.suffix else f"; data sets: {', '.join(registry.names())}"
        raise TableError(f"there is no file {where}{sets}") from error
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


def _frame(loaded: registry.Loaded) -> pl.DataFrame:
    if loaded.target_name in loaded.feature_names:
        raise TableError(f"the target has the name of a feature: {listed([loaded.target_name])}")
    columns = dict(zip(loaded.feature_names, loaded.X.T, strict=True))
    return pl.DataFrame({**columns, loaded.target_name: loaded.y})
