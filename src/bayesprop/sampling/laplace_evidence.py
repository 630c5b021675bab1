"""Prior precisions and noise that maximise Laplace's estimate of the evidence.

With b the factor of the noise precision, N values observed, Q their squared residuals over the
noise variance, and leaf l of the weights w having n_l weights of prior precision p_l:

    log p(y) ~ log p(y | w) + sum_l (n_l log p_l - p_l |w_l|²) / 2 - log |b H + P| / 2

(MacKay 1992, "A practical Bayesian framework for backpropagation networks", eq. 3.8; Immer et al.
2021, eq. 5) at fixed w and H. MacKay's fixed point is p = gamma / |w|², b = (N - gamma) / Q, with
gamma = n - p tr (b H + P)^-1 the well-determined weights. It may overshoot: a step that lowers the
evidence is replaced by p = n / (|w|² + tr), b = N / (Q + gamma / b). That one cannot: it maximises
what lies below the evidence and touches it here, because log |b H + P| is concave in b and p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.numerics import evidence as numerics
from bayesprop.numerics.evidence import FIXED, Groups, Weights
from bayesprop.sampling.curvature import Curvature

_LEAST, _MOST = 1e-8, 1e8


class Fit(NamedTuple):
    """How well the network at the mode fits, under its own noise.

    log_likelihood
        Sum over rows, nats.
    misfit
        Sum of squared residuals over the noise variance; 0 where the noise is not free.
    n_values
        Sum of the weights of the observed values.
    """

    log_likelihood: float
    misfit: float
    n_values: float


@dataclass(frozen=True)
class Evidence:
    """What is maximised over.

    prior
        "one" precision for all weights, one "by-leaf", or "known".
    noise
        Whether the noise variance is free; all targets' by a common factor.
    tolerance
        Largest derivative of the log evidence by a logarithm at the end, nats.
    """

    prior: str = "by-leaf"
    noise: bool = True
    max_steps: int = 200
    tolerance: float = 0.05

    def groups(self, n_leaves: int) -> Int[np.ndarray, " l"]:
        """Leaves with the same number share a precision; `FIXED`: known."""
        if self.prior == "by-leaf":
            return np.arange(n_leaves)
        return np.full(n_leaves, 0 if self.prior == "one" else FIXED)


BY_LEAF = Evidence()


class Maximised(NamedTuple):
    """Where the evidence is greatest, and how that was found.

    noise_factor
        The noise variance is this many times the one it was.
    trace, n_repaired
        As of `numerics.evidence.Ascent`.
    """

    prior_prec: Float[np.ndarray, " l"]
    noise_factor: float
    trace: list[float]
    converged: bool
    n_repaired: int


def maximise(
    curvature: Curvature,
    fit: Fit,
    squares: Float[np.ndarray, " l"],
    prior_prec: Float[np.ndarray, " l"],
    evidence: Evidence,
) -> Maximised:
    """Maximise the log evidence, starting from given precisions and the noise as it is.

    squares
        Sum of squares of the weights of every leaf.
    """
    n_leaves, tolerance = len(squares), evidence.tolerance
    bounds = np.full(n_leaves, _LEAST), np.full(n_leaves, _MOST)
    groups = Groups(evidence.groups(n_leaves), *bounds)
    problem = _Evidence(curvature, fit, squares, groups, evidence.noise and fit.misfit > 0.0)
    ascent = numerics.ascend(
        problem, problem.at(prior_prec, 1.0), max_steps=evidence.max_steps, tolerance=tolerance
    )
    prec, noise_factor = ascent.point.weights.prec, 1.0 / ascent.point.b
    is_found = ascent.gradient < tolerance
    return Maximised(prec, noise_factor, ascent.trace, is_found, ascent.n_repaired)


class _Point(NamedTuple):
    weights: Weights
    b: float
    log_evidence: float

    @property
    def n_well_determined(self) -> float:
        return float(self.weights.well_determined.sum())


@dataclass(frozen=True, eq=False)
class _Evidence:
    """The evidence as a function of the precisions and of b."""

    curvature: Curvature
    fit: Fit
    squares: Float[np.ndarray, " l"]
    groups: Groups
    noise_is_free: bool

    def at(self, prec: np.ndarray, b: float) -> _Point:
        sizes, fit = self.curvature.sizes, self.fit
        log_det, traces = self.curvature.spread(prec, b)
        likelihood = fit.log_likelihood + 0.5 * (
            fit.misfit * (1.0 - b) + fit.n_values * float(np.log(b))
        )
        prior = float(np.sum(sizes * np.log(prec) - prec * self.squares))
        weights = Weights(prec, self.squares, traces, sizes)
        return _Point(weights, b, likelihood + 0.5 * (prior - log_det))

    def gradient(self, point: _Point) -> float:
        largest = numerics.gradient(point.weights, self.groups)
        if not self.noise_is_free:
            return largest
        slope = 0.5 * (self.fit.n_values - point.n_well_determined - point.b * self.fit.misfit)
        is_bound = (point.b >= _MOST and slope > 0.0) or (point.b <= _LEAST and slope < 0.0)
        return largest if is_bound else max(largest, abs(slope))

    def mackay(self, point: _Point) -> _Point:
        """Take MacKay's step; of the noise not where more is determined than was observed."""
        undetermined = self.fit.n_values - point.n_well_determined
        b = undetermined / self.fit.misfit if undetermined > 0.0 and self.noise_is_free else None
        return self._moved(point, numerics.mackay(point.weights, self.groups), b)

    def em(self, point: _Point) -> _Point:
        return self._moved(point, numerics.em(point.weights, self.groups), None)

    def _moved(self, point: _Point, prec: np.ndarray, b: float | None) -> _Point:
        """Go to precisions and b; None: to what never lowers the evidence."""
        if not self.noise_is_free:
            return self.at(prec, point.b)
        if b is None:
            b = self.fit.n_values / (self.fit.misfit + point.n_well_determined / point.b)
        return self.at(prec, float(np.clip(b, _LEAST, _MOST)))
