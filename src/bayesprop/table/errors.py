"""What a table, a data file or a data set can get wrong, said in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class TableError(ValueError):
    """A table or data set that cannot be used: where, the rule, what was found, the remedy."""


class TableWarning(UserWarning):
    """Something was decided about a table that its owner should know."""


def quoted(name: object, at_most: int = 60) -> str:
    """Return text from the data fit for a one-line message: quoted, escaped, shortened."""
    text = str(name)
    return repr(text if len(text) <= at_most else text[: at_most - 3] + "...")


def listed(names: list[str], at_most: int = 5) -> str:
    """Join a few names for a message and count the others."""
    shown = ", ".join(quoted(name) for name in names[:at_most])
    return f"{shown} and {len(names) - at_most} more" if len(names) > at_most else shown


def counted(n: int, singular: str) -> str:
    """Return "1 row", "3 rows"."""
    return f"{n} {singular if n == 1 else singular + 's'}"


def one_line(text: str) -> str:
    """Join lines and make control characters visible: a file's text cannot drive a terminal."""
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in joined)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'price'?" for a word close to a known one, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def listing(words: Sequence[str], at_most: int = 12) -> str:
    """Join words for a message, leaving most of a long list out."""
    shown = ", ".join(words[:at_most])
    return f"{shown}, ... ({len(words)} in all)" if len(words) > at_most else shown
