"""Does the model know how wrong it is? What was promised against what came, beside chance.

Of numbers: PIT values and coverage. Of classes: shares against probabilities, and abstaining.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import special

from bayesprop.model.surest_first import surest_first

MIN_ROWS = 20
_BAND = 0.95
_N_BINS, _N_FINE_BINS, _MANY_ROWS = 10, 20, 2000
_N_POINTS = 100
_LEVELS = np.linspace(0.02, 0.98, 49)


@dataclass(frozen=True)
class PitHistogram:
    """Counts of PIT values in equal bins; a calibrated bin lies in [low, high] 95 times of 100."""

    edges: Float[np.ndarray, " bins_plus_one"]
    counts: Int[np.ndarray, " bins"]
    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class CoverageCurve:
    """Share of rows inside central intervals of each nominal level, and the 95 % band for it."""

    nominal: Float[np.ndarray, " levels"]
    actual: Float[np.ndarray, " levels"]
    low: Float[np.ndarray, " levels"]
    high: Float[np.ndarray, " levels"]


@dataclass(frozen=True)
class Diagram:
    """Rows grouped by a predicted probability; only groups that hold a row.

    predicted, actual
        Mean probability of the event in each group, and the share of rows where it came true.
    low, high
        The share of a calibrated model lies between them 95 times of 100.
    """

    predicted: Float[np.ndarray, " g"]
    actual: Float[np.ndarray, " g"]
    low: Float[np.ndarray, " g"]
    high: Float[np.ndarray, " g"]
    count: Int[np.ndarray, " g"]


@dataclass(frozen=True)
class Histogram:
    """How many right and wrong answers were given with each confidence."""

    edges: Float[np.ndarray, " bins_plus_one"]
    right: Int[np.ndarray, " bins"]
    wrong: Int[np.ndarray, " bins"]


@dataclass(frozen=True)
class Abstaining:
    """Errors among the surest rows, for growing shares of them.

    answered
        Share of the rows that are answered, the surest first.
    error, expected
        Share of wrong answers among them, and what their own confidences say it should be.
    std
        Standard error of `error` where `expected` is right.
    """

    answered: Float[np.ndarray, " g"]
    error: Float[np.ndarray, " g"]
    expected: Float[np.ndarray, " g"]
    std: Float[np.ndarray, " g"]


def binomial_band(
    n: int | Int[np.ndarray, " levels"], chance: Float[np.ndarray, " levels"]
) -> tuple[Float[np.ndarray, " levels"], Float[np.ndarray, " levels"]]:
    """Smallest counts k with P(K <= k) >= 2.5 % and >= 97.5 %, K ~ Binomial(n, chance)."""
    tail = (1.0 - _BAND) / 2.0
    return _binomial_quantile(tail, n, chance), _binomial_quantile(1.0 - tail, n, chance)


def _binomial_quantile(level: float, n: int | np.ndarray, chance: np.ndarray) -> np.ndarray:
    # bdtrik solves for a continuous k, and rounds either way near an integer; it is nan below 0.
    k = np.floor(np.nan_to_num(special.bdtrik(level, n, chance), nan=0.0))
    k = np.maximum(k - 1.0, 0.0)
    for _ in range(3):
        k = np.where(special.bdtr(k, n, chance) < level, k + 1.0, k)
    return np.minimum(k, n)


def pit_histogram(pit: Float[np.ndarray, " n"]) -> PitHistogram | None:
    """Count PIT values in 5 to 20 bins, about ten rows a bin; None below `MIN_ROWS` rows."""
    n = len(pit)
    if n < MIN_ROWS:
        return None
    n_bins = int(np.clip(n // 10, 5, 20))
    counts, edges = np.histogram(pit, bins=n_bins, range=(0.0, 1.0))
    low, high = binomial_band(n, np.array([1.0 / n_bins]))
    return PitHistogram(edges, counts, n / n_bins, float(low[0]), float(high[0]))


def coverage_curve(pit: Float[np.ndarray, " n"]) -> CoverageCurve | None:
    """Nominal against actual coverage of central intervals; None below `MIN_ROWS` rows."""
    n = len(pit)
    if n < MIN_ROWS:
        return None
    folded = np.sort(np.abs(2.0 * pit - 1.0))
    actual = np.searchsorted(folded, _LEVELS, side="right") / n
    low, high = binomial_band(n, _LEVELS)
    return CoverageCurve(_LEVELS, actual, low / n, high / n)


def diagram(
    probability: Float[np.ndarray, " n"], happened: Bool[np.ndarray, " n"]
) -> Diagram | None:
    """Group rows by the probability of an event, in bins of a tenth; None below `MIN_ROWS` rows.

    Beyond 2,000 rows the bins are half as wide.
    """
    n = len(probability)
    if n < MIN_ROWS:
        return None
    n_bins = _N_BINS if n < _MANY_ROWS else _N_FINE_BINS
    bins = np.minimum((probability * n_bins).astype(int), n_bins - 1)
    count = np.bincount(bins, minlength=n_bins)
    filled = count > 0
    count = count[filled]
    predicted = np.bincount(bins, weights=probability, minlength=n_bins)[filled] / count
    actual = np.bincount(bins, weights=happened, minlength=n_bins)[filled] / count
    low, high = binomial_band(count, np.clip(predicted, 1e-12, 1.0 - 1e-12))
    return Diagram(predicted, actual, low / count, high / count, count)


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
    order = surest_first(-confidence, ~right)
    sure, wrong = -order.uncertainty, order.loss
    kept = np.unique(np.ceil(np.arange(1, _N_POINTS + 1) / _N_POINTS * n).astype(int))
    kept = kept[kept >= min(10, n)]
    sums = (np.cumsum(values)[kept - 1] for values in (wrong, 1.0 - sure, sure * (1.0 - sure)))
    n_wrong, n_expected, var = sums
    return Abstaining(kept / n, n_wrong / kept, n_expected / kept, np.sqrt(var) / kept)
