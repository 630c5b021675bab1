"""What goes to stdout (results) and to stderr (warnings, progress, failures).

Light, because `--help` imports it.
"""

from __future__ import annotations

import errno
import json
import math
import os
import shlex
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import Any, NamedTuple, TextIO

from bayesprop.cli.bar import Display
from bayesprop.model.progress import Progress, current, following
from bayesprop.table.errors import TableWarning, one_line

_PIPE_WIDTH = 120
BAD_INPUT, UNEXPECTED, INTERRUPTED = 2, 1, 130
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def print_json(value: Any) -> None:
    """Print one JSON object; a number that is not finite becomes null."""
    print(json.dumps(plain(value), ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Turn arrays, tuples and numpy scalars into what JSON knows, non-finite numbers into None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def is_terminal(stream: TextIO) -> bool:
    """Whether what is printed there is read at once, and by a person."""
    return stream.isatty()


def width(stream: TextIO | None = None) -> int | None:
    """Return the columns of a terminal, or as the variable COLUMNS says; None if it is none.

    stream
        Default: stdout.
    """
    is_one = is_terminal(sys.stdout if stream is None else stream)
    return shutil.get_terminal_size().columns if is_one else None


def wrapped(text: str, hanging: int = 4, stream: TextIO | None = None) -> str:
    """Break a line between words where a terminal ends; no word is broken.

    hanging
        Blanks before all lines but the first.
    """
    most = width(stream)
    if most is None or len(text) <= most:
        return text
    return textwrap.fill(
        text,
        most,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def warn(sentences: Iterable[str]) -> None:
    """Print each sentence as one "warning: ..." line on stderr."""
    for sentence in sentences:
        line = f"warning: {one_line(sentence)}"
        print(wrapped(line, stream=sys.stderr), file=sys.stderr)


def note(text: str, *, quiet: bool = False) -> None:
    """Print a line for a person on stderr."""
    if not quiet:
        print(wrapped(one_line(text), stream=sys.stderr), file=sys.stderr, flush=True)


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Container[int] = (),
) -> None:
    """Print a small table on stdout; the numbers of the columns in `right` end flush."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if title:
        print(wrapped(one_line(title)))
    table = Table(box=None, pad_edge=False)
    for index, name in enumerate(columns):
        justify = "right" if index in right else "left"
        table.add_column(Text(one_line(name)), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console = Console(markup=False, highlight=False, emoji=False, width=width() or _PIPE_WIDTH)
    with console.capture() as lines:
        console.print(table)
    print("\n".join(line.rstrip() for line in lines.get().splitlines()))


@contextmanager
def progress(text: str, *, quiet: bool = False, time_share: float = 1.0) -> Iterator[Progress]:
    """Show on stderr how far a computation is, and give it a share of the time that is left."""
    going = replace(current().part(0.0, 1.0, time_share=time_share), stop=Event(), cuts=[])
    if quiet:
        with following(going):
            yield going
        return
    with (
        Display(one_line(text), going.deadline) as display,
        following(replace(going, show=display.show)),
    ):
        yield going


def figure(value: float | None, digits: int = 4) -> str:
    """Format a number for a person: so many significant digits, a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:#.{digits}g}".rstrip(".")


def figure_beside(value: float, std: float) -> str:
    """Format a number for a person by its error bar, to the third significant digit of that."""
    if not (math.isfinite(value) and math.isfinite(std) and std > 0.0):
        return figure(value)
    n_decimals = 2 - math.floor(math.log10(std))
    return f"{round(value, n_decimals):.{max(n_decimals, 0)}f}"


def command_line(words: Sequence[str]) -> str:
    """Return a command as it was typed."""
    return shlex.join(["bayesprop", *words])


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
    if type(error).__module__.startswith(("bayesprop.", "papers.")):
        full = isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL
        is_bad_input = isinstance(error, ValueError) and not full
        return Failure(BAD_INPUT if is_bad_input else UNEXPECTED, one_line(str(error)))
    if isinstance(error, OSError):
        return _os_failure(error)
    if isinstance(error, MemoryError):
        return Failure(UNEXPECTED, "out of memory; try fewer rows or columns")
    text = one_line(f"{type(error).__name__}: {error}")
    return Failure(UNEXPECTED, f"unexpected {text} (BAYESPROP_DEBUG=1 shows where)")


def print_failure(error: BaseException, *, as_json: bool) -> int:
    """Tell the user, return the exit code; the traceback only where BAYESPROP_DEBUG=1."""
    if os.environ.get("BAYESPROP_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    exit_code, message = describe(error)
    print(wrapped(f"error: {message}", stream=sys.stderr), file=sys.stderr)
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


def quiet_pipe() -> int:
    """Let the reader of a pipe go in peace, as `| head` does; the exit code is success."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    return 0


def _show_warning(message: Warning | str, *_args: object, **_kwargs: object) -> None:
    warn([str(message)])


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
