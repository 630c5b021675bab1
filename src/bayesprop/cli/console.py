"""Output to stdout (results), stderr (warnings, failures, progress) and files, checked first.

Light, because `--help` imports it.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import math
import os
import shlex
import shutil
import signal
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from inspect import signature
from itertools import combinations
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple, Self, TextIO, TypeVar

import typer

from bayesprop.cli.actions import WithRemarks
from bayesprop.model.progress import Progress, begun, following
from bayesprop.table.errors import (
    InputError,
    Message,
    Said,
    TableError,
    TableWarning,
    for_terminal,
    one_line,
)
from bayesprop.table_model.listener import LABELS, Listener, Scores, figure, plain
from bayesprop.table_model.listener import listening as verbs_tell

A = TypeVar("A")
_PIPE_WIDTH = 120
_WIDE = 100
"""Columns below which scores stand without what they mean."""
BAD_INPUT, UNEXPECTED, INTERRUPTED = 2, 1, 130
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
BAR_AFTER, LINE_EVERY = 2.0, 10.0
"""Seconds before there is a bar, and between lines."""
_FRAME = 0.1
_BAR, _SMALL_BAR, _NARROW = 20, 8, 80  # columns, and below which the bar is small


def print_json(value: Any) -> None:
    """Print one JSON object; a number that is not finite becomes null."""
    is_ascii = codecs.lookup(sys.stdout.encoding or "utf-8").name != "utf-8"
    text = json.dumps(plain(value), ensure_ascii=is_ascii, allow_nan=False)
    print(text.encode(errors="backslashreplace").decode())  # halves of letters, as in odd paths


def is_terminal(stream: TextIO) -> bool:
    """Whether what is printed there is read at once, and by a person."""
    return stream.isatty()


def width(stream: TextIO | None = None) -> int | None:
    """Return the columns of a terminal, or as the variable COLUMNS says; None if it is none."""
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


def print_scores(
    title: str, scores: Scores, unit: str, errors: Mapping[str, float] | None = None
) -> None:
    """Print one row a metric, one column a model and its standard errors, and what it means."""
    rows = []
    for metric in scores["model"]:
        label, meaning = LABELS.get(metric, (metric, ""))
        model, *others = (figure(values.get(metric)) for values in scores.values())
        error = None if errors is None else errors.get(metric)
        spread = () if errors is None else ("" if error is None else figure(error, 2),)
        rows.append((label, model, *spread, *others, meaning))
    if (width() or _WIDE) < _WIDE:
        rows = [(*row[:-1], "") for row in rows]
    first, *others = scores
    names = (first, *(() if errors is None else ("± s.e.",)), *others)
    heading = f"{title} (in {unit})" if unit else title
    print_table(heading, ("", *names, ""), rows, right=range(1, 1 + len(names)))


@contextmanager
def progress(text: str, *, quiet: bool = False, time_share: float = 1.0) -> Iterator[Progress]:
    """Show on stderr how far a computation is, and give it a share of the time that is left."""
    going = begun(time_share)
    if quiet:
        with following(going):
            yield going
        return
    with (
        Display(one_line(text), going.deadline) as display,
        following(replace(going, show=display.show)),
    ):
        yield going


def command_line(words: Sequence[str]) -> str:
    """Return a command as it was typed."""
    return shlex.join(["bayesprop", *words])


class Failure(NamedTuple):
    """Exit code and message of a failure, one line for each problem."""

    exit_code: int
    message: str


def describe(error: BaseException) -> Failure:
    """Return the exit code and message of an error, one line for each problem of a table."""
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return Failure(INTERRUPTED, "interrupted")
    if hasattr(error, "format_message"):  # how every usage error of the parser speaks
        return Failure(BAD_INPUT, _usage(error))
    if type(error).__module__.startswith(("bayesprop.", "papers.")):
        full = isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL
        is_bad_input = isinstance(error, ValueError) and not full
        lines = error.terminal_lines if isinstance(error, TableError) else [for_terminal(error)]
        message = "\n".join(map(one_line, lines))
        return Failure(BAD_INPUT if is_bad_input else UNEXPECTED, message)
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
    with suppress(OSError):
        for line in message.splitlines():
            print(wrapped(f"error: {line}", stream=sys.stderr), file=sys.stderr, flush=True)
    try:
        if as_json:
            print(json.dumps({"error": message}))
        sys.stdout.flush()
    except OSError:
        quiet_pipe()
    return exit_code


def open_streams() -> None:
    """Give closed streams a place to go, and "?" for letters that a stream's codec lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print Python's warnings as one line each on stderr, those about tables always."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("always", TableWarning)
        yield


