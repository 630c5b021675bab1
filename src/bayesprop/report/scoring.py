"""Held-out metrics of the model beside its baselines, with standard errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

_MIN_COMPARED = 10


@dataclass(frozen=True)
class Score:
    """One metric of every model, the fitted one first.

    unit
        "y" (the unit of the target), "nats" or "share".
    better
        "lower", "higher", "nominal" (near `nominal`) or "" (not by itself).
    values, errors
        The metric and its standard error; None where there is none.
    """

    name: str
    unit: str
    better: str
    values: tuple[float, ...]
    errors: tuple[float | None, ...]
    nominal: float = 0.0

    @classmethod
    def of(
        cls, name: str, unit: str, better: str, values: Iterable[float], nominal: float = 0.0
    ) -> Score:
        """Give a metric without standard errors."""
        values = tuple(values)
        return cls(name, unit, better, values, (None,) * len(values), nominal)

    @classmethod
    def mean(cls, name: str, unit: str, better: str, of_rows: Iterable[np.ndarray]) -> Score:
        """Give a metric that is a mean over rows, from the rows of every model."""
        of_rows = list(of_rows)
        values = tuple(float(np.mean(rows)) for rows in of_rows)
        return cls(name, unit, better, values, tuple(map(mean_error, of_rows)))

    @classmethod
    def with_errors(
        cls, name: str, unit: str, better: str, pairs: Iterable[tuple[float, float]]
    ) -> Score:
        """Give a metric with the standard error of each model, nan where there is none."""
        values, errors = zip(*pairs, strict=True)
        return cls(name, unit, better, values, tuple(None if np.isnan(e) else e for e in errors))

    @property
    def best(self) -> tuple[bool, ...]:
        """Which model is best; none where the metric does not say, or alone, or among equals."""
        values = np.array(self.values)
        if np.isnan(values[0]):
            return (False,) * len(values)
        losses = {"higher": -values, "nominal": np.abs(values - self.nominal)}
        loss = losses.get(self.better, values)
        if self.better == "" or np.nanmax(loss) == np.nanmin(loss):
            return (False,) * len(loss)
        return tuple((loss == np.nanmin(loss)).tolist())


@dataclass(frozen=True)
class Comparison:
    """How far a mean score of the model is ahead of a baseline's on the same rows, and its s.e.

    Of `compare` in mean log-likelihood, nats a row.
    """

    gain: float
    error: float

    @property
    def is_clear(self) -> bool:
        """Whether the difference exceeds two standard errors."""
        return abs(self.gain) > 2.0 * self.error


def compare(model: Any, baseline: Any, y: np.ndarray) -> Comparison | None:
    """Compare the `log_prob` of two predictives row by row; None below ten rows."""
    if len(y) < _MIN_COMPARED:
        return None
    gain = model.log_prob(y) - baseline.log_prob(y)
    if not np.all(np.isfinite(gain)):
        return None
    return Comparison(float(np.mean(gain)), mean_error(gain) or 0.0)


def mean_error(values: np.ndarray) -> float | None:
    """Return the standard error of a mean; None where there is none."""
    if len(values) < 2 or not np.all(np.isfinite(values)):
        return None
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return error if error > 1e-12 * float(np.max(np.abs(values))) else 0.0
