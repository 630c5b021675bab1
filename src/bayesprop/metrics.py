"""Metrics of predictions: accuracy, proper scores, calibration; in the units of y.

Every function takes a prediction and what was observed at the same rows: a Predictive and numbers,
or a ClassPredictive and labels. Lower is better except for accuracy, log-likelihood and coverage.
Several outputs count as so many observations, except in the log-likelihood, where a row's density
is the product over its outputs.

How well a score puts the rows of one class before the others is told by two curves and their areas.
Average precision is sum_k (R_k - R_{k-1}) P_k over the distinct scores from the highest down, with
recall R and precision P; the area under the ROC curve is P(a row of the class scores higher), ties
by half. Chance is that of drawing the rows anew (the bootstrap; Efron 1979), or the groups that
they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import Predictive

Observed = Float[np.ndarray, " n"] | Float[np.ndarray, "n o"]
_LEVELS = np.linspace(0.05, 0.95, 19)
_MOSTLY_ONE_CLASS = 0.9
N_DRAWS, _FEWEST_DRAWS, _MOST_VALUES = 200, 40, 20_000_000
FEWEST_FOR_BANDS = 5
_GRID = np.linspace(0.0, 1.0, 101)


def rmse(pred: Predictive, y: Observed) -> float:
    """Root of the mean squared error of the mean, y."""
    return float(np.sqrt(np.mean((_checked(pred, y) - pred.mean) ** 2)))


def mae(pred: Predictive, y: Observed) -> float:
    """Mean absolute error of the mean, y."""
    return float(np.mean(np.abs(_checked(pred, y) - pred.mean)))


def mean_log_likelihood(pred: Predictive | ClassPredictive, y: np.ndarray) -> float:
    """Mean log density of a row, or log probability of its class, by its prediction; nats a row.

    A density is that of y in its original units, so that it changes by -log c if y is multiplied
    by c. Each row's density is that of its (single) predictive distribution: there is no average
    of densities over draws left to take.
    """
    if isinstance(pred, ClassPredictive):
        _codes(pred, y)
        return float(np.mean(pred.log_prob(y)))
    log_density = pred.log_prob(_checked(pred, y))
    return float(np.mean(log_density.reshape(len(log_density), -1).sum(axis=1)))


def mean_crps(pred: Predictive, y: Observed) -> float:
    """Mean continuous ranked probability score, y; the mean absolute error of a point forecast."""
    return float(np.mean(pred.crps(_checked(pred, y))))


def pit(pred: Predictive, y: Observed) -> Observed:
    """Probability of a value at or below each observation; uniform on 0..1 if calibrated.

    Of counts it is drawn between the probabilities of less and of no more.
    """
    return pred.pit(_checked(pred, y))


def coverage(pred: Predictive, y: Observed, level: float) -> float:
    """Share of observations inside the central interval of probability `level`; ideally `level`."""
    return float(np.mean(_inside(pred.interval(level), _checked(pred, y))))


def mean_width(pred: Predictive, level: float) -> float:
    """Mean width of the central interval of probability `level`, y."""
    interval = pred.interval(level)
    return float(np.mean(interval[..., 1] - interval[..., 0]))


def calibration_error(pred: Predictive, y: Observed) -> float:
    """Mean of |nominal - actual| coverage of central intervals at .05, .10, ... .95; 0 to 0.5.

    It has a floor of about 0.33 / sqrt(n) for n observations even where the prediction is perfect.
    """
    distance_from_median = np.abs(2.0 * pit(pred, y) - 1.0).ravel()
    actual = np.mean(distance_from_median <= _LEVELS[:, None], axis=1)
    return float(np.mean(np.abs(_LEVELS - actual)))


def accuracy(pred: ClassPredictive, y: np.ndarray) -> float:
    """Share of rows whose most probable class is the observed one."""
    return float(np.mean(_codes(pred, y) == pred.proba.argmax(axis=1)))


def brier(pred: ClassPredictive, y: np.ndarray) -> float:
    """Mean squared distance of the probabilities from the one-hot label, summed over classes.

    0 to 2, lower is better (Brier 1950).
    """
    return float(np.mean(brier_of_rows(pred, y)))


def brier_of_rows(pred: ClassPredictive, y: np.ndarray) -> Float[np.ndarray, " n"]:
    """Return every row's squared distance of the probabilities from its one-hot label."""
    truth = np.eye(pred.proba.shape[1])[_codes(pred, y)]
    return np.sum((pred.proba - truth) ** 2, axis=1)


@dataclass(frozen=True)
class Reliability:
    """Rows grouped by confidence: its mean, the share that was right, their number; by group."""

    confidence: Float[np.ndarray, " b"]
    accuracy: Float[np.ndarray, " b"]
    count: Int[np.ndarray, " b"]


