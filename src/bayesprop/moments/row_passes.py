"""Methods that absorb one row after another: shuffled passes over a table, or a stream in order."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import FURTHEST_INPUT, MOST_ROWS, Learned
from bayesprop.model.progress import Progress
from bayesprop.numerics.rows import Rows

if TYPE_CHECKING:
    from jaxtyping import PyTree  # which loads JAX

Orders = Iterable[Int[np.ndarray, " k"]]


class RowPasses(ABC):
    """What such methods share: `fit`, `resume`, `absorb`, and the report of them.

    sizes
        Inputs, units of every hidden layer, outputs.
    n_epochs
        Shuffled passes of a fit.
    """

    sizes: tuple[int, ...]
    n_epochs: int

    rows_at_once = MOST_ROWS
    furthest_input = FURTHEST_INPUT
    log_unit = 0.0
    """Log of one standardised unit of every target, in y, summed."""

    @abstractmethod
    def start(self, rng: np.random.Generator | np.random.RandomState) -> PyTree:
        """Return the posterior of no rows; random numbers break the symmetry of the units."""

    @abstractmethod
    def passes(self, rows: Rows, start: PyTree, orders: Orders) -> Iterator[tuple[PyTree, PyTree]]:
        """Yield the state after each pass and its info, which has a `log_z`."""

    @abstractmethod
    def guards(self, infos: list[PyTree]) -> dict[str, int]:
        """Count the guards that fired, over all passes."""

    @abstractmethod
    def advice(self, guards: dict[str, int], n_updates: int) -> list[str]:
        """Say what a person should know about the fit, in sentences."""

    @property
    def n_weights(self) -> int:
        """Weights and biases of the network."""
        return sum((a + 1) * b for a, b in pairwise(self.sizes))

    def course(self, state: PyTree, info: PyTree, n_rows: int) -> dict[str, float]:
        """Return what the report tells of a pass beside log Z."""
        del state, info, n_rows
        return {}

    def before_new_rows(self, state: PyTree) -> PyTree:
        """Return the state that meets rows which it has not seen."""
        return state

    def settled(self, learned: Learned, rows: Rows) -> Learned:
        """Complete the report of a table by what only the last state tells."""
        del rows
        return learned

    def fit(self, rows: Rows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Learn from scratch in shuffled passes."""
        return self._shuffled(rows, self.start(rng), 0, rng, progress)

    def resume(
        self, rows: Rows, before: Learned, rng: np.random.RandomState, progress: Progress
    ) -> Learned:
        """Learn on in as many passes again."""
        return self._shuffled(rows, before.state, before.n_iter, rng, progress)

    def absorb(
        self,
        rows: Rows,
        before: Learned | None,
        rng: np.random.RandomState,
        progress: Progress,
    ) -> Learned:
        """Absorb rows once, in their order; the report tells how each was met, before it."""
        state = self.start(rng) if before is None else self.before_new_rows(before.state)
        n_before = 0 if before is None else before.n_iter
        return self._learned(rows, state, n_before, [np.arange(len(rows.x))], 1, progress)

    def _shuffled(
        self,
        rows: Rows,
        start: PyTree,
        n_before: int,
        rng: np.random.RandomState,
        progress: Progress,
    ) -> Learned:
        counted = np.flatnonzero(rows.weights)
        orders = (rng.permutation(counted) for _ in range(self.n_epochs))
        learned = self._learned(rows, start, n_before, orders, self.n_epochs, progress)
        return self.settled(learned, rows)

    def _learned(
        self,
        rows: Rows,
        start: PyTree,
        n_before: int,
        orders: Orders,
        n_passes: int,
        progress: Progress,
    ) -> Learned:
        started, state = time.perf_counter(), start
        n_rows, mass = len(rows.x), float(len(rows.x))
        if rows.weight is not None:
            n_rows, mass = int(np.count_nonzero(rows.weight)), float(rows.weight.sum())
        infos: list[PyTree] = []
        trace: dict[str, list[float]] = {}
        for state, info in self.passes(rows, start, orders):
            infos.append(info)
            course = {"mean_log_z": info.log_z / mass} | self.course(state, info, n_rows)
            for name, value in course.items():
                trace.setdefault(name, []).append(value)
            where = f"epoch {n_before + len(infos)}"
            figures = _latest(trace) if progress.verbose else ""
            progress.report(len(infos), n_passes, where, figures)
            if progress.is_cut(len(infos), n_passes, "epochs"):
                break
        guards = self.guards(infos)
        n_updates = len(infos) * n_rows * self.n_weights
        report = FitReport(
            n_rows=len(rows.x),
            n_epochs=len(infos),
            seconds=time.perf_counter() - started,
            n_updates=n_updates,
            guards=guards,
            trace=trace,
            log_evidence={"prequential": infos[0].log_z - mass * self.log_unit},
            warnings=self.advice(guards, n_updates),
        )
        return Learned(state, report, n_before + len(infos))


def _latest(trace: dict[str, list[float]]) -> str:
    return "  ".join(f"{name.replace('_', ' ')} {values[-1]:.4g}" for name, values in trace.items())
