"""Sufficient statistics of linear regression: the triangular factor of all rows, which adds up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg

_BLOCK = 32  # columns that are made triangular together
(_stacked,) = linalg.get_lapack_funcs(("tpqrt",), dtype=np.float64)
"""The QR decomposition of a triangle upon further rows."""


class Statistics(NamedTuple):
    """All that rows say about the weights: [Phi, Y]' W [Phi, Y] = R'R.

    design, target, residual
        R = [[design, target], [0, residual]], design and residual upper triangular. The
        least-squares residuals have the scatter residual' residual.
    weight_sum
        Sum of the weights of the rows, their number where none has a weight.
    """

    design: Float[np.ndarray, "k k"]
    target: Float[np.ndarray, "k o"]
    residual: Float[np.ndarray, "o o"]
    weight_sum: float


def init(n_columns: int, n_outputs: int = 1) -> Statistics:
    """Return the statistics of no rows."""
    k, o = n_columns, n_outputs
    return Statistics(np.zeros((k, k)), np.zeros((k, o)), np.zeros((o, o)), 0.0)


def update(
    state: Statistics,
    phi: Float[np.ndarray, "n k"],
    y: Float[np.ndarray, "n o"],
    weight: Float[np.ndarray, " n"] | None = None,
) -> Statistics:
    """Condition on further rows, exactly: any order and batching gives the same posterior.

    phi
        Columns of the basis, the constant among them if there is to be an intercept.
    weight
        Not negative; what each row's log-likelihood is multiplied by.
    """
    root = factor(state)
    joint = np.concatenate([phi, y], axis=1)
    if weight is not None:
        joint *= np.sqrt(weight)[:, None]
    total = float(len(phi) if weight is None else np.sum(weight))
    return _parts(triangle(root, joint), phi.shape[1], state.weight_sum + total)


def factor(state: Statistics) -> Float[np.ndarray, "p p"]:
    """Return R, of R'R = [Phi, Y]' W [Phi, Y]."""
    k, o = state.target.shape
    root = np.zeros((k + o, k + o), order="F")
    root[:k, :k], root[:k, k:], root[k:, k:] = state[:3]
    return root


def of_factor(stacked: Float[np.ndarray, "r p"], n_columns: int, weight_sum: float) -> Statistics:
    """Rebuild from any S with S'S = [Phi, Y]' W [Phi, Y], of as many rows as columns or more."""
    return _parts(np.asarray(np.linalg.qr(stacked, mode="r")), n_columns, weight_sum)


def _parts(root: Float[np.ndarray, "p p"], k: int, weight_sum: float) -> Statistics:
    return Statistics(root[:k, :k], root[:k, k:], root[k:, k:], weight_sum)


def combined(states: Sequence[Statistics], powers: Sequence[float]) -> Statistics:
    """Add up what rows say, each part multiplied by its power: exact, in the factors by QR.

    A part of negative power takes rows out again, through Phi'Phi: to rounding times the square of
    the condition number.
    """
    weight_sum = sum(power * one.weight_sum for one, power in zip(states, powers, strict=True))
    parts = [(factor(one), power) for one, power in zip(states, powers, strict=True)]
    stacked = np.vstack([np.sqrt(max(power, 0.0)) * root for root, power in parts])
    taken = [-power * root.T @ root for root, power in parts if power < 0.0 and root.any()]
    if taken:
        scatter, directions = np.linalg.eigh(stacked.T @ stacked - sum(taken))
        stacked = np.sqrt(np.maximum(scatter, 0.0))[:, None] * directions.T
    return of_factor(stacked, len(states[0].design), max(float(weight_sum), 0.0))


def triangle(root: np.ndarray, below: np.ndarray, n_triangular: int = 0) -> np.ndarray:
    """Return R of the QR decomposition of a triangle upon rows, R'R = root'root + below'below.

    n_triangular
        Of the last rows of below, how many are themselves a triangle.
    """
    return _stacked(n_triangular, min(_BLOCK, len(root)), root, below)[0]
