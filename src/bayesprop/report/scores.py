"""Held-out metrics of the model beside its baselines, with standard errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from bayesprop import metrics
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import Predictive
from bayesprop.report.rivals import interval_score
from bayesprop.report.words import percent

LEVELS = (0.5, 0.9, 0.95)


class Metric(NamedTuple):
    """What is shown of a metric.

    unit
        "y" (the unit of the target), "nats", "share" or "".
    better
        "lower", "higher", "nominal" (near `nominal`) or "" (not by itself).
    """

    key: str
    name: str
    unit: str
    better: str
    nominal: float = 0.0


_OF_NUMBERS = (
    Metric("rmse", "RMSE", "y", "lower"),
    Metric("mae", "MAE", "y", "lower"),
    Metric("crps", "CRPS", "y", "lower"),
    Metric("log_likelihood", "Mean log-likelihood", "nats", "higher"),
    *(
        Metric(f"inside_{at}", f"Coverage of {percent(at)} intervals", "share", "nominal", at)
        for at in LEVELS
    ),
    Metric("interval_score", f"Score of {percent(0.9)} intervals", "y", "lower"),
    *(Metric(f"mean_width_{at}", f"Width of {percent(at)} intervals", "y", "") for at in LEVELS),
)
_PROPER = (
    Metric("log_likelihood", "Mean log-likelihood", "nats", "higher"),
    Metric("rps", "Ranked probability score, in classes", "", "lower"),
    Metric("brier", "Brier score", "", "lower"),
)
_ACCURACY = Metric("accuracy", "Accuracy", "share", "higher")
_BALANCED = Metric("balanced_accuracy", "Balanced accuracy", "share", "higher")
_RANKS = (
    Metric("average_precision", "Average precision", "", "higher"),
    Metric("roc_auc", "Area under the ROC curve", "", "higher"),
)
_CALIBRATION = Metric("calibration_error", "Calibration error", "share", "lower")
_OF_CLASSES = (*_PROPER, _ACCURACY, _BALANCED, *_RANKS, _CALIBRATION)
_OF_A_RARE_CLASS = (*_RANKS, *_PROPER, _CALIBRATION, _BALANCED, _ACCURACY)


@dataclass(frozen=True)
class Score:
    """One metric of every model, the fitted one first, and its standard error if it has one."""

    metric: Metric
    values: tuple[float, ...]
    errors: tuple[float | None, ...]

    @property
    def best(self) -> tuple[bool, ...]:
        """Which model is best; none where the metric does not say, or alone, or among equals."""
        values, better = np.array(self.values), self.metric.better
        losses = {"higher": -values, "nominal": np.abs(values - self.metric.nominal)}
        loss = losses.get(better, values)
        if better == "" or np.isnan(values[0]) or np.nanmax(loss) == np.nanmin(loss):
            return (False,) * len(values)
        return tuple((loss == np.nanmin(loss)).tolist())


def scores(
    models: Mapping[str, Any], y: np.ndarray, group: Shaped[np.ndarray, " n"] | None = None
) -> tuple[Score, ...]:
    """Compute every metric of every model on the same rows.

    Of classes proper scores come first; accuracy comes last where it says little.

    group
        Labels of rows that belong together: standard errors are those over groups.
    """
    if isinstance(models["model"], ClassPredictive):
        shown = _OF_A_RARE_CLASS if metrics.is_mostly_one_class(y) else _OF_CLASSES
        each = [_of_classes(one, y, group) for one in models.values()]
    else:
        shown, each = _OF_NUMBERS, [_of_numbers(one, y, group) for one in models.values()]
    return tuple(
        Score(
            metric,
            tuple(one.values[metric.key] for one in each),
            tuple(one.errors.get(metric.key) for one in each),
        )
        for metric in shown
        if metric.key in each[0].values
    )


def _of_numbers(predicted: Predictive, y: np.ndarray, group: np.ndarray | None) -> metrics.Summary:
    values, errors = metrics.summary(predicted, y, group)
    each = {at: predicted.interval(at) for at in LEVELS}
    losses = interval_score(each[0.9], y, 0.9)
    for at, (low, high) in ((at, interval.T) for at, interval in each.items()):
        values[f"inside_{at}"] = float(np.mean((low <= y) & (y <= high)))
        values[f"mean_width_{at}"] = float(np.mean(high - low))
    values["interval_score"] = float(np.mean(losses))
    if not np.isnan(error := metrics.clustered_error(losses, group)):
        errors["interval_score"] = error
    return metrics.Summary(values, errors)


def _of_classes(
    predicted: ClassPredictive, y: np.ndarray, group: np.ndarray | None
) -> metrics.Summary:
    summary = metrics.summary(predicted, y, group)
    counts = metrics.confusion(predicted, y)
    rows = np.sum(counts, axis=1)
    # The mean over the classes that occur of the share of their rows that is found.
    shares = np.diag(counts)[rows > 0] / rows[rows > 0]
    summary.values["balanced_accuracy"] = float(np.mean(shares))
    return summary
