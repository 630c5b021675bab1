"""Batch expectation propagation as a scikit-learn regressor."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any, Self

import jax
import numpy as np
from sklearn.utils import check_random_state

from bayesprop.estimators.advice import CONSTANT_TARGET, warn
from bayesprop.estimators.checks import check_int, check_positive
from bayesprop.estimators.inputs import CHUNK_ROWS, padded
from bayesprop.estimators.pbp_fitting import hidden_sizes
from bayesprop.estimators.regression import BayesianRegressor
from bayesprop.estimators.stored import (
    estimator_header,
    regressor_header,
    restore_regressor,
    restored,
)
from bayesprop.estimators.unharmed import unharmed
from bayesprop.model.fit_report import FitReport
from bayesprop.model.predictive import GaussianPredictive
from bayesprop.moments.batch_ep import sites as ep
from bayesprop.moments.batch_ep import sweeps as batch_ep
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.natural import Joint

_LEAST_ROWS = 16
_LARGEST_MEMORY = 4 << 30


@dataclass(eq=False, repr=False, kw_only=True)
class BatchEPRegressor(BayesianRegressor):
    """Network of one hidden layer, fitted by batch expectation propagation, for small tables.

    After Jylänki, Nummenmaa & Vehtari (2014): error-function units, a site for every datum and
    unit, one-dimensional quadrature, full covariances within a unit. `moments/batch_ep/` has the
    equations.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of the hidden layer; there is just one.
    n_epochs : int
        Most sweeps over the sites, in tens; it stops where predictions stay, after forty at least.
    damping : float
        Share of the way to its match that a site goes in a sweep; above 0, at most 1. Lower it
        where the fit does not settle.
    tol : float
        Largest change of a prediction, in predictive standard deviations, that counts as none.
    n_starts : int
        Fits from random starts, of which that with the best `mean_log_z` is kept. There are fixed
        points that explain nothing.
    relevance : bool
        Whether every input has a prior scale of its own, learnt (automatic relevance
        determination), or all have one.
    weight_scale_prior : (mean, std)
        Gaussian prior of the log variance of the input weights.
    output_variance : float
        Prior variance of every output weight, in squared standard deviations of y.
    noise_prior : (mean, std)
        Gaussian prior of the log noise variance, in standardised units.
    random_state : int, RandomState or None
        Seeds the start of the input weights.
    verbose : int
        1 writes a line every ten sweeps to stderr.

    Attributes
    ----------
    state_ : Posterior
        Weights, noise and scales, standardised units; the sites are not kept.
    fit_report_ : FitReport
        Guards that fired, course of training, advice. Its `mean_log_z` is the log probability of
        a row given all others, estimated by the cavities.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and targets were standardised.
    n_iter_ : int
        Sweeps of the fit that was kept.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop import BatchEPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BatchEPRegressor((5,), n_starts=1, random_state=0).fit(X[:30], y[:30])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    hidden_layer_sizes: tuple[int, ...] = field(default=(10,), kw_only=False)
    n_epochs: int = field(default=200, kw_only=False)
    damping: float = 0.5
    tol: float = 5e-3
    n_starts: int = 3
    relevance: bool = False
    weight_scale_prior: tuple[float, float] = (1.0, 1.0)
    output_variance: float = 4.0
    noise_prior: tuple[float, float] = (-4.0, 1.5)
    random_state: Any = None
    verbose: int = 0
    state_: ep.Posterior = field(init=False)
    n_iter_: int = field(init=False)

    @unharmed
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit from scratch.

        X
            (n, d) finite numbers; a frame's column names are remembered and checked later.
        y
            (n,) or (n, o) finite numbers.
        sample_weight
            (n,), not negative: copies of each row; 0 leaves it out.
        """
        self._check_hyper_parameters()
        X, y, weight = self._check_rows(X, y, sample_weight, reset=True)
        self._check_memory(*y.shape)
        self._standardise(X, y, weight, reference=False)
        started = time.perf_counter()
        x, t = self._standardised(X), self.y_scaler_.transform(y)
        copies = np.ones(len(x)) if weight is None else weight
        x, t, copies = (padded(rows, _LEAST_ROWS) for rows in (x, t, copies[:, None]))
        rng = check_random_state(self.random_state)
        fits = [self._fit_once(rng.randint(2**31), x, t, copies) for _ in range(self.n_starts)]
        q, sweeps = max(fits, key=lambda fit: fit[1].log_z[-1])
        self.state_ = jax.tree.map(np.asarray, q)
        self.n_iter_ = len(sweeps.change)
        self.fit_report_ = self._report(sweeps, X, y, time.perf_counter() - started)
        return self

    def _fit_once(
        self, seed: int, x: np.ndarray, t: np.ndarray, copies: np.ndarray
    ) -> tuple[ep.Posterior, batch_ep.Sweeps]:
        return batch_ep.fit(
            self._initial_state(seed, x, t),
            self._prior(),
            x,
            t,
            copies[:, 0],
            damping=float(self.damping),
            tol=float(self.tol),
            max_sweeps=self.n_epochs,
            per_input=bool(self.relevance),
            say=_say if self.verbose else None,
        )

    def _initial_state(self, seed: int, x: np.ndarray, t: np.ndarray) -> ep.Sites:
        shape = (len(x), x.shape[1], self._n_units(), t.shape[1])
        return ep.init(jax.random.key(seed), self._prior(), *shape)

    def _prior(self) -> ep.Prior:
        return ep.Prior.of(self.weight_scale_prior, self.output_variance, self.noise_prior)

    def _n_units(self) -> int:
        return hidden_sizes(self.hidden_layer_sizes)[0]

    def _check_hyper_parameters(self) -> None:
        sizes = np.atleast_1d(np.asarray(self.hidden_layer_sizes, dtype=object))
        for size in sizes:
            check_int("hidden_layer_sizes", size, of="hold ints")
        if len(sizes) != 1:
            raise ValueError(
                f"hidden_layer_sizes must be one layer, got {self.hidden_layer_sizes!r}: "
                "take PBPRegressor for more, BayesianLinearRegressor for none"
            )
        check_int("n_epochs", self.n_epochs)
        check_int("n_starts", self.n_starts)
        for name in ("damping", "tol", "output_variance"):
            check_positive(name, getattr(self, name))
        if self.damping > 1.0:
            raise ValueError(f"damping must be at most 1, got {self.damping!r}")
        for name in ("weight_scale_prior", "noise_prior"):
            _check_prior(name, getattr(self, name))

    def _check_memory(self, n_rows: int, n_outputs: int) -> None:
        needed = ep.memory(n_rows, n_outputs, self._n_units())
        if needed > _LARGEST_MEMORY:
            raise ValueError(
                f"the sites of {n_rows} rows and {self._n_units()} units need "
                f"{needed / 2**30:.1f} GiB, more than {_LARGEST_MEMORY >> 30}: take fewer units "
                "or rows, or PBPRegressor, which keeps none"
            )

    def _report(
        self, sweeps: batch_ep.Sweeps, X: np.ndarray, y: np.ndarray, seconds: float
    ) -> FitReport:
        is_settled = sweeps.change[-1] < self.tol and self.n_iter_ > batch_ep.N_START
        guards = {
            "sites_skipped": int(sweeps.skipped.sum()),
            "sweeps_shortened": int((sweeps.damping < self.damping).sum()),
            "not_converged": int(not is_settled),
        }
        advice = []
        if guards["not_converged"]:
            advice.append(
                f"predictions still change by {sweeps.change[-1]:.2g} of their standard deviation "
                f"a sweep (tol {self.tol:g}) after {self.n_iter_}: raise n_epochs, or lower damping"
            )
        n_updates = self.n_iter_ * len(X) * self.n_outputs_
        if guards["sites_skipped"] > 0.01 * n_updates:
            advice.append(
                f"{guards['sites_skipped'] / n_updates:.0%} of the site updates had no proper "
                "cavity and were skipped: look for extreme values or weights in the table"
            )
        if np.ptp(y, axis=0).min() == 0.0:
            advice.append(CONSTANT_TARGET)
        warn(advice)
        return FitReport(
            n_rows=len(X),
            n_epochs=self.n_iter_,
            seconds=seconds,
            n_updates=n_updates,
            guards=guards,
            trace={
                "mean_log_z": sweeps.log_z.tolist(),
                "change": sweeps.change.tolist(),
            },
            warnings=advice,
            step="sweep",
        )

    def predict_dist(self, X: Any) -> GaussianPredictive:
        """Predictive distribution of y at every row: epistemic and noise variance apart.

        X
            Rows in the original units, columns as in `fit`.
        """
        X = self._checked_inputs(X)
        m, v = np.empty((len(X), self.n_outputs_)), np.empty((len(X), self.n_outputs_))
        for first in range(0, len(X), CHUNK_ROWS):
            rows = slice(first, first + CHUNK_ROWS)
            x = self._standardised(X[rows], first)
            found = ep.predict(self.state_, padded(x))
            m[rows], v[rows] = (np.asarray(part)[: len(x)] for part in found)
        noise_var = np.broadcast_to(self._noise_var(), m.shape)
        return GaussianPredictive(
            self._as_fitted(self.y_scaler_.inverse_mean(m)),
            self._as_fitted(self.y_scaler_.inverse_var(v)),
            self._as_fitted(self.y_scaler_.inverse_var(noise_var)),
        )

    def _noise_var(self) -> np.ndarray:
        q = self.state_.noise
        return np.exp(q.m + 0.5 * q.v)

    def _sample_standardised(
        self, rng: Any, x: np.ndarray, n_samples: int
    ) -> tuple[np.ndarray, np.ndarray]:
        check_int("n_samples", n_samples)
        return ep.sample_functions(rng, self.state_, x, n_samples), self._noise_var()

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything that `_from_stored` needs: a JSON-ready header and named arrays."""
        arrays = {
            f"{name}.{part}": np.asarray(value)
            for name, q in self.state_._asdict().items()
            for part, value in q._asdict().items()
        }
        return estimator_header(self) | regressor_header(self), arrays

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild a fitted regressor from what `_to_stored` gave."""
        model = restored(cls, header)
        restore_regressor(model, header)
        model._check_hyper_parameters()
        d, k, o = model.n_features_in_ + 1, model._n_units(), model.n_outputs_
        scales = (d,) if model.relevance else ()

        def read(name: str, shape: tuple[int, ...]) -> Any:
            array = arrays[name]
            if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"array {name} must be finite, float64 of shape {shape}")
            return array

        model.state_ = ep.Posterior(
            Joint(read("w.m", (k, d)), read("w.cov", (k, d, d))),
            Joint(read("v.m", (o, k + 1)), read("v.cov", (o, k + 1, k + 1))),
            Gaussian(read("noise.m", (o,)), read("noise.v", (o,))),
            Gaussian(read("input_scale.m", scales), read("input_scale.v", scales)),
        )
        return model


def _check_prior(name: str, value: Any) -> None:
    try:
        mean, std = (float(number) for number in value)
    except (TypeError, ValueError):
        mean = std = float("nan")
    if not (np.isfinite(mean) and 0.0 < std < float("inf")):
        raise ValueError(f"{name} must be (mean, std > 0) of a log variance, got {value!r}")


def _say(done: int, sweeps: batch_ep.Sweeps) -> None:
    print(
        f"sweep {done}  log Z {float(sweeps.log_z[-1]):.4f} a row  "
        f"change {float(sweeps.change[-1]):.2g} std",
        file=sys.stderr,
    )
