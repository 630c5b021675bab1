"""Delimited text line by line: its separator, its rows, and the lines they stand on.

Where blanks part the columns, as R and Fortran write it, they become tabs.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from bayesprop.table.errors import Message, TableError, counted

SIGNS = (",", ";", "\t", "|")
_SHOWN_LINES = 5
_LOOKED_AT = 100  # lines
_START = 2**20  # letters, enough for the header and a row
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eEdD][+-]?\d+)?")
ROW_NAMES = "rownames"


class Row(NamedTuple):
    """The fields of a row that is not blank, and its first and last line."""

    fields: list[str]
    first: int
    last: int

    @property
    def lines(self) -> str:
        """Both, for a message."""
        is_one = self.first == self.last
        return f"line {self.first}" if is_one else f"lines {self.first} to {self.last}"


def rows_of(text: str, separator: str, where: str, n_before: int = 0) -> Iterator[Row]:
    """Read rows, so that quotes are followed; TableError where a quotation mark is left open.

    n_before
        Lines of the file that stand before the text.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    first = n_before + 1
    try:
        for fields in reader:
            last = n_before + reader.line_num
            if fields:
                yield Row(fields, first, last)
            first = last + 1
    except csv.Error as error:
        own = {"where": where, "line": n_before + reader.line_num, "reason": error}
        raise TableError(Message.of("file.quotation", **own)) from error


def first_rows(text: str, separator: str, n_rows: int) -> list[list[str]]:
    """Return the fields of the first rows; unreadable text raises where all rows are read."""
    fields = []
    try:
        for row in islice(rows_of(text, separator, ""), n_rows):
            fields.append(row.fields)
    except TableError:
        pass
    return fields


def with_double_quotes(text: str, separator: str) -> str:
    """Return text whose fields are in single quotes with double ones; other text as it is.

    They are if rows are as long as the header with them, and either they are not without them, or
    the names of all columns are in them.
    """
    if "'" not in text or '"' in text:
        return text
    lines = [f"{line}\n" for line in text.split("\n")]
    try:
        rows = list(csv.reader(lines, delimiter=separator, quotechar="'"))
        plain = {len(fields) for fields in csv.reader(lines, delimiter=separator)}
    except csv.Error:  # as of an apostrophe that begins a field
        return text
    names = fields_of(lines[0], separator)
    are_quoted = all(len(name) > 1 and name[0] == name[-1] == "'" for name in names)
    widths = {len(row) for row in rows if row}
    if widths != {len(rows[0])} or (plain <= {0, *widths} and not are_quoted):
        return text
    body = io.StringIO()
    csv.writer(body, delimiter=separator, lineterminator="\n").writerows(rows)
    return body.getvalue()


def separator_of(text: str) -> str:
    """Return the separator that the header has most of, outside quotes.

    Of equals the one that the next row has as many of, and then the comma.
    """
    start = text[:_START]

    def fits(one: str) -> tuple[int, bool]:
        n_columns, n_fields = [*map(len, first_rows(start, one, 2)), 0, 0][:2]
        return n_columns, n_columns == n_fields

    return max(SIGNS, key=fits)


def fields_of(line: str, separator: str) -> list[str]:
    """Return the fields of one line; none if one of them is without end."""
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # told, with its line, where the rows are read
        return []


def of_ragged(ragged: Sequence[Row], separator: str, n_columns: int, where: str) -> Message:
    """Return a complaint of rows with too few or too many fields."""
    shown = [f"{row.lines}: {counted(len(row.fields), 'field')}" for row in ragged[:_SHOWN_LINES]]
    n_more = len(ragged) - len(shown)
    lines = ", ".join(shown) + (f" and {counted(n_more, 'more row')}" if n_more else "")
    is_long = any(row.first < row.last for row in ragged)
    own = {
        "lines": lines,
        "n": n_columns,
        "separator": separator,
        "close": "close them, " if is_long else "",
        "rows": "row" if len(ragged) == 1 else "rows",
    }
    return Message.of("file.ragged", where=where, **own)


def tabbed(text: str) -> str | None:
    """Return text with tabs for the blanks between its columns; None: blanks part no columns.

    They do where the first lines have as many words as the header, or, as R writes row names, one
    more, and some column is numbers in all of them.
    """
    lines = list(islice(_words(text), _LOOKED_AT))
    if len(lines) < 2 or len(lines[0]) < 2:
        return None
    n_names, widths = len(lines[0]), {len(line) for line in lines[1:]}
    if widths not in ({n_names}, {n_names + 1}):
        return None
    columns = zip(*lines[1:], strict=True)
    if not any(all(map(_NUMBER.fullmatch, column)) for column in columns):
        return None
    head = f"{ROW_NAMES}\t" if widths == {n_names + 1} else ""
    return head + "\n".join("\t".join(words) for words in _words(text))


def _words(text: str) -> Iterator[list[str]]:
    lines = (line.strip() for line in text.split("\n"))
    for words in filter(None, csv.reader(lines, delimiter=" ", skipinitialspace=True)):
        yield [word.replace("\t", " ") for word in words]
