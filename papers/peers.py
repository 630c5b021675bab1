"""What a user would pick instead: other libraries' regressors behind `fit` and `predict_dist`.

Each with its defaults, or with what its documentation tells a user to do; nothing tuned to a set.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from typing import Any, Protocol, Self

import numpy as np
from jaxtyping import Float
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor, kernels
from sklearn.model_selection import train_test_split

from bayesprop.model.predictive import GaussianPredictive, Predictive
from papers.quantile_predictive import QuantilePredictive

Rows = Float[np.ndarray, "n d"]
Targets = Float[np.ndarray, " n"]


class Forecaster(Protocol):
    """What a comparison asks of a model."""

    def fit(self, X: Rows, y: Targets) -> Any:
        """Learn from rows and their targets."""
        ...

    def predict_dist(self, X: Rows) -> Predictive:
        """Predict new rows."""
        ...


@dataclass(frozen=True)
class Peer:
    """A model of another library.

    how
        Its settings, in words.
    make
        Builds it, unfitted, from a seed.
    package
        What has to be installed; None if the library depends on it anyway.
    has_density
        Whether its predictions have a log-likelihood.
    """

    name: str
    how: str
    make: Callable[[int], Forecaster]
    package: str | None = None
    has_density: bool = True

    @property
    def missing(self) -> str | None:
        """How to install what it needs; None if it is there."""
        if self.package is None or find_spec(self.package) is not None:
            return None
        return f"{self.name}: pip install {self.package}"


class NaturalBoosting:
    """NGBoost with normal distributions (Duan et al. 2020)."""

    n_rounds, n_patient = 2000, 50

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: Rows, y: Targets) -> Self:
        """Boost until a tenth of the rows, held out, has not gained for 50 rounds."""
        from ngboost import NGBRegressor  # pyright: ignore[reportMissingImports]

        kept, held, y_kept, y_held = train_test_split(X, y, test_size=0.1, random_state=self.seed)
        self.model_ = NGBRegressor(
            n_estimators=self.n_rounds,
            early_stopping_rounds=self.n_patient,
            random_state=self.seed,
            verbose=False,
        )
        with redirect_stdout(StringIO()):  # it tells, verbose or not, that it uses the held rows
            self.model_.fit(kept, y_kept, X_val=held, Y_val=y_held)
        return self

    def predict_dist(self, X: Rows) -> Predictive:
        """Predict by the round that was best on the rows held out."""
        found = self.model_.pred_dist(X, max_iter=self.model_.best_val_loss_itr + 1)
        return GaussianPredictive(found.loc, np.zeros(len(X)), np.square(found.scale))


class GaussianProcess:
    """scikit-learn's, a length scale an input; hyper-parameters and predictions from some rows."""

    n_learning, n_kept = 1000, 4000

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: Rows, y: Targets) -> Self:
        """Maximise the evidence of at most 1000 rows, then condition on at most 4000."""
        self.shift_, self.scale_ = X.mean(axis=0), X.std(axis=0)
        self.scale_ = np.where(self.scale_ > 0.0, self.scale_, 1.0)
        self.mean_, self.std_ = float(y.mean()), float(y.std())
        order = np.random.default_rng(self.seed).permutation(len(y))
        inputs, targets = (X - self.shift_) / self.scale_, (y - self.mean_) / self.std_
        scales: Any = np.ones(X.shape[1])
        kernel = kernels.ConstantKernel() * kernels.RBF(scales) + kernels.WhiteKernel()
        learnt = GaussianProcessRegressor(kernel, random_state=self.seed)
        few, kept = order[: self.n_learning], order[: self.n_kept]
        learnt.fit(inputs[few], targets[few])
        self.model_: Any = learnt
        if len(kept) > len(few):
            plain: dict[str, Any] = {"optimizer": None}
            self.model_ = GaussianProcessRegressor(learnt.kernel_, **plain)
            self.model_.fit(inputs[kept], targets[kept])
        return self

    def predict_dist(self, X: Rows) -> Predictive:
        """Predict; the noise is the white part of the kernel."""
        mean, std = self.model_.predict((X - self.shift_) / self.scale_, return_std=True)
        noise = np.full(len(X), self.model_.kernel_.k2.noise_level)
        known = GaussianPredictive(mean, np.maximum(std**2 - noise, 0.0), noise)
        return known.rescaled(self.mean_, self.std_)


class QuantileBoosting:
    """scikit-learn's histogram boosting at 19 levels, and once more for the mean."""

    levels = np.linspace(0.05, 0.95, 19)

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: Rows, y: Targets) -> Self:
        """Fit 20 models."""
        self.mean_ = HistGradientBoostingRegressor(random_state=self.seed).fit(X, y)
        self.models_ = [
            HistGradientBoostingRegressor(
                loss="quantile", quantile=float(level), random_state=self.seed
            ).fit(X, y)
            for level in self.levels
        ]
        return self

    def predict_dist(self, X: Rows) -> Predictive:
        """Predict the mean and the quantiles."""
        quantiles = np.stack([model.predict(X) for model in self.models_], axis=1)
        return QuantilePredictive.of(self.mean_.predict(X), self.levels, quantiles)


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Peer(
            name="NGBoost",
            how="normal distributions, at most 2000 rounds of its step .01, stopped when a tenth "
            "of the rows, held out, has not gained for 50",
            make=NaturalBoosting,
            package="ngboost",
        ),
        Peer(
            name="Gaussian process",
            how="scikit-learn; squared-exponential kernel with a length scale an input, and noise; "
            "standardised; hyper-parameters from 1000 rows at most, predictions from 4000 at most",
            make=GaussianProcess,
        ),
        Peer(
            name="quantile boosting",
            how="scikit-learn's histogram gradient boosting at .05, .10 … .95, in order, joined by "
            "pieces of normal distributions; its mean is a model of its own",
            make=QuantileBoosting,
            has_density=False,
        ),
    )
}
