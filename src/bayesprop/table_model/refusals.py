"""Refusals of what was asked for. Light, because `--help` imports it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bayesprop.table.errors import TableError, one_line


class InputError(TableError):
    """What the user asked for or gave cannot be used; the message is one line."""


@contextmanager
def refusals_of_estimator(*kinds: type[Exception]) -> Iterator[None]:
    """Tell the refusals of an estimator (a bad hyper-parameter) from failures of the program."""
    try:
        yield
    except TableError:
        raise
    except kinds as error:
        raise InputError(one_line(str(error))) from error
