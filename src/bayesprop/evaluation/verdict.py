"""Calibration in words: whether error bars keep their promise, as far as the rows can tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Shaped
from scipy import stats

from bayesprop import metrics
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.evaluation.calibration import (
    MIN_ROWS,
    anderson_darling,
    chance_of_sum,
    pit_histogram,
    temperature,
)
from bayesprop.evaluation.scores import LEVELS
from bayesprop.evaluation.words import label, number, percent

_HINT, _CLEAR = 0.025, 0.01
# The same points of Anderson and Darling's (1954) statistic against a known law, and of |N(0, 1)|.
_AD_HINT, _AD_CLEAR = 3.077, 3.878
_Z_HINT, _Z_CLEAR = 2.241, 2.576
_SMALL = 0.03
_COARSE, _COARSE_RATIO = 0.06, 0.5
_CROSSING = 2.0
_NAMED = (0.5, 0.25, 0.75, 0.95)
"""Levels of which a headline names the worst, where coverage at 90 % is nearly right."""
_SMALL_RATIO = 0.25
_GROUP_VAR, _MAX_GROUPS = 5.0, 10


class Verdict(NamedTuple):
    """Calibration in words. `tone` is "good", "caution" or "unknown"."""

    tone: str
    headline: str
    details: tuple[str, ...]


class Fault(NamedTuple):
    """A deviation from calibration, with a headline that is hedged unless it is clear.

    size
        A distance in probability; small where it is below `limit`.
    """

    clear: str
    detail: str
    size: float
    is_clear: bool
    limit: float = _SMALL


def verdict(
    predicted: Predictive | ClassPredictive,
    y: np.ndarray,
    group: Shaped[np.ndarray, " n"] | None = None,
) -> Verdict:
    """Assess the calibration of intervals or probabilities.

    group
        Labels of rows that are not independent: one row of each group judges.
    """
    if group is not None:
        return _of_groups(predicted, y, group)
    if isinstance(predicted, ClassPredictive):
        return of_classes(predicted, y)
    return judge(metrics.pit(predicted, y), _stretch(predicted, y), _coverage(predicted, y))


def _of_groups(
    predicted: Predictive | ClassPredictive, y: np.ndarray, group: Shaped[np.ndarray, " n"]
) -> Verdict:
    """Assess one row of each group, the same rows at every call."""
    order = np.random.default_rng(0).permutation(len(y))
    rows = order[np.unique(group[order], return_index=True)[1]]
    is_class = isinstance(predicted, ClassPredictive)
    counts = _counts(predicted, y) if is_class else _coverage_in_words(_coverage(predicted, y))
    if len(rows) < MIN_ROWS:
        what = f"{len(rows)} of the {MIN_ROWS} groups that are needed"
        return Verdict("unknown", f"Too few groups to assess calibration: {what}.", (counts,))
    by_one = verdict(predicted[rows], y[rows])
    sentence = counts[0].lower() + counts[1:]
    whole = f"Assessed on one row of each of {len(rows):,} groups. Over all rows {sentence}"
    return by_one._replace(details=(*by_one.details, whole))


def _coverage(predicted: Predictive, y: np.ndarray) -> list[float]:
    return [metrics.coverage(predicted, y, level) for level in LEVELS]


def _coverage_in_words(shares: Sequence[float]) -> str:
    pairs = zip(LEVELS, shares, strict=True)
    each = (f"{percent(level)} intervals contain {percent(share)}" for level, share in pairs)
    return f"The {'; '.join(each)} of the rows."


def _counts(predicted: ClassPredictive, y: np.ndarray) -> str:
    if not _is_rare(predicted, y):
        promised, kept = np.mean(predicted.confidence), np.mean(predicted.label == y)
        return (
            f"Its mean confidence is {percent(float(promised), 1)}, its accuracy"
            f" {percent(float(kept), 1)}."
        )
    positive = predicted.classes[predicted.positive]
    p, came = predicted.proba[:, predicted.positive], int(np.sum(y == positive))
    error = float(np.sqrt(np.sum(p * (1.0 - p))))
    return (
        f"It expects {number(float(np.sum(p)))} ± {number(error, 2)} rows of {label(positive, 30)};"
        f" there are {came:,}."
    )


def _is_rare(predicted: ClassPredictive, y: np.ndarray) -> bool:
    return len(predicted.classes) == 2 and metrics.is_mostly_one_class(y)


def judge(
    pit: Float[np.ndarray, " n"], stretch: float, shares: Sequence[float] | None = None
) -> Verdict:
    """Assess the calibration of intervals by PIT values.

    stretch
        Factor by which the 90 % intervals would have to grow to hold 90 % of the rows.
    shares
        Of the rows inside the intervals of `LEVELS`, to be quoted; None: as the PIT has them.

    Width: the Anderson-Darling test of |2 PIT - 1|, which is sensitive in the tails. Bias: the mean
    PIT. Other deviations: a Kolmogorov-Smirnov test of the PIT and a chi-square test of its
    histogram. A p-value below 0.01 is clear, one below 0.025 a hint. A significant deviation of
    less than three percentage points is called small. If chance moves the coverage of 90 %
    intervals by more than six points, there are too few rows.
    """
    n, folded = len(pit), np.abs(2.0 * pit - 1.0)
    counts = _coverage_in_words(shares or [float(np.mean(folded <= level)) for level in LEVELS])
    if n < MIN_ROWS:
        headline = f"Too few rows to assess calibration: {n} of the {MIN_ROWS} that are needed."
        return Verdict("unknown", headline, (counts,))
    chance = 2.0 * np.sqrt(0.9 * 0.1 / n)
    bias, held = _bias(pit), float(np.mean(folded <= 0.9))
    if bias is not None and chance > _COARSE and abs(held - 0.9) <= chance:
        bias = bias._replace(is_clear=False)  # of rows too few, beside intervals that hold
    return _pronounce(
        _present(_width(folded, stretch), bias) or _present(_shape(pit)),
        n,
        counts,
        chance,
        share="the share inside 90 % intervals",
        small=f"below {percent(_SMALL)}",
    )


def of_classes(predicted: ClassPredictive, y: np.ndarray) -> Verdict:
    """Assess the calibration of class probabilities.

    Confidence: the number of right predictions against the sum of the confidences. Balance: the
    number of rows of each class against the sum of its probabilities. Other deviations: a
    chi-square test over groups of equal confidence. As for numbers,
    one chance in a hundred makes it clear, one in forty a hint; and what is significant in a large
    table is called small below three percentage points, if it is also less than a quarter of the
    rate that it is about. Where chance moves the share of right answers by more than six points,
    or the number of rows of a rare positive class by more than half, rows are too few to tell.
    """
    n, right = len(y), predicted.label == y
    counts = _counts(predicted, y)
    if n < MIN_ROWS:
        headline = f"Too few rows to assess its confidence: {n} of the {MIN_ROWS} that are needed."
        return Verdict("unknown", headline, (counts,))
    faults = _present(_confidence(predicted, y, right), _balance(predicted, y))
    faults = faults or _present(_levels(predicted, y, right))
    doubt = predicted.confidence * (1.0 - predicted.confidence)
    chance = 2.0 * float(np.sqrt(np.sum(doubt))) / n
    share, coarse = "the share of right answers", _COARSE
    if _is_rare(predicted, y):
        p = predicted.proba[:, predicted.positive]
        share = f"the share of {label(predicted.classes[predicted.positive], 30)}"
        chance = 2.0 * float(np.sqrt(np.sum(p * (1.0 - p)))) / n
        expected = float(np.mean(p))
        coarse = min(_COARSE, _COARSE_RATIO * min(expected, 1.0 - expected))
    return _pronounce(faults, n, counts, chance, share=share, small="small", coarse=coarse)


def _present(*faults: Fault | None) -> list[Fault]:
    return [fault for fault in faults if fault is not None]


def _pronounce(
    faults: list[Fault],
    n: int,
    counts: str,
    chance: float,
    *,
    share: str,
    small: str,
    coarse: float = _COARSE,
) -> Verdict:
    """Summarise the faults in one verdict.

    counts
        The sentence that quotes what was observed.
    chance
        Two standard errors of a share of the rows, which `share` names; above `coarse`, rows are
        too few to tell.
    """
    if not faults:
        points = f"{number(100.0 * chance, 2)} percentage points"
        text = f"{counts} With {n:,} rows, {share} varies by ± {points} due to chance."
        if chance > coarse:
            headline = f"No miscalibration found, but {n:,} rows are too few to detect a small one."
            return Verdict("unknown", headline, (text,))
        headline = f"Well calibrated: {n:,} rows show no significant deviation."
        return Verdict("good", headline, (text,))
    if all(fault.size < fault.limit for fault in faults):
        headline = f"Well calibrated: the deviation on {n:,} rows is significant but {small}."
        return Verdict("good", headline, (*(f"{f.clear} {f.detail}" for f in faults), counts))
    details = (*(fault.detail for fault in faults), counts)
    worst = max(faults, key=lambda fault: (fault.is_clear, fault.size))
    if worst.is_clear:
        return Verdict("caution", worst.clear, details)
    return Verdict("unknown", f"Perhaps {worst.clear[0].lower()}{worst.clear[1:]}", details)


def _shape(pit: np.ndarray) -> Fault | None:
    """Test what the picture shows, too: each of two tests has half of the chance."""
    histogram = pit_histogram(pit)
    if histogram is None:
        return None
    distance, chance = stats.kstest(pit, "uniform")
    if min(chance, stats.chisquare(histogram.counts).pvalue) > _CLEAR / 2.0:
        return None
    excess = np.abs(histogram.counts - histogram.expected)
    headline = "The errors do not have the predicted shape."
    flat = "Widths and centre are right on average, but the histogram of PIT values is not flat: "
    detail = f"{flat}the noise depends on the row or has another distribution."
    if abs(skew := _skew(pit)) > _Z_CLEAR:
        long, short = ("high", "low") if skew > 0.0 else ("low", "high")
        headline = f"The errors are more skewed than predicted, towards {long} values."
        detail = f"{flat}there are too many rows far on the {long} side, too few on the {short}."
    # Half the sum is the share of rows that lie in a bin too many.
    size = max(distance, float(np.sum(excess)) / 2.0 / len(pit))
    return Fault(headline, detail, size, is_clear=True)


def _skew(pit: np.ndarray) -> float:
    """Third component of Neyman's (1937) smooth test: N(0, 1) where the PIT is uniform."""
    u = 2.0 * pit - 1.0
    return float(np.sqrt(7.0 / len(pit)) * np.sum(0.5 * (5.0 * u**3 - 3.0 * u)))


