"""What every regressor of ours shares: units, checks and the family of `predict` methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayesprop.estimators.inputs import standardised_inputs
from bayesprop.model.fit_report import FitReport
from bayesprop.model.predictive import Predictive
from bayesprop.model.standardiser import Standardiser

_LARGEST_SCALE = 1e150


class BayesianRegressor(RegressorMixin, BaseEstimator, ABC):
    """Base of the regressors. A subclass fits standardised rows and says what it predicts.

    It calls `_check_rows` and `_standardise` in its `fit`.
    """

    x_scaler_: Standardiser
    y_scaler_: Standardiser
    fit_report_: FitReport
    n_outputs_: int
    n_features_in_: int
    feature_names_in_: np.ndarray
    _y_is_vector: bool

    def __sklearn_tags__(self) -> Any:
        """Several outputs are supported; NaN and sparse input are not."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        X, y = validate_data(
            self,
            X,
            y,
            dtype=np.float64,
            multi_output=True,
            y_numeric=True,
            reset=reset,
            order="C",
            ensure_min_samples=2 if reset else 1,
        )
        y = _numbers(y)
        if reset:
            self._y_is_vector = y.ndim == 1
        y = y.reshape(len(y), -1)
        if not reset and y.shape[1] != self.n_outputs_:
            raise ValueError(
                f"y has {y.shape[1]} outputs, but the model was fitted with {self.n_outputs_}"
            )
        self.n_outputs_ = y.shape[1]
        if sample_weight is None:
            return X, y, None
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not (weight > 0.0).any():
            raise ValueError("sample_weight must have a positive entry, got zeros only")
        return X, y, weight

    def _standardise(self, X: np.ndarray, y: np.ndarray, weight: Any, *, reference: bool) -> None:
        """Learn the scaling of inputs and targets."""
        y_scaler = Standardiser.fit(y, weight, reference=reference)
        scale = y_scaler.scale
        if (scale > _LARGEST_SCALE).any() or (scale < 1.0 / _LARGEST_SCALE).any():
            raise ValueError(
                f"y must have a standard deviation between {1 / _LARGEST_SCALE:g} and "
                f"{_LARGEST_SCALE:g}, so that its variance is a float64; got {scale.max():g}: "
                "rescale the target"
            )
        self.x_scaler_ = Standardiser.fit(X, weight, reference=reference)
        self.y_scaler_ = y_scaler

    def _checked_inputs(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False, order="C")
        return np.asarray(X)

    def _standardised(self, X: np.ndarray, first_row: int = 0) -> np.ndarray:
        return standardised_inputs(self, X, first_row)

    def _as_fitted(self, values: np.ndarray) -> np.ndarray:
        """Give (n, o) back in the shape that y was fitted with."""
        return values[:, 0] if self._y_is_vector else values

    @abstractmethod
    def predict_dist(self, X: Any) -> Predictive:
        """Predictive distribution of y at every row: epistemic and noise variance apart.

        X
            Rows in the original units, columns as in `fit`.
        """

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictive mean of y, and with `return_std` also the total predictive std, in y."""
        predictive = self.predict_dist(X)
        return (predictive.mean, predictive.std) if return_std else predictive.mean

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Float[np.ndarray, "n ... 2"]:
        """Central interval that holds a new y with probability `coverage`; (n, [o,] 2)."""
        return self.predict_dist(X).interval(coverage)

    def predict_quantiles(
        self, X: Any, alpha: tuple[float, ...] = (0.05, 0.5, 0.95)
    ) -> Float[np.ndarray, "n ... q"]:
        """Predictive quantiles of y at the levels `alpha`; (n, [o,] len(alpha))."""
        predictive = self.predict_dist(X)
        return np.stack([predictive.quantile(level) for level in np.atleast_1d(alpha)], axis=-1)

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, *, include_noise: bool = False
    ) -> Float[np.ndarray, "n ... s"]:
        """Joint draws over all rows: each is one function, from one draw of the weights.

        With `include_noise`, draws of new observations. (n, [o,] n_samples), as the Gaussian
        processes of scikit-learn return them.
        """
        rng = check_random_state(random_state)
        x = self._standardised(self._checked_inputs(X))
        f, noise_var = self._sample_standardised(rng, x, n_samples)
        if include_noise:
            f = f + np.sqrt(noise_var) * rng.standard_normal(f.shape)
        y = np.moveaxis(self.y_scaler_.inverse_mean(f), 0, -1)
        return y[:, 0] if self._y_is_vector else y

    def log_likelihood(self, X: Any, y: Any) -> float:
        """Mean log density of y, nats a row, in the original units (outputs are summed)."""
        predictive = self.predict_dist(X)
        y, shape = np.asarray(y, dtype=np.float64), np.shape(predictive.mean)
        if y.shape != shape and not (y.size == len(X) == np.prod(shape)):
            raise ValueError(f"y must have the shape of the predictions, {shape}, got {y.shape}")
        y = y.reshape(shape)
        return float(np.sum(predictive.log_prob(y)) / len(y))

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file that loads without running code."""
        from bayesprop.store import save_model

        check_is_fitted(self)
        save_model(path, self)

    @abstractmethod
    def _sample_standardised(
        self, rng: Any, x: np.ndarray, n_samples: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Functions (s, n, o) and their noise variances, of any shape that fits."""


def _numbers(y: Any) -> np.ndarray:
    """Return targets as float64; ValueError for text."""
    try:
        return np.asarray(y, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"y must hold numbers ({error}): for labels take a classifier") from error
