"""What every classifier of ours shares: labels, checks and the family of `predict` methods."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayesprop.estimators.inputs import CHUNK_ROWS, standardised_inputs
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.standardiser import Standardiser


class BayesianClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Base of the classifiers. A subclass fits standardised rows and predicts probabilities.

    It calls `_check_rows` in its `fit`.
    """

    x_scaler_: Standardiser
    fit_report_: FitReport
    classes_: np.ndarray
    n_features_in_: int
    feature_names_in_: np.ndarray

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return checked inputs, class codes and weights; with `reset`, learn the classes."""
        X, y = validate_data(self, X, y, dtype=np.float64, reset=reset, order="C")
        _check_labels(y)
        if reset:
            self.classes_ = np.unique(y)
            if len(self.classes_) < 2:
                raise ValueError(
                    "y must hold at least two classes, got one class only: "
                    f"{self.classes_.tolist()[0]!r}"
                )
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if unknown.any():
            raise ValueError(
                f"y must hold classes of the first fit, {self.classes_.tolist()}, "
                f"got {y.tolist()[int(np.argmax(unknown))]!r}"
            )
        if sample_weight is None:
            return X, codes, None
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not (weight > 0.0).any():
            raise ValueError("sample_weight must have a positive entry, got zeros only")
        return X, codes, weight

    def _check_stream(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, *, is_first: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """`_check_rows` of `partial_fit`: the first call learns the classes, all of a stream's.

        classes
            All labels there will be; None in the first call: those of its y.
        """
        if classes is None:
            return self._check_rows(X, y, sample_weight, reset=is_first)
        labels = np.unique(classes)
        if not is_first and not np.array_equal(labels, self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()}, got "
                f"{labels.tolist()}: leave them out, or start again with `fit`"
            )
        if len(labels) < 2:
            raise ValueError(f"classes must be two labels at least, got {classes!r}")
        if is_first:
            validate_data(self, X, y, dtype=np.float64)
            self.classes_ = labels
        return self._check_rows(X, y, sample_weight, reset=False)

    def _standardised(self, X: np.ndarray, first_row: int = 0) -> np.ndarray:
        return standardised_inputs(self, X, first_row)

    def predict_dist(self, X: Any) -> ClassPredictive:
        """Class probabilities of every row, and the entropy that more data would not remove.

        X
            Rows in the original units, columns as in `fit`.
        """
        check_is_fitted(self)
        X = np.asarray(validate_data(self, X, dtype=np.float64, reset=False, order="C"))
        proba, entropy = np.empty((len(X), len(self.classes_))), np.empty(len(X))
        for first in range(0, len(X), CHUNK_ROWS):
            rows = slice(first, first + CHUNK_ROWS)
            x = self._standardised(X[rows], first)
            proba[rows], entropy[rows] = self._class_moments_standardised(x)
        proba /= proba.sum(axis=1, keepdims=True)
        return ClassPredictive(proba, entropy, self.classes_)

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n c"]:
        """Predictive probability of every class, in the order of `classes_`; rows sum to one."""
        return self.predict_dist(X).proba

    def predict(self, X: Any) -> np.ndarray:
        """Most probable class of every row."""
        return self.predict_dist(X).label

    def log_likelihood(self, X: Any, y: Any) -> float:
        """Mean log probability of the labels, nats a row."""
        return float(np.mean(self.predict_dist(X).log_prob(np.asarray(y))))

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file that loads without running code."""
        from bayesprop.store import save_model

        check_is_fitted(self)
        save_model(path, self)

    @abstractmethod
    def _class_moments_standardised(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return probabilities (n, c) and expected entropies (n,), nats, at standardised rows."""


def _check_labels(y: np.ndarray) -> None:
    """Raise ValueError unless y can be labels."""
    try:
        check_classification_targets(y)
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in y.tolist()}))
        raise ValueError(
            f"y must hold labels of one kind, got {kinds}: turn them all into text"
        ) from error
