"""How good predictions are, beside what any model should beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bayesprop import metrics
from bayesprop.commands.console import figure, print_table
from bayesprop.commands.failures import InputError, one_line

if TYPE_CHECKING:
    from bayesprop.model.predictive import Predictive
    from bayesprop.report.baselines import Baselines

Scores = dict[str, dict[str, float]]
_LABELS = {
    "rmse": "RMSE",
    "mae": "MAE",
    "log_likelihood": "log-likelihood, nats a row",
    "crps": "CRPS",
    "coverage_50": "share inside 50 % intervals",
    "coverage_90": "share inside 90 % intervals",
    "width_90": "width of 90 % intervals",
    "calibration_error": "calibration error",
    "epistemic_share": "epistemic share of variance",
}


def score(
    estimator: Any,
    baselines: Baselines | None,
    features: Float[np.ndarray, "n k"],
    target: Float[np.ndarray, " n"],
) -> Scores:
    """Return the metrics of the model and of each baseline, by name, in the units of the target."""
    scores = {"model": metrics.summarise(predict_rows(estimator, features), target)}
    for name in ("constant", "linear"):
        baseline = getattr(baselines, name, None)
        if baseline is not None:
            scores[name] = metrics.summarise(baseline.predict_dist(features), target)
    return scores


def predict_rows(
    estimator: Any, features: Float[np.ndarray, "n k"], first_row: int = 1
) -> Predictive:
    """Predict some rows; refuse values too far from the training table for a finite answer."""
    try:
        predictive = estimator.predict_dist(features)
    except ValueError as error:
        after = f", after data row {first_row - 1}" if first_row > 1 else ""
        raise InputError(one_line(f"{error} (rows count from 0{after})")) from error
    parts = (predictive.epistemic_var, predictive.noise_var)
    good = np.isfinite(predictive.mean) & np.all([np.isfinite(v) & (v >= 0) for v in parts], axis=0)
    if not np.all(good):
        row = first_row + int(np.argmin(good))
        raise InputError(
            f"data row {row}: the prediction is not finite; its values lie too far from the "
            "training table"
        )
    return predictive


def print_scores(title: str, scores: Scores, unit: str) -> None:
    """Print one row a metric, one column a model."""
    rows = [
        (_LABELS.get(metric, metric), *(figure(values.get(metric)) for values in scores.values()))
        for metric in scores["model"]
    ]
    heading = f"{title} (in {unit})" if unit else title
    print_table(heading, ("", *scores), rows, right=range(1, 1 + len(scores)))
