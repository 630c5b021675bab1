"""Calibration in words: whether the intervals keep their promise, as far as the rows can tell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.report.calibration import MIN_ROWS
from bayesprop.report.words import number, percent

# Upper 2.5 % and 1 % points of Anderson and Darling's (1954) statistic against a known law.
_AD_HINT, _AD_CLEAR = 3.077, 3.878
_Z_HINT, _Z_CLEAR = 2.241, 2.576
_KS_CLEAR = 0.01
SMALL = 0.03
_CROSSING = 3.0


@dataclass(frozen=True)
class Verdict:
    """Calibration in words. `tone` is "good", "caution" or "unknown"."""

    tone: str
    headline: str
    details: tuple[str, ...]


@dataclass(frozen=True)
class Fault:
    """What is wrong, as a headline and its hedged form.

    size
        A distance in probability; small where it is below `limit`.
    """

    clear: str
    hint: str
    detail: str
    size: float
    is_clear: bool
    limit: float = SMALL


def judge(
    pit: Float[np.ndarray, " n"], stretch: float, held: tuple[tuple[float, float], ...]
) -> Verdict:
    """Say whether the intervals keep their promise.

    stretch
        Factor by which the 90 % intervals would have to grow to hold 90 % of the rows.
    held
        (nominal, actual) coverages, quoted in the text.

    Width is judged by the Anderson-Darling test of |2 PIT - 1|, which looks hard at the tails; bias
    by the mean PIT; what neither sees by a Kolmogorov-Smirnov test of the PIT. One chance in a
    hundred makes it clear, one in forty a hint. What is significant in a large table but smaller
    than three percentage points is called small.
    """
    n = len(pit)
    counts = "; ".join(f"{percent(p)} intervals held {percent(a)}" for p, a in held)
    if n < MIN_ROWS:
        headline = f"Too few rows to judge calibration: {n} of the {MIN_ROWS} that it needs."
        return Verdict("unknown", headline, (f"The {counts}.",))
    return pronounce(_faults(pit, stretch), n, f"The {counts}.", small=f"below {percent(SMALL)}")


def pronounce(faults: list[Fault], n: int, counts: str, *, small: str) -> Verdict:
    """Sum the faults up; `counts` is the sentence that quotes what was observed."""
    if not faults:
        text = f"{counts} Differences of this size arise by chance."
        return Verdict("good", f"Well calibrated, as far as {n:,} rows can tell.", (text,))
    details = (*(fault.detail for fault in faults), counts)
    if all(fault.size < fault.limit for fault in faults):
        headline = f"Well calibrated: what deviation {n:,} rows show is {small}."
        return Verdict("good", headline, details)
    worst = max(faults, key=lambda fault: (fault.is_clear, fault.size))
    return Verdict("caution", worst.clear if worst.is_clear else worst.hint, details)


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


def _faults(pit: np.ndarray, stretch: float) -> list[Fault]:
    found = [fault for fault in (_width(pit, stretch), _bias(pit)) if fault is not None]
    distance = ks_distance(pit)
    if not found and ks_chance(distance, len(pit)) < _KS_CLEAR:
        headline = "The errors do not have the predicted shape."
        detail = (
            "Widths and centre are right on average, but the histogram of PIT values is not flat: "
            "the noise is skewed, or it depends on the row."
        )
        found.append(Fault(headline, headline, detail, distance, is_clear=True))
    return found


def _bias(pit: np.ndarray) -> Fault | None:
    n, shift = len(pit), float(np.mean(pit)) - 0.5
    z = abs(shift) * np.sqrt(12.0 * n)
    if z < _Z_HINT:
        return None
    side, where = ("low", "above") if shift > 0.0 else ("high", "below")
    share = float(np.mean((pit - 0.5) * shift > 0.0))
    return Fault(
        f"Biased: predictions sit too {side}.",
        f"Perhaps biased: predictions seem to sit too {side}.",
        f"{percent(share)} of the rows lie {where} their predicted median, where 50 % should.",
        ks_distance(pit),
        bool(z > _Z_CLEAR),
    )


def _width(pit: np.ndarray, stretch: float) -> Fault | None:
    folded = np.abs(2.0 * pit - 1.0)
    statistic = anderson_darling(folded)
    if statistic < _AD_HINT:
        return None
    distance, is_clear = ks_distance(folded), statistic > _AD_CLEAR
    excess = _excess_coverage(folded)
    if min(np.max(excess), -np.min(excess)) > _CROSSING:
        headline = "The errors have other tails than predicted."
        detail = "Narrow intervals and wide ones err in opposite directions: see the coverage."
        return Fault(headline, headline, detail, distance, is_clear)
    too_narrow = np.max(excess) < -np.min(excess)
    detail = "The 90 % level is nearly right; the picture of coverage shows the others."
    if (stretch > 1.0) == too_narrow:
        detail = (
            f"To hold 90 % of these rows they would have to be {number(stretch, 2)} times as wide."
        )
    name, width = ("overconfident", "narrow") if too_narrow else ("too cautious", "wide")
    return Fault(
        f"{name.capitalize()}: the intervals are too {width}.",
        f"Perhaps {name}: the intervals look too {width}.",
        detail,
        distance,
        is_clear,
    )


def _excess_coverage(folded: np.ndarray) -> np.ndarray:
    """Actual minus nominal coverage at levels from 5 to 95 %, in standard errors."""
    levels = np.linspace(0.05, 0.95, 19)
    actual = np.searchsorted(np.sort(folded), levels, side="right") / len(folded)
    return (actual - levels) / np.sqrt(levels * (1.0 - levels) / len(folded))
