"""Tables in: files of any usual kind, standard input; errors name the line.

Delimited text comes in any usual encoding, with any usual separator. Polars reads what is plain;
it fills short rows in silence and names no line, so that the csv module reads what has quotes or
is ragged.
"""

from __future__ import annotations

import codecs
import csv
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import polars as pl

from bayesprop.table.delimited import (
    SIGNS,
    Header,
    Row,
    check_number,
    column_names,
    fields_of,
    header_of,
    is_note,
    of_ragged,
    rows_of,
    separator_of,
    tabbed,
    with_double_quotes,
    without_comments,
)
from bayesprop.table.errors import Message, Said, TableError, quoted, together, warn
from bayesprop.table.files import (
    DATABASES,
    FOLDER,
    READERS,
    SPREADSHEETS,
    Place,
    limited,
    read_file,
    unpacked,
)
from bayesprop.table.values import TAKEN_FOR_MISSING, decided, typed

_START, _MOSTLY_ASCII = 1000, 0.5  # bytes looked at for zeros, and letters so that they show
_GUESSED_FROM = 100_000  # bytes
_WESTERN = "cp1252"
_NAMES = {
    _WESTERN: "Windows-1252",
    "cp932": "Shift-JIS",
    "gb18030": "GB 18030",
    "cp949": "EUC-KR",
    "big5": "Big5",
    "cp1251": "Windows-1251",
    "koi8_r": "KOI8-R",
    "cp1253": "Windows-1253",
}
_FIELDS = re.compile(rb"[,;\t\r\n\"]")
_FOREIGN_WORD = re.compile(r"[^\W\d_\x00-\u024f]{2,}")
_ODD = re.compile(r"[а-яё][А-ЯЁ]|[α-ωά-ώ][Α-Ω]|[\uff61-\uff9f]")
"""What letters read in another codec give: a capital after a small letter, narrow kana."""
_WORD_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
SEPARATORS = {".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t"}
KINDS = ".csv, .tsv, .parquet, .feather, .json, .jsonl, .xlsx, .ods, .db or .duckdb, or .csv.gz"
_NAMED_SEPARATOR = re.compile(r"sep=([,;\t|])\n", re.IGNORECASE)
_THOUSANDS = r"^[+-]?[1-9]\d{0,2}(\.\d{3})+$"
_DECIMAL_COMMA = r"^[+-]?\d*,?\d+([eE][+-]?\d+)?$"
_CHUNK = 50_000  # rows held as Python strings at a time
_LONGEST_FOOTER = 5  # lines

Check = Callable[[pl.DataFrame], object]
"""Raises TableError for a table that is not to be used."""


def decoded(content: bytes, where: str) -> str:
    """Return the text of a file; what had to be guessed comes as TableWarning.

    TableError for what is no text, or is damaged.

    where
        What messages call the file.
    """
    codec = _wide_codec(content)
    if codec is None and b"\0" in content[:100_000]:
        raise TableError(Message.of("file.no_text", where=where))
    if codec is None and _is_utf8(content):
        codec = "utf-8-sig"
    elif codec is None:
        codec = _older_codec(content)
        letters = "letters with accents" if codec == _WESTERN else "letters"
        own = {"where": where, "codec": _NAMES[codec], "letters": letters}
        warn(Message.of("file.older_codec", **own))
    try:
        return content.decode(codec)
    except UnicodeDecodeError as error:
        if codec == _WESTERN:  # five bytes that it does not have
            return content.decode("latin-1")
        name = _NAMES.get(codec, codec[:6].upper())
        raise TableError(Message.of("file.damaged_text", where=where, codec=name)) from error


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _wide_codec(content: bytes) -> str | None:
    """Return the form of UTF-16 that text has, by its mark or the zeros of its ASCII letters.

    Or UTF-32 by its mark, which begins with that of UTF-16.
    """
    if content.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    start = content[:_START]
    zeros = [start[side::2].count(0) / max(len(start) / 2, 1) for side in (0, 1)]
    if min(zeros) > 0.0 or max(zeros) < _MOSTLY_ASCII:
        return None
    return "utf-16-be" if zeros[0] else "utf-16-le"


def _older_codec(content: bytes) -> str:
    """Return the likeliest codec of text that is not UTF-8.

    One of another script than Latin needs words of it: a lone letter is a sign such as ° of
    Windows-1252.
    """
    from charset_normalizer import from_bytes

    start = content
    if len(content) > _GUESSED_FROM:
        start = content[:_GUESSED_FROM].rpartition(b"\n")[0]
    fields = dict.fromkeys(field for field in _FIELDS.split(start) if not field.isascii())
    matches = from_bytes(b", ".join(fields), cp_isolation=list(_NAMES))
    if not matches:
        return _WESTERN
    # Of a few words several codecs can make equally clean ones.
    best = min(
        matches,
        key=lambda one: (round(one.chaos, 2), -one.coherence, len(_ODD.findall(str(one)))),
    )
    words = _WORD_BEYOND_ASCII.findall(str(best))
    n_foreign = sum(_FOREIGN_WORD.search(word) is not None for word in words)
    return best.encoding if n_foreign > len(words) / 2 else _WESTERN


