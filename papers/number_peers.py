"""Other libraries' regressors: what a user would pick instead.

Each at its defaults, or with what its documentation tells a user to do; nothing tuned to a table.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, Self

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from bayesprop.model.predictive import GaussianPredictive, Predictive
from bayesprop.model.quantile_predictive import QuantilePredictive
from bayesprop.report.peers import GaussianProcess, QuantileBoosting
from papers.peers import Peer, by_name
from papers.table_models import AS_THEY_ARE, NETWORK, Filled, OfMatrix, catboost, pytabkit
from papers.table_splits import TableRows

LEVELS = np.linspace(0.05, 0.95, 19)
_VALIDATION = 0.2
_TREEFFUSER_DRAWS = 200


class NaturalBoosting:
    """NGBoost with normal distributions (Duan et al. 2020)."""

    n_rounds, n_patient = 2000, 50

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
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

    def predict_dist(self, X: np.ndarray) -> Predictive:
        """Predict by the round that was best on the rows held out."""
        normal = self.model_.pred_dist(
            self.imputer_.transform(X), max_iter=self.model_.best_val_loss_itr + 1
        )
        return GaussianPredictive(normal.loc, np.zeros(len(X)), np.square(normal.scale))


class Quantiles:
    """A regressor whose predictions are quantiles at .05, .10 ... .95, and a mean.

    learn
        Takes a frame and targets; returns what predicts the means and quantiles of a frame.
    """

    def __init__(
        self, learn: Callable[[Any, np.ndarray], Callable[[Any], tuple[np.ndarray, np.ndarray]]]
    ) -> None:
        self.learn = learn

    def fit(self, rows: TableRows, y: np.ndarray) -> Self:
        """Learn rows."""
        self.predict_ = self.learn(rows.frame, y)
        return self

    def predict_dist(self, rows: TableRows) -> QuantilePredictive:
        """Predict rows."""
        mean, quantiles = self.predict_(rows.frame)
        return QuantilePredictive.of(mean, LEVELS, quantiles)


class UncertainCatBoost:
    """CatBoost with a mean and a variance a row (Malinin et al. 2021)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, rows: TableRows, y: np.ndarray) -> Self:
        """Learn rows."""
        self.model_ = catboost("Regressor", self.seed, rows, loss_function="RMSEWithUncertainty")
        self.model_.fit(rows.frame, y)
        return self

    def predict_dist(self, rows: TableRows) -> Predictive:
        """Predict rows."""
        mean, var = self.model_.predict(rows.frame).T
        return GaussianPredictive(mean, np.zeros_like(mean), var)


class TabM:
    """TabM (Gorishniy et al. 2025); its errors on the rows that stop it give the variance."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, rows: TableRows, y: np.ndarray) -> Self:
        """Learn four fifths of the rows, and stop by the others, as its default does."""
        self.fill_ = Filled.of(rows.frame)
        kept, held = train_test_split(
            np.arange(len(y)), test_size=_VALIDATION, random_state=self.seed
        )
        frame = self.fill_(rows.frame)
        self.model_ = pytabkit("TabM_D_Regressor", self.seed)
        self.model_.fit(frame.iloc[kept], y[kept], frame.iloc[held], y[held])
        away = y[held] - np.ravel(self.model_.predict(frame.iloc[held]))
        self.var_ = float(np.mean(away**2))
        return self

    def predict_dist(self, rows: TableRows) -> Predictive:
        """Predict rows."""
        mean = np.ravel(self.model_.predict(self.fill_(rows.frame))).astype(float)
        return GaussianPredictive(mean, np.zeros_like(mean), np.full_like(mean, self.var_))


class CatBoostQuantiles:
    """CatBoost of 19 quantiles at once; its mean is a model of its own."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, rows: TableRows, y: np.ndarray) -> Self:
        """Learn rows."""
        loss = f"MultiQuantile:alpha={','.join(f'{level:.2f}' for level in LEVELS)}"
        self.models_ = [
            catboost("Regressor", self.seed, rows, loss_function=one).fit(rows.frame, y)
            for one in ("RMSE", loss)
        ]
        return self

    def predict_dist(self, rows: TableRows) -> QuantilePredictive:
        """Predict rows."""
        mean, quantiles = (model.predict(rows.frame) for model in self.models_)
        return QuantilePredictive.of(mean, LEVELS, quantiles)


def _lightgbm_quantiles(seed: int) -> Quantiles:
    def learn(frame: Any, y: np.ndarray) -> Any:
        from lightgbm import LGBMRegressor  # pyright: ignore[reportMissingImports]

        settings: dict[str, Any] = {"random_state": seed, "verbose": -1}
        mean = LGBMRegressor(**settings).fit(frame, y)
        of = [
            LGBMRegressor(objective="quantile", alpha=a, **settings).fit(frame, y) for a in LEVELS
        ]
        return lambda new: (mean.predict(new), np.stack([one.predict(new) for one in of], axis=1))

    return Quantiles(learn)


