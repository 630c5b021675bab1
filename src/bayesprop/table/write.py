"""Tables out: CSV, TSV, JSON and Parquet files, whole or not at all, and standard output."""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import numpy as np
import polars as pl
import polars.selectors as cs

from bayesprop.atomic import write_atomically
from bayesprop.table.date_forms import HOURS, durations_as
from bayesprop.table.errors import Message, TableError, quoted
from bayesprop.table.read import SEPARATORS
from bayesprop.table.values import as_numbers

PARQUET = (".parquet", ".pq")
JSON_LINES = (".jsonl", ".ndjson")
KINDS = ".csv, .tsv, .jsonl or .parquet"
_PARTS_IN_MEMORY = 32
_FORMULA = r"^[=+\-@\t\r]"


def write_table(
    parts: pl.DataFrame | Iterable[pl.DataFrame], target: str, *, escape_formulas: bool = False
) -> None:
    """Write rows, whole or part by part, to a file by its ending (KINDS), or "-" for stdout.

    "-.jsonl" are JSON lines on stdout, where "-" is CSV.

    A file that was there before stays until the new one is whole. In JSON lines, an object a row,
    a number that is not finite is null. TableError if it cannot be written.

    escape_formulas
        Whether text that a spreadsheet would run as a formula gets an apostrophe in front, as OWASP
        recommends ("CSV injection"); of CSV and TSV.
    """
    check_kind(target, escape_formulas=escape_formulas)
    parts = [parts] if isinstance(parts, pl.DataFrame) else parts
    parts = map(_escaped, parts) if escape_formulas else parts
    kind = Path(target).suffix.lower()
    if target in ("-", f"-{kind}"):
        out = getattr(sys.stdout, "buffer", None)  # text in memory has none
        for text in _texts(parts, kind or ".csv"):
            sys.stdout.write(text) if out is None else out.write(text.encode())
        sys.stdout.flush()
        return
    try:
        if kind in PARQUET:
            write_atomically(target, lambda file: _write_parquet(file, iter(parts)))
        else:
            texts = _texts(parts, kind)
            write_atomically(target, lambda file: file.writelines(map(str.encode, texts)))
    except OSError as error:
        reason = error.strerror or str(error)
        own = {"where": quoted(target, 200), "reason": reason}
        raise TableError(Message.of("file.written", **own)) from error


def check_kind(target: str | None, *, escape_formulas: bool = False) -> None:
    """Refuse a file that no table can be written to, or in which no text is a formula."""
    kinds = (*SEPARATORS, *JSON_LINES, *PARQUET)
    if target not in ("-", None) and Path(target).suffix.lower() not in kinds:
        raise TableError(Message.of("file.written_kind", where=quoted(target, 200), kinds=KINDS))
    if escape_formulas and target != "-" and Path(target or "").suffix.lower() not in SEPARATORS:
        where = "no file" if target is None else quoted(target, 200)
        raise TableError(Message.of("file.no_formulas", where=where))


def _escaped(part: pl.DataFrame) -> pl.DataFrame:
    """Put an apostrophe before text and names of columns that begin as formulas do."""
    texts = cs.by_dtype(pl.String, pl.Categorical, pl.Enum).cast(pl.String)
    part = part.with_columns(texts.str.replace(_FORMULA, "'$0"))
    names = {name: f"'{name}" for name in part.columns if re.match(_FORMULA, name)}
    while taken := [name for name in names if names[name] in part.columns]:
        names |= {name: f"'{names[name]}" for name in taken}
    return part.rename(names)


def _write_parquet(file: BinaryIO, parts: Iterator[pl.DataFrame]) -> None:
    """Write parts into one file; where they are many, by way of a folder, so that memory is flat.

    polars words a full disk as a damaged file, so that bytes are written here.
    """
    first = list(islice(parts, _PARTS_IN_MEMORY))
    following = next(parts, None)
    if following is None:
        whole = io.BytesIO()
        pl.concat(first).write_parquet(whole)
        file.write(whole.getbuffer())
        return
    with TemporaryDirectory(prefix="bayesprop-") as folder:
        for number, part in enumerate(chain(first, [following], parts)):
            content = io.BytesIO()
            part.write_parquet(content)
            (Path(folder) / f"{number:09d}.parquet").write_bytes(content.getbuffer())
        joined = Path(folder) / "joined"
        pl.scan_parquet(Path(folder) / "*.parquet").sink_parquet(joined)
        with joined.open("rb") as whole:
            shutil.copyfileobj(whole, file)


def _texts(parts: Iterable[pl.DataFrame], kind: str) -> Iterator[str]:
    for index, part in enumerate(parts):
        part = part.with_columns(
            durations_as(HOURS, as_numbers(one), np.zeros(len(part))).alias(one.name)
            for one in part.select(cs.duration())
        )
        if kind in JSON_LINES:
            part = part.with_columns(cs.float().replace([np.nan, np.inf, -np.inf], None))
            yield part.write_ndjson()
        else:
            separator = SEPARATORS[kind]
            yield part.write_csv(include_header=index == 0, separator=separator)
