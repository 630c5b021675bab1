"""Held-out metrics of a classifier beside its baselines, with standard errors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float

from bayesprop import metrics
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.report.scoring import Score, make_score, mean_error

ACCURACY = "Accuracy"
BALANCED = "Balanced accuracy"


def scores(predictives: Mapping[str, ClassPredictive], y: np.ndarray) -> tuple[Score, ...]:
    """Compute every metric of every model on the same rows."""
    models = tuple(predictives.values())
    right = [p.label == y for p in models]
    log_prob = [p.log_prob(y) for p in models]
    squares = [_squares(p, y) for p in models]
    found = [
        make_score(ACCURACY, "share", "higher", map(_mean, right), map(mean_error, right)),
        make_score(
            BALANCED,
            "share",
            "higher",
            [balanced_accuracy(p, y) for p in models],
            [None] * len(models),
        ),
        make_score(
            "Mean log-likelihood",
            "nats",
            "higher",
            map(_mean, log_prob),
            map(mean_error, log_prob),
        ),
        make_score("Brier score", "", "lower", map(_mean, squares), map(mean_error, squares)),
        make_score(
            "Calibration error",
            "share",
            "lower",
            [metrics.expected_calibration_error(p, y) for p in models],
            [None] * len(models),
        ),
    ]
    if len(models[0].classes) == 2:
        area = [area_under_roc(p.proba[:, 1], y == p.classes[1]) for p in models]
        found.insert(
            2, make_score("Area under the ROC curve", "", "higher", area, [None] * len(models))
        )
    return tuple(found)


def balanced_accuracy(predicted: ClassPredictive, y: np.ndarray) -> float:
    """Return the mean over the classes that occur of the share of their rows that is found."""
    counts = metrics.confusion(predicted, y)
    rows = np.sum(counts, axis=1)
    occurs = rows > 0
    return float(np.mean(np.diag(counts)[occurs] / rows[occurs]))


def area_under_roc(score: Float[np.ndarray, " n"], positive: Bool[np.ndarray, " n"]) -> float:
    """P(a random positive row has the higher score than a random negative one), ties by half.

    nan if there is none of either.
    """
    n_positive = int(np.sum(positive))
    n_negative = len(positive) - n_positive
    if not n_positive or not n_negative:
        return float("nan")
    _, tie, size = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(size) - (size - 1) / 2.0)[tie]
    above = float(np.sum(rank[positive])) - n_positive * (n_positive + 1) / 2.0
    return above / n_positive / n_negative


def _squares(predicted: ClassPredictive, y: np.ndarray) -> Float[np.ndarray, " n"]:
    """Brier score of every row: squared distance from the one-hot label."""
    p_actual = predicted.proba[np.arange(len(y)), predicted.codes(y)]
    return np.sum(predicted.proba**2, axis=1) - 2.0 * p_actual + 1.0


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values))
