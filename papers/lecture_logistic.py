"""The lecture's logistic regression on two Gaussian clouds: what each approximation doubts.

The most probable weights alone are as sure far away as their distance makes them; every
approximation of the posterior grows unsure there. Beside them, draws from the exact posterior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import special

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.estimators.logistic_regression import BayesianLogisticClassifier
from bayesprop.estimators.mcmc import MCMCClassifier
from papers import plane
from papers.plane import Plane, Points

NAME = "lecture-logistic"
_APART = np.array([1.2, 0.8])


@dataclass(frozen=True)
class Config:
    """Settings of the experiment; the prior of every weight and of the intercept is N(0, 1)."""

    seed: int = 1
    n_points: int = 40
    n_warmup: int = 1000
    n_draws: int = 2500


def clouds(n: int, *, random_state: int) -> Points:
    """Draw two Gaussian clouds of unit covariance, 2.9 standard deviations apart."""
    rng = np.random.default_rng(random_state)
    y = rng.integers(0, 2, n)
    return Points(np.where(y[:, None] == 1, _APART, -_APART) + rng.standard_normal((n, 2)), y)


class AtTheMode:
    """Logistic regression at its most probable weights, as if they were known."""

    def __init__(self) -> None:
        self._laplace = BayesianLogisticClassifier("laplace", prior_prec=1.0, intercept_prec=1.0)

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Find the mode; the curvature there is not used."""
        self._laplace.fit(X, y)
        return self

    def predict_dist(self, X: np.ndarray) -> ClassPredictive:
        """Predict without any doubt about the weights."""
        weights = self._laplace.posterior_.mean
        p = special.expit(weights[0] + self._laplace.x_scaler_.transform(X) @ weights[1:])
        proba = np.stack([1.0 - p, p], axis=1)
        return ClassPredictive(proba, special.entr(proba).sum(axis=1), self._laplace.classes_)


def model(config: Config, method: str, seed: int) -> Any:
    """Build one approximation of the same posterior."""
    if method == "map":
        return AtTheMode()
    if method == "nuts":
        # Two logits of precision 2 differ by one of precision 1; layers divide by sqrt(3).
        return MCMCClassifier(
            (),
            n_warmup=config.n_warmup,
            n_draws=config.n_draws,
            weight_precision=2.0 / 3.0,
            random_state=seed,
        )
    posterior, prediction = _LOGISTIC[method]
    return BayesianLogisticClassifier(
        posterior,
        prediction=prediction,
        prior_prec=1.0,
        intercept_prec=1.0,
        n_draws=1000,
        random_state=seed,
    )


_LOGISTIC: dict[str, Any] = {
    "laplace-mc": ("laplace", "monte-carlo"),
    "laplace-probit": ("laplace", "probit"),
    "vi": ("vi", "quadrature"),
}
PLANE = Plane(
    name=NAME,
    labels={
        "map": "MAP",
        "laplace-mc": "Laplace, Monte Carlo",
        "laplace-probit": "Laplace, probit",
        "vi": "VI",
        "nuts": "NUTS",
    },
    points=lambda _config, n, seed: clouds(n, random_state=seed),
    model=model,
    x1=np.linspace(-8.0, 8.0, 65),
    x2=np.linspace(-6.0, 6.0, 49),
    centre=(0.0, 0.0),
)


EXPERIMENT = plane.experiment(PLANE, Config, n_warmup=200, n_draws=100)
