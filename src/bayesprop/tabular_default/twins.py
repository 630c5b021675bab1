"""Rows of classes whose inputs stand in the table: what their twins were, beside the prediction.

Where new rows come as the old ones came, a row may meet its own inputs again. Let networks and
neighbours, which knew none of the n rows of these inputs, predict the classes with probabilities p.
Then

    (counts of the classes of these rows + a p) / (n + a),

the mean of a Dirichlet distribution around p (Ferguson 1973). The strength a makes rows most likely
that are left out one by one, their twins kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64

from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.neighbours import bits
from bayesprop.tabular_default.stack import LEAST_PROBA, is_no_more

LOG_STRENGTHS = np.arange(-32, 33) / 4.0
"""That are tried."""

_LEAST_COUNT = 1e-6  # of twins, below which there are none


class Twins(NamedTuple):
    """Different inputs of a table, in the order of their bits, and the rows of every class there.

    counts
        By weight; a row counts one on average.
    log_strength
        Logarithm of a.
    """

    x: Float32[np.ndarray, "m d"]
    counts: Float64[np.ndarray, "m c"]
    log_strength: float

    @classmethod
    def fit(cls, rows: Rows, known: Rows, proba: Float[np.ndarray, "r c"]) -> Twins | None:
        """Choose a by held-out rows; None unless those with twins gain.

        rows
            All rows, with codes of classes.
        known, proba
            Some of them, or of those that were made of them, and held-out probabilities there.
        """
        keys, first, group = np.unique(bits(rows.x), return_index=True, return_inverse=True)
        shape, weight = (len(keys), proba.shape[1]), rows.weights / rows.weights.mean()
        counts, of_known, expected = np.zeros((3, *shape))
        np.add.at(counts, (group, rows.y), weight)
        at = np.searchsorted(keys, bits(known.x)), known.y
        np.add.at(of_known, at, known.weights)
        np.add.at(expected, at, known.weights * proba[np.arange(len(known.y)), known.y])
        same, n = counts[group, rows.y] - weight, counts[group].sum(axis=1) - weight
        own = (n > _LEAST_COUNT) & (of_known[group, rows.y] > 0.0)
        if not own.any():
            return None
        group, y, weight, same, n = group[own], rows.y[own], weight[own], same[own], n[own]
        p = np.maximum(expected[group, y] / of_known[group, y], LEAST_PROBA)
        a = np.exp(LOG_STRENGTHS)[:, None]
        gains = weight * (np.log(np.maximum(same, 0.0) + a * p) - np.log(n + a) - np.log(p))
        # As if a twin more had agreed and another had not, where p is next to nothing.
        best = np.argmax(gains.sum(axis=1) + LOG_STRENGTHS - 2.0 * np.log1p(a[:, 0]))
        if is_no_more(np.bincount(group, gains[best])[np.unique(group)]):
            return None
        x = np.ascontiguousarray(rows.x[first], np.float32)
        return cls(x, counts, float(LOG_STRENGTHS[best]))

    def validate(self) -> None:
        """Raise ValueError where these are no counts."""
        if not (self.counts >= 0.0).all() or not np.isfinite(self.counts).all():
            raise ValueError("the twins' counts must be 0 or more, and finite")
        if not abs(self.log_strength) <= LOG_STRENGTHS[-1]:
            raise ValueError(f"the twins' log_strength must be within {LOG_STRENGTHS[-1]:g}")

    def moved(
        self, x: Float[np.ndarray, "n d"], proba: Float[np.ndarray, "n c"]
    ) -> Float[np.ndarray, "n c"]:
        """Move the probabilities of rows whose inputs are known."""
        own, key, a = bits(self.x), bits(x), np.exp(self.log_strength)
        at = np.minimum(np.searchsorted(own, key), len(own) - 1)
        known, moved, counts = own[at] == key, proba.copy(), self.counts[at]
        moved[known] = (counts + a * proba)[known] / (counts.sum(axis=1) + a)[known, None]
        return moved
