"""A predictive known by some of its quantiles: what quantile regression gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.distributions.predictive import IN_Y, OF_ALL_ROWS, Moments, Predictive

_BLOCK = 10_000
"""Rows at a time, where each takes as many numbers as there are shares."""
_N_SHARES = 200
"""Equal shares of probability that stand for the distribution in its CRPS and variance."""
_LEVELS = (np.arange(_N_SHARES) + 0.5) / _N_SHARES
_SCORES = special.ndtri(_LEVELS)
"""The middle of each, and its standard normal quantile."""


@dataclass(frozen=True, repr=False)
class QuantilePredictive(Predictive):
    """Quantiles at a few levels, joined by pieces of normal distributions; one target.

    Between two levels, and beyond the last on either side, a quantile is linear in the standard
    normal quantile of its level: exact if the quantiles are those of a normal distribution. There
    is no density: quantiles that fall together would make it as large as one likes.

    levels
        Ascending, between 0 and 1.
    quantiles
        One column a level, in y; rows ascend.
    """

    levels: Float[np.ndarray, " q"] = field(metadata=OF_ALL_ROWS)
    quantiles: Float[np.ndarray, "n q"] = field(metadata=IN_Y)

    @classmethod
    def of(
        cls,
        mean: Float[np.ndarray, " n"],
        levels: Float[np.ndarray, " q"],
        quantiles: Float[np.ndarray, "n q"],
    ) -> QuantilePredictive:
        """Build it; quantiles that cross are put in order (Chernozhukov et al. 2010).

        mean
            Of every row, from a model of its own; the variance is that of the quantiles.
        """
        ordered = np.sort(quantiles, axis=1)
        knots = special.ndtri(levels)
        var = _in_blocks(lambda rows: _at(_SCORES, knots, rows).var(axis=0), ordered)
        return cls(mean, np.zeros_like(mean), var, np.asarray(levels), ordered)

    def _log_prob(self, y: Moments) -> Moments:
        """Return NaN for every observation: there is no density."""
        return np.full(np.shape(y), np.nan)

    def _cdfs(self, y: np.ndarray) -> np.ndarray:
        knots, scores = self.quantiles, special.ndtri(self.levels)
        at = [[_score_at(*one, scores) for one in zip(row, knots, strict=True)] for row in y]
        return special.ndtr(np.array(at))

    def _quantiles(self, levels: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "q ..."]:
        return _at(special.ndtri(levels.ravel()), special.ndtri(self.levels), self.quantiles)

    def _crps(self, y: Moments) -> Moments:
        """Twice the mean quantile (pinball) loss over equal shares of probability, y."""
        levels, knots = _LEVELS[:, None], special.ndtri(self.levels)

        def loss(y: Moments, rows: Float[np.ndarray, "n q"]) -> Moments:
            short = y - _at(_SCORES, knots, rows)
            return np.mean(np.maximum(levels * short, (levels - 1) * short), 0)

        return 2.0 * _in_blocks(loss, y, self.quantiles)

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n)."""
        scores = rng.standard_normal((n, len(self)))
        knots = special.ndtri(self.levels)
        return np.stack(
            [_at(scores[:, i], knots, self.quantiles[i : i + 1])[:, 0] for i in range(len(self))],
            axis=1,
        )


def _in_blocks(function: Callable[..., Moments], *arrays: np.ndarray) -> Moments:
    """Apply a function of rows to some rows at a time."""
    starts = range(0, max(len(arrays[0]), 1), _BLOCK)
    return np.concatenate([function(*(a[k : k + _BLOCK] for a in arrays)) for k in starts])


def _at(
    scores: Float[np.ndarray, " s"],
    knots: Float[np.ndarray, " q"],
    quantiles: Float[np.ndarray, "n q"],
) -> Float[np.ndarray, "s n"]:
    """Quantiles at some standard normal scores: linear between the knots, and beyond them."""
    right = np.clip(np.searchsorted(knots, scores), 1, len(knots) - 1)
    left = right - 1
    share = (scores - knots[left]) / (knots[right] - knots[left])
    return (quantiles[:, left] + share * (quantiles[:, right] - quantiles[:, left])).T


def _score_at(
    y: float, quantiles: Float[np.ndarray, " q"], scores: Float[np.ndarray, " q"]
) -> float:
    """Invert `_at` for one row; the upper end of a level stretch, where quantiles are equal."""
    right = int(np.clip(np.searchsorted(quantiles, y, side="right"), 1, len(scores) - 1))
    low, high = quantiles[right - 1], quantiles[right]
    if low == high:
        return scores[right] if y == low else np.copysign(np.inf, y - low)
    return scores[right - 1] + (y - low) / (high - low) * (scores[right] - scores[right - 1])
