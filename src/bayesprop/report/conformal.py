"""What the judged rows would make of the error bars, in a sentence: split conformal prediction."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Shaped

from bayesprop.decisions import conformal
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import Predictive
from bayesprop.report.words import number, percent

_COVERAGE = 0.9


def of_numbers(predicted: Predictive, y: Float[np.ndarray, " n"]) -> str:
    """Say which intervals mean ± so many std hold the promise; nothing of too few rows."""
    if len(y) < conformal.least_rows(_COVERAGE):
        return ""
    std = predicted.std
    std_wide = conformal.stretch(predicted.mean, std, y, _COVERAGE)
    own = np.mean(predicted.interval(_COVERAGE) @ np.array([-1.0, 1.0]))
    times_as_wide = float(2.0 * std_wide * np.mean(std) / own)
    return (
        f"Conformal prediction, calibrated on these rows, makes the "
        f"{percent(_COVERAGE)} interval of a new row the mean ± "
        f"{number(std_wide)} std: {number(times_as_wide)} times as wide as the "
        "model's own, on average. It then holds what it promises, over all rows, whatever the "
        "model got wrong: bayesprop predict --calibrate."
    )


def of_classes(predicted: ClassPredictive, y: Shaped[np.ndarray, " n"]) -> str:
    """Say which classes a set must hold, and how large sets are; nothing of too few rows."""
    if len(y) < conformal.least_rows(_COVERAGE):
        return ""
    proba = np.asarray(predicted.proba, np.float64)
    limit = conformal.limit(proba, np.asarray(predicted.classes), y, _COVERAGE)
    sizes = np.sum(proba >= limit, axis=1)
    return (
        f"Conformal prediction, calibrated on these rows: the set of all classes of "
        f"probability {number(limit)} or more holds the class of a new row "
        f"{percent(_COVERAGE)} of the time, whatever the model got wrong. On these rows "
        f"it has {number(float(np.mean(sizes)))} classes on average, and exactly one for "
        f"{percent(float(np.mean(sizes == 1)))} of them."
    )
