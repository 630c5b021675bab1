"""Report sections for numbers only: scores, uncertain rows, spread of errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bayesprop import conformal as split_conformal
from bayesprop import metrics
from bayesprop.distributions.predictive import Predictive
from bayesprop.evaluation.calibration import (
    GroupCoverage,
    PitHistogram,
    Promise,
    coverage_by_group,
    coverage_curve,
    pit_histogram,
)
from bayesprop.evaluation.words import alike, number, percent
from bayesprop.report.unsure import N_ROWS, Answer

_GROUPED_ROWS = 100
_GROUPS = 5
_CONFORMAL = 0.9


class Cloud(NamedTuple):
    """Rows to draw, all in y. `low` and `high` bound the 90 % interval."""

    actual: Float[np.ndarray, " p"]
    mean: Float[np.ndarray, " p"]
    low: Float[np.ndarray, " p"]
    high: Float[np.ndarray, " p"]
    std: Float[np.ndarray, " p"]


class ErrorGroup(NamedTuple):
    """Rows of similar predicted std: its range, and the size that 90 % of their errors keep to."""

    low: float
    high: float
    size: float


@dataclass(frozen=True)
class NumberDetails:
    """Contents of the report for regressors only.

    median_error
        Median absolute error, y.
    calibration_error
        Mean |nominal - actual| coverage.
    is_even
        Whether the model predicts the same std, within 5 %, for 95 % of the rows.
    """

    median_error: float
    calibration_error: float
    pit: PitHistogram | None
    coverage: Promise | None
    cloud: Cloud
    groups: tuple[ErrorGroup, ...]
    is_even: bool
    by_group: tuple[GroupCoverage, ...] = ()
    template: ClassVar[str] = "numbers.html"


def details(
    predicted: Predictive,
    y: Float[np.ndarray, " n"],
    drawn: Int[np.ndarray, " p"],
    group: Shaped[np.ndarray, " n"] | None = None,
    is_known: Bool[np.ndarray, " n"] | None = None,
) -> NumberDetails:
    """Compute them; `drawn` are the places of the rows of the figures, `group` labels all rows.

    is_known
        As of `coverage_by_group`.
    """
    pit, chosen = metrics.pit(predicted, y), predicted[drawn]
    least, most = np.quantile(predicted.std, (0.025, 0.975))
    is_even = bool(most <= 1.05 * least)
    low, high = chosen.interval(0.9).T
    return NumberDetails(
        median_error=float(np.median(np.abs(y - predicted.mean))),
        calibration_error=metrics.calibration_error(predicted, y),
        pit=pit_histogram(pit, group),
        coverage=coverage_curve(pit, group),
        cloud=Cloud(y[drawn], chosen.mean, low, high, chosen.std),
        groups=() if is_even or len(y) < _GROUPED_ROWS else _groups(predicted, y),
        is_even=is_even,
        by_group=() if group is None else coverage_by_group(predicted, y, group, is_known),
    )


def _groups(predicted: Predictive, y: np.ndarray) -> tuple[ErrorGroup, ...]:
    """Cut the rows into five by their predicted std."""
    std, size = predicted.std, np.abs(y - predicted.mean)
    order = np.argsort(std, kind="stable")
    return tuple(
        ErrorGroup(float(std[part[0]]), float(std[part[-1]]), float(np.quantile(size[part], 0.9)))
        for part in np.array_split(order, _GROUPS)
    )


def least_sure(predicted: Predictive) -> Int[np.ndarray, " k"]:
    """Return the places of the ten rows of widest predictions."""
    return np.argsort(-predicted.std, kind="stable")[:N_ROWS]


def most_wrong(_predicted: Predictive, _y: np.ndarray) -> Int[np.ndarray, " k"]:
    """Return none: a number is not right or wrong."""
    return np.empty(0, dtype=np.int64)


def answers(predicted: Predictive, y: Float[np.ndarray, " n"]) -> list[Answer]:
    """Write every row's numbers with as many decimals as its interval deserves."""
    interval = predicted.interval(0.9)
    share = predicted.epistemic_var / predicted.var
    rows = []
    for k, (low, high) in enumerate(interval):
        numbers = [predicted.mean[k], low, high, y[k]]
        mean, *ends, actual = alike(list(map(float, numbers)), float(high - low) / 3)
        is_missed = not low <= y[k] <= high
        rows.append(Answer((mean, " to ".join(ends)), actual, is_missed, float(share[k])))
    return rows


def conformal(predicted: Predictive, y: Float[np.ndarray, " n"]) -> str:
    """Word the conformal intervals mean ± c std; "" for too few rows."""
    if len(y) < split_conformal.least_rows(_CONFORMAL):
        return ""
    std = predicted.std
    std_wide = split_conformal.stretch(predicted.mean, std, y, _CONFORMAL)
    times_as_wide = float(2.0 * std_wide * np.mean(std)) / metrics.mean_width(predicted, _CONFORMAL)
    return (
        f"Conformal prediction, calibrated on these rows, gives the "
        f"{percent(_CONFORMAL)} interval mean ± {number(std_wide)} std: "
        f"{number(times_as_wide)} times as wide as the interval of the model, on average. It has "
        "the nominal coverage on average over new rows, whether or not the model is right: "
        "bayesprop predict --calibrate."
    )
