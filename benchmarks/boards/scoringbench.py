"""The default as ScoringBench asks for it: a wrapper to add to `MODELS` of its runner.

A distribution is 999 quantiles; ScoringBench makes its grids of them. `warmup()` compiles before
the clock starts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scoringbench.univariate.wrappers.base import (  # pyright: ignore[reportMissingImports]
    DistributionPrediction,
    ProbabilisticWrapper,
)

from bayesprop import TableRegressor

LEVELS = np.arange(1, 1000) / 1000.0


class BayespropWrapper(ProbabilisticWrapper):
    """`TableRegressor` at its defaults."""

    def __init__(self, seed: int = 0) -> None:
        self.model = TableRegressor(random_state=seed)

    def warmup(self) -> None:
        """Fit a table of no consequence, so that everything is compiled."""
        x = np.random.default_rng(0).normal(size=(100, 3))
        TableRegressor().fit(x, x.sum(axis=1)).predict(x)

    def fit(self, X: Any, y: Any) -> BayespropWrapper:
        """Fit the table."""
        self._set_train_range(y)
        self.model.fit(X, np.asarray(y, float))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the means."""
        return self.model.predict(X)

    def predict_distribution(self, X: Any) -> Any:
        """Return 999 quantiles of every row, and the means."""
        predictive = self.model.predict_dist(X)
        return DistributionPrediction.from_multi_quantile(
            predictive.quantile(LEVELS), LEVELS, predictive.mean, train_range=self._y_train_range
        )
