"""Rows on their way into a fitted model: how many at a time, and how far out they may lie."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from bayesprop.model.method import FURTHEST_INPUT

CHUNK_ROWS = 131_072
_LEAST_ROWS = 64
FURTHEST_FLOAT32_INPUT = 1e12


class FarInputError(ValueError):
    """A value beyond all reason; every number that the message names is an attribute.

    row, column
        Where it is, as counted from 0.
    value, furthest
        The value itself, and how many training standard deviations from the mean are allowed.
    name
        What the estimator calls the column.
    """

    def __init__(self, row: int, column: int, value: float, furthest: float, name: Any) -> None:
        super().__init__(row, column, value, furthest, name)  # what a copy is made of
        self.row, self.column, self.name = row, column, name
        self.value, self.furthest = value, furthest

    def __str__(self) -> str:
        return (
            f"X must lie within {self.furthest:g} training standard deviations of the "
            f"training mean, got {self.value:g} in row {self.row}, column {self.name}"
        )


def standardised_inputs(
    estimator: Any,
    X: Float[np.ndarray, "n d"],
    first_row: int = 0,
    *,
    furthest: float = FURTHEST_INPUT,
) -> Float[np.ndarray, "n d"]:
    """Standardise rows as the fit did; FarInputError names one beyond all reason.

    first_row
        Number of the first of these rows, for the message.
    furthest
        In training standard deviations; networks in float32 square their inputs twice.
    """
    x = estimator.x_scaler_.transform(X)
    if max(x.max(initial=0.0), -x.min(initial=0.0)) > furthest:
        row, column = np.argwhere(np.abs(x) > furthest)[0]
        names = getattr(estimator, "feature_names_in_", np.arange(X.shape[1]))
        value = float(X[row, column])
        raise FarInputError(first_row + int(row), int(column), value, furthest, names[column])
    return x


def padded(x: Float[np.ndarray, "n d"], least: int = _LEAST_ROWS) -> Float[np.ndarray, "m d"]:
    """Fill up with zero rows to a power of two, at least `least`.

    Few shapes mean few compilations; and a row's sums, taken in float32, no longer depend on how
    many rows come with it.
    """
    n = max(least, 1 << (len(x) - 1).bit_length())
    return np.concatenate([x, np.zeros((n - len(x), x.shape[1]), x.dtype)])
