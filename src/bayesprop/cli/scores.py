"""How good predictions are, beside what any model should beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprop import metrics
from bayesprop.cli.console import figure, print_table
from bayesprop.methods import CLASSIFICATION
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.report.baselines import Baselines, ConstantBaseline, FrequencyBaseline
from bayesprop.table.classes import class_text
from bayesprop.table.encoding import Rows

if TYPE_CHECKING:
    from bayesprop.model.predictive import Predictive

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
    "epistemic_share": ("epistemic share of doubt", "what more data would remove"),
    "accuracy": ("accuracy", "share of rows whose likeliest class is right"),
    "brier": ("Brier score", "squared error of the probabilities, 0 to 2; lower is better"),
    "mean_confidence": ("mean confidence", "near the accuracy is honest"),
    "mean_entropy": ("mean entropy, nats", "doubt about the class; 0 is certain"),
}


def constant_of(task: str, rows: Rows) -> ConstantBaseline | FrequencyBaseline:
    """Fit what any model should beat: the same prediction for every row."""
    if task == CLASSIFICATION:
        return FrequencyBaseline.fit(rows.y, np.unique(rows.y))
    return ConstantBaseline.fit(rows.y)


def stored_baselines(stored: Any) -> Baselines | None:
    """Rebuild the baselines that a model file holds; None where it holds none."""
    try:
        return Baselines.from_dict(stored)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def baselines_of(estimator: Any, rows: Rows) -> Baselines:
    """Fit the baselines of an estimator's task to training rows."""
    return Baselines.fit(rows.X, rows.y, getattr(estimator, "classes_", None))


def score(
    predictive: Predictive | ClassPredictive,
    baselines: Baselines | None,
    rows: Rows,
) -> Scores:
    """Return the metrics of what a model predicts for the rows, and those of each baseline."""
    beside = {} if baselines is None else baselines.predict(rows.X)
    # The constant one first: the more a model can, the further to the right.
    beside = dict(sorted(beside.items()))
    return {"model": metrics.summarise(predictive, rows.y)} | {
        name: metrics.summarise(prediction, rows.y) for name, prediction in beside.items()
    }


def print_scores(title: str, scores: Scores, unit: str) -> None:
    """Print one row a metric, one column a model, and what the metric means."""
    rows = []
    for metric in scores["model"]:
        label, meaning = _LABELS.get(metric, (metric, ""))
        figures = (figure(values.get(metric)) for values in scores.values())
        rows.append((label, *figures, meaning))
    heading = f"{title} (in {unit})" if unit else title
    print_table(heading, ("", *scores, ""), rows, right=range(1, 1 + len(scores)))


def confusion(predictive: Any, rows: Rows) -> dict[str, Any] | None:
    """Count rows by actual (outer list) and predicted class; None where numbers are predicted."""
    if not isinstance(predictive, ClassPredictive):
        return None
    counts = metrics.confusion(predictive, rows.y)
    return {"classes": predictive.classes.tolist(), "counts": counts.tolist()}


def print_confusion(counted: dict[str, Any]) -> None:
    """Print the counts, unless there are too many classes to read them."""
    labels = [class_text(label) for label in counted["classes"]]
    if len(labels) > MAX_SHOWN_CLASSES:
        return
    print()
    rows = [(label, *map(str, row)) for label, row in zip(labels, counted["counts"], strict=True)]
    print_table("", ("actual, predicted:", *labels), rows, right=range(1, 1 + len(labels)))