def quiet_pipe() -> int:
    """Let the reader of a pipe go in peace, as `| head` does; the exit code is success."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    return 0


def _show_warning(message: Warning | str, *_args: object, **_kwargs: object) -> None:
    warn([message if isinstance(message, str) else for_terminal(message)])


def _usage(error: BaseException) -> str:
    format_message: Callable[[], str] = getattr(error, "format_message")  # noqa: B009
    message = one_line(format_message()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "bayesprop"
    if "extra argument" in message and ".parquet" in message:
        message += "; quote a pattern, as in 'big/*.parquet', or name the folder"
    return f"{message[:1].lower()}{message[1:]} (see: {path} --help)"


def _os_failure(error: OSError) -> Failure:
    reason = error.strerror or str(error)
    name = f" {error.filename}" if error.filename else ""
    if error.errno in _FULL:
        what = f"{name}: {reason}; nothing was changed" if name else f" the output: {reason}"
        return Failure(UNEXPECTED, one_line(f"cannot write{what}"))
    known = isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError)
    where = f"cannot use{name}: " if name else ""
    return Failure(BAD_INPUT if known else UNEXPECTED, one_line(f"{where}{reason}"))


class Display:
    """Follows one computation from a thread of its own, on stderr."""

    def __init__(self, text: str, deadline: float = math.inf) -> None:
        self.text = text
        self._started, self._deadline = time.monotonic(), deadline
        self._share, self._where = 0.0, ""
        self._done = Event()
        self._thread = Thread(target=self._bar if sys.stderr.isatty() else self._lines, daemon=True)

    def show(self, share: float, where: str) -> None:
        """Take note of the share that is done, which never falls, and of where that is."""
        self._share, self._where = max(self._share, share), where

    def __enter__(self) -> Self:
        """Begin to follow."""
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Take the bar away."""
        self._done.set()
        self._thread.join()

    @property
    def words(self) -> str:
        """Percent, seconds so far and left, and where: "42 %, 12 s, 16 s left, epoch 3"."""
        share, elapsed = self._share, time.monotonic() - self._started
        parts = [duration(elapsed)]
        if share > 0.0:
            left = min(elapsed * (1.0 - share) / share, self._deadline - time.monotonic())
            percent = f"{100.0 * min(share, 1.0):.0f} %"
            parts = [percent, *parts, f"{duration(max(left, 0.0))} left"]
        return ", ".join([*parts, self._where] if self._where else parts)

    def _lines(self) -> None:
        while not self._done.wait(LINE_EVERY):
            print(f"{self.text}: {self.words}", file=sys.stderr, flush=True)

    def _bar(self) -> None:
        if self._done.wait(BAR_AFTER):
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        console = Console(stderr=True)
        width = _SMALL_BAR if console.width < _NARROW else _BAR
        room = console.width - width - 2  # columns have a blank between them
        before = min(len(self.text), room // 2)

        def text(name: str, width: int) -> TextColumn:
            column = Column(no_wrap=True, overflow="ellipsis", max_width=width)
            return TextColumn(f"{{task.{name}}}", markup=False, table_column=column)

        columns = (
            text("description", before),
            BarColumn(width, table_column=Column(min_width=width)),
            text("fields[words]", room - before),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(self.text, total=None, words="")
            while not self._done.wait(_FRAME):
                total = 1.0 if self._share > 0.0 else None
                bar.update(task, total=total, completed=self._share, words=self.words)


def duration(seconds: float) -> str:
    """Word a time as a person would: "12 s", "3 min", "1.5 h"."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5970.0 else f"{seconds / 3600.0:.1f} h"


class TerminalListener(Listener):
    """Tells a person at the terminal how a verb goes, and asks whether to save what Ctrl-C ended.

    Keeps in `warnings` all that it has warned of.
    """

    def __init__(self, words: Sequence[str], *, quiet: bool, has_bars: bool = True) -> None:
        self.command, self.warnings = command_line(words), []
        self._quiet, self._has_bars = quiet, has_bars

    def doing(self, text: str, *, time_share: float = 1.0) -> AbstractContextManager[Progress]:
        """Show how far it is."""
        return progress(text, quiet=self._quiet or not self._has_bars, time_share=time_share)

    @contextmanager
    def stoppable(self, progress: Progress) -> Iterator[None]:
        """Let a first Ctrl-C in a terminal ask a fit to end with what it has; a second ends it."""
        if not _can_ask():
            yield
            return

        def ask(_signal: int, _frame: object) -> None:
            if progress.stop.is_set():
                raise KeyboardInterrupt
            progress.stop.set()
            note("stopping where that is next possible; Ctrl-C again ends at once")

        before = signal.signal(signal.SIGINT, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def offer(self, why: str) -> None:
        """Ask whether to go on to save; KeyboardInterrupt if not, or where nobody can be asked."""
        if not (_can_ask() and typer.confirm(f"{why}: save the model as it is?", err=True)):
            raise KeyboardInterrupt

    def note(self, text: Said) -> None:
        """Print a line."""
        note(for_terminal(text), quiet=self._quiet)

    def warn(self, remarks: Iterable[Said]) -> None:
        """Print a line for each, quiet or not."""
        sentences = [*map(for_terminal, remarks)]
        self.warnings += sentences
        warn(sentences)

    remark = warn


@contextmanager
def listening(options: WithRemarks, *, has_bars: bool = True) -> Iterator[TerminalListener]:
    """Print progress and remarks of the verbs within at the terminal."""
    listener = TerminalListener(options.words, quiet=options.quiet, has_bars=has_bars)
    with verbs_tell(listener):
        yield listener


def ask(verb: Callable[..., A], options: WithRemarks, **own: Any) -> A:
    """Call a verb with the options that it has arguments for.

    own
        Arguments that differ from the options of their names.
    """
    named = (one for one in signature(verb).parameters.values() if one.kind != one.VAR_KEYWORD)
    given = {one.name: getattr(options, one.name) for one in named if hasattr(options, one.name)}
    return verb(**given | own)


def _can_ask() -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and sys.stdin.isatty() and sys.stderr.isatty()


def std_of(texts: Sequence[str]) -> dict[str, str | float]:
    """Read COL=COL and COL=NUMBER; InputError for another form, or a column twice."""
    errors: dict[str, str | float] = {}
    for text in texts:
        name, sign, source = (part.strip() for part in text.partition("="))
        if not (name and sign and source) or name in errors:
            raise InputError(Message.of("std_of.form", got=text))
        try:
            errors[name] = float(source)
        except ValueError:
            errors[name] = source
    return errors


def check_outputs(outputs: Mapping[str, Path | None], inputs: Sequence[str | Path | None]) -> None:
    """Refuse paths as `check_output` does, by their options, and two options of one path."""
    named = [(option, path) for option, path in outputs.items() if path is not None]
    for option, path in named:
        check_output(path, option, inputs)
    for (option, path), (other, own) in combinations(named, 2):
        if path.resolve() == own.resolve():
            raise InputError(f"{other} and {option} must be two different files")


def check_output(path: Path, option: str, inputs: Iterable[str | Path | None] = ()) -> None:
    """Refuse, before any work is done, a path that could not be written or holds an input."""
    folder = path.parent
    if not folder.is_dir():
        raise InputError(f"{option} {path}: the folder {folder} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option} {path}: the folder {folder} is not writable")
    for source in inputs:
        if source and path.exists() and Path(source).exists() and path.samefile(source):
            raise InputError(f"{option} {path} would overwrite an input; choose another name")
        is_of_folder = path.suffix.lower() == ".parquet" and source and Path(source).is_dir()
        if source and is_of_folder and path.resolve().is_relative_to(Path(source).resolve()):
            raise InputError(
                f"{option} {path} would be a file of the table {source}; choose another folder"
            )
