"""What a table, a data file or a data set can get wrong, said in one line."""

from __future__ import annotations


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


def counted(n: int, singular: str, plural: str | None = None) -> str:
    """Return "1 row", "3 rows"."""
    return f"{n} {singular if n == 1 else plural or singular + 's'}"
