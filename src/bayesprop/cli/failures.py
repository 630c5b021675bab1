"""From an exception to an exit code and one line; light, because `--help` imports it."""

from __future__ import annotations

import errno
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bayesprop.table.errors import TableWarning, one_line

BAD_INPUT, UNEXPECTED, INTERRUPTED = 2, 1, 130
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class InputError(ValueError):
    """What the user asked for or gave cannot be used; the message is one line."""


class Failure(NamedTuple):
    """What the shell and the user are told."""

    exit_code: int
    message: str


def describe(error: BaseException) -> Failure:
    """Say in one line what went wrong, and what the shell should be told."""
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return Failure(INTERRUPTED, "interrupted")
    if hasattr(error, "format_message"):  # how every usage error of the parser speaks
        return Failure(BAD_INPUT, _usage(error))
    if type(error).__module__.startswith("bayesprop."):
        full = isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL
        is_bad_input = isinstance(error, ValueError) and not full
        return Failure(BAD_INPUT if is_bad_input else UNEXPECTED, one_line(str(error)))
    if isinstance(error, OSError):
        return _os_failure(error)
    if isinstance(error, MemoryError):
        return Failure(UNEXPECTED, "out of memory; try fewer rows or columns")
    text = one_line(f"{type(error).__name__}: {error}")
    return Failure(UNEXPECTED, f"unexpected {text} (BAYESPROP_DEBUG=1 shows where)")


def report(error: BaseException, *, as_json: bool) -> int:
    """Tell the user, return the exit code; the traceback only where BAYESPROP_DEBUG=1."""
    if os.environ.get("BAYESPROP_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    exit_code, message = describe(error)
    print(f"error: {message}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": message}))
    return exit_code


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print Python's warnings as one line each on stderr, those about tables always."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("always", TableWarning)
        yield


@contextmanager
def refusals_of_estimator(*kinds: type[Exception]) -> Iterator[None]:
    """Tell the refusals of an estimator (a bad hyper-parameter) from failures of the program."""
    try:
        yield
    except kinds as error:
        raise InputError(one_line(str(error))) from error


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in an error of the system: a full disk does not say which."""
    try:
        yield
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def quiet_pipe() -> int:
    """Let the reader of a pipe go in peace, as `| head` does; the exit code is success."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    return 0


def _show_warning(message: Warning | str, *_args: object, **_kwargs: object) -> None:
    print(f"warning: {one_line(str(message))}", file=sys.stderr)


def _usage(error: BaseException) -> str:
    format_message: Callable[[], str] = getattr(error, "format_message")  # noqa: B009
    message = one_line(format_message()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "bayesprop"
    return f"{message[:1].lower()}{message[1:]} (see: {path} --help)"


def _os_failure(error: OSError) -> Failure:
    reason = error.strerror or str(error)
    name = f" {error.filename}" if error.filename else ""
    if error.errno in _FULL:
        return Failure(UNEXPECTED, one_line(f"cannot write{name}: {reason}; nothing was changed"))
    known = isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError)
    where = f"cannot use{name}: " if name else ""
    return Failure(BAD_INPUT if known else UNEXPECTED, one_line(f"{where}{reason}"))