def _real_mlp(seed: int) -> Quantiles:
    def learn(frame: Any, y: np.ndarray) -> Any:
        fill, loss = Filled.of(frame), f"multi_pinball({','.join(f'{a:.2f}' for a in LEVELS)})"
        filled = fill(frame)
        mean = pytabkit("RealMLP_TD_Regressor", seed).fit(filled, y)
        of = pytabkit(
            "RealMLP_TD_Regressor", seed, train_metric_name=loss, val_metric_name=loss
        ).fit(filled, y)
        return lambda new: (np.ravel(mean.predict(fill(new))), of.predict(fill(new)))

    return Quantiles(learn)


class _Treeffuser:
    """Treeffuser (Beltran-Velez et al. 2024): draws of a diffusion whose score is boosted trees."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        from treeffuser import Treeffuser  # pyright: ignore[reportMissingImports]

        self.model_ = Treeffuser(seed=self.seed)
        self.model_.fit(X, y)
        return self

    def predict_dist(self, X: np.ndarray) -> QuantilePredictive:
        drawn = self.model_.sample(X, n_samples=_TREEFFUSER_DRAWS, seed=self.seed)
        drawn = np.reshape(drawn, (_TREEFFUSER_DRAWS, len(X)))
        return QuantilePredictive.of(drawn.mean(axis=0), LEVELS, np.quantile(drawn, LEVELS, 0).T)


class _QuantileForest:
    """A quantile regression forest (Meinshausen 2006)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        from quantile_forest import (  # pyright: ignore[reportMissingImports]
            RandomForestQuantileRegressor,
        )

        forest = RandomForestQuantileRegressor(random_state=self.seed)
        self.model_ = make_pipeline(SimpleImputer(keep_empty_features=True), forest).fit(X, y)
        return self

    def predict_dist(self, X: np.ndarray) -> QuantilePredictive:
        mean = self.model_.predict(X, quantiles="mean")
        quantiles = self.model_.predict(X, quantiles=LEVELS.tolist())
        return QuantilePredictive.of(mean, LEVELS, quantiles)


PEERS = by_name(
    (
        Peer(
            name="CatBoost",
            how=f"{AS_THEY_ARE}; loss RMSEWithUncertainty",
            make=UncertainCatBoost,
            package="catboost",
        ),
        Peer(
            name="CatBoost quantiles",
            how=f"{AS_THEY_ARE}; loss MultiQuantile of .05, .10 … .95, its mean a model of RMSE",
            make=CatBoostQuantiles,
            package="catboost",
            has_density=False,
        ),
        Peer(
            name="LightGBM quantiles",
            how=f"{AS_THEY_ARE}; a model of each of .05, .10 … .95, one of the mean",
            make=_lightgbm_quantiles,
            package="lightgbm",
            has_density=False,
        ),
        Peer(
            name="RealMLP",
            how=f"{NETWORK}; one network of the mean, one of .05, .10 … .95 by multi_pinball",
            make=_real_mlp,
            package="pytabkit",
            has_density=False,
        ),
        Peer(
            name="TabM",
            how=f"{NETWORK}; normal, with the variance of errors on the rows that stop it",
            make=TabM,
            package="pytabkit",
        ),
        Peer(
            name="NGBoost",
            how="of encoded rows, gaps at the mean; normal distributions, at most 2000 rounds of "
            "its step .01, stopped when a tenth of the rows, held out, has not gained for 50",
            make=lambda seed: OfMatrix(NaturalBoosting(seed)),
            package="ngboost",
        ),
        Peer(
            name="Treeffuser",
            how="its defaults, of encoded rows; 200 draws a row",
            make=lambda seed: OfMatrix(_Treeffuser(seed)),
            package="treeffuser",
            has_density=False,
        ),
        Peer(
            name="quantile forest",
            how="of quantile-forest, its defaults, of encoded rows, gaps at the mean",
            make=lambda seed: OfMatrix(_QuantileForest(seed)),
            package="quantile_forest",
            has_density=False,
        ),
        Peer(
            name="Gaussian process",
            how="scikit-learn, of encoded rows; squared-exponential kernel with a length scale an "
            "input (one for all beyond 30), and noise; hyper-parameters from 1000 rows at most, "
            "predictions from 4000 at most",
            make=lambda seed: OfMatrix(GaussianProcess(seed, n_learning=1000, n_kept=4000)),
        ),
        Peer(
            name="quantile boosting",
            how="scikit-learn's histogram gradient boosting of encoded rows at .05, .10 … .95",
            make=lambda seed: OfMatrix(QuantileBoosting(seed, tuple(LEVELS))),
            has_density=False,
        ),
    )
)
