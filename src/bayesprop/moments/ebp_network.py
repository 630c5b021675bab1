"""Expectation backpropagation as a method: passes over a table, or a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.method import Stored, TrainingRows
from bayesprop.moments import ebp
from bayesprop.moments.row_passes import Orders, RowPasses
from bayesprop.numerics.filling import padded


@dataclass(frozen=True)
class EBPNetwork(RowPasses):
    """A network of sign units; two classes have one output, more have one each.

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

    def start(self, rng: np.random.Generator | np.random.RandomState) -> ebp.EBPState:
        """Return the posterior of no rows."""
        return ebp.init(rng, self.sizes)

    def passes(
        self, rows: TrainingRows, start: ebp.EBPState, orders: Orders
    ) -> Iterator[tuple[ebp.EBPState, ebp.EBPInfo]]:
        """Yield the state after each pass and its info."""
        state, signs = start, self._signs(rows.y)
        for order in orders:
            state, info = ebp.data_pass(
                state, rows.x, signs, order, rows.weight, weights=self.weights
            )
            yield state, info

    def course(self, state: ebp.EBPState, info: ebp.EBPInfo, n_rows: int) -> dict[str, float]:
        """Nothing beside log Z."""
        del state, info, n_rows
        return {}

    def guards(self, infos: list[ebp.EBPInfo]) -> dict[str, int]:
        """Sum what was refused and shortened; weights at the bound are those of the last pass."""
        return {
            "rows_refused": sum(info.rows_refused for info in infos),
            "steps_shortened": sum(info.steps_shortened for info in infos),
            "weights_at_bound": infos[-1].weights_at_bound,
        }

    def advice(self, guards: dict[str, int], n_updates: int) -> list[str]:
        """Say so where updates were refused, or where most weights can learn no more."""
        del n_updates
        refused, at_bound = guards["rows_refused"], guards["weights_at_bound"]
        n_weights = sum((a + 1) * b for a, b in pairwise(self.sizes))
        advice = []
        if refused:
            advice.append(
                f"{refused} updates were not finite, and left the weights as they were: look for "
                "extreme values in the table"
            )
        if at_bound > 0.5 * n_weights:
            advice.append(
                f"{at_bound / n_weights:.0%} of the weights are as good as certain and can learn "
                "no more: take fewer epochs, or more units"
            )
        return advice

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
