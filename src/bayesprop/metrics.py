"""How good a prediction was: accuracy, proper scores, calibration; in the original units of y.

Every function takes a prediction and what was observed at the same rows: a Predictive and numbers,
or a ClassPredictive and labels. Lower is better except for accuracy, log-likelihood and coverage.
Several outputs count as so many observations, except in the log-likelihood, where a row's density
is the product over its outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.model.ranking import Areas, areas

Observed = Float[np.ndarray, " n"] | Float[np.ndarray, "n o"]
_LEVELS = np.linspace(0.05, 0.95, 19)
_MOSTLY_ONE_CLASS = 0.9


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
    """Say whether a class has more than 90 % of the rows, so that accuracy says little."""
    return bool(np.max(np.unique(y, return_counts=True)[1]) > _MOSTLY_ONE_CLASS * len(y))


def ranking(pred: ClassPredictive, y: np.ndarray, group: np.ndarray | None = None) -> Areas:
    """Return average precision and area under the ROC curve of the positive one of two classes.

    group
        Labels of rows that are not independent, (n,).
    """
    return areas(pred.proba[:, pred.positive], _codes(pred, y) == pred.positive, group)


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
    if is_class and len(pred.classes) == 2:
        of = ranking(pred, y, group)
        values |= {"average_precision": of.average_precision, "roc_auc": of.roc_auc}
        errors |= {
            "average_precision": _beyond_rounding(of.average_precision_se, 1.0),
            "roc_auc": _beyond_rounding(of.roc_auc_se, 1.0),
        }
    if is_class and is_mostly_one_class(y):
        accuracy = values.pop("accuracy")
        ranks = {name: values[name] for name in ("average_precision", "roc_auc") if name in values}
        values = ranks | values | {"accuracy": accuracy}
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
    codes = pred.codes(y)
    if len(codes) == 0:
        raise ValueError("y must hold at least one observation, got none")
    return codes
