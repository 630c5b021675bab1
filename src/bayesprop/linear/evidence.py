"""Noise and prior precision of a linear regression that maximise its evidence.

MacKay (1992), "Bayesian interpolation"; the fixed point as Bishop (2006), eqs. 3.91-3.95, and with
one precision a feature (automatic relevance determination) eqs. 7.87, 7.88. Its steps may
overshoot: one that lowers the evidence is replaced by a step of expectation maximisation (Bishop,
eqs. 9.63, 9.67, 9.68), which cannot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.linear import precisions
from bayesprop.linear.precisions import FIXED, Groups, Weights
from bayesprop.linear.regression import (
    LinearPosterior,
    Solved,
    Statistics,
    gaussian_log_evidence,
    known_noise,
    solve,
)

_MOST, _LEAST = 1e12, 1e-12  # of a precision, times what the data say; of a noise variance
_SLACK = 1e-10


class EvidenceInfo(NamedTuple):
    """How the maximisation of one output went.

    trace
        Log evidence after every step, nats.
    gradient
        Largest derivative of the log evidence by a log precision that is still free, nats.
    converged
        Whether that is below the tolerance.
    n_repaired
        Steps of the fixed point that lowered the evidence, and were replaced.
    at_bound
        Whether the noise variance reached 1e-12 of the mean square of y: no noise was found.
    """

    trace: list[float]
    gradient: float
    converged: bool
    n_repaired: int
    at_bound: bool


class Maximised(NamedTuple):
    """Posterior at the maximum, what maximises, and how it was found."""

    posterior: LinearPosterior
    prior_prec: Float[np.ndarray, "o k"]
    info: tuple[EvidenceInfo, ...]


class _Free(NamedTuple):
    """What may move, and how far."""

    groups: Groups
    noise: bool
    least_noise: float
    tolerance: float


class _Point(NamedTuple):
    """Values of the hyper-parameters of one output, and all that follows from them.

    error
        Sum of squared residuals of the mean.
    """

    weights: Weights
    noise_var: float
    log_evidence: float
    error: float

    @property
    def n_well_determined(self) -> float:
        """MacKay's gamma of all weights together."""
        return float(np.sum(self.weights.well_determined))


def maximise(
    state: Statistics,
    prior_prec: Float[np.ndarray, " k"],
    groups: Int[np.ndarray, " k"],
    *,
    noise_var: Float[np.ndarray, " o"] | None = None,
    max_steps: int = 1000,
    tolerance: float = 1e-6,
) -> Maximised:
    """Maximise the log evidence of every output over precisions and noise, each on its own.

    prior_prec
        Of weights whose precision is `FIXED`; elsewhere it is not looked at.
    groups
        Weights with the same number share a precision; `FIXED` (-1) keeps it, as an intercept's
        broad prior should be. 0, 0, 0, ...: one precision; 0, 1, 2, ...: relevance of each.
    noise_var
        y², where it is known; None: found with the precisions.
    tolerance
        Largest derivative of the log evidence by a log precision at the end, nats.
    """
    found = [
        _maximise_one(
            state,
            output,
            np.asarray(prior_prec, dtype=np.float64),
            np.asarray(groups),
            None if noise_var is None else float(noise_var[output]),
            max_steps,
            tolerance,
        )
        for output in range(state.target.shape[1])
    ]
    precs = np.stack([point.weights.prec for point, _ in found])
    noise = np.array([point.noise_var for point, _ in found])
    return Maximised(known_noise(state, precs, noise), precs, tuple(info for _, info in found))


