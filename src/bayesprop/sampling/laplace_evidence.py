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
        """Leaves with the same number share a precision; -1: known."""
        if self.prior == "by-leaf":
            return np.arange(n_leaves)
        return np.full(n_leaves, 0 if self.prior == "one" else -1)


BY_LEAF = Evidence()


class Maximised(NamedTuple):
    """Where the evidence is greatest, and how that was found.

    noise_factor
        The noise variance is this many times the one it was.
    gamma
        Well-determined weights of every leaf.
    trace
        Log evidence after every step, nats.
    n_repaired
        Steps of MacKay's that lowered the evidence, and were replaced.
    """

    prior_prec: Float[np.ndarray, " l"]
    noise_factor: float
    gamma: Float[np.ndarray, " l"]
    trace: list[float]
    converged: bool
    n_repaired: int


class _Point(NamedTuple):
    prec: Float[np.ndarray, " l"]
    b: float
    value: float
    traces: Float[np.ndarray, " l"]
    gamma: Float[np.ndarray, " l"]


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
    problem = _Problem(curvature, fit, squares, evidence)
    point = problem.at(prior_prec, 1.0)
    trace, n_repaired = [point.value], 0
    for _ in range(evidence.max_steps):
        if problem.gradient(point) < evidence.tolerance:
            break
        ahead = problem.at(*problem.mackay(point))
        if not ahead.value >= point.value - 1e-10 * (1.0 + abs(point.value)):
            ahead = problem.at(*problem.uphill(point))
            n_repaired += 1
        point = ahead
        trace.append(point.value)
    converged = problem.gradient(point) < evidence.tolerance
    return Maximised(point.prec, 1.0 / point.b, point.gamma, trace, converged, n_repaired)


class _Problem:
    """The evidence as a function, its derivatives, and the two steps."""

    def __init__(
        self, curvature: Curvature, fit: Fit, squares: np.ndarray, evidence: Evidence
    ) -> None:
        self._curvature, self._fit, self._squares = curvature, fit, squares
        self._groups = evidence.groups(len(squares))
        self._noise_is_free = evidence.noise and fit.misfit > 0.0

    def at(self, prec: np.ndarray, b: float) -> _Point:
        sizes, fit = self._curvature.sizes, self._fit
        log_det, traces = self._curvature.spread(prec, b)
        likelihood = fit.log_likelihood + 0.5 * (
            fit.misfit * (1.0 - b) + fit.n_values * float(np.log(b))
        )
        prior = float(np.sum(sizes * np.log(prec) - prec * self._squares))
        gamma = np.clip(sizes - prec * traces, 0.0, sizes)
        return _Point(prec, b, likelihood + 0.5 * (prior - log_det), traces, gamma)

    def gradient(self, point: _Point) -> float:
        """Largest derivative by a logarithm, without those that push against a bound."""
        slopes = self._summed(0.5 * (point.gamma - point.prec * self._squares))
        at_most = (point.prec >= _MOST) & (slopes > 0.0)
        at_least = (point.prec <= _LEAST) & (slopes < 0.0)
        largest = float(np.max(np.where(at_most | at_least, 0.0, np.abs(slopes)), initial=0.0))
        if not self._noise_is_free:
            return largest
        slope = 0.5 * (self._fit.n_values - point.gamma.sum() - point.b * self._fit.misfit)
        is_bound = (point.b >= _MOST and slope > 0.0) or (point.b <= _LEAST and slope < 0.0)
        return largest if is_bound else max(largest, abs(float(slope)))

    def mackay(self, point: _Point) -> tuple[np.ndarray, float]:
        """Take MacKay's step; of the noise not where more is determined than was observed."""
        left = self._fit.n_values - float(point.gamma.sum())
        b = left / self._fit.misfit if self._noise_is_free and left > 0.0 else self.uphill(point)[1]
        return self._ratio(point, point.gamma, self._squares), float(np.clip(b, _LEAST, _MOST))

    def uphill(self, point: _Point) -> tuple[np.ndarray, float]:
        """Take the step that never lowers the evidence."""
        prec = self._ratio(point, self._curvature.sizes, self._squares + point.traces)
        if not self._noise_is_free:
            return prec, point.b
        b = self._fit.n_values / (self._fit.misfit + float(point.gamma.sum()) / point.b)
        return prec, float(np.clip(b, _LEAST, _MOST))

    def _ratio(self, point: _Point, above: np.ndarray, below: np.ndarray) -> np.ndarray:
        above, below = self._summed(above), self._summed(below)
        ratio = np.where(below > 0.0, above / np.where(below > 0.0, below, 1.0), _MOST)
        return np.where(self._groups < 0, point.prec, np.clip(ratio, _LEAST, _MOST))

    def _summed(self, values: np.ndarray) -> np.ndarray:
        """Sum over the leaves that share a precision; 0 where it is known."""
        same = (self._groups[:, None] == self._groups) & (self._groups >= 0)
        return same.astype(np.float64) @ values
