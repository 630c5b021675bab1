"""Means and variances of columns that come part by part, which merge exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.model.task import Standardiser

_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)


class MergedMoments(NamedTuple):
    """Weight, mean, sum of squares about it and range of standardised columns.

    units
        A standardiser of some of the rows: what is summed is near 0 and 1, whatever the columns.
    """

    units: Standardiser
    weight: float
    mean: Float[np.ndarray, " d"]
    squares: Float[np.ndarray, " d"]
    low: Float[np.ndarray, " d"]
    high: Float[np.ndarray, " d"]

    @classmethod
    def none(cls, units: Standardiser) -> MergedMoments:
        """Of no rows."""
        zero = np.zeros(len(units.mean))
        return cls(units, 0.0, zero, zero, zero + np.inf, zero - np.inf)

    def with_rows(
        self, x: Float[np.ndarray, "n d"], sample_weight: Float[np.ndarray, " n"] | None = None
    ) -> MergedMoments:
        """Take rows in, in the original units (Chan, Golub & LeVeque 1979, equation 2.1)."""
        if sample_weight is not None:
            x, sample_weight = x[sample_weight > 0.0], sample_weight[sample_weight > 0.0]
        if not len(x):
            return self
        z, before = self.units.transform(x), self.weight
        added = float(len(x)) if sample_weight is None else float(np.sum(sample_weight))
        mean = np.average(z, axis=0, weights=sample_weight)
        squares = added * np.average((z - mean) ** 2, axis=0, weights=sample_weight)
        weight, gap = before + added, mean - self.mean
        return MergedMoments(
            self.units,
            weight,
            self.mean + gap * (added / weight),
            self.squares + squares + gap**2 * (before * added / weight),
            np.minimum(self.low, x.min(axis=0)),
            np.maximum(self.high, x.max(axis=0)),
        )

    def standardiser(self) -> Standardiser:
        """Return what `Standardiser.fit` would of all rows at once, to rounding."""
        largest = np.maximum(np.abs(self.low), np.abs(self.high))
        _, exponent = np.frexp(np.where(largest > 0.0, largest, 1.0))
        unit = np.ldexp(1.0, np.clip(exponent, -1021, 1023))
        ratio = self.units.unit / unit
        mean = (self.mean * self.units.std + self.units.mean) * ratio
        std = np.sqrt(self.squares / self.weight) * self.units.std * ratio
        spread = self.high / unit - self.low / unit
        is_constant = (spread <= _ROUNDING * largest / unit) | (std == 0.0)
        mean = np.where(is_constant, self.low / unit, mean)
        return Standardiser(unit, mean, np.where(is_constant, 1.0, std))
