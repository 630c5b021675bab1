"""Does the model know how wrong it is? What was promised against what came, beside chance.

Of numbers: PIT values and coverage. Of classes: shares against probabilities, and abstaining. And
the statistics that a verdict needs.

Where rows belong to groups, whose errors are alike, chance is that of as many independent rows as
vary by as much: their number is n over the design effect (Kish 1965), the mean square of the sums
over groups (Liang & Zeger 1986) over the variance of independent rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy import special

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.metrics import bins_of, clustered_error, grouped, sums_of_groups, surest_first

MIN_ROWS = 20
_N_BINS, _N_FINE_BINS, _MANY_ROWS = 10, 20, 2000
_N_POINTS = 100
_LEVELS = np.linspace(0.02, 0.98, 49)
_LOG_TEMPERATURES = (-3.0, 3.0)
_LEAST_LOG_PROBA = -700.0
_NOMINAL, _MOST_GROUPS = 0.9, 5


class PitHistogram(NamedTuple):
    """Counts of PIT values in equal bins; a calibrated bin lies in [low, high] 95 times of 100."""

    edges: Float[np.ndarray, " bins_plus_one"]
    counts: Int[np.ndarray, " bins"]
    expected: float
    low: Float[np.ndarray, " bins"]
    high: Float[np.ndarray, " bins"]


class Promise(NamedTuple):
    """Shares that were promised and those that came.

    low, high
        95 % range of `actual` if the model is calibrated.
    """

    promised: Float[np.ndarray, " g"]
    actual: Float[np.ndarray, " g"]
    low: Float[np.ndarray, " g"]
    high: Float[np.ndarray, " g"]
    n_rows: Int[np.ndarray, " g"]


class Histogram(NamedTuple):
    """Numbers of right and wrong predictions by confidence."""

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


def pit_histogram(
    pit: Float[np.ndarray, " n"], group: Shaped[np.ndarray, " n"] | None = None
) -> PitHistogram | None:
    """Count PIT values in 5 to 20 bins, about ten rows a bin; None below `MIN_ROWS` rows.

    group
        Labels of rows that belong together. Two bins as far from the ends share a design effect.
    """
    n = len(pit)
    if n < MIN_ROWS:
        return None
    n_bins = int(np.clip(n // 10, 5, 20))
    counts, edges = np.histogram(pit, bins=n_bins, range=(0.0, 1.0))
    share, bins = np.full(n_bins, 1.0 / n_bins), np.digitize(pit, edges[1:-1])
    away = ((bins == k) - share[k] for k in range(n_bins))
    mirrored = np.eye(n_bins) + np.eye(n_bins)[::-1]
    effect = design_effect(away, n * share * (1.0 - share), group, mirrored)
    low, high = _band(share, np.full(n_bins, n), effect)
    return PitHistogram(edges, counts, n / n_bins, low, high)


def coverage_curve(
    pit: Float[np.ndarray, " n"], group: Shaped[np.ndarray, " n"] | None = None
) -> Promise | None:
    """Nominal against actual coverage of central intervals; None below `MIN_ROWS` rows.

    group
        Labels of rows that belong together.
    """
    n = len(pit)
    if n < MIN_ROWS:
        return None
    folded = np.abs(2.0 * pit - 1.0)
    inside = np.searchsorted(np.sort(folded), _LEVELS, side="right")
    away = ((folded <= level) - level for level in _LEVELS)
    effect = design_effect(away, n * _LEVELS * (1.0 - _LEVELS), group, near(len(_LEVELS), 7))
    return _beside_chance(_LEVELS, inside / n, np.full(len(_LEVELS), n), effect)


def diagram(
    probability: Float[np.ndarray, " n"],
    happened: Bool[np.ndarray, " n"],
    group: Shaped[np.ndarray, " n"] | None = None,
) -> Promise | None:
    """Sort rows by the probability of an event, in bins of a tenth; None below `MIN_ROWS` rows.

    Beyond 2,000 rows the bins are half as wide. Only bins that hold a row are returned.

    group
        Labels of rows that belong together.
    """
    n = len(probability)
    if n < MIN_ROWS:
        return None
    n_bins = _N_BINS if n < _MANY_ROWS else _N_FINE_BINS
    groups, bins = grouped(probability, happened, n_bins), bins_of(probability, n_bins)
    away = ((bins == k) * (happened - probability) for k in np.unique(bins))
    var = np.bincount(bins, probability * (1.0 - probability))[np.unique(bins)]
    effect = design_effect(away, var, group, near(len(var), 1))
    return _beside_chance(groups.confidence, groups.accuracy, groups.count, effect)


def _beside_chance(
    promised: np.ndarray, came: np.ndarray, count: np.ndarray, effect: np.ndarray | float
) -> Promise:
    low, high = _band(promised, count, effect)
    return Promise(promised, came, low / count, high / count, count)


def _band(
    promised: np.ndarray, count: np.ndarray, effect: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
    """Bound the counts among so many rows, which vary as if they were `effect` times fewer."""
    from scipy import stats

    chance = np.clip(promised, 1e-12, 1.0 - 1e-12)
    n = np.maximum(np.round(count / effect), 1.0)
    low, high = (stats.binom.ppf(tail, n, chance) * (count / n) for tail in (0.025, 0.975))
    return low, high


def design_effect(
    away: Iterable[Float[np.ndarray, " n"]],
    independent: Float[np.ndarray, " k"],
    group: Shaped[np.ndarray, " n"] | None,
    alike: Shaped[np.ndarray, "k k"],
) -> np.ndarray | float:
    """Return how many times as much counts of grouped rows vary as those of independent ones.

    away
        For each of k events, which rows it happened to, less the probability that it should.
    independent
        Variance of the count of each, were the rows independent.
    alike
        Weights by which events are pooled, because few groups tell little of each.
    """
    if group is None:
        return 1.0
    codes = np.unique(group, return_inverse=True)[1]
    var = np.array([np.sum(sums_of_groups(rows, codes) ** 2) for rows in away])
    pooled = np.maximum(alike @ independent, np.finfo(float).tiny)
    return np.maximum((alike @ var) / pooled, 1.0 / len(group))


def near(k: int, distance: int) -> Bool[np.ndarray, "k k"]:
    """Return which of k events in a row are at most so far apart."""
    return np.abs(np.arange(k)[:, None] - np.arange(k)) <= distance


def histogram(
    confidence: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"], c: int
) -> Histogram:
    """Count in bins of a twentieth, from the least confidence that c classes allow."""
    edges = np.linspace(0.0, 1.0, 21)
    edges = edges[np.searchsorted(edges, 1.0 / c, side="right") - 1 :]
    counts = [np.histogram(confidence[at], bins=edges)[0] for at in (right, ~right)]
    return Histogram(edges, *counts)


def abstaining(
    confidence: Float[np.ndarray, " n"],
    right: Bool[np.ndarray, " n"],
    group: Shaped[np.ndarray, " n"] | None = None,
) -> Abstaining | None:
    """Measure the errors among the surest 1, 2, ... 100 % of the rows; None below `MIN_ROWS`.

    Shares of fewer than ten rows are left out. Rows of equal confidence stand in for each other:
    each counts with their mean error.

    group
        Labels of rows that belong together.
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
    order = np.argsort(-confidence, kind="stable")
    excess = (confidence - right)[order]
    away = (excess * (np.arange(n) < size) for size in kept)
    effect = design_effect(away, var, None if group is None else group[order], near(len(kept), 7))
    return Abstaining(kept / n, n_wrong / kept, n_expected / kept, np.sqrt(effect * var) / kept)


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
    from scipy import optimize

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


