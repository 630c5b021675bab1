"""Who tells a person at the terminal how a fit goes, and lets it end early."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import typer

from bayesprop.cli import console
from bayesprop.model.progress import Progress, time_limit
from bayesprop.table_model.listener import Listener


class TerminalListener(Listener):
    """Tells a person at the terminal how a fit goes, and asks whether to save what Ctrl-C ended."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def doing(self, text: str, *, time_share: float = 1.0) -> AbstractContextManager[Progress]:
        """Show how far it is."""
        return console.progress(text, quiet=self._quiet, time_share=time_share)

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
            console.note("stopping where that is next possible; Ctrl-C again ends at once")

        before = signal.signal(signal.SIGINT, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def offer(self, why: str) -> None:
        """Ask whether to go on to save; KeyboardInterrupt if not, or where nobody can be asked."""
        if not (_can_ask() and typer.confirm(f"{why}: save the model as it is?", err=True)):
            raise KeyboardInterrupt

    def note(self, text: str) -> None:
        """Print a line."""
        console.note(text, quiet=self._quiet)

    def warn(self, sentences: Iterable[str]) -> None:
        """Print a line for each, quiet or not."""
        console.warn(sentences)


def limited(seconds: float | None) -> AbstractContextManager[None]:
    """Return what ends the fits within after some seconds; None: never."""
    return nullcontext() if seconds is None else time_limit(seconds)


def _can_ask() -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and sys.stdin.isatty() and sys.stderr.isatty()
