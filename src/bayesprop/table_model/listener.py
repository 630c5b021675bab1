"""Who is told how a fit to a table goes. Light, because `--help` imports it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any


class Listener:
    """Who is told how a fit goes; this one is not."""

    def doing(self, text: str) -> AbstractContextManager[Any]:  # noqa: ARG002
        """Something begins that takes a while."""
        return nullcontext()

    def note(self, text: str) -> None:
        """Hear something to know."""

    def warn(self, sentences: Iterable[str]) -> None:
        """Hear something to look at."""
