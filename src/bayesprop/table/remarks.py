"""Sentences on columns; what is to be said of several of them is said once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from bayesprop.table.errors import counted, quoted

_MOST_NAMES = 8


class Remark(str):
    """A sentence on one column, which others may share.

    shared
        What stands before the names where it is said of several columns.
    name
        The column as it is listed there, perhaps with a detail: "'age' 3".
    """

    shared: str
    name: str

    def __new__(cls, sentence: str, shared: str, column: str, detail: object = "") -> Self:
        """Make a sentence that begins "column 'age'" from what comes then."""
        made = super().__new__(cls, f"column {quoted(column)}{sentence}")
        made.shared, made.name = shared, f"{quoted(column)} {detail}".rstrip()
        return made


def joined(sentences: Iterable[str]) -> list[str]:
    """Return sentences in their order, and one for all remarks of several columns that share it."""
    groups: dict[str, list[str]] = {}
    for sentence in sentences:
        key = sentence.shared if isinstance(sentence, Remark) else sentence
        groups.setdefault(key, []).append(sentence)
    return [_of_all(shared, group) for shared, group in groups.items()]


def _of_all(shared: str, group: list[str]) -> str:
    if len(group) == 1 or not all(isinstance(one, Remark) for one in group):
        return group[0]
    names = [one.name for one in group if isinstance(one, Remark)]
    n_more = len(names) - _MOST_NAMES
    shown = ", ".join(names[:_MOST_NAMES]) + (f" and {n_more} more" if n_more > 0 else "")
    return f"{len(group)} columns {shared}: {shown}"


def left_out_rows(n: int, target: str, n_limits: int = 0) -> list[str]:
    """Return sentences on rows without a target, and on those of a wider limit, if any."""
    reasons = {"no value of": n, "a wider limit than the one that counts, of": n_limits}
    return [
        f"{counted(rows, 'row')} left out: {reason} the target {quoted(target)}"
        for reason, rows in reasons.items()
        if rows
    ]
