"""Does the model know how wrong it is? PIT and coverage, with the bands that chance explains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy import special

MIN_ROWS = 20
_BAND = 0.95
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