def _maximise_one(
    state: Statistics,
    output: int,
    prior_prec: np.ndarray,
    groups: np.ndarray,
    noise_var: float | None,
    max_steps: int,
    tolerance: float,
) -> tuple[_Point, EvidenceInfo]:
    free, point = _start(state, output, prior_prec, groups, noise_var, tolerance)
    trace, n_repaired = [point.log_evidence], 0
    for _ in range(max_steps):
        if _gradient(state, point, free) < tolerance:
            break
        ahead = _at(state, output, *_mackay(state, point, free))
        if not ahead.log_evidence >= point.log_evidence - _slack(point):
            ahead = _at(state, output, *_em(state, point, free))
            n_repaired += 1
        point = ahead
        trace.append(point.log_evidence)
    gradient = _gradient(state, point, free)
    at_bound = free.noise and point.noise_var <= free.least_noise
    return point, EvidenceInfo(trace, gradient, gradient < tolerance, n_repaired, at_bound)


def _slack(point: _Point) -> float:
    return _SLACK * (1.0 + abs(point.log_evidence))


def _start(
    state: Statistics,
    output: int,
    prior_prec: np.ndarray,
    groups: np.ndarray,
    noise_var: float | None,
    tolerance: float,
) -> tuple[_Free, _Point]:
    """Start where the prior of the function has the mean square of y, whatever the units."""
    n = max(state.weight_sum, 1.0)
    target = np.vstack([state.target, state.residual])[:, output]
    square_y = float(np.sum(target**2)) / n
    square_y = square_y if square_y > 0.0 else 1.0
    square_phi = np.sum(state.design**2, axis=0) / n
    is_free = groups != FIXED
    total = float(np.sum(square_phi[is_free]))
    usual = np.where(square_phi > 0.0, square_phi, total if total > 0.0 else 1.0) / square_y
    free = _Free(
        groups=Groups(
            groups,
            least=np.where(is_free, _LEAST * usual, 0.0),
            most=np.where(is_free, _MOST * n * usual, np.inf),
        ),
        noise=noise_var is None,
        least_noise=_LEAST * square_y,
        tolerance=tolerance,
    )
    start = np.where(is_free, (total if total > 0.0 else 1.0) / square_y, prior_prec)
    if np.unique(groups[is_free]).size > 1:
        start = np.where(is_free, np.sum(is_free) * usual, start)
    return free, _at(state, output, start, square_y if noise_var is None else noise_var)


def _at(state: Statistics, output: int, prec: np.ndarray, noise_var: float) -> _Point:
    solved: Solved = solve(state, output, prec * noise_var)
    weights = Weights(prec, solved.mean**2, noise_var * np.sum(solved.root**2, axis=1))
    return _Point(
        weights=weights,
        noise_var=noise_var,
        log_evidence=gaussian_log_evidence(state, solved, prec * noise_var, noise_var),
        error=max(solved.penalised - noise_var * float(np.sum(prec * weights.square)), 0.0),
    )


def _gradient(state: Statistics, point: _Point, free: _Free) -> float:
    """Largest derivative by a log precision, without those that push against a bound."""
    largest = precisions.gradient(point.weights, free.groups)
    if free.noise and point.noise_var > free.least_noise:
        left = state.weight_sum - point.n_well_determined
        largest = max(largest, 0.5 * abs(left - point.error / point.noise_var))
    return largest


def _mackay(state: Statistics, point: _Point, free: _Free) -> tuple[np.ndarray, float]:
    """Prior precision gamma / m², noise variance error / (n - gamma)."""
    left = state.weight_sum - point.n_well_determined
    noise = point.error / left if left > 0.0 else free.least_noise
    noise = max(noise, free.least_noise) if free.noise else point.noise_var
    return precisions.mackay(point.weights, free.groups), noise


def _em(state: Statistics, point: _Point, free: _Free) -> tuple[np.ndarray, float]:
    """Prior precision 1 / E[w²], noise variance E[residual²]: slower, and never downhill."""
    spent = point.noise_var * point.n_well_determined
    noise = (point.error + spent) / max(state.weight_sum, 1.0)
    noise = max(noise, free.least_noise) if free.noise else point.noise_var
    return precisions.em(point.weights, free.groups), noise
