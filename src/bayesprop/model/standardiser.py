"""Columns to zero mean and unit variance, and predictions back to where they came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Standardiser:
    """Per-column shift and scale, held in powers of two so that no column can overflow.

    unit
        A power of two per column, near its largest absolute value, in the column's own units.
    mean, std
        Weighted mean and standard deviation (ddof 0) in those units. A column without variation
        beyond rounding has std 1: it becomes exactly zero.
    """

    unit: Float[np.ndarray, " d"]
    mean: Float[np.ndarray, " d"]
    std: Float[np.ndarray, " d"]

    @classmethod
    def fit(
        cls,
        x: Float[np.ndarray, "n d"],
        sample_weight: Float[np.ndarray, " n"] | None = None,
        *,
        reference: bool = False,
    ) -> Standardiser:
        """Learn shift and scale.

        Rows of weight zero count as absent, also where a column is constant without them.

        With `reference`, as the authors' code: NumPy's standard deviation, guarded only where it
        is exactly zero. A constant column whose computed deviation is 2e-13 then becomes a column
        of ones, which moves the published figures of the naval set.
        """
        if reference:
            std = np.std(x, axis=0)
            return cls(np.ones(x.shape[1]), np.mean(x, axis=0), np.where(std == 0.0, 1.0, std))
        if sample_weight is not None:
            x, sample_weight = x[sample_weight > 0.0], sample_weight[sample_weight > 0.0]
        largest = np.max(np.abs(x), axis=0, initial=0.0)
        _, exponent = np.frexp(np.where(largest > 0.0, largest, 1.0))
        unit = np.ldexp(1.0, np.clip(exponent, -1021, 1023))
        scaled = x / unit
        mean = np.average(scaled, axis=0, weights=sample_weight)
        std = np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=sample_weight))
        spread = np.ptp(scaled, axis=0)
        is_constant = (spread <= _ROUNDING * largest / unit) | (std == 0.0)
        return cls(unit, np.where(is_constant, scaled[0], mean), np.where(is_constant, 1.0, std))

    @classmethod
    def none(cls, n_columns: int) -> Standardiser:
        """Leave columns as they are."""
        return cls(np.ones(n_columns), np.zeros(n_columns), np.ones(n_columns))

    def transform(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Standardise rows given in the original units."""
        return (x / self.unit - self.mean) / self.std

    def inverse_mean(self, m: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Bring standardised means back to the original units."""
        return (m * self.std + self.mean) * self.unit

    def inverse_var(self, v: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Bring standardised variances back to the squared original units."""
        return v * (self.std * self.unit) ** 2

    @property
    def scale(self) -> Float[np.ndarray, " d"]:
        """One standardised unit in the original units."""
        return self.std * self.unit

    def to_dict(self) -> dict[str, Any]:
        """Return the three vectors as lists, exactly."""
        return {k: getattr(self, k).tolist() for k in ("unit", "mean", "std")}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Standardiser:
        """Rebuild from `to_dict`."""
        return cls(*(np.asarray(stored[k], dtype=np.float64) for k in ("unit", "mean", "std")))

    @classmethod
    def checked(cls, stored: dict[str, Any], name: str, size: int | None = None) -> Standardiser:
        """`from_dict` of a file: ValueError unless finite, positive and of one size.

        name
            For the message.
        size
            Number of columns; None: any.
        """
        size = len(stored["mean"]) if size is None else size
        for part, values in stored.items():
            column = np.asarray(values, dtype=np.float64)
            if column.shape != (size,) or not np.isfinite(column).all():
                raise ValueError(f"{name} must hold {size} finite numbers as {part}")
            if part != "mean" and not (column > 0.0).all():
                raise ValueError(f"{name} must hold numbers > 0 as {part}")
        return cls.from_dict(stored)
