"""Weights of linear models as a table: columns of equal length, in the units of the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.distributions.predictive import check_coverage

if TYPE_CHECKING:
    from bayesprop.estimators.shell import EstimatorBase


class Columns(NamedTuple):
    """Factors of all weights but the intercept: (column - mean) / scale, by name."""

    names: list[str]
    mean: Float[np.ndarray, " k"]
    scale: Float[np.ndarray, " k"]

    def moments(
        self, mean: Float[np.ndarray, "g k+1"], root: Float[np.ndarray, "g k+1 r"]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std of intercept and weights of the columns as they are, (g, k + 1) each.

        mean, root
            Of intercept and weights here; covariance = root root'.
        """
        matrix = np.diag(np.concatenate([[1.0], 1.0 / self.scale]))
        matrix[0, 1:] = -self.mean / self.scale
        return mean @ matrix.T, np.linalg.norm(matrix @ root, axis=2)


def input_columns(estimator: EstimatorBase) -> Columns:
    """Columns of X, standardised; x0, x1, ... where they have no names."""
    scaler, names = estimator.x_scaler_, getattr(estimator, "feature_names_in_", None)
    if names is None:
        names = [f"x{i}" for i in range(estimator.n_features_in_)]
    return Columns(list(map(str, names)), scaler.mean * scaler.unit, scaler.scale)


def weight_table(
    group_name: str,
    groups: np.ndarray,
    names: list[str],
    mean: Float[np.ndarray, "g k+1"],
    std: Float[np.ndarray, "g k+1"],
    *,
    coverage: float,
    dof: Float[np.ndarray, " g"] | None = None,
) -> dict[str, np.ndarray]:
    """Lay out one row a weight: group, feature, mean, std, lower, upper.

    names
        Of all columns but the intercept, which comes first.
    lower, upper
        The central interval that holds the weight with probability `coverage`, of a Gaussian or,
        with finite `dof` of its group, of a Student-t.
    """
    check_coverage(coverage)
    tail = 0.5 * (1.0 + coverage)
    reach = np.full((len(mean), 1), special.ndtri(tail))
    if dof is not None and np.isfinite(dof).all():
        reach[:, 0] = special.stdtrit(dof, tail) * np.sqrt((dof - 2.0) / dof)
    return {
        group_name: np.repeat(np.asarray(groups), 1 + len(names)),
        "feature": np.tile(np.array(["intercept", *names], dtype=object), len(groups)),
        "mean": mean.ravel(),
        "std": std.ravel(),
        "lower": (mean - reach * std).ravel(),
        "upper": (mean + reach * std).ravel(),
    }
