"""How good predictions are, beside what any model should beat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from bayesprop import class_metrics, metrics
from bayesprop.cli.console import figure, print_table
from bayesprop.cli.failures import InputError, one_line, refusals_of_estimator
from bayesprop.estimators.inputs import FarInputError
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.report.baselines import Baselines
from bayesprop.report.class_baselines import ClassBaselines
from bayesprop.table.read import class_text

if TYPE_CHECKING:
    from bayesprop.model.predictive import Predictive
    from bayesprop.table.read import TableEncoding

MAX_SHOWN_CLASSES = 10
Scores = dict[str, dict[str, float]]
_LABELS = {
    "rmse": ("RMSE", "typical error; lower is better"),
    "mae": ("MAE", "mean error, either way"),
    "log_likelihood": ("log-likelihood, nats a row", "higher is better"),
    "crps": ("CRPS", "error of the whole distribution"),
    "coverage_50": ("share inside 50 % intervals", "0.5 is honest"),
    "coverage_90": ("share inside 90 % intervals", "0.9 is honest"),
    "width_90": ("width of 90 % intervals", "narrower is sharper, if honest"),
    "calibration_error": ("calibration error", "gap between promised and actual; 0 is honest"),
    "epistemic_share": ("epistemic share of variance", "what more data would remove"),
    "accuracy": ("accuracy", "share of rows whose likeliest class is right"),
    "brier": ("Brier score", "squared error of the probabilities, 0 to 2; lower is better"),
    "mean_confidence": ("mean confidence", "near the accuracy is honest"),
    "mean_entropy": ("mean entropy, nats", "doubt about the class; 0 is certain"),
}


def baselines_of(
    estimator: Any, features: Float[np.ndarray, "n k"], target: Shaped[np.ndarray, " n"]
) -> Baselines | ClassBaselines:
    """Fit the baselines of an estimator's task to training rows."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        return Baselines.fit(features, target)
    return ClassBaselines.fit(features, target, classes)


def score(
    predictive: Predictive | ClassPredictive,
    baselines: Baselines | ClassBaselines | None,
    features: Float[np.ndarray, "n k"],
    target: Shaped[np.ndarray, " n"],
) -> Scores:
    """Return the metrics of the model and of each baseline, by name, in the units of the target.

    predictive
        What the model predicts for the features.
    """
    of_classes = isinstance(predictive, ClassPredictive)
    summarise: Any = class_metrics.summarise if of_classes else metrics.summarise
    scores = {"model": summarise(predictive, target)}
    for name in ("constant", "linear", "logistic"):
        baseline = getattr(baselines, name, None)
        if baseline is not None:
            scores[name] = summarise(baseline.predict_dist(features), target)
    return scores


@contextmanager
def far_rows_by_name(
    features: Float[np.ndarray, "n k"],
    encoding: TableEncoding,
    row_numbers: Sequence[Any] | np.ndarray,
) -> Iterator[None]:
    """Tell a refusal of a far value in the table's words, not by places in a matrix."""
    try:
        yield
    except FarInputError as error:  # which may have seen a few of the rows, in another order
        found = np.flatnonzero(features[:, error.column] == error.value)
        row = f"data row {row_numbers[found[0]]}: " if len(found) else ""
        name = one_line(encoding.feature_names[error.column])
        raise InputError(
            f"{row}{name} must lie within {error.furthest:g} standard deviations of its mean in "
            f"the training table, got {error.value:g}"
        ) from error


def predict_rows(
    estimator: Any,
    features: Float[np.ndarray, "n k"],
    encoding: TableEncoding,
    row_numbers: Sequence[Any] | np.ndarray,
) -> Any:
    """Predict some rows; refuse values too far from the training table for a finite answer.

    row_numbers
        What the table calls the rows, for the message.
    """
    with refusals_of_estimator(ValueError), far_rows_by_name(features, encoding, row_numbers):
        predictive = estimator.predict_dist(features)
    of_classes = isinstance(predictive, ClassPredictive)
    good = (_good_classes if of_classes else _good_numbers)(predictive)
    if not np.all(good):
        row = row_numbers[int(np.argmin(good))]
        raise InputError(
            f"data row {row}: the prediction is not finite; its values lie too far from the "
            "training table"
        )
    return predictive


def _good_numbers(predictive: Predictive) -> Any:
    parts = np.stack([predictive.epistemic_var, predictive.noise_var])
    moments = np.stack([predictive.mean, *parts])
    return np.all(np.isfinite(moments), axis=0) & np.all(parts >= 0.0, axis=0)


def _good_classes(predictive: ClassPredictive) -> Any:
    return np.all(np.isfinite(predictive.proba), axis=1)


def print_scores(title: str, scores: Scores, unit: str) -> None:
    """Print one row a metric, one column a model, and what the metric means."""
    rows = []
    for metric in scores["model"]:
        label, meaning = _LABELS.get(metric, (metric, ""))
        if metric == "epistemic_share" and "accuracy" in scores["model"]:
            label = "epistemic share of entropy"
        figures = (figure(values.get(metric)) for values in scores.values())
        rows.append((label, *figures, meaning))
    heading = f"{title} (in {unit})" if unit else title
    print_table(heading, ("", *scores, ""), rows, right=range(1, 1 + len(scores)))


class Confusion(NamedTuple):
    """How many rows of each class (outer list) were taken for which (inner lists)."""

    classes: list[Any]
    counts: list[list[int]]


def confusion(
    predictive: Predictive | ClassPredictive, target: Shaped[np.ndarray, " n"]
) -> Confusion | None:
    """Count rows by actual and predicted class; None where numbers are predicted."""
    if not isinstance(predictive, ClassPredictive):
        return None
    counts = class_metrics.confusion(predictive, target)
    return Confusion(predictive.classes.tolist(), counts.tolist())


def print_confusion(counted: Confusion) -> None:
    """Print the counts, unless there are too many classes to read them."""
    labels = [class_text(label) for label in counted.classes]
    if len(labels) > MAX_SHOWN_CLASSES:
        return
    print()
    rows = [(label, *map(str, row)) for label, row in zip(labels, counted.counts, strict=True)]
    print_table("", ("actual, predicted:", *labels), rows, right=range(1, 1 + len(labels)))