def reliability(pred: ClassPredictive, y: np.ndarray, n_bins: int = 15) -> Reliability:
    """Group rows into bins of equal width by the probability of their most probable class."""
    if n_bins < 1:
        raise ValueError(f"n_bins must be an int >= 1, got {n_bins!r}")
    return grouped(pred.confidence, _codes(pred, y) == pred.proba.argmax(axis=1), n_bins)


def grouped(
    probability: Float[np.ndarray, " n"], happened: Bool[np.ndarray, " n"], n_bins: int
) -> Reliability:
    """Group rows into bins of equal width by the probability of an event; those that hold some."""
    bins = bins_of(probability, n_bins)
    count = np.bincount(bins)
    filled = count > 0
    sums = (np.bincount(bins, weights=w)[filled] for w in (probability, happened))
    mean, share = (total / count[filled] for total in sums)
    return Reliability(mean, share, count[filled])


def bins_of(probability: Float[np.ndarray, " n"], n_bins: int) -> Int[np.ndarray, " n"]:
    """Return which of `n_bins` of equal width, from 0, each probability lies in."""
    return np.minimum((probability * n_bins).astype(int), n_bins - 1)


def expected_calibration_error(pred: ClassPredictive, y: np.ndarray, n_bins: int = 15) -> float:
    """Return the expected calibration error of the top class (Guo et al. 2017, eq. 3); 0 to 1."""
    groups = reliability(pred, y, n_bins)
    gaps = np.abs(groups.accuracy - groups.confidence)
    return float(np.sum(gaps * groups.count) / np.sum(groups.count))


def confusion(pred: ClassPredictive, y: np.ndarray) -> Int[np.ndarray, "c c"]:
    """Count rows by actual (first axis) and most probable class."""
    c = len(pred.classes)
    pairs = _codes(pred, y) * c + pred.proba.argmax(axis=1)
    return np.bincount(pairs, minlength=c * c).reshape(c, c)


def is_mostly_one_class(y: np.ndarray) -> bool:
    """Return whether a class has more than 90 % of the rows, so that accuracy is uninformative."""
    return bool(np.max(np.unique(y, return_counts=True)[1]) > _MOSTLY_ONE_CLASS * len(y))


def summarise(pred: Predictive | ClassPredictive, y: np.ndarray) -> dict[str, float]:
    """Return the figures that a report shows, by name, the most telling first."""
    return summary(pred, y).values


class Summary(NamedTuple):
    """Figures by name, and standard errors over rows of those that are means of some kind."""

    values: dict[str, float]
    errors: dict[str, float]


def summary(
    pred: Predictive | ClassPredictive,
    y: np.ndarray,
    group: np.ndarray | None = None,
) -> Summary:
    """Return the figures that a report shows, with what chance does to them.

    Standard errors of means, of a root mean square by the delta method; there are none of a single
    group, nor of calibration errors and shares, which are no means.

    group
        Labels of rows that are not independent, (n,) (clusters: Liang & Zeger 1986).
    """
    is_class = isinstance(pred, ClassPredictive)
    each = _of_classes(pred, y) if is_class else _of_numbers(pred, y)
    values = {name: float(np.mean(rows)) for name, rows in each.items()}
    errors = {
        name: clustered_error(rows, group) for name, rows in each.items() if np.isfinite(rows).all()
    }
    if is_class:
        values["calibration_error"] = expected_calibration_error(pred, y)
    else:
        values["rmse"] = root = float(np.sqrt(values["rmse"]))
        errors["rmse"] *= 0.5 / root if root > 0.0 else 0.0
        values["calibration_error"] = calibration_error(pred, y)
    values["epistemic_share"] = pred.epistemic_share
    ranks = Summary({}, {})
    if is_class and len(pred.classes) == 2:
        is_positive = _codes(pred, y) == pred.positive
        ranks = areas(pred.proba[:, pred.positive], is_positive, group)
    values, errors = values | ranks.values, errors | ranks.errors
    if is_class and is_mostly_one_class(y):
        accuracy = values.pop("accuracy")
        values = ranks.values | values | {"accuracy": accuracy}
    return Summary(values, {name: error for name, error in errors.items() if np.isfinite(error)})


def clustered_error(rows: Float[np.ndarray, " n"], group: np.ndarray | None) -> float:
    """Return the standard error of a mean; NaN of a single group.

    group
        Labels of rows that are not independent (Liang & Zeger 1986); None: all are.
    """
    away = sums_of_groups(rows - np.mean(rows), group)
    n_groups, unit = len(away), max(float(np.max(np.abs(away))), np.finfo(float).tiny)
    if n_groups < 2:
        return float("nan")
    ratio = np.sum((away / unit) ** 2) * n_groups / (n_groups - 1)
    error = unit * float(np.sqrt(ratio)) / len(rows)
    return _beyond_rounding(error, float(np.max(np.abs(rows))))