def read_table(
    source: str,
    text: Collection[str] | None = None,
    check: Check | None = None,
    missing: Collection[str] | None = None,
) -> pl.DataFrame:
    """Read a table from a file, or "-" for CSV from standard input.

    Text (.csv, .tsv, .txt), Parquet, a folder of it, Feather, JSON lines, Excel and OpenDocument
    sheets, SQLite and DuckDB; text may be packed (.gz, .bz2, .xz, .zst). "book.xlsx::prices" and
    "base.db::prices" name a sheet or table.

    Text is UTF-8, UTF-16, UTF-32 with its mark, or else in the older codec that its words are
    likeliest in: Shift-JIS, Windows-1251 and others, or Windows-1252. The separator of a CSV is
    found in its header line; where its first line holds values, columns are called column_1,
    column_2, ...; empty fields are missing, and NA, NaN and null as `decided` says; a column is
    numbers or true/false if every value is, unless it is one of `text`: a column whose levels a
    model knows means the same whatever the other rows of this table hold.
    What had to be guessed comes as TableWarning. Raises TableError, a line for every problem.

    check
        What refuses a table: asked about one that cannot be read as it stands, so that the error
        names, beside lines that are broken, what is wrong with the others.
    missing
        Words that stand for missing values, and no others; None: decided one column at a time.
    """
    if source == "-":
        content = limited(sys.stdin.buffer, "standard input")
        return parse(content, "standard input", text=text, check=check, missing=missing)
    place, where = Place.of(source), quoted(source, 200)
    if place.path.is_dir():
        content, kind = b"", FOLDER
    else:
        content, kind = unpacked(_content(place.path, where), place.path, where)
    if kind in READERS:
        frame = read_file(content, kind, place, where)
        return _without_missing(frame, text, missing) if kind in SPREADSHEETS else frame
    if kind not in SEPARATORS:
        raise TableError(Message.of("file.kind", where=where, kinds=KINDS))
    separator = "\t" if SEPARATORS[kind] == "\t" else None
    return parse(content, where, separator, text=text, check=check, missing=missing)


def _content(path: Path, where: str) -> bytes:
    try:
        with path.open("rb") as file:
            return b"" if path.suffix.lower() in DATABASES else limited(file, where)
    except TableError:
        raise
    except FileNotFoundError as error:
        raise TableError(Message.of("file.absent", where=where)) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TableError(Message.of("file.unreadable", where=where, reason=reason)) from error


def parse(
    content: bytes,
    where: str,
    separator: str | None = None,
    *,
    text: Collection[str] | None = None,
    check: Check | None = None,
    missing: Collection[str] | None = None,
) -> pl.DataFrame:
    """Read delimited text, with or without a header line, into typed columns.

    where
        What messages call the table.
    separator
        None: the one that the header line has most of, or that a first line such as "sep=;" names,
        or blanks.
    text
        Columns that stay text, as it stands in the file; None: of a table that no model knows.
    check, missing
        As `read_table` takes it.

    TableError on an empty or ragged table, a header without rows.
    """
    body = decoded(content, where)
    if not body.strip():
        raise TableError(Message.of("file.empty", where=where))
    body = body.replace("\r\n", "\n").replace("\r", "\n")
    n_lines = body.count("\n")
    body = body.lstrip("\n")
    if sign := _NAMED_SEPARATOR.match(body):  # as spreadsheets write it
        body, separator = body[sign.end() :], separator or sign[1]
    body = without_comments(body, separator, where)
    n_before = n_lines - body.count("\n")
    if separator is None and (in_tabs := _tabbed(body)) is not None:
        body, separator = in_tabs, "\t"
    separator = separator or separator_of(body)
    body = with_double_quotes(body, separator)
    header = header_of(body, separator, where, n_before)
    check_number(header.names, where)
    frame, problems = _fast(header.below, separator, len(header.names)), []
    if frame is None:
        frame, problems = _exact(header, separator, where)
    if frame.is_empty() and not problems:
        problems.append(Message.of("file.header_only", where=where))
    names = column_names(header.names, where)
    frame = frame.select(pl.all().str.strip_chars().replace("", None))
    frame.columns = names
    frame = _without_missing(frame, text, missing)
    named = zip(header.names, frame, strict=True)
    columns = [column for own, column in named if own or column.null_count() < len(frame)]
    others = [column for column in columns if column.name not in (text or ())]
    numbers, mixed = _all_typed(others, separator)
    frame = pl.DataFrame([numbers.get(column.name, column) for column in columns])
    return checked(frame, problems + mixed, check)


def _without_missing(
    frame: pl.DataFrame, text: Collection[str] | None, missing: Collection[str] | None
) -> pl.DataFrame:
    """Return a table with nulls for the words that stand for missing values, and say so."""
    frame, remarks = decided(frame, missing, text or (), is_typed=False)
    for remark in remarks:
        if text is None and remark.code == TAKEN_FOR_MISSING:
            warn(remark)
    return frame


