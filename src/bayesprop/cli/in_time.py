"""Fits that end early: by --time-limit, or by Ctrl-C, where the model may still be wanted."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import typer

from bayesprop.cli.console import note
from bayesprop.model.progress import Progress, time_limit

T = TypeVar("T")

FITTING, FITTING_BEFORE_FOLDS = 0.7, 0.4
"""Shares of the time that the fit may take; folds, which judge a small table, are fits as well."""


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


def or_without(judge: Callable[[], T], otherwise: T) -> T:
    """Judge a model; where that is interrupted, offer to save it without."""
    try:
        return judge()
    except KeyboardInterrupt:
        offer("interrupted while the fit was judged")
        return otherwise


def _can_ask() -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and sys.stdin.isatty() and sys.stderr.isatty()