def sums_of_groups(
    away: Float[np.ndarray, " n"], group: Shaped[np.ndarray, " n"] | None
) -> Float[np.ndarray, " g"]:
    """Add up the rows of each group; None: every row is one."""
    if group is None:
        return away
    return np.bincount(np.unique(group, return_inverse=True)[1], away)


def _beyond_rounding(error: float, size: float) -> float:
    """Return 0 for the error of numbers of a size that are equal: of a perfect ranking, say."""
    return 0.0 if error <= 1e-12 * size else error


def _of_numbers(pred: Predictive, y: Observed) -> dict[str, np.ndarray]:
    """Return figures of every row, whose means are shown; of the RMSE its root."""
    y = _checked(pred, y)
    narrow, wide = (pred.interval(level) for level in (0.5, 0.9))
    each = {
        "rmse": (y - pred.mean) ** 2,
        "mae": np.abs(y - pred.mean),
        "log_likelihood": pred.log_prob(y) * (y.size / len(y)),
        "crps": pred.crps(y),
        "coverage_50": _inside(narrow, y),
        "coverage_90": _inside(wide, y),
        "width_90": wide[..., 1] - wide[..., 0],
    }
    return {name: a.mean(axis=tuple(range(1, a.ndim))) for name, a in each.items()}


def _inside(interval: np.ndarray, y: Observed) -> np.ndarray:
    return (interval[..., 0] <= y) & (y <= interval[..., 1])


def _of_classes(pred: ClassPredictive, y: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "accuracy": _codes(pred, y) == pred.proba.argmax(axis=1),
        "log_likelihood": pred.log_prob(y),
        "brier": brier_of_rows(pred, y),
        **({} if pred.order is None else {"rps": pred.rps(y)}),
        "mean_confidence": pred.confidence,
        "mean_entropy": pred.entropy,
    }


def _checked(pred: Predictive, y: Observed) -> Observed:
    y = pred.checked(y)
    if y.size == 0:
        raise ValueError("y must hold at least one observation, got none")
    if not np.isfinite(y).all():
        raise ValueError("y must be finite: leave out rows without an observation")
    return y


def _codes(pred: ClassPredictive, y: np.ndarray) -> Int[np.ndarray, " n"]:
    if pred.proba.ndim > 2:
        raise ValueError("metrics take one label a row: choose one of several by target(k)")
    codes = pred.codes(y)
    if len(codes) == 0:
        raise ValueError("y must hold at least one observation, got none")
    return codes


class Counts(NamedTuple):
    """Rows of the class, and others, that score at least as much as each distinct score."""

    hits: Float[np.ndarray, " k"]
    false_alarms: Float[np.ndarray, " k"]

    @property
    def precision(self) -> Float[np.ndarray, " k"]:
        """Share of these rows that are of the class; 1 where there are none."""
        rows = self.hits + self.false_alarms
        return np.where(rows > 0.0, self.hits / np.maximum(rows, 1e-300), 1.0)

    @property
    def recall(self) -> Float[np.ndarray, " k"]:
        """Share of the rows of the class that are among these."""
        return self.hits / self.hits[-1]

    @property
    def average_precision(self) -> float:
        """Mean precision over the rows of the class."""
        return float(np.sum(np.diff(self.recall, prepend=0.0) * self.precision))

    @property
    def roc_auc(self) -> float:
        """Area under the ROC curve."""
        fallout = self.false_alarms / self.false_alarms[-1]
        recall = np.concatenate([[0.0], self.recall])
        return float(np.sum(np.diff(fallout, prepend=0.0) * (recall[1:] + recall[:-1]) / 2.0))

    @property
    def is_of_both(self) -> bool:
        """Whether there are rows of the class and others."""
        return bool(self.hits[-1] > 0.0 and self.false_alarms[-1] > 0.0)


