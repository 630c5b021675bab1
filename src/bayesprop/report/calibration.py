"""Does the model know how wrong it is? PIT, coverage, and a verdict that allows for chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from bayesprop.report.words import number, percent

MIN_ROWS = 20
_BAND = 0.95
_SIGNIFICANCE = 0.01
_SMALL = 0.03
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
class Verdict:
    """Calibration in words. `tone` is "good", "caution" or "unknown"."""

    tone: str
    headline: str
    details: tuple[str, ...]


def binomial_band(
    n: int, chance: Float[np.ndarray, " levels"]
) -> tuple[Float[np.ndarray, " levels"], Float[np.ndarray, " levels"]]:
    """Smallest counts k with P(K <= k) >= 2.5 % and >= 97.5 %, K ~ Binomial(n, chance)."""
    tail = (1.0 - _BAND) / 2.0
    return _binomial_quantile(tail, n, chance), _binomial_quantile(1.0 - tail, n, chance)


def _binomial_quantile(level: float, n: int, chance: np.ndarray) -> np.ndarray:
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


def ks_statistics(u: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """How far the distribution of u rises above the uniform one, and how far it falls below."""
    n = len(u)
    ordered = np.sort(u)
    above = np.max(np.arange(1, n + 1) / n - ordered)
    below = np.max(ordered - np.arange(n) / n)
    return float(above), float(below)


def ks_chance(distance: float, n: int) -> float:
    """P(a uniform sample of n lies at least this far off), with Stephens's (1970) correction."""
    root = np.sqrt(n)
    return float(special.kolmogorov((root + 0.12 + 0.11 / root) * distance))


def judge(
    pit: Float[np.ndarray, " n"],
    stretch: float,
    held: tuple[tuple[float, float], ...],
) -> Verdict:
    """Say whether the intervals keep their promise, as far as this many rows can tell.

    stretch
        Factor by which the 90 % intervals would have to be widened to hold 90 % of the rows.
    held
        (nominal, actual) coverages, quoted in the text.

    Width is judged by a Kolmogorov-Smirnov test of |2 PIT - 1|, bias by the mean PIT, and the
    rest by the same test of the PIT itself, each at 1 %. What is significant but smaller than
    three percentage points is called small.
    """
    n = len(pit)
    counts = "; ".join(f"{percent(p)} intervals held {percent(a)}" for p, a in held)
    if n < MIN_ROWS:
        headline = f"Too few rows to judge: {n} of the {MIN_ROWS} that a verdict needs."
        return Verdict("unknown", headline, (f"The {counts}.",))
    faults, largest = _faults(pit, stretch)
    if not faults:
        close = "Differences of this size arise by chance."
        return Verdict(
            "good", f"Well calibrated, as far as {n:,} rows can tell.", (f"The {counts}. {close}",)
        )
    details = (*(detail for _, detail in faults), f"The {counts}.")
    if largest < _SMALL:
        headline = (
            f"Well calibrated: {n:,} rows show a deviation, but it is below "
            f"{percent(_SMALL)} at every level."
        )
        return Verdict("good", headline, details)
    return Verdict("caution", faults[0][0], details)


def _faults(pit: np.ndarray, stretch: float) -> tuple[list[tuple[str, str]], float]:
    """Headline and detail of every significant fault, and the largest distance among them."""
    n = len(pit)
    faults: list[tuple[str, str]] = []
    distances = [0.0]
    folded = ks_statistics(np.abs(2.0 * pit - 1.0))
    if ks_chance(max(folded), n) < _SIGNIFICANCE:
        faults.append(_width_fault(*folded, n, stretch))
        distances.append(max(folded))
    shift = float(np.mean(pit)) - 0.5
    # A uniform PIT has variance 1/12; 2.58 standard errors are the 1 % level.
    if abs(shift) > 2.58 / np.sqrt(12.0 * n):
        side, where = ("low", "above") if shift > 0 else ("high", "below")
        faults.append(
            (
                f"Biased: predictions sit too {side}.",
                f"{percent(float(np.mean((pit - 0.5) * shift > 0)))} of the rows lie "
                f"{where} their predicted median, where 50 % should.",
            )
        )
        distances.append(abs(shift))
    whole = max(ks_statistics(pit))
    if not faults and ks_chance(whole, n) < _SIGNIFICANCE:
        faults.append(
            (
                "The errors do not have the predicted shape.",
                "Widths and centre are right on average, but the histogram of PIT values is "
                "not flat: the noise is skewed or its size depends on the row.",
            )
        )
        distances.append(whole)
    return faults, max(distances)


def _width_fault(above: float, below: float, n: int, stretch: float) -> tuple[str, str]:
    # One-sided chance of the lesser distance: both at once mean crossing, hence wrong tails.
    if np.exp(-2.0 * n * min(above, below) ** 2) < _SIGNIFICANCE:
        return (
            "The errors have heavier or lighter tails than predicted.",
            "Narrow intervals and wide ones err in opposite directions: see the curve of nominal "
            "against actual coverage.",
        )
    too_narrow = below > above
    size = "The 90 % level is nearly right; the curve below shows the others."
    if (stretch > 1.0) == too_narrow:
        size = (
            f"To hold 90 % of these rows they would have to be {number(stretch, 2)} times as wide."
        )
    if too_narrow:
        return "Overconfident: the intervals are too narrow.", size
    return "Too cautious: the intervals are too wide.", size
