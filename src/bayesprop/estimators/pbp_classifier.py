"""Probabilistic backpropagation as a scikit-learn classifier."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from bayesprop.estimators.online_classifier import OnlineClassifier
from bayesprop.estimators.pbp_fitting import (
    advice_on_updates,
    check_gamma,
    checked_engine,
    flat_average_factor,
    hidden_sizes,
)
from bayesprop.estimators.stored import (
    classifier_header,
    estimator_header,
    restore_classifier,
    restored,
)
from bayesprop.model.fit_report import FitReport
from bayesprop.moments.pbp.algorithm import Engine
from bayesprop.moments.pbp.state import GammaPrior, PBPInfo, PBPState, init

_N_PAIRS = 32


@dataclass(eq=False, repr=False, kw_only=True)
class PBPClassifier(OnlineClassifier):
    """Bayesian neural network for classes, fitted by probabilistic backpropagation.

    Every weight has a Gaussian posterior, the prior's precision a Gamma posterior. Two classes
    have one output, and the sign of it plus unit noise is the class (probit); more have one output
    each, and the largest of them plus unit noise. `moments/pbp/kernel_probit.py` has the equations.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes of `fit` over the rows; the paper's is 40.
    inference : {"adf", "sep"}
        "adf" counts every pass as new data, so that the epistemic variance falls with `n_epochs`;
        "sep" (stochastic expectation propagation, Li et al. 2015) removes an average factor first
        and may train as long as it likes.
    activation : {"relu", "leaky_relu", "erf", "identity"}
        Nonlinearity of the hidden layers; all but "relu" run in JAX.
    engine : {"auto", "kernel", "jax"}
        "auto" takes the compiled engine wherever it applies. Both give the same numbers.
    weight_prior : (shape, rate)
        Gamma prior of the precision of all weights; shape > 1.
    warm_start : bool
        Whether `fit` goes on from the posterior of the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds initial means and the order of rows.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : PBPState
        The posterior, for standardised inputs.
    classes_ : ndarray of shape (c,)
        Labels, sorted.
    fit_report_ : FitReport
        Guards that fired, course of training, evidence, advice.
    x_scaler_ : Standardiser
        How the inputs were standardised.
    n_iter_ : int
        Epochs seen since the last reset.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bayesprop import PBPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PBPClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    hidden_layer_sizes: tuple[int, ...] = field(default=(50,), kw_only=False)
    n_epochs: int = field(default=20, kw_only=False)
    inference: Literal["adf", "sep"] = "adf"
    activation: str = "relu"
    engine: Literal["auto", "kernel", "jax"] = "auto"
    weight_prior: tuple[float, float] = (6.0, 6.0)
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0
    state_: PBPState = field(init=False)
    n_iter_: int = field(init=False)

    def _begin_stream(self) -> None:
        self.state_ = self.state_._replace(**flat_average_factor(self.state_))

    def _initial_state(self, rng: np.random.RandomState) -> PBPState:
        n_outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        sizes = (self.n_features_in_, *hidden_sizes(self.hidden_layer_sizes), n_outputs)
        return init(
            rng,
            sizes,
            weight_prior=GammaPrior(*self.weight_prior),
            start_in_prior=True,  # else they are pseudo-data that outweigh labels
        )

    def _run(
        self,
        X: np.ndarray,
        codes: np.ndarray,
        weight: Any,
        orders: Iterable[np.ndarray],
        *,
        n_visits: int,
    ) -> Self:
        started, engine = time.perf_counter(), self._checked_engine()
        x, targets = self._standardised(X), self._targets(codes)
        n_rows = len(x) if weight is None else int(np.count_nonzero(weight))
        mass = float(len(x) if weight is None else np.sum(weight))
        total, first = PBPInfo(), None
        trace = {"mean_log_z": [], "variance_removed": []}
        for state, info in engine.epochs(self.state_, x, targets, orders, weight):
            self.state_ = state
            self.n_iter_ += 1
            total, first = total + info, first or info
            trace["mean_log_z"].append(info.log_z / mass)
            trace["variance_removed"].append(info.epistemic_share / n_rows)
            if self.verbose:
                latest = trace["mean_log_z"][-1]
                print(f"epoch {self.n_iter_}  log Z {latest:.4f} a row", file=sys.stderr)
        n_updates = n_visits * sum(m.size for m in self.state_.m)
        self.fit_report_ = FitReport(
            n_rows=len(X),
            n_epochs=len(trace["mean_log_z"]),
            seconds=time.perf_counter() - started,
            n_updates=n_updates,
            guards=total.guards,
            trace=trace,
            log_evidence={"prequential": (first or total).log_z},
            warnings=advice_on_updates(total.guards, n_updates),
        )
        return self

    def _targets(self, codes: np.ndarray) -> np.ndarray:
        """Signs of two classes, numbers of more."""
        column = codes[:, None].astype(np.float64)
        return 2.0 * column - 1.0 if len(self.classes_) == 2 else column

    def _check_hyper_parameters(self) -> None:
        self._checked_engine()

    def _checked_engine(self) -> Engine:
        """Check the hyper-parameters and say which code will run."""
        return checked_engine(self, targets="classes")

    def _class_moments_standardised(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        from bayesprop.moments.pbp import engine
        from bayesprop.numerics import gaussian_nodes, probit_gaussian

        m, v = self._checked_engine().predict_moments(self.state_, x)
        proba = np.exp(engine.log_class_probabilities(m, v))
        if m.shape[1] == 1:
            return proba, np.maximum(probit_gaussian.expected_entropy(m[:, 0], v[:, 0]), 0.0)
        nodes = gaussian_nodes.gaussian_nodes(m.shape[1], _N_PAIRS)
        return proba, engine.expected_entropies(m, v, nodes)

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything that `_from_stored` needs: a JSON-ready header and named arrays."""
        return estimator_header(self) | classifier_header(self), self.state_.to_arrays()

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild a fitted classifier from what `_to_stored` gave."""
        model = restored(cls, header)
        restore_classifier(model, header)
        check_gamma("weight_prior", model.weight_prior)
        model.state_ = PBPState.from_arrays(arrays)
        n_outputs = 1 if len(model.classes_) == 2 else len(model.classes_)
        found = model.state_.layer_sizes[0], model.state_.layer_sizes[-1]
        if found != (model.n_features_in_, n_outputs):
            raise ValueError(
                f"the network has {found[0]} inputs and {found[1]} outputs, the header "
                f"{model.n_features_in_} and {n_outputs}"
            )
        return model
