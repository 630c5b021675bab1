"""What the judged rows would make of the error bars: split conformal prediction, by MAPIE."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped

from bayesprop.decisions import conformal
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import Predictive
from bayesprop.report.words import number, percent

_COVERAGE = 0.9


@dataclass(frozen=True)
class Stretched:
    """Intervals mean ± std_wide std hold the promise; they are so many times the model's own."""

    coverage: float
    std_wide: float
    times_as_wide: float

    @property
    def sentence(self) -> str:
        """Say it."""
        return (
            f"Conformal prediction (MAPIE), calibrated on these rows, makes the "
            f"{percent(self.coverage)} interval of a new row the mean ± "
            f"{number(self.std_wide)} std: {number(self.times_as_wide)} times as wide as the "
            "model's own, on average. It then holds what it promises, over all rows, whatever the "
            "model got wrong: bayesprop predict --calibrate."
        )


@dataclass(frozen=True)
class Sets:
    """Sets of the classes of at least a probability: how large they are on average."""

    coverage: float
    limit: float
    mean_size: float
    single: float

    @property
    def sentence(self) -> str:
        """Say it."""
        return (
            f"Conformal prediction (MAPIE), calibrated on these rows: the set of all classes of "
            f"probability {number(self.limit)} or more holds the class of a new row "
            f"{percent(self.coverage)} of the time, whatever the model got wrong. On these rows "
            f"it has {number(self.mean_size)} classes on average, and exactly one for "
            f"{percent(self.single)} of them."
        )


def stretched(predicted: Predictive, y: np.ndarray, *, kind: str) -> Stretched | None:
    """Calibrate intervals; None on training rows, on too few, or without MAPIE."""
    if not _can_calibrate(len(y), kind):
        return None
    std = predicted.std
    std_wide = conformal.stretch(predicted.mean, std, y, _COVERAGE)
    own = np.mean(predicted.interval(_COVERAGE) @ np.array([-1.0, 1.0]))
    return Stretched(_COVERAGE, std_wide, float(2.0 * std_wide * np.mean(std) / own))


def sets(predicted: ClassPredictive, y: Shaped[np.ndarray, " n"], *, kind: str) -> Sets | None:
    """Calibrate sets of classes; None on training rows, on too few, or without MAPIE."""
    if not _can_calibrate(len(y), kind):
        return None
    proba = np.asarray(predicted.proba, np.float64)
    limit = conformal.limit(proba, np.asarray(predicted.classes), y, _COVERAGE)
    sizes = np.sum(proba >= limit, axis=1)
    return Sets(_COVERAGE, limit, float(np.mean(sizes)), float(np.mean(sizes == 1)))


def _can_calibrate(n_rows: int, kind: str) -> bool:
    is_there = importlib.util.find_spec("mapie") is not None
    return kind != "training" and n_rows >= conformal.least_rows(_COVERAGE) and is_there
