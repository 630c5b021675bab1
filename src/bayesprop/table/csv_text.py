"""Delimited text as it comes: any usual encoding and separator, and errors that name the line.

Polars reads what is plain. It fills short rows in silence and names no line, so that the csv module
reads what has quotes or is ragged.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections.abc import Collection, Iterator
from itertools import islice

import polars as pl

from bayesprop.table.columns import cleaned, typed
from bayesprop.table.errors import TableError, TableWarning, counted, listed, quoted

_SEPARATORS = (",", ";", "\t", "|")
_NAMED_SEPARATOR = re.compile(r"sep=([,;\t|])\n", re.IGNORECASE)
_THOUSANDS = r"^[+-]?[1-9]\d{0,2}(\.\d{3})+$"
_DECIMAL_COMMA = r"^[+-]?\d*,?\d+([eE][+-]?\d+)?$"
_CHUNK = 50_000  # rows held as Python strings at a time


def parse(
    content: bytes, where: str, separator: str | None = None, *, text: Collection[str] = ()
) -> pl.DataFrame:
    """Read delimited text with a header line into typed columns.

    where
        What messages call the table.
    separator
        None: the one that the header line has most of, or that a first line such as "sep=;" names.
    text
        Columns that stay text, as it stands in the file.

    TableError on an empty or ragged table, a header without rows, two columns of one name.
    """
    body = _decoded(content, where)
    if not body.strip():
        raise TableError(f"{where} is empty: it needs a header line and rows")
    body = body.replace("\r\n", "\n").replace("\r", "\n").lstrip("\n")
    if named := _NAMED_SEPARATOR.match(body):  # as spreadsheets write it
        body, separator = body[named.end() :], separator or named[1]
    separator = separator or _separator(body)
    header = _header(body, separator, where)
    names, keep = _column_names(header, where)
    frame = _fast(body, separator, header)
    frame = _exact(body, separator, header, where) if frame is None else frame
    if frame.is_empty():
        raise TableError(f"{where} has a header line but no rows")
    columns = [cleaned(frame[f"{i}"]).alias(names[i]) for i in range(len(header))]
    used = [
        column for i, column in enumerate(columns) if keep[i] or column.null_count() < len(frame)
    ]
    words = [column for column in used if column.name in text]
    others = _all_typed([column for column in used if column.name not in text], separator)
    return pl.DataFrame([*words, *others]).select(column.name for column in used)


def _all_typed(columns: list[pl.Series], separator: str) -> list[pl.Series]:
    if separator != ";":
        return [typed(column) for column in columns]
    pointed = {column.name: _with_decimal_points(column) for column in columns}
    with_commas = [name for name, column in pointed.items() if column is not None]
    if with_commas:
        for column in columns:
            _refuse_thousands(column)
        _warn(f"decimal commas read as decimal points in {listed(with_commas)}")
    return [typed(column if (p := pointed[column.name]) is None else p) for column in columns]


def _refuse_thousands(column: pl.Series) -> None:
    """Raise TableError where a dot among decimal commas would be taken for a decimal point."""
    dotted = column.filter(_has_thousands_dots(column))
    if len(dotted):
        raise TableError(
            f"column {quoted(column.name)} holds {quoted(dotted[0])} in a table with decimal"
            " commas, where a dot parts thousands: write it without the dot"
        )


def _with_decimal_points(text: pl.Series) -> pl.Series | None:
    """Return cleaned text with decimal points for its decimal commas; None: it has none."""
    known = text.drop_nulls()
    if known.is_empty() or not known.str.contains(_DECIMAL_COMMA).all():
        return None
    if not known.str.contains(",", literal=True).any():
        return None
    return text.str.replace(",", ".", literal=True)


def _has_thousands_dots(text: pl.Series) -> pl.Series:
    """Say of every value whether it is a number such as "2.593", if numbers have no other dots."""
    dotted = text.str.contains(r"^[+-]?[\d.]*\.[\d.]*$").fill_null(False)
    parted = text.str.contains(_THOUSANDS).fill_null(False)
    return parted if (parted == dotted).all() else pl.repeat(False, len(text), eager=True)


def _decoded(content: bytes, where: str) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _strictly(content, "utf-16", where)
    if b"\0" in content[:100_000]:
        raise TableError(f"{where} is not text: write it as CSV, TSV or Parquet")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        _warn(f"{where} is not UTF-8: read as Latin-1, so look at letters with accents")
        return content.decode("latin-1")


def _strictly(content: bytes, encoding: str, where: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise TableError(f"{where} is damaged {encoding.upper()} text: save it as UTF-8") from error


def _separator(text: str) -> str:
    """Return the separator that the header line has most of, outside quotes.

    Of equals the one that the next line has as many of, and then the comma.
    """
    header, first = [*text.split("\n", 2)[:2], ""][:2]

    def fits(one: str) -> tuple[int, bool]:
        n_columns = _count_fields(header, one)
        return n_columns, n_columns == _count_fields(first, one)

    return max(_SEPARATORS, key=fits)


def _count_fields(line: str, separator: str) -> int:
    try:
        return len(next(csv.reader([line], delimiter=separator), []))
    except csv.Error:  # a field without end: told, with its line, where the rows are read
        return 0


def _rows(text: str, separator: str, where: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of every row that is not blank, with its line number."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise TableError(
            f"{where}, line {reader.line_num}: {error}; is a quotation mark left open?"
        ) from error


def _header(text: str, separator: str, where: str) -> list[str]:
    return [name.strip() for name in next(_rows(text, separator, where))[1]]


def _column_names(header: list[str], where: str) -> tuple[list[str], list[bool]]:
    """Return a name for every column, and whether it has one of its own (else it may be empty)."""
    double = sorted({name for name in header if name and header.count(name) > 1})
    if double:
        raise TableError(f"{where} has more than one column called {listed(double)}: rename them")
    if len(header) > 1 and _are_numbers(header):
        raise TableError(
            f"{where} has no header line: its first line holds numbers ({listed(header, 3)}); put"
            " column names there"
        )
    names = [name or f"unnamed_{i + 1}" for i, name in enumerate(header)]
    if len(set(names)) < len(names):
        raise TableError(f"{where} has columns without a name: name them")
    return names, [bool(name) for name in header]


def _are_numbers(header: list[str]) -> bool:
    """Say whether a header is a row of numbers; whole numbers alone can be names."""
    try:
        return any(float(name) % 1.0 != 0.0 for name in header)
    except ValueError:
        return False


def _fast(text: str, separator: str, header: list[str]) -> pl.DataFrame | None:
    """Read text without quotes or blank lines in compiled code; None: not such text, or ragged."""
    if '"' in text or "\n\n" in text:
        return None
    try:
        frame = pl.read_csv(
            text.encode(),
            separator=separator,
            has_header=False,
            skip_rows=1,
            new_columns=[f"{i}" for i in range(len(header))],
            infer_schema=False,
            quote_char=None,
        )
    except pl.exceptions.PolarsError:
        return None
    lines = text.count("\n") + (not text.endswith("\n"))
    is_even = text.count(separator) == (len(header) - 1) * lines
    return frame if is_even and frame.shape == (lines - 1, len(header)) else None


def _exact(text: str, separator: str, header: list[str], where: str) -> pl.DataFrame:
    """Read row by row, so that quotes are followed and a ragged row is named by its line."""
    rows = islice(_rows(text, separator, where), 1, None)
    names = [f"{i}" for i in range(len(header))]
    chunks = [pl.DataFrame(schema=dict.fromkeys(names, pl.String))]
    while chunk := list(islice(rows, _CHUNK)):
        for line, row in chunk:
            if len(row) != len(header):
                raise TableError(
                    f"{where}, line {line}: {counted(len(row), 'field')}, but the header has"
                    f" {len(header)}: {_ragged_remedy(separator)}"
                )
        fields = zip(*(row for _, row in chunk), strict=True)
        chunks.append(pl.DataFrame(dict(zip(names, map(list, fields), strict=True))))
    return pl.concat(chunks)


def _ragged_remedy(separator: str) -> str:
    return f"put text that holds {quoted(separator)} in quotation marks, or complete the row"


def _warn(sentence: str) -> None:
    warnings.warn(sentence, TableWarning, stacklevel=2)
