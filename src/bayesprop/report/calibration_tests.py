"""Tests of calibration, and the temperature that would mend it: statistics, no words."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy import optimize, special

from bayesprop.model.class_predictive import ClassPredictive

_LOG_TEMPERATURES = (-3.0, 3.0)
_LEAST_LOG_PROBA = -700.0


def anderson_darling(u: Float[np.ndarray, " n"]) -> float:
    """A² of a sample against the uniform law: -n - mean_i (2i - 1) log[u_i (1 - u_{n+1-i})]."""
    n = len(u)
    ordered = np.clip(np.sort(u), 1e-300, 1.0 - 1e-16)
    odd = 2.0 * np.arange(1, n + 1) - 1.0
    return float(-n - np.mean(odd * (np.log(ordered) + np.log1p(-ordered[::-1]))))


def ks_distance(u: Float[np.ndarray, " n"]) -> float:
    """Largest distance between the distribution of a sample and the uniform one."""
    n = len(u)
    ordered = np.sort(u)
    above = np.max(np.arange(1, n + 1) / n - ordered)
    return float(max(above, np.max(ordered - np.arange(n) / n)))


def ks_chance(distance: float, n: int) -> float:
    """P(a uniform sample of n lies at least this far off), with Stephens's (1970) correction."""
    root = np.sqrt(n)
    return float(special.kolmogorov((root + 0.12 + 0.11 / root) * distance))


def chance_of_flat(counts: Int[np.ndarray, " bins"]) -> float:
    """P(rows that fall into any bin alike fill them as unevenly), by Pearson's chi-square."""
    expected = np.mean(counts)
    statistic = float(np.sum((counts - expected) ** 2) / expected)
    return float(special.chdtrc(len(counts) - 1, statistic))


def chance_of_sum(total: float, p: Float[np.ndarray, " n"]) -> float:
    """P(a sum of independent Bernoulli(p_i) lies as far from its mean as `total`), two-sided.

    Twice the smaller tail: P(S >= k) = Phi(-z) - g (1 - z²) phi(z) / 6 with the skewness g and the
    continuity correction z = (k - 1/2 - mean) / std (the refined normal approximation of Volkova
    1996). A chance of one in a hundred is right to a tenth of itself, for a mean of one to a half.
    """
    mean, var = float(np.sum(p)), float(np.sum(p * (1.0 - p)))
    side = 1.0 if total >= mean else -1.0
    beyond = side * (total - mean) - 0.5
    if beyond <= 0.0:
        return 1.0
    if var <= 0.0:
        return 0.0
    z = beyond / np.sqrt(var)
    skewness = side * float(np.sum(p * (1.0 - p) * (1.0 - 2.0 * p))) / var**1.5
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    tail = special.ndtr(-z) - skewness * (1.0 - z * z) * density / 6.0
    return float(np.clip(2.0 * tail, 0.0, 1.0))


def temperature(predicted: ClassPredictive, y: np.ndarray) -> float:
    """Find T such that probabilities proportional to p^(1/T) fit the labels best.

    Above 1 for a model that is too sure (Guo et al. 2017, s. 4.2).
    """
    with np.errstate(divide="ignore"):
        log_proba = np.maximum(np.log(predicted.proba), _LEAST_LOG_PROBA)
    at = np.arange(len(y)), predicted.codes(y)

    def loss(log_t: float) -> float:
        tempered = log_proba / np.exp(log_t)
        return float(np.sum(special.logsumexp(tempered, axis=1) - tempered[at]))

    optimum: optimize.OptimizeResult = optimize.minimize_scalar(
        loss, bounds=_LOG_TEMPERATURES, method="bounded"
    )
    return float(np.exp(optimum.x))
