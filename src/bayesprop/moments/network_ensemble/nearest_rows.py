"""Rows of a table that are nearest to others, in lengths of its inputs, and how alike they are."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

N_NEAREST = 32
"""Rows that are asked of one."""

LEAST_ROWS, MOST_ROWS = 100, 100_000
"""Among which the nearest are sought: of fewer nobody is near."""

_MOST_VALUES, _ENOUGH_ROWS = 10**7, 10_000  # of those where columns are many: all are looked at

_FEW = 20  # columns, of which a tree leaves out most of the rows
_AT_A_TIME = 64  # rows whose distances stay in the cache


def most_rows(n_columns: int) -> int:
    """Return how many rows are known, at most: a prediction looks at no more than some values."""
    if n_columns <= _FEW:
        return MOST_ROWS
    return min(MOST_ROWS, max(_ENOUGH_ROWS, _MOST_VALUES // n_columns))


def measured(
    x: Float[np.ndarray, "*n d"], log_lengths: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "*n d"]:
    """Measure rows, as float32, in lengths."""
    return np.divide(np.asarray(x, np.float32), np.exp(log_lengths), dtype=np.float64)


def tree(x: Float[np.ndarray, "n d"], log_lengths: Float[np.ndarray, " d"]) -> Any:
    """Put rows where `lookup` finds the nearest."""
    from scipy.spatial import KDTree

    return KDTree(measured(x, log_lengths))


def lookup(
    known: Any, x: Float[np.ndarray, "m d"], log_lengths: Float[np.ndarray, " d"]
) -> Int[np.ndarray, "m k"]:
    """Return the numbers of the N_NEAREST rows of a tree that are nearest to others."""
    at = measured(x, log_lengths)
    is_few = at.shape[1] <= _FEW
    return known.query(at, N_NEAREST)[1] if is_few else nearest(known.data, at, N_NEAREST)


def nearest(
    known: Float[np.ndarray, "n d"], at: Float[np.ndarray, "m d"], k: int
) -> Int[np.ndarray, "m k"]:
    """Return the numbers of the k rows that are nearest to every other, in any order."""
    number, square = np.empty((len(at), k), np.int64), np.square(known).sum(axis=1)
    for first in range(0, len(at), _AT_A_TIME):
        part = slice(first, first + _AT_A_TIME)
        distance = at[part] @ known.T
        distance *= -2.0
        distance += square
        distance += np.square(at[part]).sum(axis=1)[:, None]
        number[part] = np.argpartition(distance.astype(np.float32), k - 1, axis=1)[:, :k]
    return number


def squares(
    rows: Float[np.ndarray, "r k d"], log_lengths: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "r k k"]:
    """Squared distances between k rows, for r times as many."""
    at = measured(rows - rows[:, -1:], log_lengths)
    square = np.square(at).sum(axis=2)
    return np.maximum(square[:, :, None] + square[:, None] - 2.0 * at @ at.swapaxes(1, 2), 0.0)


def correlation(square: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Return the covariance of Matérn 3/2, of variance 1, of squared distances."""
    r = np.sqrt(3.0 * square)
    return (1.0 + r) * np.exp(-r)


def slope(square: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Return minus twice the derivative of `correlation` in the squared distance."""
    return 3.0 * np.exp(-np.sqrt(3.0 * square))
