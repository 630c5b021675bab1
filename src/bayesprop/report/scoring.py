"""Held-out metrics of the model beside its baselines, with standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from bayesprop import metrics
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import Predictive
from bayesprop.report.words import percent

ACCURACY = "Accuracy"
BALANCED = "Balanced accuracy"
LEVELS = (0.5, 0.9, 0.95)
_MIN_COMPARED = 10


@dataclass(frozen=True)
class Score:
    """One metric of every model, the fitted one first.

    unit
        "y" (the unit of the target), "nats" or "share".
    better
        "lower", "higher", "nominal" (near `nominal`) or "" (not by itself).
    values, errors
        The metric and its standard error; None where there is none.
    best
        Which model is best; all False where the metric does not say.
    """

    name: str
    unit: str
    better: str
    values: tuple[float, ...]
    errors: tuple[float | None, ...]
    best: tuple[bool, ...]
    nominal: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Mean log-likelihood of the model minus that of a baseline, nats a row, and its s.e."""

    baseline: str
    gain: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether the difference exceeds two standard errors."""
        return abs(self.gain) > 2.0 * self.error


def of_numbers(
    predictives: Mapping[str, Predictive], y: Float[np.ndarray, " n"]
) -> tuple[Score, ...]:
    """Compute every metric of every model on the same rows."""
    models = tuple(predictives.values())
    errors = [np.abs(y - p.mean) for p in models]
    distances = [np.abs(2.0 * metrics.pit(p, y) - 1.0) for p in models]
    crps, log_prob = [p.crps(y) for p in models], [p.log_prob(y) for p in models]
    return (
        _score(
            "RMSE", "y", "lower", [metrics.rmse(p, y) for p in models], map(_rmse_error, errors)
        ),
        _score("MAE", "y", "lower", [metrics.mae(p, y) for p in models], map(_mean_error, errors)),
        _score(
            "CRPS", "y", "lower", [metrics.mean_crps(p, y) for p in models], map(_mean_error, crps)
        ),
        _score(
            "Mean log-likelihood",
            "nats",
            "higher",
            [metrics.mean_log_likelihood(p, y) for p in models],
            map(_mean_error, log_prob),
        ),
        *(_coverage(models, distances, level) for level in LEVELS),
        *(_width(models, level) for level in LEVELS),
    )


def of_classes(predictives: Mapping[str, ClassPredictive], y: np.ndarray) -> tuple[Score, ...]:
    """Compute every metric of every model on the same rows."""
    models = tuple(predictives.values())
    right = [p.label == y for p in models]
    log_prob = [p.log_prob(y) for p in models]
    squares = [_squares(p, y) for p in models]
    lines = [
        _score(ACCURACY, "share", "higher", map(_mean, right), map(_mean_error, right)),
        _score(
            BALANCED,
            "share",
            "higher",
            [balanced_accuracy(p, y) for p in models],
            [None] * len(models),
        ),
        _score(
            "Mean log-likelihood",
            "nats",
            "higher",
            map(_mean, log_prob),
            map(_mean_error, log_prob),
        ),
        _score("Brier score", "", "lower", map(_mean, squares), map(_mean_error, squares)),
        _score(
            "Calibration error",
            "share",
            "lower",
            [metrics.expected_calibration_error(p, y) for p in models],
            [None] * len(models),
        ),
    ]
    if len(models[0].classes) == 2:
        area = [area_under_roc(p.proba[:, 1], y == p.classes[1]) for p in models]
        lines.insert(
            2, _score("Area under the ROC curve", "", "higher", area, [None] * len(models))
        )
    return tuple(lines)


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
    from sklearn.metrics import roc_auc_score

    is_defined = np.any(positive) and not np.all(positive)
    return float(roc_auc_score(positive, score)) if is_defined else float("nan")


def compare(model: Any, baseline: Any, name: str, y: np.ndarray) -> Comparison | None:
    """Compare the `log_prob` of two predictives row by row; None below ten rows."""
    if len(y) < _MIN_COMPARED:
        return None
    gain = model.log_prob(y) - baseline.log_prob(y)
    if not np.all(np.isfinite(gain)):
        return None
    return Comparison(name, float(np.mean(gain)), _mean_error(gain) or 0.0)


def _score(
    name: str,
    unit: str,
    better: str,
    values: Iterable[float],
    errors: Iterable[float | None],
    nominal: float | None = None,
) -> Score:
    """Put one metric of every model into a line, and mark the best of them."""
    values = tuple(values)
    loss = {
        "lower": lambda v: v,
        "higher": lambda v: -v,
        "nominal": lambda v: abs(v - (nominal or 0.0)),
        "": lambda v: 0.0 * v,
    }[better]
    return Score(
        name, unit, better, values, tuple(errors), _best([loss(v) for v in values]), nominal
    )


def _coverage(models: tuple[Predictive, ...], distances: list[np.ndarray], level: float) -> Score:
    # A PIT costs one evaluation, the interval of a mixture a hundred.
    values = [float(np.mean(distance <= level)) for distance in distances]
    name = f"Coverage of {percent(level)} intervals"
    return _score(name, "share", "nominal", values, [None] * len(models), level)


def _width(models: tuple[Predictive, ...], level: float) -> Score:
    values = [metrics.mean_width(p, level) for p in models]
    return _score(f"Width of {percent(level)} intervals", "y", "", values, [None] * len(models))


def _best(losses: list[float]) -> tuple[bool, ...]:
    """Mark the smallest; nothing is best alone or among equals."""
    if len(losses) < 2 or max(losses) == min(losses):
        return (False,) * len(losses)
    return tuple(loss == min(losses) for loss in losses)


def _mean_error(values: np.ndarray) -> float | None:
    """Return the standard error of a mean; None where there is none."""
    if len(values) < 2 or not np.all(np.isfinite(values)):
        return None
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return error if error > 1e-12 * float(np.max(np.abs(values))) else 0.0


def _rmse_error(errors: np.ndarray) -> float | None:
    """Return the standard error of a root mean square, by the delta method."""
    # In units of the largest error, whose fourth power might overflow.
    unit = float(np.max(errors))
    if len(errors) < 2 or unit == 0.0:
        return None
    squared = (errors / unit) ** 2
    return unit * (_mean_error(squared) or 0.0) / (2.0 * float(np.sqrt(np.mean(squared))))


def _squares(predicted: ClassPredictive, y: np.ndarray) -> Float[np.ndarray, " n"]:
    """Brier score of every row: squared distance from the one-hot label."""
    p_actual = predicted.proba[np.arange(len(y)), predicted.codes(y)]
    return np.sum(predicted.proba**2, axis=1) - 2.0 * p_actual + 1.0


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values))
