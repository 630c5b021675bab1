"""Values and metrics as JSON and people read them. Light, because `--help` imports it."""

from __future__ import annotations

import math
from typing import Any

from bayesprop.distributions.few_digits import few_digits

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
    "rps": ("RPS, in classes", "error of the whole distribution; lower is better"),
    "mean_confidence": ("mean confidence", "near the accuracy is honest"),
    "mean_entropy": ("mean entropy, nats", "doubt about the class; 0 is certain"),
}
"""Of every metric, its name in words and what it means."""


def plain(value: Any) -> Any:
    """Turn arrays, tuples and numpy scalars into what JSON knows, non-finite numbers into None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def figure(value: float | None, digits: int = 4) -> str:
    """Format a number for a person: so many significant digits, a dash where there is none."""
    if value is None or not math.isfinite(value):
        return "-"
    return few_digits(value, digits)


def figure_beside(value: float, std: float) -> str:
    """Format a number for a person by its error bar, to the third significant digit of that."""
    if not (math.isfinite(value) and math.isfinite(std) and std > 0.0):
        return figure(value)
    n_decimals = 2 - math.floor(math.log10(std))
    return f"{round(value, n_decimals):,.{max(n_decimals, 0)}f}"
