"""Whether new rows are like the rows of the fit: tests with a stated rate of false alarms.

Of the fit's rows is known what the Gaussian copula of the inputs holds: up to 128 quantiles of
every column. A number is compared by the largest distance of the two distribution functions
(Kolmogorov 1933, Smirnov 1948), a share by a two-proportion test with Yates' correction; both less
what the quantiles may be off. Of several levels, and of all checks, the p-values are Holm's (1979).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy import special


class Check(NamedTuple):
    """One comparison of new rows with those of the fit.

    what
        Such as "age", "town = Kiel", "missing values of age" or "coverage_90".
    learnt, now
        Median or share in the rows of the fit, and in the new rows.
    p
        Probability of a difference as large without any change.
    alarm
        Whether that is too small for chance, all checks considered.
    """

    what: str
    learnt: float
    now: float
    p: float
    alarm: bool = False


@dataclass(frozen=True)
class Learnt:
    """What is known of a column in the rows of a fit.

    knots
        Its quantiles at equal steps, rising, (q,).
    n
        Rows that they come from.
    """

    knots: Float[np.ndarray, " q"]
    n: float

    @property
    def _off(self) -> float:
        """Largest error of a share that is read from the knots."""
        return 0.0 if self.n <= len(self.knots) else 0.5 / len(self.knots)

    def number(self, name: str, now: Float[np.ndarray, " m"]) -> Check:
        """Compare the distribution of a number, none of them NaN."""
        at = np.union1d(self.knots, now)
        ours, theirs = (
            np.searchsorted(np.sort(own), at, "right") / len(own) for own in (self.knots, now)
        )
        distance = max(0.0, float(np.max(np.abs(ours - theirs))) - self._off)
        n = self.n * len(now) / (self.n + len(now))
        p = float(special.kolmogorov(np.sqrt(n) * distance))
        return Check(name, float(np.median(self.knots)), float(np.median(now)), p)

    def share(self, name: str, now: Bool[np.ndarray, " m"]) -> Check:
        """Compare the share of a 0/1 column."""
        return proportions(name, float(self.knots.mean()), self.n, now, self._off)


def proportions(
    name: str, learnt: float, n: float, now: Bool[np.ndarray, " m"], off: float = 0.0
) -> Check:
    """Compare a share of n rows with that of others; both sides.

    off
        Largest error of the learnt share.
    """
    m, share = len(now), float(np.mean(now))
    pooled = learnt + (share - learnt) * m / (n + m)
    half = 0.5 * (1.0 / n + 1.0 / m)
    distance = max(0.0, abs(share - learnt) - half - off)
    std = np.sqrt(pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m))
    p = 1.0 if distance == 0.0 else float(2.0 * special.ndtr(-distance / std))
    return Check(name, learnt, share, p)


def worse(
    name: str, learnt: float, error: float, now: Float[np.ndarray, " m"], *, higher: bool
) -> Check:
    """Compare the mean of a score with that of held-out rows; one side: it has become worse.

    error
        Standard error of the learnt mean.
    higher
        Whether higher is better.
    """
    mean = float(np.mean(now))
    std = np.hypot(error, np.std(now, ddof=1) / np.sqrt(len(now)))
    loss = learnt - mean if higher else mean - learnt
    p = float(special.ndtr(-loss / std)) if std > 0.0 else float(loss <= 0.0)
    return Check(name, learnt, mean, p)


def least(checks: list[Check]) -> Check:
    """Return the smallest p-value of several, times their number."""
    smallest = min(checks, key=lambda check: check.p)
    return smallest._replace(p=min(1.0, smallest.p * len(checks)))


def with_alarms(checks: list[Check], rate: float) -> list[Check]:
    """Raise the alarms: any at all without a change at most at this rate (Holm's procedure)."""
    order, done = np.argsort([check.p for check in checks], kind="stable"), [*checks]
    for rank, k in enumerate(order):
        if not checks[k].p < rate / (len(checks) - rank):
            break
        done[k] = checks[k]._replace(alarm=True)
    return done
