"""Values and metrics as JSON and people read them. Light, because `--help` imports it."""

from __future__ import annotations

import math
from typing import Any

from bayesprop.distributions.few_digits import few_digits

Scores = dict[str, dict[str, float]]
LABELS = {
    "rmse": ("RMSE", "typical error; lower is better"),
    "mae": ("MAE", "mean absolute error"),
    "log_likelihood": ("log-likelihood, nats a row", "higher is better"),
    "crps": ("CRPS", "error of the whole distribution"),
    "coverage_50": ("share inside 50 % intervals", "target: 0.50"),
    "coverage_90": ("share inside 90 % intervals", "target: 0.90"),
    "width_90": ("width of 90 % intervals", "narrower is better, if calibrated"),
    "calibration_error": ("calibration error", "deviation from nominal; target: 0"),
    "epistemic_share": ("epistemic share", "of the uncertainty; more data would reduce it"),
    "accuracy": ("accuracy", "share of rows predicted correctly"),
    "average_precision": ("average precision", "of the positive class; by chance: its share"),
    "roc_auc": ("area under the ROC curve", "ranking of positives; by chance: 0.5"),
    "brier": ("Brier score", "squared error of the probabilities, 0 to 2; lower is better"),
    "rps": ("RPS, in classes", "error of the whole distribution; lower is better"),
    "mean_confidence": ("mean confidence", "target: the accuracy"),
    "mean_entropy": ("mean entropy, nats", "uncertainty of the class; 0 is certain"),
}
"""Every metric with its name in words and its meaning."""


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
