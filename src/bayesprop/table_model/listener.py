"""Who is told how a verb goes: a value that goes along with it, as `model.progress` does.

Light, because `--help` imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from bayesprop.model.progress import Progress, begun, following


class Listener:
    """Who is told how a verb goes; this one issues warnings, as Python does.

    command
        What was typed, which the model notes; empty: the call in Python.
    """

    command = ""

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

    def remark(self, sentences: Iterable[str]) -> None:
        """Hear something to look at that the model notes, too."""

    def warn(self, sentences: Iterable[str]) -> None:
        """Hear something to look at."""
        from bayesprop.estimators.fitting import warn
        from bayesprop.table.errors import TableWarning

        warn([*sentences], TableWarning)


_IN_PYTHON = Listener()
_CURRENT: ContextVar[Listener] = ContextVar("listener", default=_IN_PYTHON)


def current_listener() -> Listener:
    """Return who is told what the verbs of this thread do."""
    return _CURRENT.get()


@contextmanager
def listening(listener: Listener) -> Iterator[Listener]:
    """Let a listener be told what verbs within do."""
    token = _CURRENT.set(listener)
    try:
        yield listener
    finally:
        _CURRENT.reset(token)
