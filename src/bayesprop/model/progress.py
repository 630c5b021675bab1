"""Progress of a long computation, and whether it must stop: one value passed along.

A method is handed it and reports where it passes anyway: an epoch, a member, a block of draws.
Whoever started the computation decides what comes of that: a bar, lines, a deadline.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from threading import Event


class NothingLearntError(ValueError):
    """The time was over before there was anything to predict by."""


@dataclass(frozen=True)
class Progress:
    """Where a computation says how far it is, and learns that it must end.

    verbose
        Above 0: a line on stderr for every report.
    show
        Told the share that is done, 0 to 1, and where that is, in words; from any thread.
    started, deadline
        Since when time counts, and when to end with what there is, seconds of `time.monotonic`.
    stop
        Set where somebody asks for an end before that.
    span
        Which part of the whole this is, as shares of it.
    within
        The same in words: "fold 2 of 5".
    cuts
        One sentence, if a computation ended early: why, and how far it came.
    """

    verbose: int = 0
    show: Callable[[float, str], None] | None = None
    started: float = field(default_factory=time.monotonic)
    deadline: float = math.inf
    stop: Event = field(default_factory=Event)
    span: tuple[float, float] = (0.0, 1.0)
    within: str = ""
    cuts: list[str] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether to end with what there is."""
        return self.stop.is_set() or time.monotonic() >= self.deadline

    @property
    def seconds_left(self) -> float:
        """Time until the deadline; infinite without one."""
        return self.deadline - time.monotonic()

    def report(self, done: float, total: float, where: str, figures: str = "") -> None:
        """Say how much is done, where that is ("epoch 3"), and the figures of a line."""
        where = ", ".join(filter(None, (self.within, where)))
        if self.verbose:
            line = f"{where}  {figures}".rstrip()
            sys.stderr.write(f"{line}\n")  # at once, as networks in threads write, too
        if self.show is not None:
            first, last = self.span
            self.show(first + (last - first) * done / total, where)

    def part(
        self, first: float, last: float, within: str = "", *, time_share: float = 1.0
    ) -> Progress:
        """Return the progress of a part, from one share of this to another.

        time_share
            Of the time that is left, at most.
        """
        start, end = self.span
        left = self.seconds_left
        return replace(
            self,
            span=(start + (end - start) * first, start + (end - start) * last),
            within=", ".join(filter(None, (self.within, within))),
            deadline=time.monotonic() + time_share * left if math.isfinite(left) else math.inf,
        )

    def is_cut(self, done: int, total: int, units: str) -> bool:
        """Whether to end before all is done; notes how far it came: "3 of 8 networks"."""
        if done >= total or not self.is_over:
            return False
        self.cut(f"{done} of {total} {units}")
        return True

    def cut(self, how_far: str) -> None:
        """Note that a computation ended early; the first note of a fit stays."""
        if not self.cuts:
            where = ", ".join(filter(None, (self.within, how_far)))
            self.cuts.append(f"{self._ended()}: {where}")

    def refuse(self, reason: str) -> None:
        """Raise the exception that ends a computation without a result."""
        if self.stop.is_set():
            raise KeyboardInterrupt
        raise NothingLearntError(f"{self._ended()}: {reason}")

    def _ended(self) -> str:
        why = "an interrupt" if self.stop.is_set() else "the time limit"
        return f"stopped by {why} after {time.monotonic() - self.started:.3g} s"


SILENT = Progress()
_CURRENT: ContextVar[Progress] = ContextVar("progress", default=SILENT)


def current() -> Progress:
    """Return the progress that computations of this thread report to."""
    return _CURRENT.get()


def begun(time_share: float = 1.0) -> Progress:
    """Return the progress of something that may take a share of the time that is left.

    It can be stopped alone, and notes alone where it ended early.
    """
    return replace(current().part(0.0, 1.0, time_share=time_share), stop=Event(), cuts=[])


@contextmanager
def following(progress: Progress) -> Iterator[Progress]:
    """Let computations within report to a progress, and end when it says so."""
    token = _CURRENT.set(progress)
    try:
        yield progress
    finally:
        _CURRENT.reset(token)


def limited(seconds: float | None) -> AbstractContextManager[None]:
    """Return what ends the fits within after some seconds; None: never."""
    return nullcontext() if seconds is None else time_limit(seconds)


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End every fit within, when the time is over, with the best model that it has.

    Networks stop training, ensembles are those networks that are complete (one at least), Markov
    chains the draws after their warm-up, a logistic regression ends its search. A fit that ended
    early says so in a UserWarning, and in the warnings of its `fit_report_`; one of which nothing
    can be kept raises ValueError. All fits within share the time.

    >>> import bayesprop
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> with bayesprop.time_limit(60):
    ...     model = bayesprop.PBPRegressor(n_epochs=2).fit(X, y)

    Parameters
    ----------
    seconds : float
        From here on; above 0.
    """
    if not (isinstance(seconds, int | float) and seconds > 0.0):
        raise ValueError(f"seconds must be a number above 0, got {seconds!r}")
    started = time.monotonic()
    deadline = min(current().deadline, started + seconds)
    with following(replace(current(), started=started, deadline=deadline)):
        yield
