"""The regressors as skpro's: `SkproRegressor`, whose predictions are distributions of skpro.

skpro (https://skpro.readthedocs.io) is scikit-learn's interface for predictions that are
distributions: pipelines, searches and scores over them. `pip install 'bayesprop[skpro]'`.
"""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportIncompatibleMethodOverride=false, reportOptionalSubscript=false

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import clone
from skpro.distributions.base import BaseDistribution
from skpro.regression.base import BaseProbaRegressor

from bayesprop.distributions.predictive import Predictive
from bayesprop.estimators.shell import RegressorBase

_FAR = 1.0 - 1e-8


class PredictiveDistribution(BaseDistribution):
    """The predictive distribution of a method, with the interface of skpro.

    predictive
        Of as many rows as `index` and outputs as `columns`; of one row where there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesprop import GaussianPredictive
    >>> from bayesprop.estimators.skpro_regressor import PredictiveDistribution
    >>> predictive = GaussianPredictive(np.array([1.0, 2.0]), np.ones(2), np.zeros(2))
    >>> PredictiveDistribution(predictive, index=[0, 1], columns=["y"]).mean()
         y
    0  1.0
    1  2.0
    """

    _tags: ClassVar = {
        "capabilities:exact": [
            "mean",
            "var",
            "energy",
            "pdf",
            "log_pdf",
            "pmf",
            "log_pmf",
            "cdf",
            "ppf",
        ],
        "capabilities:approx": ["pdfnorm"],
    }

    def __init__(self, predictive: Predictive, index: Any = None, columns: Any = None) -> None:
        self.predictive = predictive
        super().__init__(index=index, columns=columns)
        if predictive.step:
            self.set_tags(**{"distr:measuretype": "discrete"})

    def _mean(self) -> np.ndarray:
        return self.predictive.mean.reshape(self.shape)

    def _var(self) -> np.ndarray:
        return self.predictive.var.reshape(self.shape)

    def _log_pdf(self, x: np.ndarray) -> np.ndarray:
        is_count = bool(self.predictive.step)
        return np.full(self.shape, -np.inf) if is_count else self._each(self.predictive.log_prob, x)

    def _pdf(self, x: np.ndarray) -> np.ndarray:
        return np.exp(self._log_pdf(x))

    def _log_pmf(self, x: np.ndarray) -> np.ndarray:
        is_count = bool(self.predictive.step)
        return self._each(self.predictive.log_prob, x) if is_count else np.full(self.shape, -np.inf)

    def _pmf(self, x: np.ndarray) -> np.ndarray:
        return np.exp(self._log_pmf(x))

    def _cdf(self, x: np.ndarray) -> np.ndarray:
        return self._each(self.predictive.cdf, x)

    def _ppf(self, p: np.ndarray) -> np.ndarray:
        level = np.reshape(p, self.predictive.mean.shape)
        y = np.empty(level.shape)
        for one in np.unique(level):
            of_level = level == one
            rows = of_level.reshape(len(level), -1).any(axis=1)
            y[of_level] = self.predictive[rows].quantile(one)[of_level[rows]]
        return y.reshape(self.shape)

    def _energy_self(self) -> np.ndarray:
        """Return E|X - X'|: beyond nearly all of X the CRPS of x is x - E X - E|X - X'| / 2."""
        far = self.predictive.quantile(_FAR)
        return self._summed(2.0 * (far - self.predictive.mean - self.predictive.crps(far)))

    def _energy_x(self, x: np.ndarray) -> np.ndarray:
        """Return E|X - x|: the CRPS of x and half of E|X - X'|."""
        return self._summed(self._each(self.predictive.crps, x)) + 0.5 * self._energy_self()

    def _summed(self, energy: np.ndarray) -> np.ndarray:
        """Add up the outputs of a row, as skpro has it."""
        each = energy.reshape(self.shape)
        return each.sum(axis=1) if self.ndim else each

    def _sample(self, n_samples: int | None = None) -> pd.DataFrame | np.ndarray:
        n = 1 if n_samples is None else n_samples
        draws = self.predictive.sample(np.random.default_rng(), n).reshape(n, *self.shape)
        if not self.ndim:
            return draws[0] if n_samples is None else pd.DataFrame(draws)
        frames = [pd.DataFrame(one, index=self.index, columns=self.columns) for one in draws]
        return frames[0] if n_samples is None else pd.concat(frames, keys=range(n))

    def _each(self, ask: Any, x: np.ndarray) -> np.ndarray:
        return ask(np.reshape(x, self.predictive.mean.shape)).reshape(self.shape)

    def _iloc(self, rowidx: Any = None, colidx: Any = None) -> PredictiveDistribution:
        whole = slice(None)
        rows = whole if rowidx is None else np.atleast_1d(rowidx)
        outputs = whole if colidx is None else np.atleast_1d(colidx)
        predictive = self.predictive[rows]
        if predictive.mean.ndim > 1:
            predictive = predictive.target(outputs)
        if all(isinstance(place, int | np.integer) for place in (rowidx, colidx)):
            return PredictiveDistribution(predictive)
        index, columns = self.index[rows], self.columns[outputs]
        return PredictiveDistribution(predictive, index=index, columns=columns)

    def _iat(self, rowidx: int | None = None, colidx: int | None = None) -> PredictiveDistribution:
        return self._iloc(rowidx, colidx)


class SkproRegressor(BaseProbaRegressor):
    """A regressor of ours, behind skpro's interface.

    Parameters
    ----------
    estimator : RegressorBase or None
        Copied and fitted; None: `BayesianRegressor`, the default. Where it has `partial_fit`,
        `update` learns from further rows.

    Attributes
    ----------
    estimator_ : RegressorBase
        Fitted.

    Examples
    --------
    >>> from bayesprop import PBPRegressor
    >>> from bayesprop.estimators.skpro_regressor import SkproRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = SkproRegressor(PBPRegressor(random_state=0)).fit(X[:400], y[:400])
    >>> model.predict_interval(X[400:], coverage=0.9).shape
    (42, 2)
    """

    _tags: ClassVar = {"capability:multioutput": True, "capability:missing": True}

    def __init__(self, estimator: RegressorBase | None = None) -> None:
        self.estimator = estimator
        super().__init__()
        self.set_tags(**{"capability:update": hasattr(estimator, "partial_fit")})

    def _fit(self, X: pd.DataFrame, y: pd.DataFrame, C: Any = None) -> SkproRegressor:  # noqa: ARG002
        from bayesprop.estimators.default import BayesianRegressor

        self.estimator_ = BayesianRegressor() if self.estimator is None else clone(self.estimator)
        self.estimator_.fit(_named(X), _target(y))
        return self

    def _update(self, X: pd.DataFrame, y: pd.DataFrame, C: Any = None) -> SkproRegressor:  # noqa: ARG002
        self.estimator_.partial_fit(_named(X), _target(y))
        return self

    def _predict(self, X: pd.DataFrame) -> pd.DataFrame:
        mean = self.estimator_.predict(_named(X)).reshape(len(X), -1)
        return pd.DataFrame(mean, index=X.index, columns=self._get_columns())

    def _predict_proba(self, X: pd.DataFrame) -> PredictiveDistribution:
        predictive = self.estimator_.predict_dist(_named(X))
        return PredictiveDistribution(predictive, index=X.index, columns=self._get_columns())


def _named(X: pd.DataFrame) -> pd.DataFrame:
    return X.rename(columns=str)


def _target(y: pd.DataFrame) -> np.ndarray:
    values = y.to_numpy(np.float64)
    return values[:, 0] if values.shape[1] == 1 else values
