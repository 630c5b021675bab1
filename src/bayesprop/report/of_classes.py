"""Report sections for classes only: scores, uncertain rows, every class.

Of two classes also the positive one: ranking, costs, what a threshold does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesprop import conformal as split_conformal
from bayesprop import metrics
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.evaluation.calibration import (
    Abstaining,
    Histogram,
    Promise,
    abstaining,
    design_effect,
    diagram,
    histogram,
    near,
)
from bayesprop.evaluation.thresholds import FLAGGED, AtThreshold, Costs, Rule
from bayesprop.evaluation.words import label, number, percent
from bayesprop.metrics import Curve, Curves, Ranked, curves
from bayesprop.report.unsure import N_ROWS, Answer

LIKELIER = 0.5
_N_THRESHOLDS = 181
MAX_MATRIX, MAX_CLASSES = 30, 200
LEFT_OUT = 0.1
_MAX_PAIRS = 20
_N_TOP = 3
_CONFORMAL = 0.9


@dataclass(frozen=True)
class CostCurve:
    """Cost of 100 rows at each threshold, with a 95 % band over tables of such rows.

    best
        Threshold of least cost on these rows, and that cost: in hindsight, so it flatters.
    chosen, never, always
        Cost at the rule's threshold, where no row is flagged, and where all are.
    """

    curve: Curve
    best: tuple[float, float]
    chosen: float
    never: float
    always: float


@dataclass(frozen=True)
class TwoClasses:
    """The positive class among the evaluated rows.

    share
        Of it among the rows; what average precision is by chance.
    curves
        None where either class has fewer than five rows.
    rule
        How the model decides; None: by the likelier class.
    costs
        None where the rule is not by costs.
    """

    positive: str
    other: str
    share: float
    curves: Curves | None
    rule: Rule | None
    at: AtThreshold
    costs: CostCurve | None

    @property
    def threshold(self) -> float:
        """The probability from which a row is flagged."""
        return LIKELIER if self.rule is None else self.rule.threshold

    @property
    def how(self) -> str:
        """Word the origin of the threshold, and its uncertainty."""
        rule = self.rule
        if rule is None:
            return "No costs or rate were given: a row is flagged if the class is more probable."
        if rule.costs is not None:
            fn, fp = number(rule.costs.fn), number(rule.costs.fp)
            return (
                f"A false negative costs {fn}, a false positive {fp}: flagging is cheaper from"
                f" {fp} / ({fp} + {fn}) = {percent(rule.threshold, 1)} on, if the probabilities are"
                " calibrated. This choice uses no rows."
            )
        low, high = rule.spread
        text = (
            f"The threshold was chosen to reach {rule.asked} on {rule.n_rows:,} rows"
            f" ({rule.n_positive:,} of the class); other samples of rows would have given"
            f" {percent(low, 1)} to {percent(high, 1)}."
        )
        if rule.among_new is None:
            return text
        low, high = rule.among_new
        kind = "" if rule.rate is None else rule.rate.kind
        name = "share of flagged rows" if kind == FLAGGED else kind
        return (
            f"{text} On new rows the {name} will be {percent(low)} to {percent(high)} (95 %"
            " interval)."
        )


def two_classes(
    p: Float[np.ndarray, " n"],
    positive: Bool[np.ndarray, " n"],
    names: tuple[str, str],
    rule: Rule | None,
    group: Shaped[np.ndarray, " n"] | None = None,
) -> TwoClasses:
    """Compute it; `names` are those of the positive class and of the other, `p` is of the first."""
    threshold = LIKELIER if rule is None else rule.threshold
    at = AtThreshold.of(p >= threshold, positive)
    costs = None
    if rule is not None and rule.costs is not None:
        costs = _cost_curve(p, positive, rule.costs, at, group)
    share = float(np.mean(positive))
    return TwoClasses(*names, share, curves(p, positive, group), rule, at, costs)


def _cost_curve(
    p: Float[np.ndarray, " n"],
    positive: Bool[np.ndarray, " n"],
    costs: Costs,
    at: AtThreshold,
    group: Shaped[np.ndarray, " n"] | None,
) -> CostCurve:
    """Count the mistakes at thresholds from a tenth of the chosen one to near certainty."""
    n, n_positive = len(p), int(np.sum(positive))
    start = np.log10(min(costs.threshold / 10.0, 0.1))
    grid = np.unique(np.append(np.logspace(start, 0.0, _N_THRESHOLDS), costs.threshold))
    # Numbers sort faster than names, at every threshold.
    group = None if group is None else np.unique(group, return_inverse=True)[1]
    mean, error = np.empty((2, len(grid)))
    for k, threshold in enumerate(grid):
        missed, alarm = positive & (p < threshold), ~positive & (p >= threshold)
        cost = costs.fn * missed + costs.fp * alarm
        mean[k], error[k] = np.mean(cost), metrics.clustered_error(cost, group)
    half = 1.96 * error
    ranked = Ranked.of(p, positive)
    every = costs.mean(ranked.counts())
    never, always = costs.fn * n_positive / n, costs.fp * (n - n_positive) / n
    best = int(np.argmin(every))
    least = (float(ranked.score[best]), 100.0 * float(every[best]))
    if never <= every[best]:
        least = (1.0, 100.0 * never)
    curve = Curve(grid, *(100.0 * y for y in (mean, np.maximum(mean - half, 0.0), mean + half)))
    return CostCurve(curve, least, 100.0 * at.cost(costs), 100.0 * never, 100.0 * always)


class ClassScore(NamedTuple):
    """Recall and precision of one class.

    n_actual, n_answered
        Rows that are of the class, and rows that are said to be.
    expected, band
        Sum of its probabilities over all rows, and the standard deviation of what a calibrated
        model would have come true.
    precision, recall
        Share of the rows said to be of the class that are; share of those of it that are found.
    """

    name: str
    n_actual: int
    n_answered: int
    expected: float
    band: float
    precision: float
    recall: float


class Confused(NamedTuple):
    """Rows of one class that are taken for another."""

    actual: str
    answered: str
    n_rows: int
    share: float


@dataclass(frozen=True)
class ClassDetails:
    """Contents of the report for classifiers only.

    classes
        Names of the classes, from the lowest to the highest where they have an order.
    is_mostly_one
        Whether a class has more than 90 % of the rows, so that accuracy says little.
    largest
        Share of the commonest class among the rows, and its name.
    diagram
        Of the positive one of two classes; of the answers, where there are more.
    class_scores
        Of every class; of more than 200, of those whose rows are found worst.
    counts
        Rows by actual class (first axis) and answer; None where there are too many to look at.
    two
        None where there are more.
    """

    classes: tuple[str, ...]
    accuracy: float
    mean_confidence: float
    diagram: Promise | None
    histogram: Histogram
    abstaining: Abstaining | None
    class_scores: tuple[ClassScore, ...]
    counts: Int[np.ndarray, "c c"] | None
    confused: tuple[Confused, ...]
    is_mostly_one: bool
    largest: tuple[float, str]
    two: TwoClasses | None
    template: ClassVar[str] = "classes.html"

    @property
    def positive(self) -> str:
        """The positive one of two classes; empty where there are more."""
        return "" if self.two is None else self.two.positive

    @property
    def error_without(self) -> float | None:
        """Share of wrong answers when the least sure tenth is left out."""
        curve = self.abstaining
        if curve is None:
            return None
        return float(curve.error[np.argmin(np.abs(curve.answered - (1.0 - LEFT_OUT)))])

    @property
    def worst(self) -> ClassScore | None:
        """The class found worst, where there are several and it stands out from chance."""
        scores = [one for one in self.class_scores if one.n_actual]
        if self.positive or not scores:
            return None
        worst = min(scores, key=lambda one: one.recall)
        error = float(np.sqrt(self.accuracy * (1.0 - self.accuracy) / worst.n_actual))
        return worst if worst.recall <= self.accuracy - 3.0 * error else None


def details(
    predicted: ClassPredictive,
    y: np.ndarray,
    _drawn: Int[np.ndarray, " p"],
    group: Shaped[np.ndarray, " n"] | None = None,
    rule: Rule | None = None,
) -> ClassDetails:
    """Compute them; `group` labels rows, `rule` decides on the positive one of two classes."""
    right, counts = predicted.label == y, metrics.confusion(predicted, y)
    is_binary = len(predicted.classes) == 2
    positive = predicted.positive
    p, is_positive = predicted.proba[:, positive], y == predicted.classes[positive]
    promised, came = (p, is_positive) if is_binary else (predicted.confidence, right)
    names = str(predicted.classes[positive]), str(predicted.classes[1 - positive])
    commonest, shown = int(np.argmax(counts.sum(axis=1))), predicted.shown
    return ClassDetails(
        classes=tuple(map(str, predicted.classes[shown])),
        accuracy=float(np.mean(right)),
        mean_confidence=float(np.mean(predicted.confidence)),
        diagram=diagram(promised, came, group),
        histogram=histogram(predicted.confidence, right, len(predicted.classes)),
        abstaining=abstaining(predicted.confidence, right, group),
        class_scores=_class_scores(predicted, y, counts, group),
        counts=counts[np.ix_(shown, shown)] if len(shown) <= MAX_MATRIX else None,
        confused=_most_confused(predicted, y),
        is_mostly_one=metrics.is_mostly_one_class(y),
        largest=(float(np.sum(counts[commonest]) / len(y)), str(predicted.classes[commonest])),
        two=two_classes(p, is_positive, names, rule, group) if is_binary else None,
    )


def _class_scores(
    predicted: ClassPredictive,
    y: np.ndarray,
    counts: np.ndarray,
    group: Shaped[np.ndarray, " n"] | None,
) -> tuple[ClassScore, ...]:
    n_actual, n_answered, right = counts.sum(axis=1), counts.sum(axis=0), np.diag(counts)
    with np.errstate(invalid="ignore"):
        precision, recall = right / n_answered, right / n_actual
    p = predicted.proba
    expected, var = np.sum(p, axis=0), np.sum(p * (1.0 - p), axis=0)
    codes = predicted.codes(y)
    away = ((codes == k) - p[:, k] for k in range(len(var)))
    band = np.sqrt(var * design_effect(away, var, group, near(len(var), 0)))
    columns = (n_actual, n_answered, expected, band, precision, recall)
    worst = np.argsort(np.nan_to_num(recall, nan=2.0), kind="stable")[:MAX_CLASSES]
    return tuple(
        ClassScore(str(predicted.classes[k]), *(column[k].item() for column in columns))
        for k in predicted.shown
        if k in worst
    )


def _most_confused(predicted: ClassPredictive, y: np.ndarray) -> tuple[Confused, ...]:
    """Return the pairs of classes that are confused most often."""
    codes, answered = predicted.codes(y), predicted.proba.argmax(axis=1)
    rows = np.flatnonzero(codes != answered)
    c = len(predicted.classes)
    pairs, count = np.unique(codes[rows] * c + answered[rows], return_counts=True)
    names = list(map(str, predicted.classes))
    confused = []
    for k in np.argsort(-count, kind="stable")[:_MAX_PAIRS]:
        actual, answer = divmod(int(pairs[k]), c)
        share = float(count[k] / np.sum(codes == actual))
        confused.append(Confused(names[actual], names[answer], int(count[k]), share))
    return tuple(confused)


def least_sure(predicted: ClassPredictive) -> Int[np.ndarray, " k"]:
    """Return the places of the ten rows whose most probable class is least probable."""
    return np.argsort(predicted.confidence, kind="stable")[:N_ROWS]


def most_wrong(predicted: ClassPredictive, y: np.ndarray) -> Int[np.ndarray, " k"]:
    """Return the places of the ten wrong answers that gave the actual class least probability."""
    wrong = np.flatnonzero(predicted.label != y)
    log_prob = predicted.log_prob(y)[wrong]
    return wrong[np.argsort(log_prob, kind="stable")][:N_ROWS]


def answers(predicted: ClassPredictive, y: np.ndarray) -> list[Answer]:
    """Write every row's most probable classes."""
    top = np.argsort(-predicted.proba, axis=1, kind="stable")[:, :_N_TOP]
    entropy, information = predicted.entropy, predicted.mutual_information
    rows = []
    for k, chosen in enumerate(top):
        classes = [(label(predicted.classes[i], 24), predicted.proba[k, i]) for i in chosen]
        text = ", ".join(f"{name} ({percent(float(p))})" for name, p in classes)
        share = float(information[k] / entropy[k]) if entropy[k] > 0.0 else 0.0
        is_missed = bool(predicted.label[k] != y[k])
        rows.append(Answer((text,), label(y[k], 24), is_missed, share))
    return rows


def conformal(predicted: ClassPredictive, y: Shaped[np.ndarray, " n"]) -> str:
    """Word the conformal sets and their sizes; "" for too few rows."""
    if len(y) < split_conformal.least_rows(_CONFORMAL):
        return ""
    proba = np.asarray(predicted.proba, np.float64)
    limit = split_conformal.limit(proba, np.asarray(predicted.classes), y, _CONFORMAL)
    sizes = np.sum(proba >= limit, axis=1)
    return (
        f"Conformal prediction, calibrated on these rows: the set of all classes with "
        f"probability {number(limit)} or more contains the class of a new row with probability "
        f"{percent(_CONFORMAL)}, whether or not the model is right. On these rows the set has "
        f"{number(float(np.mean(sizes)))} classes on average, and exactly one class for "
        f"{percent(float(np.mean(sizes == 1)))} of the rows."
    )
