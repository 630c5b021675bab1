"""Other libraries' regressors: what a user would pick instead.

Each at its defaults, or with what its documentation tells a user to do; nothing tuned to a table.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.distributions.quantiles import QuantilePredictive
from bayesprop.evaluation.baselines import GaussianProcess, QuantileBoosting
from papers.arena import Peer, Predict
from papers.table_models import AS_THEY_ARE, NETWORK, catboost, filling, of_matrix, pytabkit
from papers.table_splits import TableRows

LEVELS = np.linspace(0.05, 0.95, 19)
_VALIDATION = 0.2
_TREEFFUSER_DRAWS = 200


def natural_boosting(
    kind: str, seed: int, X: np.ndarray, y: np.ndarray, *, stratify: Any = None, **how: Any
) -> Any:
    """Boost NGBoost's model of a kind until a tenth of the rows, held out, has not gained for 50.

    At most 2000 rounds. It predicts by the round that was best on the rows held out with
    `max_iter=model.best_val_loss_itr + 1` (Duan et al. 2020).
    """
    import ngboost  # pyright: ignore[reportMissingImports]

    kept, held, y_kept, y_held = train_test_split(
        X, y, test_size=0.1, random_state=seed, stratify=stratify
    )
    rounds = {"n_estimators": 2000, "early_stopping_rounds": 50}
    model = getattr(ngboost, kind)(**how, **rounds, random_state=seed, verbose=False)
    with redirect_stdout(StringIO()):  # it tells, verbose or not, that it uses the held rows
        return model.fit(kept, y_kept, X_val=held, Y_val=y_held)


def _ngboost(seed: int, rows: TableRows, y: np.ndarray) -> Predict:
    imputer = SimpleImputer(keep_empty_features=True)
    model = natural_boosting("NGBRegressor", seed, imputer.fit_transform(rows.matrix), y)

    def predict(new: TableRows) -> GaussianPredictive:
        x = imputer.transform(new.matrix)
        normal = model.pred_dist(x, max_iter=model.best_val_loss_itr + 1)
        return GaussianPredictive(normal.loc, np.zeros(len(x)), np.square(normal.scale))

    return predict


def _catboost(seed: int, rows: TableRows, y: np.ndarray) -> Predict:
    """CatBoost with a mean and a variance a row (Malinin et al. 2021)."""
    model = catboost("Regressor", seed, rows, loss_function="RMSEWithUncertainty")
    model.fit(rows.frame, y)

    def predict(new: TableRows) -> GaussianPredictive:
        mean, var = model.predict(new.frame).T
        return GaussianPredictive(mean, np.zeros_like(mean), var)

    return predict


def _tabm(seed: int, rows: TableRows, y: np.ndarray) -> Predict:
    """TabM (Gorishniy et al. 2025); its errors on the rows that stop it give the variance.

    It learns four fifths of the rows, and stops by the others, as its default does.
    """
    fill = filling(rows.frame)
    kept, held = train_test_split(np.arange(len(y)), test_size=_VALIDATION, random_state=seed)
    frame = fill(rows.frame)
    model = pytabkit("TabM_D_Regressor", seed)
    model.fit(frame.iloc[kept], y[kept], frame.iloc[held], y[held])
    var = float(np.mean((y[held] - np.ravel(model.predict(frame.iloc[held]))) ** 2))

    def predict(new: TableRows) -> GaussianPredictive:
        mean = np.ravel(model.predict(fill(new.frame))).astype(float)
        return GaussianPredictive(mean, np.zeros_like(mean), np.full_like(mean, var))

    return predict


def _catboost_quantiles(seed: int, rows: TableRows, y: np.ndarray) -> Predict:
    """CatBoost of 19 quantiles at once; its mean is a model of its own."""
    loss = f"MultiQuantile:alpha={','.join(f'{level:.2f}' for level in LEVELS)}"
    mean, quantiles = (
        catboost("Regressor", seed, rows, loss_function=one).fit(rows.frame, y)
        for one in ("RMSE", loss)
    )
    return lambda new: QuantilePredictive.of(
        mean.predict(new.frame), LEVELS, quantiles.predict(new.frame)
    )


def _lightgbm_quantiles(seed: int, rows: TableRows, y: np.ndarray) -> Predict:
    from lightgbm import LGBMRegressor  # pyright: ignore[reportMissingImports]

    settings: dict[str, Any] = {"random_state": seed, "verbose": -1}
    mean = LGBMRegressor(**settings).fit(rows.frame, y)
    of = [
        LGBMRegressor(objective="quantile", alpha=a, **settings).fit(rows.frame, y) for a in LEVELS
    ]
    return lambda new: QuantilePredictive.of(
        mean.predict(new.frame), LEVELS, np.stack([one.predict(new.frame) for one in of], axis=1)
    )


def _real_mlp(seed: int, rows: TableRows, y: np.ndarray) -> Predict:
    loss = f"multi_pinball({','.join(f'{a:.2f}' for a in LEVELS)})"
    fill = filling(rows.frame)
    mean, quantiles = (
        pytabkit("RealMLP_TD_Regressor", seed, **how).fit(fill(rows.frame), y)
        for how in ({}, {"train_metric_name": loss, "val_metric_name": loss})
    )
    return lambda new: QuantilePredictive.of(
        np.ravel(mean.predict(fill(new.frame))), LEVELS, quantiles.predict(fill(new.frame))
    )


def _treeffuser(seed: int, rows: TableRows, y: np.ndarray) -> Predict:
    """Treeffuser (Beltran-Velez et al. 2024): draws of a diffusion whose score is boosted trees."""
    from treeffuser import Treeffuser  # pyright: ignore[reportMissingImports]

    model = Treeffuser(seed=seed)
    model.fit(rows.matrix, y)

    def predict(new: TableRows) -> QuantilePredictive:
        drawn = model.sample(new.matrix, n_samples=_TREEFFUSER_DRAWS, seed=seed)
        drawn = np.reshape(drawn, (_TREEFFUSER_DRAWS, len(new.matrix)))
        return QuantilePredictive.of(drawn.mean(axis=0), LEVELS, np.quantile(drawn, LEVELS, 0).T)

    return predict


def _quantile_forest(seed: int, rows: TableRows, y: np.ndarray) -> Predict:
    """Learn a quantile regression forest (Meinshausen 2006)."""
    from quantile_forest import (  # pyright: ignore[reportMissingImports]
        RandomForestQuantileRegressor,
    )

    forest = RandomForestQuantileRegressor(random_state=seed)
    model = make_pipeline(SimpleImputer(keep_empty_features=True), forest).fit(rows.matrix, y)
    return lambda new: QuantilePredictive.of(
        model.predict(new.matrix, quantiles="mean"),
        LEVELS,
        model.predict(new.matrix, quantiles=LEVELS.tolist()),
    )


PEERS = {
    "CatBoost": Peer(
        how=f"{AS_THEY_ARE}; loss RMSEWithUncertainty",
        make=lambda seed: partial(_catboost, seed),
        package="catboost",
    ),
    "CatBoost quantiles": Peer(
        how=f"{AS_THEY_ARE}; loss MultiQuantile of .05, .10 … .95, its mean a model of RMSE",
        make=lambda seed: partial(_catboost_quantiles, seed),
        package="catboost",
        has_density=False,
    ),
    "LightGBM quantiles": Peer(
        how=f"{AS_THEY_ARE}; a model of each of .05, .10 … .95, one of the mean",
        make=lambda seed: partial(_lightgbm_quantiles, seed),
        package="lightgbm",
        has_density=False,
    ),
    "RealMLP": Peer(
        how=f"{NETWORK}; one network of the mean, one of .05, .10 … .95 by multi_pinball",
        make=lambda seed: partial(_real_mlp, seed),
        package="pytabkit",
        has_density=False,
    ),
    "TabM": Peer(
        how=f"{NETWORK}; normal, with the variance of errors on the rows that stop it",
        make=lambda seed: partial(_tabm, seed),
        package="pytabkit",
    ),
    "NGBoost": Peer(
        how="of encoded rows, gaps at the mean; normal distributions, at most 2000 rounds of "
        "its step .01, stopped when a tenth of the rows, held out, has not gained for 50",
        make=lambda seed: partial(_ngboost, seed),
        package="ngboost",
    ),
    "Treeffuser": Peer(
        how="its defaults, of encoded rows; 200 draws a row",
        make=lambda seed: partial(_treeffuser, seed),
        package="treeffuser",
        has_density=False,
    ),
    "quantile forest": Peer(
        how="of quantile-forest, its defaults, of encoded rows, gaps at the mean",
        make=lambda seed: partial(_quantile_forest, seed),
        package="quantile_forest",
        has_density=False,
    ),
    "Gaussian process": Peer(
        how="scikit-learn, of encoded rows; squared-exponential kernel with a length scale an "
        "input (one for all beyond 30), and noise; hyper-parameters from 1000 rows at most, "
        "predictions from 4000 at most",
        make=lambda seed: of_matrix(GaussianProcess(seed, n_learning=1000, n_kept=4000)),
    ),
    "quantile boosting": Peer(
        how="scikit-learn's histogram gradient boosting of encoded rows at .05, .10 … .95",
        make=lambda seed: of_matrix(QuantileBoosting(seed, tuple(LEVELS))),
        has_density=False,
    ),
}