class GroupCoverage(NamedTuple):
    """Share of the rows of a group, or of many, inside 90 % intervals.

    error
        Standard error: of many groups over these, NaN where there is one; of a group that of so
        many independent rows at 90 %.
    """

    name: str
    n_rows: int
    coverage: float
    error: float

    @property
    def facts(self) -> dict[str, str | int | float | None]:
        """The fields as JSON has them."""
        return self._asdict() | {"error": None if np.isnan(self.error) else self.error}

    @property
    def words(self) -> tuple[str, str, str, str]:
        """The fields as tables show them."""
        error = "" if np.isnan(self.error) else f"{self.error:.2f}"
        return self.name, f"{self.n_rows:,}", f"{self.coverage:.2f}", error


def coverage_by_group(
    predicted: Predictive,
    y: Float[np.ndarray, " n"],
    group: Shaped[np.ndarray, " n"],
    is_known: Bool[np.ndarray, " n"] | None = None,
) -> tuple[GroupCoverage, ...]:
    """Compute it for known and for new groups, and for those least likely to be covered by 90 %.

    The latter by the binomial probability of so few rows inside; labels that begin with a space
    are of rows without a group.

    is_known
        Whether the effects of a row's groups are learnt; None: no effects are.
    """
    low, high = predicted.interval(_NOMINAL).T
    inside, rows = (low <= y) & (y <= high), []
    kinds = {"all groups": np.ones(len(y), bool)}
    if is_known is not None:
        kinds = {"known groups": is_known, "new groups": ~is_known}
    for name, at in kinds.items():
        if at.any():
            error = clustered_error(inside[at].astype(float), group[at])
            rows.append(GroupCoverage(name, int(at.sum()), float(inside[at].mean()), error))
    names, code, n = np.unique(group, return_inverse=True, return_counts=True)
    k = np.bincount(code, inside)
    chance = special.bdtr(k, n, _NOMINAL)
    is_listed = (k < _NOMINAL * n) & ~np.char.startswith(names.astype(str), " ")
    for g in [g for g in np.argsort(chance, kind="stable") if is_listed[g]][:_MOST_GROUPS]:
        error = float(np.sqrt(_NOMINAL * (1.0 - _NOMINAL) / n[g]))
        rows.append(GroupCoverage(str(names[g]), int(n[g]), float(k[g] / n[g]), error))
    return tuple(rows)
