"""Regressors and classifiers that fit all rows at once and predict by draws of the weights.

A concrete estimator says how it fits standardised rows (`_fit_rows`) and what its draws predict;
checks, scaling and predictions in bounded memory are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import jax
import numpy as np

from bayesprop.estimators.advice import CONSTANT_TARGET, warn
from bayesprop.estimators.checks import check_int
from bayesprop.estimators.classification import BayesianClassifier
from bayesprop.estimators.inputs import CHUNK_ROWS
from bayesprop.estimators.regression import BayesianRegressor
from bayesprop.estimators.unharmed import unharmed
from bayesprop.model import draws
from bayesprop.model.mixture_predictive import MixturePredictive
from bayesprop.model.predictive import Predictive
from bayesprop.model.standardiser import Standardiser

_DRAW_VALUES = 8_000_000


class BatchFitting(ABC):
    """What `fit` of both asks of the method that is mixed in."""

    @abstractmethod
    def _check_hyper_parameters(self) -> None:
        """Raise ValueError for a wrong one."""

    @abstractmethod
    def _goes_on(self) -> bool:
        """Whether `fit` keeps columns, scaling and weights of the previous `fit`."""

    @abstractmethod
    def _fit_rows(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Self:
        """Fit standardised rows; y as the likelihood takes it."""


class DrawsRegressor(BatchFitting, BayesianRegressor):
    """Base of the regressors that predict by draws of the weights."""

    @unharmed
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit from scratch; with `warm_start`, where there is one, go on.

        X
            (n, d) finite numbers; a frame's column names are remembered and checked later.
        y
            (n,) or (n, o), in any unit.
        sample_weight
            (n,), not negative: each row's log-likelihood is multiplied by it.
        """
        self._check_hyper_parameters()
        goes_on = self._goes_on()
        X, y, weight = self._check_rows(X, y, sample_weight, reset=not goes_on)
        if not goes_on:
            self._standardise(X, y, weight, reference=False)
        self._fit_rows(self._standardised(X), self.y_scaler_.transform(y), weight)
        if np.ptp(y if weight is None else y[weight > 0.0], axis=0).min() == 0.0:
            warn([CONSTANT_TARGET])
            advice = [CONSTANT_TARGET, *self.fit_report_.warnings]
            self.fit_report_ = replace(self.fit_report_, warnings=advice)
        return self

    @abstractmethod
    def _observations(self, x: np.ndarray, key: Any, n_draws: int) -> draws.Observed:
        """Predict standardised targets at standardised rows by each of n_draws networks."""

    @abstractmethod
    def _n_draws(self) -> int:
        """Networks of a prediction."""

    @abstractmethod
    def _draws_key(self) -> Any:
        """Key of the draws of a prediction, always the same."""

    def _predictive_standardised(self, x: np.ndarray) -> MixturePredictive:
        drawn = self._observations(x, self._draws_key(), self._n_draws())
        return MixturePredictive.of(
            np.asarray(drawn.m, np.float64), np.asarray(drawn.noise_var, np.float64)
        )

    def _parts(self, X: Any) -> Iterator[MixturePredictive]:
        """Predict some rows at a time, in the units and the shape of y."""
        X = self._checked_inputs(X)
        shift = self.y_scaler_.inverse_mean(np.zeros((1, self.n_outputs_)))[0]
        step = max(1, min(CHUNK_ROWS, _DRAW_VALUES // (self._n_draws() * self.n_outputs_)))
        for first in range(0, len(X), step):
            x = self._standardised(X[first : first + step], first)
            part = self._predictive_standardised(x).rescaled(shift, self.y_scaler_.scale)
            yield part.target(0) if self._y_is_vector else part

    def predict_dist(self, X: Any) -> Predictive:
        """Predictive distribution of y at every row: the mixture over draws of the weights.

        X
            Rows in the original units, columns as in `fit`.
        """
        return MixturePredictive.joined(list(self._parts(X)))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean of y, and with `return_std` also the total predictive std, in y."""
        moments = [(part.mean, part.std) for part in self._parts(X)]
        mean, std = (np.concatenate(column) for column in zip(*moments, strict=True))
        return (mean, std) if return_std else mean

    def _sample_standardised(
        self, rng: Any, x: np.ndarray, n_samples: int
    ) -> tuple[np.ndarray, np.ndarray]:
        check_int("n_samples", n_samples)
        key = jax.random.key(int(rng.randint(2**31)))
        drawn = self._observations(x, key, n_samples)
        return np.asarray(drawn.m, np.float64), np.asarray(drawn.noise_var, np.float64)


class DrawsClassifier(BatchFitting, BayesianClassifier):
    """Base of the classifiers that predict by draws of the weights."""

    standardise: bool

    @unharmed
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit from scratch; with `warm_start`, where there is one, go on.

        X
            (n, d) finite numbers; a frame's column names are remembered and checked later.
        y
            (n,) labels of any type, two classes at least.
        sample_weight
            (n,), not negative: each row's log-likelihood is multiplied by it.
        """
        self._check_hyper_parameters()
        goes_on = self._goes_on()
        X, codes, weight = self._check_rows(X, y, sample_weight, reset=not goes_on)
        if not goes_on:
            self.x_scaler_ = (
                Standardiser.fit(X, weight) if self.standardise else Standardiser.none(X.shape[1])
            )
        return self._fit_rows(self._standardised(X), codes, weight)
