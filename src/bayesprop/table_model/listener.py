"""Listeners, which receive the progress and the warnings of a verb, by a context variable.

Light, because `--help` imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from bayesprop.model.progress import Progress, begun, following
from bayesprop.table.errors import Said, TableWarning


class Listener:
    """A receiver of progress and warnings; this class issues Python warnings.

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
        """Start a step that may take at most a share of the remaining time."""
        return following(begun(time_share))

    def stoppable(self, progress: Progress) -> AbstractContextManager[None]:  # noqa: ARG002
        """Start a step that an interrupt may end early."""
        return nullcontext()

    def offer(self, why: str) -> None:  # noqa: ARG002
        """Continue with a partial result after an interrupt, or raise KeyboardInterrupt."""
        raise KeyboardInterrupt

    def note(self, text: Said) -> None:
        """Receive information."""

    def remark(self, remarks: Iterable[Said]) -> None:
        """Receive warnings that the model stores as well."""

    def warn(self, remarks: Iterable[Said]) -> None:
        """Receive warnings."""
        from bayesprop.estimators.fitting import warn

        warn([*remarks], TableWarning)


_IN_PYTHON = Listener()
_CURRENT: ContextVar[Listener] = ContextVar("listener", default=_IN_PYTHON)


def current_listener() -> Listener:
    """Return the listener of this thread's verbs."""
    return _CURRENT.get()


@contextmanager
def listening(listener: Listener) -> Iterator[Listener]:
    """Use a listener for all verbs within the block."""
    token = _CURRENT.set(listener)
    try:
        yield listener
    finally:
        _CURRENT.reset(token)
