"""Who is told how a fit to a table goes. Light, because `--help` imports it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from bayesprop.model.progress import Progress, begun, following


class Listener:
    """Who is told how a fit goes; this one keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def doing(
        self,
        text: str,  # noqa: ARG002
        *,
        time_share: float = 1.0,
    ) -> AbstractContextManager[Progress]:
        """Something begins that takes a while, and at most a share of the time that is left."""
        return following(begun(time_share))

    def stoppable(self, progress: Progress) -> AbstractContextManager[None]:  # noqa: ARG002
        """Something begins that can be asked to end with what it has."""
        return nullcontext()

    def offer(self, why: str) -> None:  # noqa: ARG002
        """Go on with what there is after an interrupt, or raise KeyboardInterrupt, as here."""
        raise KeyboardInterrupt

    def note(self, text: str) -> None:
        """Hear something to know."""

    def warn(self, sentences: Iterable[str]) -> None:
        """Hear something to look at."""
        self.warnings += sentences
