"""Expectation backpropagation as a scikit-learn classifier."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, Self

import numpy as np
from scipy import special

from bayesprop.estimators.checks import check_choice, check_int
from bayesprop.estimators.inputs import padded
from bayesprop.estimators.online_classifier import OnlineClassifier
from bayesprop.estimators.pbp_fitting import hidden_sizes
from bayesprop.estimators.stored import (
    classifier_header,
    estimator_header,
    restore_classifier,
    restored,
)
from bayesprop.model.fit_report import FitReport
from bayesprop.moments import ebp

_ROWS_AT_ONCE = 8192


@dataclass(eq=False, repr=False, kw_only=True)
class EBPClassifier(OnlineClassifier):
    """Network of sign units, with binary or real weights, fitted by expectation backpropagation.

    Soudry, Hubara & Meir (2014). Every weight has a distribution, which one row after the other
    multiplies; there is no learning rate. `moments/ebp.py` has the equations. Two classes have one
    output unit, more have one each.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is one layer of sign units.
    n_epochs : int
        Passes of `fit` over the rows; each counts them as new data.
    weights : {"binary", "real"}
        1 or -1 each; or Gaussian of variance 1.
    prediction : {"posterior", "map"}
        Average over the weights' distribution; or the one network of the most probable weights,
        which knows no doubt: its probabilities are 0 and 1. Binary weights make it a network of
        signs only.
    warm_start : bool
        Whether `fit` goes on from the posterior of the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds initial weights and the order of rows.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : EBPState
        The posterior, for standardised inputs.
    classes_ : ndarray of shape (c,)
        Labels, sorted.
    fit_report_ : FitReport
        Guards that fired, course of training, advice.
    x_scaler_ : Standardiser
        How the inputs were standardised.
    n_iter_ : int
        Epochs seen since the last reset.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesprop import EBPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = EBPClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.9)
    True
    """

    hidden_layer_sizes: tuple[int, ...] = field(default=(50,), kw_only=False)
    n_epochs: int = field(default=20, kw_only=False)
    weights: Literal["binary", "real"] = "real"
    prediction: Literal["posterior", "map"] = "posterior"
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0
    state_: ebp.EBPState = field(init=False)
    n_iter_: int = field(init=False)

    def _initial_state(self, rng: np.random.RandomState) -> ebp.EBPState:
        return ebp.init(rng, self._sizes())

    def _sizes(self) -> tuple[int, ...]:
        n_outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        return (self.n_features_in_, *hidden_sizes(self.hidden_layer_sizes), n_outputs)

    def _run(
        self,
        X: np.ndarray,
        codes: np.ndarray,
        weight: Any,
        orders: Iterable[np.ndarray],
        *,
        n_visits: int,
    ) -> Self:
        started = time.perf_counter()
        x, signs = self._standardised(X), self._signs(codes)
        n_rows = len(x) if weight is None else float(np.sum(weight))
        trace, guards = [], {"rows_refused": 0, "steps_shortened": 0, "weights_at_bound": 0}
        for order in orders:
            self.state_, info = ebp.data_pass(
                self.state_, x, signs, order, weight, weights=self.weights
            )
            self.n_iter_ += 1
            guards["rows_refused"] += info.rows_refused
            guards["steps_shortened"] += info.steps_shortened
            guards["weights_at_bound"] = info.weights_at_bound
            trace.append(info.log_z / n_rows)
            if self.verbose:
                print(f"epoch {self.n_iter_}  log Z {trace[-1]:.4f} a row", file=sys.stderr)
        n_weights = sum(layer.size for layer in self.state_.h)
        self.fit_report_ = FitReport(
            n_rows=len(X),
            n_epochs=len(trace),
            seconds=time.perf_counter() - started,
            n_updates=n_visits * n_weights,
            guards=guards,
            trace={"mean_log_z": trace},
            log_evidence={"prequential": trace[0] * n_rows},
            warnings=_advice(guards, n_weights),
        )
        return self

    def _signs(self, codes: np.ndarray) -> np.ndarray:
        """Return 1 for the output of the row's class, -1 for the others."""
        if len(self.classes_) == 2:
            return 2.0 * codes[:, None] - 1.0
        return 2.0 * (codes[:, None] == np.arange(len(self.classes_))) - 1.0

    def _class_moments_standardised(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Average over the signs of the outputs; every network of the posterior is certain."""
        if self.prediction == "map":
            scores = self._in_chunks(ebp.most_probable_outputs, x)
            chosen = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
            return np.eye(len(self.classes_))[chosen.astype(int)], np.zeros(len(x))
        log_odds = self._in_chunks(ebp.posterior_log_odds, x)
        if log_odds.shape[1] == 1:
            log_odds = np.hstack([np.zeros_like(log_odds), log_odds])
        return special.softmax(log_odds, axis=1), np.zeros(len(x))

    def _in_chunks(self, outputs: Any, x: np.ndarray) -> np.ndarray:
        found = np.empty((len(x), self._sizes()[-1]))
        for first in range(0, len(x), _ROWS_AT_ONCE):
            part = x[first : first + _ROWS_AT_ONCE]
            values = outputs(self.state_, padded(part), weights=self.weights)
            found[first : first + len(part)] = values[: len(part)]
        return found

    def _check_hyper_parameters(self) -> None:
        for size in np.atleast_1d(np.asarray(self.hidden_layer_sizes, dtype=object)):
            check_int("hidden_layer_sizes", size, of="hold ints")
        check_int("n_epochs", self.n_epochs)
        check_choice("weights", self.weights, tuple(ebp.KINDS))
        check_choice("prediction", self.prediction, ("posterior", "map"))

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything that `_from_stored` needs: a JSON-ready header and named arrays."""
        arrays = {f"h.{layer}": np.asarray(h) for layer, h in enumerate(self.state_.h)}
        return estimator_header(self) | classifier_header(self), arrays

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild a fitted classifier from what `_to_stored` gave."""
        model = restored(cls, header)
        restore_classifier(model, header)
        model._check_hyper_parameters()
        h = []
        for layer, (n_in, n_out) in enumerate(pairwise(model._sizes())):
            array, shape = arrays[f"h.{layer}"], (n_in + 1, n_out)
            if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"array h.{layer} must be finite, float64 of shape {shape}")
            h.append(array)
        model.state_ = ebp.EBPState(tuple(h))
        return model


def _advice(guards: dict[str, int], n_weights: int) -> list[str]:
    advice = []
    refused, at_bound = guards["rows_refused"], guards["weights_at_bound"]
    if refused:
        advice.append(
            f"{refused} updates were not finite, and left the weights as they were: look for "
            "extreme values in the table"
        )
    if at_bound > 0.5 * n_weights:
        advice.append(
            f"{at_bound / n_weights:.0%} of the weights are as good as certain and can learn no "
            "more: take fewer epochs, or more units"
        )
    return advice
