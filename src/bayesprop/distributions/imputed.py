"""What is predicted for rows with gaps: a mixture over ways to fill them, from any method.

What a gap adds to a variance is counted as noise, not as epistemic: more rows would not remove it.
Measuring the input would, on average; `gap_share` is how much of the variance that is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.gaussian_copula import COMPLETIONS, GaussianCopula
from bayesprop.distributions.pooled import pooled
from bayesprop.distributions.predictive import IN_Y_SQUARED, Moments, Predictive

_NODES, _ROUNDS = 17, 2
_FURTHEST, _PANELS = 8.0, 8
_PANEL_NODES, _PANEL_WEIGHTS = np.polynomial.legendre.leggauss(4)
_PLACES = ((np.arange(_PANELS)[:, None] + 0.5 * (1.0 + _PANEL_NODES)) / _PANELS).ravel()
_PLACE_WEIGHTS = np.tile(0.5 * _PANEL_WEIGHTS / _PANELS, _PANELS)
_TINY = float(np.finfo(np.float64).tiny)
_MEMBERS = 2
"""Of an ensemble, that are heard on every completion of a row; in turns, so that all are."""


@dataclass(frozen=True, repr=False)
class CompletedPredictive(Predictive):
    """Equal shares of what is predicted for every completion of a row; built by `of`.

    Of targets as a method learns them: what a kind of target makes of it is `transformed`.

    gap_var
        Variance of the means of the completions, y²; a part of `noise_var`.
    each
        Of n rows of c completions each, those of a row after one another.
    """

    gap_var: Moments = field(metadata=IN_Y_SQUARED)
    each: Predictive

    @classmethod
    def of(cls, each: Predictive, n_completions: int) -> CompletedPredictive:
        """Mix what is predicted for completions."""
        means, epistemic_var, noise_var = (
            by_row(part, n_completions) for part in (each.mean, each.epistemic_var, each.noise_var)
        )
        gap_var = means.var(axis=1)
        noise_var = noise_var.mean(axis=1) + gap_var
        some = each.of_some_members(_MEMBERS, n_completions)
        return cls(means.mean(axis=1), epistemic_var.mean(axis=1), noise_var, gap_var, some)

    @property
    def gap_share(self) -> Moments:
        """Share of the variance that measuring the row's missing inputs would remove on average."""
        return self.gap_var / self.var

    @property
    def _c(self) -> int:
        return len(self.each) // len(self) if len(self) else 1

    def __getitem__(self, rows: Any) -> Any:
        """Select rows (a slice, mask or index array)."""
        completions = by_row(np.arange(len(self.each)), self._c)[rows].ravel()
        moments = self.mean, self.epistemic_var, self.noise_var, self.gap_var
        mean, epistemic_var, noise_var, gap_var = (part[rows] for part in moments)
        return type(self)(mean, epistemic_var, noise_var, gap_var, self.each[completions])

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        return one_of_each(self.each.sample(rng, n), self._c, rng.random((n, len(self))))

    def _cdfs(self, y: np.ndarray) -> np.ndarray:
        below = self.each.cdfs(np.repeat(y, self._c, axis=1))
        return below.reshape(*y.shape[:2], self._c, *y.shape[2:]).mean(axis=2)

    def _by_row(self, values: Moments) -> np.ndarray:
        return by_row(values, self._c)

    def _log_prob(self, y: Moments) -> Moments:
        log_density = self._by_row(self.each.log_prob(np.repeat(y, self._c, axis=0)))
        return special.logsumexp(log_density, axis=1) - np.log(self._c)

    def _crps(self, y: Moments) -> Moments:
        """CRPS = integral of (F(t) - 1{t >= y})² dt (Gneiting & Raftery 2007, eq. 20)."""
        crps = np.zeros(np.shape(y))
        for side in (-1.0, 1.0):
            at, width = self._one_side(y, side)
            below = self.cdfs(at)
            tail = below if side < 0.0 else 1.0 - below
            crps = crps + np.sum(tail**2 * width, axis=0)
        return crps

    def _one_side(self, y: Moments, side: float) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights, (q, n[, o]), of a quadrature over values below (-1) or above (1) y.

        Panels are even in t of values mean + std sinh(t) / 2: dense in the middle, far in the
        tails.
        """
        unit = 0.5 * np.maximum(self.std, _TINY)
        middle = np.arcsinh((y - self.mean) / unit)
        length = np.maximum(_FURTHEST, np.abs(middle)) - side * middle
        ahead = (slice(None),) + (None,) * np.ndim(y)
        t = middle + side * _PLACES[ahead] * length
        return self.mean + unit * np.sinh(t), _PLACE_WEIGHTS[ahead] * length * unit * np.cosh(t)

    def _quantiles(self, levels: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "q ..."]:
        """By narrowing bounds, between which the distribution function is straight at last."""
        edges = self._by_row(np.moveaxis(self.each.quantile(levels.ravel()), -1, 1))
        low, high = edges.min(axis=1).swapaxes(0, 1), edges.max(axis=1).swapaxes(0, 1)
        below = np.zeros((2, *low.shape))
        for _ in range(_ROUNDS):
            grid = np.linspace(low, high, _NODES)
            reached = self.cdfs(np.concatenate(grid)).reshape(grid.shape)
            reached = np.maximum.accumulate(reached, axis=0)
            last = np.clip(np.sum(reached < levels, axis=0) - 1, 0, _NODES - 2)
            at = np.stack([last, last + 1])
            low, high = np.take_along_axis(grid, at, axis=0)
            below = np.take_along_axis(reached, at, axis=0)
        share = (levels - below[0]) / np.maximum(below[1] - below[0], _TINY)
        return low + np.clip(share, 0.0, 1.0) * (high - low)


def over_gaps(
    predict: Callable[[Float[np.ndarray, "m d"]], Any],
    X: Float[np.ndarray, "n d"],
    inputs: GaussianCopula,
) -> Any:
    """Predict rows, those with gaps (NaN) by a mixture over ways to fill them.

    One kind of prediction, whether some of these rows have gaps or none, so that parts can be
    joined.

    predict
        Of rows without gaps.
    inputs
        How the columns go together.
    """
    n_gaps = np.isnan(X).sum(axis=1)
    # Together those with as many gaps, which `inputs` fills at once.
    complete, rows = np.split(np.argsort(n_gaps, kind="stable"), [np.sum(n_gaps == 0)])
    filled = inputs.of_columns(X.shape[1]).completions(X[rows]).reshape(-1, X.shape[1])
    as_bytes = filled.view(np.dtype((np.void, filled.strides[0])))[:, 0]
    _, first, which = np.unique(as_bytes, return_index=True, return_inverse=True)
    each, n = predict(np.concatenate([X[complete], filled[first]])), len(complete)
    parts = [(each[:n], complete), (completed(each[n:][which], COMPLETIONS), rows)]
    return pooled(*zip(*(part for part in parts if len(part[1])), strict=True))


def completed(each: Predictive | ClassPredictive | np.ndarray, n_completions: int) -> Any:
    """Mix what is predicted for completions of rows, of numbers or classes; average arrays."""
    if isinstance(each, np.ndarray):
        return by_row(each, n_completions).mean(axis=1)
    if not isinstance(each, ClassPredictive):
        return CompletedPredictive.of(each, n_completions)
    p = by_row(np.asarray(each.proba, np.float64), n_completions)
    proba, mean_entropy = p.mean(axis=1), special.entr(p).sum(axis=2).mean(axis=1)
    # Between completions classes differ, but not by what more rows would tell of the weights.
    of_gaps = np.maximum(special.entr(proba).sum(axis=1) - mean_entropy, 0.0)
    entropy = by_row(np.asarray(each.expected_entropy, np.float64), n_completions).mean(axis=1)
    return ClassPredictive(proba, entropy + of_gaps, each.classes, of_gaps, each.order)


def by_row(values: np.ndarray, n_completions: int) -> np.ndarray:
    """Give the completions of a row an axis of their own; (n c, ...) to (n, c, ...)."""
    return values.reshape(len(values) // n_completions, n_completions, *values.shape[1:])


def one_of_each(
    drawn: Float[np.ndarray, "s m ..."], n_completions: int, u: Float[np.ndarray, "s n"]
) -> Float[np.ndarray, "s n ..."]:
    """Of draws for all completions keep one a row, chosen by uniform numbers."""
    at = np.floor(u * n_completions).astype(int) + n_completions * np.arange(u.shape[1])
    return np.take_along_axis(drawn, at.reshape(*at.shape, *(1,) * (drawn.ndim - 2)), axis=1)