def _bias(pit: np.ndarray) -> Fault | None:
    n, shift = len(pit), float(np.mean(pit)) - 0.5
    z = abs(shift) * np.sqrt(12.0 * n)
    if z < _Z_HINT:
        return None
    side, where = ("low", "above") if shift > 0.0 else ("high", "below")
    share = float(np.mean((pit - 0.5) * shift > 0.0))
    return Fault(
        f"Biased: predictions are too {side}.",
        f"{percent(share)} of the rows lie {where} their predicted median, where 50 % should.",
        stats.kstest(pit, "uniform").statistic,
        bool(z > _Z_CLEAR),
    )


def _width(folded: np.ndarray, stretch: float) -> Fault | None:
    # A target hit exactly would weigh like a hundred: no more than chance brings once in a hundred.
    statistic = anderson_darling(np.maximum(folded, 0.01 / len(folded)))
    if statistic < _AD_HINT:
        return None
    distance, is_clear = stats.kstest(folded, "uniform").statistic, statistic > _AD_CLEAR
    excess = _excess_coverage(folded)
    if min(np.max(excess), -np.min(excess)) > _CROSSING:
        headline = "The tails of the errors differ from the prediction."
        detail = "Coverage is too low at some levels and too high at others: see its figure."
        return Fault(headline, detail, distance, is_clear)
    too_narrow = np.max(excess) < -np.min(excess)
    name, width = ("overconfident", "narrow") if too_narrow else ("too cautious", "wide")
    shares = {level: float(np.mean(folded <= level)) for level in _NAMED}
    worst = max(shares, key=lambda level: abs(shares[level] - level))
    what = f"the {percent(worst)} intervals contain {percent(shares[worst])} of the rows"
    detail = "Coverage at 90 % is nearly right; the figure of coverage shows the other levels."
    if np.isfinite(stretch) and stretch != 1.0 and (stretch > 1.0) == too_narrow:
        detail = (
            f"To contain 90 % of these rows, the intervals would have to be {number(stretch, 2)}"
            " times as wide."
        )
        what = f"the intervals are too {width}"
    return Fault(f"{name.capitalize()}: {what}.", detail, distance, is_clear)


