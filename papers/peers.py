"""What a user would pick instead: other libraries' regressors behind `fit` and `predict_dist`.

Each with its defaults, or with what its documentation tells a user to do; nothing tuned to a set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from typing import Any, Protocol, Self

import numpy as np
from jaxtyping import Float
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split

from bayesprop.model.predictive import GaussianPredictive, Predictive
from bayesprop.report.peers import GaussianProcess, QuantileBoosting

Rows = Float[np.ndarray, "n d"]
Targets = Float[np.ndarray, " n"]


class Forecaster(Protocol):
    """What a comparison asks of a model."""

    def fit(self, X: Any, y: Any, /) -> Any:
        """Learn from rows, as a comparison has them, and their targets."""
        ...

    def predict_dist(self, X: Any, /) -> Any:
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

        self.imputer_ = SimpleImputer(keep_empty_features=True)
        filled = self.imputer_.fit_transform(X)
        kept, held, y_kept, y_held = train_test_split(
            filled, y, test_size=0.1, random_state=self.seed
        )
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
        found = self.model_.pred_dist(
            self.imputer_.transform(X), max_iter=self.model_.best_val_loss_itr + 1
        )
        return GaussianPredictive(found.loc, np.zeros(len(X)), np.square(found.scale))


def by_name(peers: Iterable[Peer]) -> dict[str, Peer]:
    """Return them by their names."""
    return {peer.name: peer for peer in peers}


PEERS = by_name(
    (
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
            make=lambda seed: GaussianProcess(seed, n_learning=1000, n_kept=4000),
        ),
        Peer(
            name="quantile boosting",
            how="scikit-learn's histogram gradient boosting at .05, .10 … .95, in order, joined by "
            "pieces of normal distributions; its mean is a model of its own",
            make=lambda seed: QuantileBoosting(seed, tuple(np.linspace(0.05, 0.95, 19))),
            has_density=False,
        ),
    )
)
