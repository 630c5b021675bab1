"""How good a prediction was: accuracy, proper scores, calibration; in the original units of y.

Every function takes a Predictive and the observations of the same rows. Lower is better except for
log-likelihood and coverage. Several outputs count as so many observations, except in the
log-likelihood, where a row's density is the product over its outputs.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bayesprop.model.predictive import Predictive

Observed = Float[np.ndarray, " n"] | Float[np.ndarray, "n o"]
_LEVELS = np.linspace(0.05, 0.95, 19)


def rmse(pred: Predictive, y: Observed) -> float:
    """Root of the mean squared error of the mean, y."""
    return float(np.sqrt(np.mean((_checked(pred, y) - pred.mean) ** 2)))


def mae(pred: Predictive, y: Observed) -> float:
    """Mean absolute error of the mean, y."""
    return float(np.mean(np.abs(_checked(pred, y) - pred.mean)))


def mean_log_likelihood(pred: Predictive, y: Observed) -> float:
    """Mean log density of a row under its own prediction, nats a row.

    The density is that of y in its original units, so that it changes by -log c if y is
    multiplied by c. Each row's density is that of its (single) predictive distribution: there is
    no average of densities over draws left to take.
    """
    log_density = pred.log_prob(_checked(pred, y))
    return float(np.mean(log_density.reshape(len(log_density), -1).sum(axis=1)))


def mean_crps(pred: Predictive, y: Observed) -> float:
    """Mean continuous ranked probability score, y; the mean absolute error of a point forecast."""
    return float(np.mean(pred.crps(_checked(pred, y))))


def pit(pred: Predictive, y: Observed) -> Observed:
    """Probability of a value at or below each observation; uniform on 0..1 if calibrated."""
    return pred.cdf(_checked(pred, y))


def coverage(pred: Predictive, y: Observed, level: float) -> float:
    """Share of observations inside the central interval of probability `level`; ideally `level`."""
    y = _checked(pred, y)
    interval = pred.interval(level)
    return float(np.mean((interval[..., 0] <= y) & (y <= interval[..., 1])))


def mean_width(pred: Predictive, level: float) -> float:
    """Mean width of the central interval of probability `level`, y."""
    interval = pred.interval(level)
    return float(np.mean(interval[..., 1] - interval[..., 0]))


def calibration_error(pred: Predictive, y: Observed) -> float:
    """Mean of |nominal - actual| coverage of central intervals at .05, .10, ... .95; 0 to 0.5.

    It has a floor of about 0.33 / sqrt(n) for n observations even where the prediction is perfect.
    """
    distance_from_median = np.abs(2.0 * pit(pred, y) - 1.0).ravel()
    actual = np.mean(distance_from_median <= _LEVELS[:, None], axis=1)
    return float(np.mean(np.abs(_LEVELS - actual)))


def summarise(pred: Predictive, y: Observed) -> dict[str, float]:
    """Return the figures that a report shows, by name."""
    return {
        "rmse": rmse(pred, y),
        "mae": mae(pred, y),
        "log_likelihood": mean_log_likelihood(pred, y),
        "crps": mean_crps(pred, y),
        "coverage_50": coverage(pred, y, 0.5),
        "coverage_90": coverage(pred, y, 0.9),
        "width_90": mean_width(pred, 0.9),
        "calibration_error": calibration_error(pred, y),
        "epistemic_share": pred.epistemic_share,
    }


def _checked(pred: Predictive, y: Observed) -> Observed:
    y = np.asarray(y, dtype=np.float64)
    if y.shape != np.shape(pred.mean):
        raise ValueError(
            f"y must have the shape of the prediction, {np.shape(pred.mean)}, got {y.shape}"
        )
    if y.size == 0:
        raise ValueError("y must hold at least one observation, got none")
    if not np.isfinite(y).all():
        raise ValueError("y must be finite: leave out rows without an observation")
    return y
