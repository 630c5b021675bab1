"""Text whose columns blanks part, as R and Fortran write it, as text that tabs part."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import islice

_LOOKED_AT = 100  # lines
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eEdD][+-]?\d+)?")
ROW_NAMES = "rownames"


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