def _excess_coverage(folded: np.ndarray) -> np.ndarray:
    """Actual minus nominal coverage at levels from 5 to 95 %, in standard errors."""
    levels = np.linspace(0.05, 0.95, 19)
    actual = np.searchsorted(np.sort(folded), levels, side="right") / len(folded)
    return (actual - levels) / np.sqrt(levels * (1.0 - levels) / len(folded))


def _stretch(predicted: Predictive, y: np.ndarray) -> float:
    """Factor by which the 90 % intervals must grow, about their centres, to hold 90 % of rows."""
    interval = predicted.interval(0.9)
    # Of counts, an interval reaches half a step beyond its bounds; another may be 0 alone.
    away = np.abs(y - np.mean(interval, axis=1))
    half = (interval[:, 1] - interval[:, 0] + predicted.step) / 2.0
    never = np.where(away > 0.0, np.inf, 0.0)
    stretch = np.divide(away, half, out=never, where=half > 0.0)
    return float(np.quantile(stretch, 0.9, method="inverted_cdf"))


def _confidence(
    predicted: ClassPredictive, y: np.ndarray, right: Bool[np.ndarray, " n"]
) -> Fault | None:
    confidence = predicted.confidence
    chance = chance_of_sum(float(np.sum(right)), confidence)
    if chance > _HINT:
        return None
    promised, kept = float(np.mean(confidence)), float(np.mean(right))
    gap = promised - kept
    error = float(np.sqrt(np.sum(confidence * (1.0 - confidence)))) / len(right)
    name, less, above = ("overconfident", "less", "above")
    if gap < 0.0:
        name, less, above = ("too cautious", "more", "below")
    detail = (
        f"Its confidence is {number(100.0 * abs(gap), 2)} ± {number(100.0 * error, 1)} percentage"
        f" points {above} its accuracy: it expects {percent(1.0 - promised, 1)} of its predictions"
        f" to be wrong, and {percent(1.0 - kept, 1)} are."
    )
    factor = temperature(predicted, y)
    if (factor > 1.0) == (gap > 0.0) and abs(np.log(factor)) > 0.05:
        detail += f" Dividing the log-odds by {number(factor, 2)} would fit these rows best."
    return Fault(
        f"{name.capitalize()}: it is right {less} often than predicted.",
        detail,
        abs(gap),
        chance < _CLEAR,
        _small(1.0 - min(promised, kept)),
    )


