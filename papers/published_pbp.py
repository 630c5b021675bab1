"""Probabilistic backpropagation as its authors published it, for the tables of their paper.

Their code lacks guards that ours has: noise and prior factors take updates that leave no
distribution, and a constant column is one whose computed standard deviation is exactly 0. One whose
deviation comes out as 2e-13 becomes a column of ones, which moves the figures of the naval set.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state

from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.task import Standardiser
from bayesprop.moments.pbp import engine
from bayesprop.moments.pbp.state import PBPInfo, PBPState, init


@dataclass(eq=False, repr=False)
class PublishedPBP(RegressorMixin, BaseEstimator):
    """The method of the paper with the authors' rules, by the compiled engine.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer.
    n_epochs : int
        Passes over the rows.
    random_state : int or RandomState
        Seeds initial means and the order of rows, as that of `PBPRegressor`.
    """

    hidden_layer_sizes: tuple[int, ...] = (50,)
    n_epochs: int = 40
    random_state: Any = None
    state_: PBPState = field(init=False)
    fit_report_: FitReport = field(init=False)

    def fit(self, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Self:
        """Fit from scratch."""
        started, rng = time.perf_counter(), check_random_state(self.random_state)
        X, y = np.asarray(X, np.float64), np.asarray(y, np.float64)[:, None]
        self.n_features_in_ = X.shape[1]
        self.x_scaler_, self.y_scaler_ = standardiser(X), standardiser(y)
        start = init(rng, (X.shape[1], *self.hidden_layer_sizes, 1))
        rows = self.x_scaler_.transform(X), self.y_scaler_.transform(y)
        epochs = ([rng.permutation(len(X))] for _ in range(self.n_epochs))
        states, infos = zip(*engine.passes(start, *rows, epochs, guarded=False), strict=True)
        self.state_, total = states[-1], sum(infos, start=PBPInfo())
        self.fit_report_ = FitReport(
            n_rows=len(X),
            n_epochs=self.n_epochs,
            seconds=time.perf_counter() - started,
            n_updates=len(X) * self.n_epochs * sum(m.size for m in start.m),
            guards=total.guards,
            trace={},
        )
        return self

    def predict_dist(self, X: Float[np.ndarray, "m d"]) -> GaussianPredictive:
        """Predictive distribution of y at every row: epistemic and noise variance apart."""
        x = self.x_scaler_.transform(np.asarray(X, np.float64))
        m, v = engine.predict_moments(self.state_, x)
        noise_var = np.broadcast_to(self.state_.noise_var, m.shape)
        return GaussianPredictive(
            self.y_scaler_.inverse_mean(m)[:, 0],
            (v * self.y_scaler_.scale**2)[:, 0],
            (noise_var * self.y_scaler_.scale**2)[:, 0],
        )

    def predict(self, X: Float[np.ndarray, "m d"], return_std: bool = False) -> Any:
        """Predictive mean, and with `return_std` also the total predictive standard deviation."""
        predictive = self.predict_dist(X)
        return (predictive.mean, predictive.std) if return_std else predictive.mean


def standardiser(x: Float[np.ndarray, "n d"]) -> Standardiser:
    """Learn the authors' scaling: NumPy's standard deviation, 1 only where it is exactly 0."""
    std = np.std(x, axis=0)
    return Standardiser(np.ones(x.shape[1]), np.mean(x, axis=0), np.where(std == 0.0, 1.0, std))
