"""Metrics of a model and of its baselines, and what they are called."""

from __future__ import annotations

Scores = dict[str, dict[str, float]]


LABELS = {
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
    "average_precision": ("average precision", "of the positive class; its share is chance"),
    "roc_auc": ("area under the ROC curve", "positives ranked first; 0.5 is chance"),
    "brier": ("Brier score", "squared error of the probabilities, 0 to 2; lower is better"),
    "mean_confidence": ("mean confidence", "near the accuracy is honest"),
    "mean_entropy": ("mean entropy, nats", "doubt about the class; 0 is certain"),
}

"""Of every metric, its name in words and what it means."""
