"""Delimited text: its separator, rows and their lines, and what stands around them.

Above the data stand comments, names of columns and notes. Where blanks part the columns, as R and
Fortran write it, they become tabs.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence, Sized
from itertools import dropwhile, islice, takewhile
from typing import NamedTuple

from bayesprop.table.errors import Message, TableError, counted, listed, warn
from bayesprop.table.values import MISSING

SIGNS = (",", ";", "\t", "|")
_SHOWN_LINES = 5
_SAMPLED_LINES = 100  # lines
_START = 2**20  # letters, enough for the header and a row
_FORTRAN_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eEdD][+-]?\d+)?")
ROW_NAMES = "rownames"
_COMMENT = "#"
_MOST_COLUMNS = 32_768
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_LINES_OF_A_TABLE = 20  # looked at below what may be a title
_LOOKED_AT = 1000  # rows in which a word of the first line is looked for


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
    lines = list(islice(_words(text), _SAMPLED_LINES))
    if len(lines) < 2 or len(lines[0]) < 2:
        return None
    n_names, widths = len(lines[0]), {len(line) for line in lines[1:]}
    if widths not in ({n_names}, {n_names + 1}):
        return None
    columns = zip(*lines[1:], strict=True)
    if not any(all(map(_FORTRAN_NUMBER.fullmatch, column)) for column in columns):
        return None
    head = f"{ROW_NAMES}\t" if widths == {n_names + 1} else ""
    return head + "\n".join("\t".join(words) for words in _words(text))


def _words(text: str) -> Iterator[list[str]]:
    lines = (line.strip() for line in text.split("\n"))
    for words in filter(None, csv.reader(lines, delimiter=" ", skipinitialspace=True)):
        yield [word.replace("\t", " ") for word in words]


class Header(NamedTuple):
    """The names of columns, "" where one has none; the lines below, and how many stand above."""

    names: list[str]
    below: str
    n_above: int


def header_of(text: str, separator: str, where: str, n_before: int) -> Header:
    """Read the header line, or name columns by their place where the first line is a row of data.

    n_before
        Lines of the file that stand before the text.
    """
    first = next(rows_of(text, separator, where, n_before))
    names = [name.strip() for name in first.fields]
    n_lines = first.last - n_before
    below = [*text.split("\n", n_lines), ""][n_lines]
    if is_row(names, below, separator):
        made = [f"column_{k}" for k in range(1, len(names) + 1)]
        own = {"values": listed(names, 3), "first": made[0], "last": made[-1]}
        warn(Message.of("header.missing", where=where, **own))
        return Header(made, text, n_before)
    _check_no_title(first, below, where)
    return Header(_completed(names, below, separator, where), below, first.last)


def _check_no_title(first: Row, below: str, where: str) -> None:
    """Refuse a first line that is a title: one text, or far too few, above a line of names."""
    is_lone = first.fields[0] != "" and not any(map(str.strip, first.fields[1:]))
    for separator in SIGNS:
        lines = first_rows(below, separator, _LINES_OF_A_TABLE)
        names, *rows = [*dropwhile(lambda line: len(line) == 1, lines)] or [[]]
        is_less = is_lone or len(names) > len(first.fields) + 1
        are_even = {len(row) for row in rows} == {len(names)}
        if is_less and are_even and all(names) and _is_header(names, rows[0]):
            title = separator.join(first.fields).strip(separator)
            own = {"where": where, "lines": first.lines, "title": title}
            raise TableError(Message.of("header.title", *names, **own))


def is_row(first: Sequence[str], below: str, separator: str) -> bool:
    """Say whether the first line is data: its numbers cannot be names, and its words are values.

    Years and the places of pixels can be names: whole numbers, each of them once. Others are data
    where no word stands before them; else where numbers stand above numbers, and every word stands
    again in its column, as names do not.
    """
    numbers = [field for field in first if _is_number(field)]
    can_be_names = all(map(_is_whole, numbers)) and len(set(numbers)) == len(numbers)
    if len(first) < 2 or can_be_names:
        return False
    leading = [*takewhile(_is_number, first)]
    if len(leading) == len(first) or not all(map(_is_whole, leading)):
        return True
    rows = [[field.strip() for field in row] for row in first_rows(below, separator, _LOOKED_AT)]
    rows = [row for row in rows if len(row) == len(first) and row != first]
    columns = zip(*rows, strict=True)
    return bool(first[0] and rows) and all(map(_is_like, first, columns))


def _is_number(field: str) -> bool:
    return _NUMBER.fullmatch(field) is not None


def _is_whole(number: str) -> bool:
    return float(number) % 1.0 == 0.0


def _is_like(field: str, column: Sequence[str]) -> bool:
    """Say whether a field may be a value of a column: missing, a number of many, a known word."""
    if field in MISSING or not _is_number(field):
        return field in MISSING or field in column
    return all(value in MISSING or _is_number(value) for value in column)


def _completed(names: list[str], below: str, separator: str, where: str) -> list[str]:
    """Return the names with one more, of none, where every row has one field more than them.

    It is the first, as R writes the names of rows, all different; or the last, which is empty.
    """
    second = first_rows(below, separator, 1)
    if "" in names or len(names) < 2 or [len(row) for row in second] != [len(names) + 1]:
        return names
    firsts, lasts = [], set()
    try:
        for row in rows_of(below, separator, where):
            if len(row.fields) != len(names) + 1:
                return names
            firsts.append(row.fields[0].strip())
            lasts.add(row.fields[-1].strip())
    except TableError:  # told where the rows are read
        return names
    if lasts == {""}:
        warn(Message.of("header.longer_rows", where=where, separator=separator))
        return [*names, ""]
    if len(set(firsts)) < len(firsts):
        return names
    warn(Message.of("header.row_names", where=where, n=len(names), n_fields=len(names) + 1))
    return ["", *names]


def without_comments(text: str, separator: str | None, where: str) -> str:
    """Return text from its header on, without the lines before it that begin with "#".

    They are the header, or what is below it, if they have as many fields as the first line that
    does not begin so; unless that one has no number, and stands above one.
    """
    if not text.startswith(_COMMENT):
        return text
    lines = text.split("\n")
    places = [k for k, line in enumerate(lines) if line.strip()]
    marked = [*takewhile(lambda k: lines[k].startswith(_COMMENT), places)]
    first, second = [*(lines[k] for k in places[len(marked) :][:2]), "", ""][:2]
    if not first:
        return text
    separator = separator or separator_of(f"{first}\n{second}")
    if len(fields_of(first, separator)) < 2:
        separator = None
    above, below = _parted(first, separator), _parted(second, separator)

    def is_of_table(k: int) -> bool:
        return len(_parted(lines[k].lstrip(f"{_COMMENT} "), separator)) == len(above)

    of_table = [] if _is_header(above, below) else [*takewhile(is_of_table, reversed(marked))]
    n_comments = len(marked) - len(of_table)
    if n_comments:
        warn(Message.of("file.comments", where=where, n=n_comments, text=lines[0]))
    return "\n".join(lines[places[n_comments] :])


def _is_header(above: Sequence[str], below: Sequence[str]) -> bool:
    """Say whether a line holds no number, but stands above one."""
    is_above = any(a not in MISSING and _is_number(b) for a, b in zip(above, below, strict=False))
    return is_above and not any(map(_is_number, above))


def _parted(line: str, separator: str | None) -> list[str]:
    """Return the fields of a line, or its words where nothing but blanks parts them."""
    return [*map(str.strip, fields_of(line, separator))] if separator else line.split()


def is_note(row: Row, separator: str, n_columns: int) -> bool:
    """Say whether a row could be a note below a table of three or more columns: words, one field.

    A number is more likely a row cut off, and a separator in it a quotation mark left open.
    """
    if n_columns < 3 or len(row.fields) > 1 or row.first < row.last:
        return False
    text = row.fields[0].strip()
    return separator not in text and text not in MISSING and not _is_number(text)


def check_number(names: Sized, where: str) -> None:
    """Refuse a table of more columns than can be understood one by one."""
    if len(names) > _MOST_COLUMNS:
        own = {"where": where, "n": len(names), "most": _MOST_COLUMNS}
        raise TableError(Message.of("header.too_many", **own))


def column_names(names: Sequence[str], where: str) -> list[str]:
    """Return unique names; those that had to be made of repeated ones come as TableWarning."""
    check_number(names, where)
    double = sorted(name for name, n in Counter(names).items() if name and n > 1)
    unique = unique_names(names)
    if double:
        later = [new for new, own in zip(unique, names, strict=True) if own and new != own]
        warn(Message.of("header.double", *double, where=where, later=listed(later, 3)))
    return unique


def unique_names(names: Sequence[str]) -> list[str]:
    """Return a name for every column: "a (2)" where it repeats "a", "unnamed_1" where it has none.

    Names depend on those of the header and their order alone, so that the next file has the same.
    """
    taken = set(names)
    counts: Counter[str] = Counter()
    unique = []
    for i, name in enumerate(names, start=1):
        counts[name] += 1
        made = name if name and counts[name] == 1 else _free(name, i, counts, taken)
        taken.add(made)
        unique.append(made)
    return unique


def _free(name: str, place: int, counts: Counter[str], taken: set[str]) -> str:
    if not name:
        made = f"unnamed_{place}"
        while made in taken:
            made += "_"
        return made
    while (made := f"{name} ({counts[name]})") in taken:
        counts[name] += 1
    return made
