"""Refusals and remarks, in words of the command line or of Python. Light: `--help` imports it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from bayesprop.table.errors import TableError, TableWarning, one_line

SEED = "random_state"
OPTIONS = {
    "hidden_layer_sizes": "--hidden",
    "n_epochs": "--epochs",
    "batch_size": "--batch-size",
    "inference": "--inference",
    "target_kind": "--target-kind",
    "exposure": "--exposure",
    "order": "--order",
    SEED: "--seed",
}
"""Options of hyper-parameters, by which messages name them."""
_ARGUMENTS = {flag: name for name, flag in OPTIONS.items()} | {"--seed": "seed"}


class InputError(ValueError):
    """What the user asked for or gave cannot be used; the message is one line."""


@contextmanager
def refusals_of_estimator(*kinds: type[Exception]) -> Iterator[None]:
    """Tell the refusals of an estimator (a bad hyper-parameter) from failures of the program."""
    try:
        yield
    except kinds as error:
        raise InputError(one_line(str(error))) from error


def python_words(text: str) -> str:
    """Name arguments instead of options: "--test-fraction" is `test_fraction`."""
    text = text.replace("--set ", "")
    text = re.sub(r"--kind ('[^']*')=(\w+)", r"kinds={\1: '\2'}", text)
    return re.sub(
        r"--[a-z][a-z-]*", lambda m: _ARGUMENTS.get(m[0], m[0][2:].replace("-", "_")), text
    )


@contextmanager
def in_python_words() -> Iterator[None]:
    """Word refusals so."""
    try:
        yield
    except (InputError, TableError) as error:
        words = python_words(str(error))
        if words == str(error):
            raise
        kind = InputError if isinstance(error, InputError) else TableError
        raise kind(words) from error


def warn_in_python(sentences: Iterable[str]) -> None:
    """Say each as a TableWarning of whoever called the caller."""
    for sentence in sentences:
        warnings.warn(python_words(sentence), TableWarning, stacklevel=3)
