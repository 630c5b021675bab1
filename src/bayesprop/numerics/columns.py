"""Moments of columns that may be constant."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)


class ColumnMoments(NamedTuple):
    """Weighted mean and standard deviation (ddof 0) of every column; 1 for a constant one."""

    mean: Float[np.ndarray, " k"]
    std: Float[np.ndarray, " k"]


def mean_and_std(
    x: Float[np.ndarray, "n k"], weight: Float[np.ndarray, " n"] | None = None
) -> ColumnMoments:
    """Mean and standard deviation; a column constant up to rounding has its value and 1.

    Rows of weight zero count as absent.
    """
    if weight is not None:
        x, weight = x[weight > 0.0], weight[weight > 0.0]
    largest = np.max(np.abs(x), axis=0)
    unit = np.where(largest > 0.0, largest, 1.0)
    scaled = x / unit
    mean = np.average(scaled, axis=0, weights=weight)
    std = np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=weight))
    is_constant = (np.ptp(scaled, axis=0) <= _ROUNDING) | (std == 0.0)
    return ColumnMoments(
        np.where(is_constant, x[0], mean * unit), np.where(is_constant, 1.0, std * unit)
    )
