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

from bayesprop.numerics.evidence import FIXED, Ascent, Bounds, Groups, Weights, ascend
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


class Point(NamedTuple):
    """What is believed of groups of leaves and, last, of free noise; all precisions.

    noise_prec
        Of the noise, as a multiple of the one it was.
    """

    weights: Weights
    log_evidence: float
    prior_prec: Float[np.ndarray, " l"]
    noise_prec: float


def maximise(
    curvature: Curvature,
    fit: Fit,
    squares: Float[np.ndarray, " l"],
    prior_prec: Float[np.ndarray, " l"],
    evidence: Evidence,
) -> Ascent:
    """Maximise the log evidence, from given precisions and the noise as it is, to a `Point`.

    squares
        Sum of squares of the weights of every leaf.
    """
    noise_is_free = evidence.noise and fit.misfit > 0.0
    groups = Groups(evidence.groups(len(squares)))
    start = groups.mean(prior_prec)
    start = np.append(start, 1.0) if noise_is_free else start

    def at(by_group: np.ndarray, _: Point | None) -> Point:
        by_group, b = (by_group[:-1], float(by_group[-1])) if noise_is_free else (by_group, 1.0)
        prec = groups.spread(by_group, prior_prec)
        log_det, traces = curvature.spread(prec, b)
        likelihood = fit.log_likelihood + 0.5 * (
            fit.misfit * (1.0 - b) + fit.n_values * float(np.log(b))
        )
        prior = float(np.sum(curvature.sizes * np.log(prec) - prec * squares))
        weights = groups.weights(by_group, squares, traces, curvature.sizes)
        if noise_is_free:
            gamma = max(float(np.sum(curvature.sizes) - prec @ traces), 0.0)
            weights = weights.with_noise(b, fit.n_values, fit.misfit, gamma)
        return Point(weights, likelihood + 0.5 * (prior - log_det), prec, b)

    bounds = Bounds(np.full(len(start), _LEAST), np.full(len(start), _MOST))
    return ascend(at, start, bounds, max_steps=evidence.max_steps, tolerance=evidence.tolerance)
