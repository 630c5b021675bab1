"""The lecture's starting point: Bayesian linear regression, whose posterior is in closed form.

A posterior is as good as what the curve is taken to be linear in: three sets of columns beside
each other, and of the first the most probable weights alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from jaxtyping import Float

from bayesprop.distributions.predictive import Predictive
from bayesprop.estimators.linear_regression import BayesianLinearRegressor
from papers import curve
from papers.curve import Curve

NAME = "lecture-linear"


@dataclass(frozen=True)
class Config:
    """Settings of the experiment."""

    seed: int = 1
    n_points: int = 100
    degree: int = 9
    n_centres: int = 12


def waves(X: Float[np.ndarray, "n 1"]) -> Float[np.ndarray, "n 3"]:
    """Return x, sin(x) and cos(x), in which the curve is linear."""
    return np.column_stack([X, np.sin(X), np.cos(X)])


class AtTheMode:
    """Linear regression at its most probable weights, as if they were known."""

    def __init__(self, linear: BayesianLinearRegressor) -> None:
        self._linear = linear

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Find the posterior; its width is not used."""
        self._linear.fit(X, y)
        return self

    def predict_dist(self, X: np.ndarray) -> Predictive:
        """Predict without any doubt about the weights."""
        dist = self._linear.predict_dist(X)
        return replace(dist, epistemic_var=np.zeros_like(dist.epistemic_var))


def model(config: Config, method: str, seed: int) -> Any:
    """Build the regression on one set of columns."""
    if method == "mode":
        return AtTheMode(model(config, "waves", seed))
    columns: dict[str, dict[str, Any]] = {
        "waves": {"basis": waves},
        "polynomial": {"basis": "polynomial", "degree": config.degree},
        "bumps": {"basis": "radial", "n_centres": config.n_centres},
    }
    return BayesianLinearRegressor(noise="evidence", **columns[method], random_state=seed)


_LABELS = {
    "mode": "most probable weights",
    "waves": "posterior: x, sin(x), cos(x)",
    "polynomial": "posterior: polynomial",
    "bumps": "posterior: Gaussian bumps",
}
CURVE = Curve(NAME, _LABELS, model)
EXPERIMENT = curve.experiment(CURVE, Config)
