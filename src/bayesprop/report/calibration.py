"""Does the model know how wrong it is? What was promised against what came, beside chance.

Of numbers: PIT values and coverage. Of classes: shares against probabilities, and abstaining. And
the statistics that a verdict needs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import optimize, special, stats

from bayesprop.metrics import grouped
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.ranking import surest_first

MIN_ROWS = 20
_N_BINS, _N_FINE_BINS, _MANY_ROWS = 10, 20, 2000
_N_POINTS = 100
_LEVELS = np.linspace(0.02, 0.98, 49)
_LOG_TEMPERATURES = (-3.0, 3.0)
_LEAST_LOG_PROBA = -700.0


class PitHistogram(NamedTuple):
    """Counts of PIT values in equal bins; a calibrated bin lies in [low, high] 95 times of 100."""

    edges: Float[np.ndarray, " bins_plus_one"]
    counts: Int[np.ndarray, " bins"]
    expected: float
    low: float
    high: float


class Promise(NamedTuple):
    """Shares that were promised and those that came.

    low, high
        What comes of an honest promise lies between them 95 times of 100.
    """

    promised: Float[np.ndarray, " g"]
    actual: Float[np.ndarray, " g"]
    low: Float[np.ndarray, " g"]
    high: Float[np.ndarray, " g"]
    n_rows: Int[np.ndarray, " g"]


class Histogram(NamedTuple):
    """How many right and wrong answers were given with each confidence."""

    edges: Float[np.ndarray, " bins_plus_one"]
    right: Int[np.ndarray, " bins"]
    wrong: Int[np.ndarray, " bins"]


class Abstaining(NamedTuple):
    """Errors among the surest rows, for growing shares of them.

    error, expected
        Share of wrong answers among them, and what their own confidences say it should be.
    std
        Standard error of `error` where `expected` is right.
    """

    answered: Float[np.ndarray, " g"]
    error: Float[np.ndarray, " g"]
    expected: Float[np.ndarray, " g"]
    std: Float[np.ndarray, " g"]


def pit_histogram(pit: Float[np.ndarray, " n"]) -> PitHistogram | None:
    """Count PIT values in 5 to 20 bins, about ten rows a bin; None below `MIN_ROWS` rows."""
    n = len(pit)
    if n < MIN_ROWS:
        return None
    n_bins = int(np.clip(n // 10, 5, 20))
    counts, edges = np.histogram(pit, bins=n_bins, range=(0.0, 1.0))
    low, high = stats.binom.ppf((0.025, 0.975), n, 1.0 / n_bins)
    return PitHistogram(edges, counts, n / n_bins, float(low), float(high))


def coverage_curve(pit: Float[np.ndarray, " n"]) -> Promise | None:
    """Nominal against actual coverage of central intervals; None below `MIN_ROWS` rows."""
    n = len(pit)
    if n < MIN_ROWS:
        return None
    folded = np.sort(np.abs(2.0 * pit - 1.0))
    inside = np.searchsorted(folded, _LEVELS, side="right")
    return _beside_chance(_LEVELS, inside / n, np.full(len(_LEVELS), n))


def diagram(
    probability: Float[np.ndarray, " n"], happened: Bool[np.ndarray, " n"]
) -> Promise | None:
    """Group rows by the probability of an event, in bins of a tenth; None below `MIN_ROWS` rows.

    Beyond 2,000 rows the bins are half as wide. Only groups that hold a row are returned.
    """
    n = len(probability)
    if n < MIN_ROWS:
        return None
    groups = grouped(probability, happened, _N_BINS if n < _MANY_ROWS else _N_FINE_BINS)
    return _beside_chance(groups.confidence, groups.accuracy, groups.count)


def _beside_chance(promised: np.ndarray, came: np.ndarray, count: np.ndarray) -> Promise:
    chance = np.clip(promised, 1e-12, 1.0 - 1e-12)
    low, high = (stats.binom.ppf(tail, count, chance) / count for tail in (0.025, 0.975))
    return Promise(promised, came, low, high, count)


def histogram(
    confidence: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"], c: int
) -> Histogram:
    """Count in bins of a twentieth, from the least confidence that c classes allow."""
    edges = np.linspace(0.0, 1.0, 21)
    edges = edges[np.searchsorted(edges, 1.0 / c, side="right") - 1 :]
    counts = [np.histogram(confidence[at], bins=edges)[0] for at in (right, ~right)]
    return Histogram(edges, *counts)


def abstaining(
    confidence: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]
) -> Abstaining | None:
    """Measure the errors among the surest 1, 2, ... 100 % of the rows; None below `MIN_ROWS`.

    Shares of fewer than ten rows are left out. Rows of equal confidence stand in for each other:
    each counts with their mean error.
    """
    n = len(confidence)
    if n < MIN_ROWS:
        return None
    unsure, wrong = surest_first(-confidence, ~right)
    sure = -unsure
    kept = np.unique(np.ceil(np.arange(1, _N_POINTS + 1) / _N_POINTS * n).astype(int))
    kept = kept[kept >= min(10, n)]
    sums = (np.cumsum(values)[kept - 1] for values in (wrong, 1.0 - sure, sure * (1.0 - sure)))
    n_wrong, n_expected, var = sums
    return Abstaining(kept / n, n_wrong / kept, n_expected / kept, np.sqrt(var) / kept)


def anderson_darling(u: Float[np.ndarray, " n"]) -> float:
    """A² of a sample against the uniform law: -n - mean_i (2i - 1) log[u_i (1 - u_{n+1-i})]."""
    n = len(u)
    ordered = np.clip(np.sort(u), 1e-300, 1.0 - 1e-16)
    odd = 2.0 * np.arange(1, n + 1) - 1.0
    return float(-n - np.mean(odd * (np.log(ordered) + np.log1p(-ordered[::-1]))))


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
