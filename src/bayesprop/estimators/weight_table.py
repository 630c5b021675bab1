"""Weights of linear models as a table: columns of equal length, in the units of the user."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import special

INTERCEPT = "intercept"


def check_coverage(coverage: Any) -> None:
    """Raise ValueError unless coverage is between 0 and 1."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}")


def input_names(estimator: Any) -> list[str]:
    """Names of the columns of X, or x0, x1, ... where they have none."""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return [f"x{i}" for i in range(estimator.n_features_in_)]
    return [str(name) for name in names]


def from_standardised(
    mean: Float[np.ndarray, " k"], scale: Float[np.ndarray, " k"]
) -> Float[np.ndarray, "k+1 k+1"]:
    """Matrix that takes an intercept and weights of (x - mean) / scale to those of x."""
    k = len(mean)
    matrix = np.zeros((k + 1, k + 1))
    matrix[0, 0] = 1.0
    matrix[0, 1:] = -mean / scale
    matrix[range(1, k + 1), range(1, k + 1)] = 1.0 / scale
    return matrix


def weight_table(
    groups: np.ndarray,
    group_name: str,
    columns: list[str],
    mean: Float[np.ndarray, "g k"],
    std: Float[np.ndarray, "g k"],
    *,
    coverage: float,
    dof: float = np.inf,
) -> dict[str, np.ndarray]:
    """Lay out one row a weight: group, feature, mean, std, lower, upper.

    lower, upper
        The central interval that holds the weight with probability `coverage`, of a Gaussian or,
        with finite `dof`, of a Student-t.
    """
    tail = 0.5 * (1.0 + coverage)
    reach = float(special.ndtri(tail))
    if np.isfinite(dof):
        reach = float(special.stdtrit(dof, tail) * np.sqrt((dof - 2.0) / dof))
    return {
        group_name: np.repeat(np.asarray(groups), len(columns)),
        "feature": np.tile(np.array(columns, dtype=object), len(groups)),
        "mean": mean.ravel(),
        "std": std.ravel(),
        "lower": (mean - reach * std).ravel(),
        "upper": (mean + reach * std).ravel(),
    }
