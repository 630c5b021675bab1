"""Who tells a person at the terminal how a fit goes, and asks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

from bayesprop.cli import in_time
from bayesprop.cli.console import note, progress, warn
from bayesprop.model.progress import Progress
from bayesprop.table_model.listener import Listener


class TerminalListener(Listener):
    """Tells a person at the terminal how a fit goes."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def doing(self, text: str, *, time_share: float = 1.0) -> AbstractContextManager[Progress]:
        """Show how far it is."""
        return progress(text, quiet=self._quiet, time_share=time_share)

    def stoppable(self, progress: Progress) -> AbstractContextManager[None]:
        """Let a first Ctrl-C ask for an end."""
        return in_time.stoppable(progress)

    def offer(self, why: str) -> None:
        """Ask whether to go on; KeyboardInterrupt if not, or where nobody can be asked."""
        in_time.offer(why)

    def note(self, text: str) -> None:
        """Print a line."""
        note(text, quiet=self._quiet)

    def warn(self, sentences: Iterable[str]) -> None:
        """Print a line for each, quiet or not."""
        warn(sentences)