class Ranked(NamedTuple):
    """Rows in the order of their score, the highest first.

    score
        The distinct scores; `ends` are the places of the last row of each.
    unit
        Number, from 0, of what each row is drawn with: its group, or itself.
    """

    score: Float[np.ndarray, " k"]
    ends: Int[np.ndarray, " k"]
    positive: Bool[np.ndarray, " n"]
    unit: Int[np.ndarray, " n"]

    @classmethod
    def of(
        cls,
        score: Float[np.ndarray, " n"],
        positive: Bool[np.ndarray, " n"],
        group: Shaped[np.ndarray, " n"] | None = None,
    ) -> Ranked:
        """Sort; `group` labels rows that belong together."""
        order = np.argsort(-score, kind="stable")
        falling = score[order]
        ends = np.append(np.flatnonzero(np.diff(falling)), len(score) - 1)
        own = np.arange(len(score))
        unit = own if group is None else np.unique(group[order], return_inverse=True)[1]
        return cls(falling[ends], ends, positive[order], unit)

    @property
    def n_units(self) -> int:
        """Number of groups, or of rows without groups."""
        return int(np.max(self.unit)) + 1

    def counts(
        self, times: Float[np.ndarray, " n"] | Int[np.ndarray, " n"] | None = None
    ) -> Counts:
        """Count, every row once or so many times."""
        times = np.ones(len(self.positive)) if times is None else times
        hits = np.cumsum(times * self.positive)[self.ends]
        return Counts(hits, np.cumsum(times)[self.ends] - hits)

    def redrawn(self) -> Iterator[Counts]:
        """Draw as many rows, or groups, with replacement, 200 times (fewer of many), and count.

        Draws without a row of either class are left out.
        """
        n, rng = self.n_units, np.random.default_rng(0)
        n_draws = _MOST_VALUES // len(self.positive)
        for _ in range(int(np.clip(n_draws, _FEWEST_DRAWS, N_DRAWS))):
            times = np.bincount(rng.integers(n, size=n), minlength=n)
            counts = self.counts(times[self.unit])
            if counts.is_of_both:
                yield counts


def areas(
    score: Float[np.ndarray, " n"],
    positive: Bool[np.ndarray, " n"],
    group: Shaped[np.ndarray, " n"] | None = None,
) -> Summary:
    """Return average precision and the area under the ROC curve; NaN without both classes.

    Standard errors where there are two rows or more of either class.

    group
        Labels of rows that belong together; of a single group there are no errors.
    """
    ranked = Ranked.of(score, positive, group)
    counts = ranked.counts()
    if not counts.is_of_both:
        return Summary({"average_precision": float("nan"), "roc_auc": float("nan")}, {})
    values, errors = {"average_precision": counts.average_precision, "roc_auc": counts.roc_auc}, {}
    if min(counts.hits[-1], counts.false_alarms[-1], ranked.n_units) >= 2:
        drawn = [(one.average_precision, one.roc_auc) for one in ranked.redrawn()]
        spread = np.std(drawn, axis=0, ddof=1).tolist()
        errors = {
            name: _beyond_rounding(each, 1.0) for name, each in zip(values, spread, strict=True)
        }
    return Summary(values, errors)


class Curve(NamedTuple):
    """A curve and where 95 of 100 curves of rows drawn anew pass, point by point; shares."""

    x: Float[np.ndarray, " g"]
    y: Float[np.ndarray, " g"]
    low: Float[np.ndarray, " g"]
    high: Float[np.ndarray, " g"]


class Curves(NamedTuple):
    """Precision against recall, and recall against the share of false alarms among the others."""

    precision_recall: Curve
    roc: Curve


def curves(
    score: Float[np.ndarray, " n"],
    positive: Bool[np.ndarray, " n"],
    group: Shaped[np.ndarray, " n"] | None = None,
) -> Curves | None:
    """Compute both; None where either class has fewer than five rows, or there are fewer groups."""
    ranked = Ranked.of(score, positive, group)
    counts = ranked.counts()
    if min(counts.hits[-1], counts.false_alarms[-1], ranked.n_units) < FEWEST_FOR_BANDS:
        return None
    drawn = list(ranked.redrawn())
    return Curves(
        _banded(_GRID[1:], _precision_at(counts), [_precision_at(one) for one in drawn]),
        _banded(_GRID, _recall_at(counts), [_recall_at(one) for one in drawn]),
    )


def _banded(x: np.ndarray, y: np.ndarray, drawn: list[np.ndarray]) -> Curve:
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    return Curve(x, y, low, high)


def _precision_at(counts: Counts) -> Float[np.ndarray, " g"]:
    """Precision where a recall of 1, 2, ... 100 % is reached."""
    return counts.precision[np.searchsorted(counts.recall, _GRID[1:] - 1e-9)]


def _recall_at(counts: Counts) -> Float[np.ndarray, " g"]:
    """Recall at a share of false alarms of 0, 1, ... 100 %."""
    fallout = counts.false_alarms / counts.false_alarms[-1]
    return np.interp(_GRID, np.append(0.0, fallout), np.append(0.0, counts.recall))


def surest_first(
    uncertainty: Float[np.ndarray, " n"], loss: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return uncertainties of rows, ascending, and their losses.

    Among rows of equal uncertainty these are their mean: what a random order would give on average.
    """
    levels, tie, size = np.unique(uncertainty, return_inverse=True, return_counts=True)
    mean_loss = np.bincount(tie, weights=loss, minlength=len(levels)) / size
    return np.repeat(levels, size), np.repeat(mean_loss, size)
