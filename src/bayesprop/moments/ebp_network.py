"""Expectation backpropagation as a method: passes over a table, or a stream."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import FURTHEST_INPUT, Learned, Progress, Stored, TrainingRows
from bayesprop.moments import ebp
from bayesprop.numerics.filling import padded


@dataclass(frozen=True)
class EBPNetwork:
    """A network of sign units; two classes have one output, more have one each.

    sizes
        Inputs, units of every hidden layer, outputs.
    weights
        A name in `ebp.KINDS`.
    is_map
        Whether the one most probable network predicts, not the average over the posterior.
    """

    sizes: tuple[int, ...]
    n_epochs: int
    weights: str
    is_map: bool

    rows_at_once = 8192
    furthest_input = FURTHEST_INPUT

    def fit(self, rows: TrainingRows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Learn from scratch in shuffled passes."""
        start = ebp.init(rng, self.sizes)
        return self._learned(rows, start, 0, self._shuffled(rows, rng), progress)

    def resume(
        self,
        rows: TrainingRows,
        before: Learned,
        rng: np.random.RandomState,
        progress: Progress,
    ) -> Learned:
        """Learn on in as many passes again."""
        orders = self._shuffled(rows, rng)
        return self._learned(rows, before.state, before.n_iter, orders, progress)

    def absorb(
        self,
        rows: TrainingRows,
        before: Learned | None,
        rng: np.random.RandomState,
        progress: Progress,
    ) -> Learned:
        """Absorb rows once, in their order."""
        state = ebp.init(rng, self.sizes) if before is None else before.state
        n_iter = 0 if before is None else before.n_iter
        return self._learned(rows, state, n_iter, [np.arange(len(rows.x))], progress)

    def _shuffled(
        self, rows: TrainingRows, rng: np.random.RandomState
    ) -> Iterable[Int[np.ndarray, " k"]]:
        counted = np.flatnonzero(rows.weights)
        return (rng.permutation(counted) for _ in range(self.n_epochs))

    def _learned(
        self,
        rows: TrainingRows,
        state: ebp.EBPState,
        n_before: int,
        orders: Iterable[Int[np.ndarray, " k"]],
        progress: Progress,
    ) -> Learned:
        started, n_visits, signs = time.perf_counter(), 0, self._signs(rows.y)
        mass, n_weights = float(np.sum(rows.weights)), sum(layer.size for layer in state.h)
        trace, guards = [], {"rows_refused": 0, "steps_shortened": 0, "weights_at_bound": 0}
        for order in orders:
            state, info = ebp.data_pass(
                state, rows.x, signs, order, rows.weight, weights=self.weights
            )
            n_visits += len(order)
            guards["rows_refused"] += info.rows_refused
            guards["steps_shortened"] += info.steps_shortened
            guards["weights_at_bound"] = info.weights_at_bound
            trace.append(info.log_z / mass)
            progress.line(f"epoch {n_before + len(trace)}  log Z {trace[-1]:.4f} a row")
        report = FitReport(
            n_rows=len(rows.x),
            n_epochs=len(trace),
            seconds=time.perf_counter() - started,
            n_updates=n_visits * n_weights,
            guards=guards,
            trace={"mean_log_z": trace},
            log_evidence={"prequential": trace[0] * mass},
            warnings=_advice(guards, n_weights),
        )
        return Learned(state, report, n_before + len(trace))

    def _signs(self, codes: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n o"]:
        """Return 1 for the output of the row's class, -1 for the others."""
        first = 1 if self.sizes[-1] == 1 else 0
        return 2.0 * (codes[:, None] == first + np.arange(self.sizes[-1])) - 1.0

    def predict(self, state: ebp.EBPState, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Average over the signs of the outputs; every network of the posterior is certain."""
        outputs = ebp.most_probable_outputs if self.is_map else ebp.posterior_log_odds
        scores = outputs(state, padded(x), weights=self.weights)[: len(x)]
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        if self.is_map:
            proba = np.eye(scores.shape[1])[scores.argmax(axis=1)]
        else:
            proba = special.softmax(scores, axis=1)
        return ClassPredictive.of_codes(proba, np.zeros(len(x)))

    def to_stored(self, state: ebp.EBPState) -> Stored:
        """Return the parameter of every weight."""
        return Stored({}, {f"h.{layer}": np.asarray(h) for layer, h in enumerate(state.h)})

    def from_stored(self, stored: Stored) -> ebp.EBPState:
        """Rebuild what `to_stored` gave; ValueError where it does not fit this network."""
        h = []
        for layer, (n_in, n_out) in enumerate(pairwise(self.sizes)):
            h.append(stored.floats(f"h.{layer}", n_in + 1, n_out))
        return ebp.EBPState(tuple(h))


def _advice(guards: dict[str, int], n_weights: int) -> list[str]:
    advice = []
    refused, at_bound = guards["rows_refused"], guards["weights_at_bound"]
    if refused:
        advice.append(
            f"{refused} updates were not finite, and left the weights as they were: look for "
            "extreme values in the table"
        )
    if at_bound > 0.5 * n_weights:
        advice.append(
            f"{at_bound / n_weights:.0%} of the weights are as good as certain and can learn no "
            "more: take fewer epochs, or more units"
        )
    return advice
