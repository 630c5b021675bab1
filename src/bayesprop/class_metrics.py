"""How good predicted class probabilities were: accuracy, proper scores, honest confidence.

Every function takes a ClassPredictive and the observed labels of the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from bayesprop.model.class_predictive import ClassPredictive


def accuracy(pred: ClassPredictive, y: np.ndarray) -> float:
    """Share of rows whose most probable class is the observed one."""
    return float(np.mean(_checked(pred, y) == pred.proba.argmax(axis=1)))


def mean_log_likelihood(pred: ClassPredictive, y: np.ndarray) -> float:
    """Mean log probability of the observed class, nats a row; higher is better."""
    _checked(pred, y)
    return float(np.mean(pred.log_prob(y)))


def brier(pred: ClassPredictive, y: np.ndarray) -> float:
    """Mean squared distance of the probabilities from the one-hot label, summed over classes.

    0 to 2, lower is better (Brier 1950).
    """
    truth = np.eye(pred.proba.shape[1])[_checked(pred, y)]
    return float(np.mean(np.sum((pred.proba - truth) ** 2, axis=1)))


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
    right = _checked(pred, y) == pred.proba.argmax(axis=1)
    bins = np.minimum((pred.confidence * n_bins).astype(int), n_bins - 1)
    count = np.bincount(bins, minlength=n_bins)
    filled = count > 0
    sums = (np.bincount(bins, weights=w, minlength=n_bins) for w in (pred.confidence, right))
    confidence, hits = (total[filled] / count[filled] for total in sums)
    return Reliability(confidence, hits, count[filled])


def calibration_error(pred: ClassPredictive, y: np.ndarray, n_bins: int = 15) -> float:
    """Return the expected calibration error of the top class (Guo et al. 2017, eq. 3); 0 to 1."""
    groups = reliability(pred, y, n_bins)
    gaps = np.abs(groups.accuracy - groups.confidence)
    return float(np.sum(gaps * groups.count) / np.sum(groups.count))


def confusion(pred: ClassPredictive, y: np.ndarray) -> Int[np.ndarray, "c c"]:
    """Count rows by actual (first axis) and most probable class."""
    c = len(pred.classes)
    pairs = _checked(pred, y) * c + pred.proba.argmax(axis=1)
    return np.bincount(pairs, minlength=c * c).reshape(c, c)


def summarise(pred: ClassPredictive, y: np.ndarray) -> dict[str, float]:
    """Return the figures that a report shows, by name."""
    return {
        "accuracy": accuracy(pred, y),
        "log_likelihood": mean_log_likelihood(pred, y),
        "brier": brier(pred, y),
        "calibration_error": calibration_error(pred, y),
        "mean_confidence": float(np.mean(pred.confidence)),
        "mean_entropy": float(np.mean(pred.entropy)),
        "epistemic_share": pred.epistemic_share,
    }


def _checked(pred: ClassPredictive, y: np.ndarray) -> Int[np.ndarray, " n"]:
    codes = pred.codes(y)
    if len(codes) == 0:
        raise ValueError("y must hold at least one observation, got none")
    return codes