def checked(frame: pl.DataFrame, problems: Sequence[Said], check: Check | None) -> pl.DataFrame:
    """Return a table; or raise the problems of reading it, and those of what could be read."""
    if problems:
        is_blank = all(column.null_count() == len(frame) for column in frame)
        together(*([] if check is None or is_blank else [partial(check, frame)]), first=problems)
    return frame


def _tabbed(text: str) -> str | None:
    """Return text with tabs where nothing but blanks parts its columns."""
    header = text.split("\n", 1)[0].strip()
    is_parted = max(len(fields_of(header, one)) for one in SIGNS) > 1
    try:
        return None if is_parted or " " not in header else tabbed(text)
    except csv.Error:  # a field without end, told where the rows are read
        return None


def _fast(text: str, separator: str, n_columns: int) -> pl.DataFrame | None:
    """Read rows without quotes or blank lines in compiled code; None: not such text, or ragged."""
    if '"' in text or "\n\n" in text or text.startswith("\n"):
        return None
    try:
        frame = pl.read_csv(
            text.encode(),
            separator=separator,
            has_header=False,
            new_columns=_places(n_columns),
            infer_schema=False,
            quote_char=None,
        )
    except pl.exceptions.PolarsError:
        return None
    lines = text.count("\n") + (not text.endswith("\n"))
    is_even = text.count(separator) == (n_columns - 1) * lines
    return frame if is_even and frame.shape == (lines, n_columns) else None


def _exact(header: Header, separator: str, where: str) -> tuple[pl.DataFrame, list[Said]]:
    """Read row by row, so that quotes are followed; also what is wrong with lines.

    Ragged rows become empty ones, so that the others keep their numbers; those of a footer go.
    """
    n_columns = len(header.names)
    names, ragged, problems = _places(n_columns), [], []
    footer: list[Row] = []

    def even() -> Iterator[list[str]]:
        for row in rows_of(header.below, separator, where, header.n_above):
            is_even = len(row.fields) == n_columns
            ragged.extend([] if is_even else [row])
            if is_note(row, separator, n_columns):
                footer.append(row)
            else:
                footer.clear()
            yield row.fields if is_even else [""] * n_columns

    rows, chunks = even(), [pl.DataFrame(schema=dict.fromkeys(names, pl.String))]
    try:
        while chunk := list(islice(rows, _CHUNK)):
            fields = map(list, zip(*chunk, strict=True))
            chunks.append(pl.DataFrame(dict(zip(names, fields, strict=True))))
    except TableError as error:
        problems += error.problems
    frame = pl.concat(chunks)
    if 0 < len(footer) <= min(_LONGEST_FOOTER, len(frame) - 1) and not problems:
        text = footer[0].fields[0].strip()
        warn(Message.of("file.footer", where=where, n=len(footer), text=text))
        frame, ragged = frame.head(-len(footer)), ragged[: -len(footer)]
    if ragged:
        problems.insert(0, of_ragged(ragged, separator, n_columns, where))
    return frame, problems


def _places(n_columns: int) -> list[str]:
    return [f"{i}" for i in range(n_columns)]


def _all_typed(
    columns: list[pl.Series], separator: str
) -> tuple[dict[str, pl.Series], list[Message]]:
    """Give columns types, with points for commas where semicolons separate; also their faults."""
    pointed = [_with_decimal_points(c) if separator == ";" else c for c in columns]
    with_commas = [c.name for c, p in zip(columns, pointed, strict=True) if c is not p]
    problems = [*filter(None, map(_of_thousands, columns))] if with_commas else []
    if with_commas:
        warn(Message.of("file.decimal_commas", *with_commas))
    texts = pl.DataFrame(pointed)  # all at once: a call a column takes long where these are many
    whole = texts.select(pl.all().cast(pl.Int64, strict=False))
    may_be_codes = texts.select(pl.all().str.starts_with("0").any())
    numbers = {}
    for text, one, codes in zip(texts, whole, may_be_codes, strict=True):
        is_whole = one.null_count() == text.null_count() < len(text) and not codes.any()
        numbers[text.name] = one if is_whole else typed(text)
    return numbers, problems


def _with_decimal_points(text: pl.Series) -> pl.Series:
    """Return cleaned text with decimal points for its decimal commas; itself: it has none."""
    known = text.drop_nulls()
    if not known.str.contains(_DECIMAL_COMMA).all() or not known.str.contains(",").any():
        return text
    return text.str.replace(",", ".", literal=True)


def _of_thousands(text: pl.Series) -> Message | None:
    """Return a complaint where dots among decimal commas part thousands, as "2.593" does."""
    known = text.drop_nulls()
    dotted = known.filter(known.str.contains(r"^[+-]?[\d.]*\.[\d.]*$"))
    if dotted.is_empty() or not dotted.str.contains(_THOUSANDS).all():
        return None
    return Message.of("file.thousands_points", text.name, example=dotted[0])
