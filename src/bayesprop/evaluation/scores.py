"""Held-out metrics beside those of baselines and reference models, in all and row by row.

All losses are those of the same rows, so that what makes a row hard for all of them cancels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from bayesprop import metrics
from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.distributions.predictive import Predictive
from bayesprop.evaluation.baselines import SIMPLE
from bayesprop.evaluation.words import alike, percent

LEVELS = (0.5, 0.9, 0.95)
_MIN_ROWS = 10
_COVERAGE = 0.9
_TITLES: dict[str, str] = {
    "constant": "a constant",
    "linear": "a linear model",
    "logistic": "a logistic regression",
}


class Metric(NamedTuple):
    """Name, unit and direction of a metric.

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
    models: Mapping[str, Distribution], y: np.ndarray, group: Shaped[np.ndarray, " n"] | None = None
) -> tuple[Score, ...]:
    """Compute every metric of every model on the same rows.

    Of classes proper scores come first; accuracy comes last where it says little.

    group
        Labels of rows that belong together: standard errors are those over groups.
    """
    shown = _OF_NUMBERS
    if isinstance(models["model"], ClassPredictive):
        shown = _OF_A_RARE_CLASS if metrics.is_mostly_one_class(y) else _OF_CLASSES
    each = [
        _of_classes(one, y, group)
        if isinstance(one, ClassPredictive)
        else _of_numbers(one, y, group)
        for one in models.values()
    ]
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


class Comparison(NamedTuple):
    """Mean difference of a score from another model on the same rows, and its s.e."""

    gain: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether the difference exceeds two standard errors."""
        return abs(self.gain) > 2.0 * self.error


class Loss(NamedTuple):
    """A loss of every row; lower is better.

    unit
        Of the mean loss: "y", "nats" or "".
    is_root
        Whether the loss is the root of the mean of the rows.
    """

    name: str
    unit: str
    rows: Float[np.ndarray, " n"]
    is_root: bool = False


class Lead(NamedTuple):
    """By how much the model's loss is below a rival's; negative where the rival is better."""

    loss: str
    unit: str
    by: Comparison


class Rival(NamedTuple):
    """A baseline or reference model; its first lead is that of a proper score."""

    name: str
    leads: tuple[Lead, ...]

    @property
    def is_reference(self) -> bool:
        """Whether it is more than what any model should beat."""
        return self.name not in SIMPLE

    @property
    def title(self) -> str:
        """Name of the rival in a sentence."""
        return f"{self.name} (scikit-learn)" if self.is_reference else _TITLES[self.name]


def rivals(
    models: Mapping[str, Distribution],
    y: np.ndarray,
    group: Shaped[np.ndarray, " n"] | None = None,
) -> tuple[Rival, ...]:
    """Compare "model" with every other prediction of the same rows; none below ten rows."""
    if len(y) < _MIN_ROWS:
        return ()
    own = losses(models["model"], y)
    compared = []
    for name, other in models.items():
        pairs = zip(own, losses(other, y), strict=True)
        leads = [lead for one, two in pairs if (lead := _lead(one, two, group)) is not None]
        if name != "model" and leads:
            compared.append(Rival(name, tuple(leads)))
    return tuple(compared)


def losses(predicted: Distribution, y: np.ndarray) -> tuple[Loss, ...]:
    """Return the losses of the task, that of the whole distribution first."""
    if isinstance(predicted, ClassPredictive):
        return (
            Loss("log loss", "nats", -predicted.log_prob(y)),
            Loss("Brier score", "", metrics.brier_of_rows(predicted, y)),
        )
    return (
        Loss("CRPS", "y", predicted.crps(y)),
        Loss("RMSE", "y", (y - predicted.mean) ** 2, is_root=True),
        Loss("interval score", "y", interval_score(predicted.interval(_COVERAGE), y, _COVERAGE)),
        Loss("log-likelihood", "nats", -predicted.log_prob(y)),
    )


def interval_score(
    interval: Float[np.ndarray, "n 2"], y: Float[np.ndarray, " n"], coverage: float
) -> Float[np.ndarray, " n"]:
    """Width, and 2 / (1 - coverage) times what a value is outside (Gneiting & Raftery 2007, 43)."""
    low, high = interval.T
    outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return high - low + 2.0 / (1.0 - coverage) * outside


def _lead(own: Loss, other: Loss, group: np.ndarray | None) -> Lead | None:
    """Subtract mean losses, with the standard error of the paired difference."""
    means = [float(np.mean(loss.rows)) for loss in (own, other)]
    each = [own.rows, other.rows]
    if own.is_root:
        means = [float(np.sqrt(mean)) for mean in means]
        # The delta method: a mean m of squares moves its root by 1 / (2 root m).
        each = [rows / (2.0 * mean or 1.0) for rows, mean in zip(each, means, strict=True)]
    with np.errstate(invalid="ignore"):  # infinite losses of both
        gap = each[1] - each[0]
    if not np.all(np.isfinite(gap)):
        return None
    error = metrics.clustered_error(gap, group)
    return Lead(
        own.name, own.unit, Comparison(means[1] - means[0], float(np.nan_to_num(error, nan=np.inf)))
    )


def in_words(lead: Lead, unit: str = "") -> str:
    """Word the size of a difference: "CRPS by 0.12 ± 0.05 MPa"."""
    gap, error = alike([abs(lead.by.gain), lead.by.error], lead.by.error, 1)
    suffix = {"nats": " nats a row", "y": f" {unit}" if unit else ""}.get(lead.unit, "")
    return f"{lead.loss} by {gap} ± {error}{suffix}"
