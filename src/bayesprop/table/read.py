"""Tables in: files of any usual kind, standard input; errors name the line.

Delimited text comes in any usual encoding, with any usual separator. Polars reads what is plain;
it fills short rows in silence and names no line, so that the csv module reads what has quotes or
is ragged.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
import warnings
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

import polars as pl

from bayesprop.table.errors import TableError, TableWarning, counted, listed, quoted
from bayesprop.table.files import READERS, SQLITE, Place, read_file, unpacked
from bayesprop.table.values import cleaned, typed

SEPARATORS = {".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t"}
KINDS = ".csv, .tsv, .parquet, .feather, .jsonl, .xlsx, .ods or .db, or .csv.gz"
_NAMED_SEPARATOR = re.compile(r"sep=([,;\t|])\n", re.IGNORECASE)
_THOUSANDS = r"^[+-]?[1-9]\d{0,2}(\.\d{3})+$"
_DECIMAL_COMMA = r"^[+-]?\d*,?\d+([eE][+-]?\d+)?$"
_CHUNK = 50_000  # rows held as Python strings at a time


def read_table(source: str, text: Collection[str] = ()) -> pl.DataFrame:
    """Read a table from a file, or "-" for CSV from standard input.

    Text (.csv, .tsv, .txt), Parquet, Feather, JSON lines, Excel and OpenDocument sheets and SQLite;
    text may be packed (.gz, .bz2, .xz). "book.xlsx::prices" and "base.db::prices" name a sheet or
    table.

    In text, the separator of a CSV is found in its header line; empty fields, NA, NaN and null are
    missing; a column is numbers or true/false if every value is, unless it is one of `text`: a
    column whose levels a model knows means the same whatever the other rows of this table hold.
    What had to be guessed comes as TableWarning. Raises TableError, in one line.
    """
    if source == "-":
        return parse(sys.stdin.buffer.read(), "standard input", text=text)
    place, where = Place.of(source), quoted(source, 200)
    content = _content(place.path, where)
    content, kind = unpacked(content, place.path, where)
    if kind in READERS:
        return read_file(content, kind, place, where)
    if kind not in SEPARATORS:
        raise TableError(f"{where} must end in {KINDS}: save the table as one of these")
    return parse(content, where, "\t" if SEPARATORS[kind] == "\t" else None, text=text)


def _content(path: Path, where: str) -> bytes:
    try:
        with path.open("rb") as file:
            return b"" if path.suffix.lower() in SQLITE else file.read()
    except FileNotFoundError as error:
        raise TableError(f"there is no file {where}") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TableError(f"cannot read {where}: {reason}") from error


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
    header = [name.strip() for name in next(_rows(body, separator, where))[1]]
    names = _column_names(header, where)
    frame = _fast(body, separator, len(header))
    frame = _exact(body, separator, len(header), where) if frame is None else frame
    if frame.is_empty():
        raise TableError(f"{where} has a header line but no rows")
    columns = [
        column.alias(name)
        for name, own_name, column in zip(names, header, map(cleaned, frame), strict=True)
        if own_name or column.null_count() < len(frame)
    ]
    others = [column for column in columns if column.name not in text]
    numbers = {column.name: column for column in _all_typed(others, separator)}
    return pl.DataFrame([numbers.get(column.name, column) for column in columns])


def _decoded(content: bytes, where: str) -> str:
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return content.decode("utf-16")
        except UnicodeDecodeError as error:
            raise TableError(f"{where} is damaged UTF-16 text: save it as UTF-8") from error
    if b"\0" in content[:100_000]:
        raise TableError(f"{where} is not text: write it as CSV, TSV or Parquet")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        _warn(f"{where} is not UTF-8: read as Latin-1, so look at letters with accents")
        return content.decode("latin-1")


def _separator(text: str) -> str:
    """Return the separator that the header line has most of, outside quotes.

    Of equals the one that the next line has as many of, and then the comma.
    """
    header, first = [*text.split("\n", 2)[:2], ""][:2]

    def fits(one: str) -> tuple[int, bool]:
        n_columns = _count_fields(header, one)
        return n_columns, n_columns == _count_fields(first, one)

    return max((",", ";", "\t", "|"), key=fits)


def _count_fields(line: str, separator: str) -> int:
    try:
        return len(next(csv.reader([line], delimiter=separator), []))
    except csv.Error:  # a field without end: told, with its line, where the rows are read
        return 0


def _column_names(header: list[str], where: str) -> list[str]:
    """Return a name for every column, made up where the header has none."""
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
    return names


def _are_numbers(header: list[str]) -> bool:
    """Say whether a header is a row of numbers; whole numbers alone can be names."""
    try:
        return any(float(name) % 1.0 != 0.0 for name in header)
    except ValueError:
        return False


def _fast(text: str, separator: str, n_columns: int) -> pl.DataFrame | None:
    """Read text without quotes or blank lines in compiled code; None: not such text, or ragged."""
    if '"' in text or "\n\n" in text:
        return None
    try:
        frame = pl.read_csv(
            text.encode(),
            separator=separator,
            has_header=False,
            skip_rows=1,
            new_columns=_places(n_columns),
            infer_schema=False,
            quote_char=None,
        )
    except pl.exceptions.PolarsError:
        return None
    lines = text.count("\n") + (not text.endswith("\n"))
    is_even = text.count(separator) == (n_columns - 1) * lines
    return frame if is_even and frame.shape == (lines - 1, n_columns) else None


def _exact(text: str, separator: str, n_columns: int, where: str) -> pl.DataFrame:
    """Read row by row, so that quotes are followed and a ragged row is named by its line."""
    rows, names = islice(_rows(text, separator, where), 1, None), _places(n_columns)
    chunks = [pl.DataFrame(schema=dict.fromkeys(names, pl.String))]
    while chunk := list(islice(rows, _CHUNK)):
        for line, row in chunk:
            if len(row) != n_columns:
                raise TableError(
                    f"{where}, line {line}: {counted(len(row), 'field')}, but the header has"
                    f" {n_columns}: put text that holds {quoted(separator)} in quotation marks, or"
                    " complete the row"
                )
        fields = map(list, zip(*(row for _, row in chunk), strict=True))
        chunks.append(pl.DataFrame(dict(zip(names, fields, strict=True))))
    return pl.concat(chunks)


def _places(n_columns: int) -> list[str]:
    return [f"{i}" for i in range(n_columns)]


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


def _all_typed(columns: list[pl.Series], separator: str) -> list[pl.Series]:
    """Give columns their types, with decimal points for commas where semicolons separate."""
    pointed = [_with_decimal_points(c) if separator == ";" else c for c in columns]
    with_commas = [c.name for c, p in zip(columns, pointed, strict=True) if c is not p]
    if with_commas:
        for column in columns:
            _refuse_thousands(column)
        _warn(f"decimal commas read as decimal points in {listed(with_commas)}")
    return [typed(column) for column in pointed]


def _with_decimal_points(text: pl.Series) -> pl.Series:
    """Return cleaned text with decimal points for its decimal commas; itself: it has none."""
    known = text.drop_nulls()
    if not known.str.contains(_DECIMAL_COMMA).all() or not known.str.contains(",").any():
        return text
    return text.str.replace(",", ".", literal=True)


def _refuse_thousands(text: pl.Series) -> None:
    """Raise TableError where a dot among decimal commas would be taken for a decimal point.

    It parts thousands if every number with dots looks as "2.593" does.
    """
    known = text.drop_nulls()
    dotted = known.filter(known.str.contains(r"^[+-]?[\d.]*\.[\d.]*$"))
    if len(dotted) and dotted.str.contains(_THOUSANDS).all():
        raise TableError(
            f"column {quoted(text.name)} holds {quoted(dotted[0])} in a table with decimal"
            " commas, where a dot parts thousands: write it without the dot"
        )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, TableWarning, stacklevel=2)
