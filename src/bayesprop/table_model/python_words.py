"""Messages that name options of the command line, for somebody who writes Python."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from bayesprop.table.errors import TableError, TableWarning
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.settings import OPTIONS

_OTHERS = {flag: name for name, flag in OPTIONS.items()} | {"--seed": "seed"}


def python_words(text: str) -> str:
    """Name arguments instead of options: "--test-fraction" is `test_fraction`."""
    text = text.replace("--set ", "")
    return re.sub(r"--[a-z][a-z-]*", lambda m: _OTHERS.get(m[0], m[0][2:].replace("-", "_")), text)


@contextmanager
def in_python_words() -> Iterator[None]:
    """Word refusals so."""
    try:
        yield
    except (InputError, TableError) as error:
        words = python_words(str(error))
        if words == str(error):
            raise
        raise type(error)(words) from error


def warn_in_python(sentences: Iterable[str]) -> None:
    """Say each as a TableWarning of whoever called the caller."""
    for sentence in sentences:
        warnings.warn(python_words(sentence), TableWarning, stacklevel=3)
