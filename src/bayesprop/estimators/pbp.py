"""Probabilistic backpropagation as a scikit-learn regressor."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.advice import CONSTANT_TARGET, warn
from bayesprop.estimators.checks import check_int
from bayesprop.estimators.inputs import CHUNK_ROWS
from bayesprop.estimators.pbp_fitting import (
    advice_on_updates,
    check_gamma,
    checked_engine,
    flat_average_factor,
    hidden_sizes,
)
from bayesprop.estimators.pruned import check_streams, forget, goes_on
from bayesprop.estimators.regression import BayesianRegressor
from bayesprop.estimators.stored import (
    check_sizes,
    estimator_header,
    regressor_header,
    restore_regressor,
    restored,
)
from bayesprop.estimators.unharmed import unharmed
from bayesprop.model.fit_report import FitReport
from bayesprop.model.predictive import GaussianPredictive
from bayesprop.moments.pbp.algorithm import Engine
from bayesprop.moments.pbp.state import GammaPrior, PBPInfo, PBPState, init

_SHARE_ROWS = 2000


@dataclass(eq=False, repr=False, kw_only=True)
class PBPRegressor(BayesianRegressor):
    """Bayesian neural network for regression, fitted by probabilistic backpropagation.

    Every weight has a Gaussian posterior; noise and prior precision have Gamma posteriors and
    need no tuning. Hernández-Lobato & Adams (2015).

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of every hidden layer; () is a linear model.
    n_epochs : int
        Passes of `fit` over the rows; the paper's is 40.
    batch_size : int
        Rows absorbed at once. 1 is the paper's algorithm; larger batches run in JAX.
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
    noise_prior : (shape, rate)
        Gamma prior of the noise's precision, in standardised units; shape > 1.
    warm_start : bool
        Whether `fit` goes on from the posterior of the previous `fit`, with its scaling.
    random_state : int, RandomState or None
        Seeds initial means and the order of rows.
    verbose : int
        1 writes a line an epoch to stderr.

    Attributes
    ----------
    state_ : PBPState
        The posterior, in standardised units.
    fit_report_ : FitReport
        Guards that fired, course of training, evidence, advice.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and targets were standardised.
    n_iter_ : int
        Epochs seen since the last reset.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop import PBPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PBPRegressor(random_state=0).fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    hidden_layer_sizes: tuple[int, ...] = field(default=(50,), kw_only=False)
    n_epochs: int = field(default=40, kw_only=False)
    batch_size: int = 1
    inference: Literal["adf", "sep"] = "adf"
    activation: str = "relu"
    engine: Literal["auto", "kernel", "jax"] = "auto"
    weight_prior: tuple[float, float] = (6.0, 6.0)
    noise_prior: tuple[float, float] = (6.0, 6.0)
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0
    state_: PBPState = field(init=False)
    n_iter_: int = field(init=False)

    @unharmed
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit from scratch in `n_epochs` shuffled passes.

        X
            (n, d) finite numbers; a frame's column names are remembered and checked later.
        y
            (n,) or (n, o), in any unit; every output has its own noise.
        sample_weight
            (n,), not negative: each row's likelihood is raised to this power; 0 leaves it out.
        """
        engine = self._checked_engine()
        is_start = not goes_on(self)
        X, y, weight = self._check_rows(X, y, sample_weight, reset=is_start)
        rng = check_random_state(self.random_state)
        forget(self)
        if is_start:
            self._standardise(X, y, weight, reference=False)
            self._start(rng, X.shape[1])
        rows = np.arange(len(X)) if weight is None else np.flatnonzero(weight)
        orders = (rng.permutation(rows) for _ in range(self.n_epochs))
        return self._run(engine, X, y, weight, orders, n_visits=len(rows) * self.n_epochs)

    @unharmed
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Absorb rows once, in their order: the posterior becomes the prior.

        The first call on an unfitted model learns the scaling from its rows (two at least).
        """
        engine = self._checked_engine()
        check_streams(self)
        is_first = not hasattr(self, "state_")
        X, y, weight = self._check_rows(X, y, sample_weight, reset=is_first)
        if is_first:
            self._standardise(X, y, weight, reference=False)
            self._start(check_random_state(self.random_state), X.shape[1])
        self.state_ = self.state_._replace(**flat_average_factor(self.state_))
        return self._run(engine, X, y, weight, [np.arange(len(X))], n_visits=len(X))

    def log_evidence(self, X: Any, y: Any) -> float:
        """Estimate log p(y | X) by expectation propagation, nats, in the original units of y.

        X, y must be the rows that `fit(inference="sep")` saw, each with weight 1. It is the
        evidence of the network with its fitted prior precision: higher is better between models of
        the same rows. `fit_report_.log_evidence["prequential"]` needs neither condition: the log
        probability of every row given those before it, in the first pass.
        """
        from bayesprop.moments.pbp.ep_evidence import ep_log_evidence

        engine = self._checked_engine()
        check_is_fitted(self)
        if engine.inference != "sep":
            raise ValueError(
                "log_evidence needs inference='sep', got 'adf', which counts the data once an "
                "epoch; or read fit_report_.log_evidence['prequential']"
            )
        X, y, _ = self._check_rows(X, y, None, reset=False)
        x, t = self.x_scaler_.transform(X), self.y_scaler_.transform(y)
        log_scale = len(X) * float(np.sum(np.log(self.y_scaler_.scale)))
        return ep_log_evidence(self.state_, x, t, activation=engine.activation) - log_scale

    def _start(self, rng: np.random.RandomState, n_inputs: int) -> None:
        sizes = (n_inputs, *hidden_sizes(self.hidden_layer_sizes), self.n_outputs_)
        self.state_ = init(
            rng,
            sizes,
            weight_prior=GammaPrior(*self.weight_prior),
            noise_prior=GammaPrior(*self.noise_prior),
            start_in_prior=self.inference == "sep",
        )
        self.n_iter_ = 0

    def _run(
        self,
        engine: Engine,
        X: np.ndarray,
        y: np.ndarray,
        weight: Any,
        orders: Iterable[np.ndarray],
        *,
        n_visits: int,
    ) -> Self:
        started = time.perf_counter()
        is_start = self.n_iter_ == 0
        x, t = self._standardised(X), self.y_scaler_.transform(y)
        n_rows = len(x) if weight is None else int(np.count_nonzero(weight))
        mass = float(len(x) if weight is None else np.sum(weight))
        total, trace = PBPInfo(), {"mean_log_z": [], "noise_std": [], "epistemic_share": []}
        first = None
        for state, info in engine.epochs(self.state_, x, t, orders, weight):
            self.state_ = state
            self.n_iter_ += 1
            total = total + info
            first = first or info
            trace["mean_log_z"].append(info.log_z / mass)
            trace["noise_std"].append(self._noise_std())
            trace["epistemic_share"].append(info.epistemic_share / n_rows)
            if self.verbose:
                self._say(trace)
        trace["epistemic_share"][-1] = self._epistemic_share(engine, x[:_SHARE_ROWS])
        log_scale = mass * float(np.sum(np.log(self.y_scaler_.scale)))
        n_updates = n_visits * sum(m.size for m in self.state_.m)
        self.fit_report_ = FitReport(
            n_rows=len(X),
            n_epochs=len(trace["mean_log_z"]),
            seconds=time.perf_counter() - started,
            n_updates=n_updates,
            guards=total.guards,
            trace=trace,
            log_evidence={"prequential": (first or total).log_z - log_scale},
            warnings=self._advice(y, total.guards, n_updates, is_start=is_start),
        )
        return self

    def _noise_std(self) -> float:
        return float(np.sqrt(self.state_.noise_var[0]) * self.y_scaler_.scale[0])

    def _epistemic_share(self, engine: Engine, x: np.ndarray) -> float:
        _, v = engine.predict_moments(self.state_, x)
        return float(np.mean(v / (v + self.state_.noise_var)))

    def _advice(
        self, y: np.ndarray, guards: dict[str, int], n_updates: int, *, is_start: bool
    ) -> list[str]:
        advice = []
        if is_start and np.ptp(y, axis=0).min() == 0.0:
            advice.append(CONSTANT_TARGET)
            warn(advice)
        return advice + advice_on_updates(guards, n_updates)

    def _say(self, trace: dict[str, list[float]]) -> None:
        latest = {name: values[-1] for name, values in trace.items()}
        print(
            f"epoch {self.n_iter_}  log Z {latest['mean_log_z']:.4f} a row  "
            f"noise std {latest['noise_std']:.4g}  epistemic {latest['epistemic_share']:.1%}",
            file=sys.stderr,
        )

    def _checked_engine(self) -> Engine:
        """Check the hyper-parameters and say which code will run."""
        check_int("batch_size", self.batch_size)
        check_gamma("noise_prior", self.noise_prior)
        return checked_engine(self, batch_size=self.batch_size, targets="numbers")

    def predict_dist(self, X: Any) -> GaussianPredictive:
        """Predictive distribution of y at every row: epistemic and noise variance apart.

        X
            Rows in the original units, columns as in `fit`.
        """
        m, v = self._predict_in_chunks(self._checked_inputs(X))
        noise_var = np.broadcast_to(self.state_.noise_var, m.shape)
        return GaussianPredictive(
            self._as_fitted(self.y_scaler_.inverse_mean(m)),
            self._as_fitted(self.y_scaler_.inverse_var(v)),
            self._as_fitted(self.y_scaler_.inverse_var(noise_var)),
        )

    def _predict_in_chunks(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Standardised means and variances; memory beyond input and output is a chunk's."""
        m, v = np.empty((len(X), self.n_outputs_)), np.empty((len(X), self.n_outputs_))
        engine = self._checked_engine()
        for first in range(0, len(X), CHUNK_ROWS):
            rows = slice(first, first + CHUNK_ROWS)
            x = self._standardised(X[rows], first)
            m[rows], v[rows] = engine.predict_moments(self.state_, x)
        return m, v

    def _sample_standardised(
        self, rng: Any, x: np.ndarray, n_samples: int
    ) -> tuple[np.ndarray, np.ndarray]:
        check_int("n_samples", n_samples)
        functions = self._checked_engine().sample_functions(rng, self.state_, x, n_samples)
        return functions, self.state_.noise_var

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything that `_from_stored` needs: a JSON-ready header and named arrays."""
        return estimator_header(self) | regressor_header(self), self.state_.to_arrays()

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild a fitted regressor from what `_to_stored` gave."""
        model = restored(cls, header)
        model.state_ = PBPState.from_arrays(arrays)
        check_sizes(header, model.state_.layer_sizes[0], model.state_.layer_sizes[-1])
        restore_regressor(model, header)
        return model
