"""Means and variances of columns that come part by part, which merge exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.preprocessing import StandardScaler

from bayesprop.model.task import Standardiser

_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)


class MergedMoments:
    """Mean, variance and range of columns, of all rows that were added.

    units
        A standardiser of some of the rows: what is summed is near 0 and 1, whatever the columns.
    """

    def __init__(self, units: Standardiser) -> None:
        self.units, self.low, self.high = units, np.inf, -np.inf
        self.scaled: Any = StandardScaler()

    def add(
        self, x: Float[np.ndarray, "n d"], sample_weight: Float[np.ndarray, " n"] | None
    ) -> None:
        """Take rows in, in the original units; those of weight zero count as absent."""
        if sample_weight is not None:
            x, sample_weight = x[sample_weight > 0.0], sample_weight[sample_weight > 0.0]
        if len(x):
            self.scaled.partial_fit(self.units.transform(x), sample_weight=sample_weight)
            self.low = np.minimum(self.low, x.min(axis=0))
            self.high = np.maximum(self.high, x.max(axis=0))

    def standardiser(self) -> Standardiser:
        """Return what `Standardiser.fit` would of all rows at once, to rounding."""
        largest = np.maximum(np.abs(self.low), np.abs(self.high))
        _, exponent = np.frexp(np.where(largest > 0.0, largest, 1.0))
        unit = np.ldexp(1.0, np.clip(exponent, -1021, 1023))
        ratio = self.units.unit / unit
        mean = (self.scaled.mean_ * self.units.std + self.units.mean) * ratio
        std = np.sqrt(self.scaled.var_) * self.units.std * ratio
        spread = self.high / unit - self.low / unit
        is_constant = (spread <= _ROUNDING * largest / unit) | (std == 0.0)
        mean = np.where(is_constant, self.low / unit, mean)
        return Standardiser(unit, mean, np.where(is_constant, 1.0, std))
