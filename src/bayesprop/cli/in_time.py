"""Fits that end early: by --time-limit, or by Ctrl-C, where the model may still be wanted."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import typer

from bayesprop.cli.console import note
from bayesprop.model.progress import Progress, time_limit


def limited(seconds: float | None) -> AbstractContextManager[None]:
    """Return what ends the fits within after some seconds; None: never."""
    return nullcontext() if seconds is None else time_limit(seconds)


@contextmanager
def stoppable(progress: Progress) -> Iterator[None]:
    """Let a first Ctrl-C in a terminal ask a fit to end with what it has, and a second end it."""
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


def offer(why: str) -> None:
    """Ask whether to go on to save; KeyboardInterrupt if not, or where nobody can be asked."""
    if not (_can_ask() and typer.confirm(f"{why}: save the model as it is?", err=True)):
        raise KeyboardInterrupt


def _can_ask() -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and sys.stdin.isatty() and sys.stderr.isatty()