def _balance(predicted: ClassPredictive, y: np.ndarray) -> Fault | None:
    n, c = predicted.proba.shape
    came = np.bincount(predicted.codes(y), minlength=c)
    # Of two classes one says everything; more are as many tests.
    tested = [predicted.positive] if c == 2 else range(c)
    chances = {k: chance_of_sum(float(came[k]), predicted.proba[:, k]) for k in tested}
    worst = min(chances, key=lambda k: chances[k])
    chance = chances[worst] * len(tested)
    if chance > _HINT:
        return None
    p = predicted.proba[:, worst]
    expected, error = float(np.sum(p)), float(np.sqrt(np.sum(p * (1.0 - p))))
    name, too = label(predicted.classes[worst], 30), "low" if came[worst] > expected else "high"
    return Fault(
        f"Unbalanced: the probabilities of {name} are too {too}.",
        f"The probabilities of {name} sum to {number(expected)} ± {number(error, 2)} rows; there"
        f" are {came[worst]:,}.",
        abs(float(came[worst]) - expected) / n,
        chance < _CLEAR,
        _small(max(float(came[worst]), expected) / n),
    )


def _levels(
    predicted: ClassPredictive, y: np.ndarray, right: Bool[np.ndarray, " n"]
) -> Fault | None:
    """Compare groups of equal variance, ordered by confidence (Hosmer and Lemeshow 1980).

    Nothing is fitted to these rows, so there are as many degrees of freedom as groups.
    """
    p, happened = predicted.confidence, right
    if len(predicted.classes) == 2:
        positive = predicted.positive
        p, happened = predicted.proba[:, positive], y == predicted.classes[positive]
    order = np.argsort(p, kind="stable")
    p, happened = p[order], happened[order]
    var = np.cumsum(p * (1.0 - p))
    n_groups = int(min(var[-1] // _GROUP_VAR, _MAX_GROUPS))
    if n_groups < 2:
        return None
    group = np.minimum((var / var[-1] * n_groups).astype(int), n_groups - 1)
    sums = [np.bincount(group, weights=w) for w in (happened - p, p * (1.0 - p))]
    statistic = float(np.sum(sums[0] ** 2 / sums[1]))
    if stats.chi2.sf(statistic, n_groups) > _CLEAR:
        return None
    size = float(np.sum(np.abs(sums[0]))) / len(p)
    headline = "Right on average, but not at every level of confidence."
    detail = "At some levels it is right more often than predicted, at others less often."
    rate = float(min(np.mean(happened), 1.0 - np.mean(happened)))
    return Fault(headline, detail, size, is_clear=True, limit=_small(rate))


def _small(rate: float) -> float:
    """Return what counts as small: three points, and a quarter of the rate that it is about."""
    return min(_SMALL, _SMALL_RATIO * rate)
