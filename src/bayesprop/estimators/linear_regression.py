"""Bayesian linear regression as a scikit-learn regressor."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.advice import warn
from bayesprop.estimators.basis_columns import (
    BasisChoice,
    basis_from_stored,
    basis_to_stored,
    check_basis,
    columns,
    learn_basis,
)
from bayesprop.estimators.checks import check_int
from bayesprop.estimators.inputs import CHUNK_ROWS, standardised_inputs
from bayesprop.estimators.linear_checks import (
    ARD,
    CONJUGATE,
    EVIDENCE,
    check_arrays,
    check_settings,
    fit_advice,
)
from bayesprop.estimators.regression import BayesianRegressor
from bayesprop.estimators.stored import (
    estimator_header,
    regressor_header,
    restore_regressor,
    restored,
)
from bayesprop.estimators.unharmed import unharmed
from bayesprop.estimators.weight_table import (
    INTERCEPT,
    check_coverage,
    from_standardised,
    input_names,
    weight_table,
)
from bayesprop.linear import evidence, regression
from bayesprop.linear.bases import Basis
from bayesprop.linear.precisions import FIXED
from bayesprop.linear.regression import LinearPosterior, NoisePrior, Statistics
from bayesprop.model.fit_report import FitReport
from bayesprop.model.predictive import GaussianPredictive, Predictive
from bayesprop.model.student_t_predictive import StudentTPredictive


class _Fitted(BayesianRegressor):
    """What a fit leaves."""

    posterior_: LinearPosterior
    statistics_: Statistics
    prior_prec_: np.ndarray
    log_evidence_: float
    basis_: Basis | None
    n_iter_: int


@dataclass(eq=False, repr=False, kw_only=True)
class BayesianLinearRegressor(_Fitted):
    """Bayesian linear regression: posterior, predictions and evidence without approximation.

    Bishop (2006), chapter 3; MacKay (1992). `linear/regression.py` has the equations.

    Parameters
    ----------
    prior_prec : float, "evidence" or "ard"
        Precision of the Gaussian prior of every weight, inputs (or columns of the basis) and target
        standardised; or one that maximises the evidence; or one for each column (automatic
        relevance determination), which leaves idle columns without weight.
    noise : "evidence", "conjugate" or float
        Noise variance: the one that maximises the evidence; unknown with an inverse-gamma prior,
        for Student-t predictions (needs a number as `prior_prec`, whose unit is then the noise
        precision); or known, in y².
    basis : None, "polynomial", "radial", function or scikit-learn transformer
        Columns that the target is linear in: the inputs; their products up to `degree`; Gaussian
        bumps (with error bars too narrow beyond the data); or whatever (n, d) rows in the original
        units become, fitted to the first rows.
    degree : int
        Of "polynomial".
    n_centres : int
        Bumps of "radial": at quantiles of a single input, else at the centres of k-means.
    width : float or None
        Of the bumps, in standard deviations of the inputs. None: the median distance of a centre to
        its nearest neighbour.
    intercept_prec : float
        Precision of the intercept's own prior, which evidence does not move; standardised units.
    noise_prior : (shape, rate)
        Inverse-gamma prior of "conjugate", in standardised units; shape > 1.
    max_steps : int
        Most steps of the maximisation of the evidence, for every output.
    random_state : int, RandomState or None
        Seeds k-means; nothing else is random.

    Attributes
    ----------
    posterior_ : LinearPosterior
        Of the weights, in standardised units.
    statistics_ : Statistics
        All that the rows said.
    prior_prec_ : ndarray of shape (o, k)
        Precision of every weight, the intercept first.
    log_evidence_ : float
        log p(y | X), nats, in the original units of y, summed over outputs.
    fit_report_ : FitReport
        Course of the maximisation, guards, advice.
    basis_ : Basis or None
        What the inputs become.
    x_scaler_, y_scaler_ : Standardiser
        How inputs and targets were standardised.
    n_iter_ : int
        Steps of the last maximisation, 1 where there was none.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bayesprop import BayesianLinearRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BayesianLinearRegressor().fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    prior_prec: Any = field(default=EVIDENCE, kw_only=False)
    noise: Any = field(default=EVIDENCE, kw_only=False)
    basis: Any = None
    degree: int = 3
    n_centres: int = 10
    width: float | None = None
    intercept_prec: float = 1e-4
    noise_prior: tuple[float, float] = (1.1, 0.01)
    max_steps: int = 1000
    random_state: Any = None

    @unharmed
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit from scratch.

        X
            (n, d) finite numbers; a frame's column names are remembered and checked later.
        y
            (n,) or (n, o), in any unit; every output has its own weights, prior and noise.
        sample_weight
            (n,), not negative: each row's log-likelihood is multiplied by it.
        """
        self._check_hyper_parameters()
        X, y, weight = self._check_rows(X, y, sample_weight, reset=True)
        return self._begin(X, y, weight)._absorb(X, y, weight)

    @unharmed
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Condition on further rows exactly: as one `fit` to all rows, whatever their order.

        The scaling and the basis stay those of the first rows (two at least).
        """
        self._check_hyper_parameters()
        is_first = not hasattr(self, "statistics_")
        X, y, weight = self._check_rows(X, y, sample_weight, reset=is_first)
        if is_first:
            self._begin(X, y, weight)
        return self._absorb(X, y, weight)

    def predict_dist(self, X: Any) -> Predictive:
        """Predictive distribution of y at every row: epistemic and noise variance apart.

        Gaussian, or with `noise="conjugate"` Student-t.

        X
            Rows in the original units, columns as in `fit`.
        """
        X = self._checked_inputs(X)
        m, v = np.empty((len(X), self.n_outputs_)), np.empty((len(X), self.n_outputs_))
        for first in range(0, len(X), CHUNK_ROWS):
            rows = slice(first, first + CHUNK_ROWS)
            m[rows], v[rows] = regression.predict(
                self.posterior_, self._standardised(X[rows], first)
            )
        noise_var = np.broadcast_to(self.posterior_.noise_var, m.shape)
        parts = (
            self._as_fitted(self.y_scaler_.inverse_mean(m)),
            self._as_fitted(self.y_scaler_.inverse_var(v)),
            self._as_fitted(self.y_scaler_.inverse_var(noise_var)),
        )
        dof = self._as_fitted(np.broadcast_to(self.posterior_.dof, m.shape))
        if np.isfinite(dof).all():
            return StudentTPredictive(*parts, dof)
        return GaussianPredictive(*parts)

    def posterior_features(self, X: Any) -> Float[np.ndarray, "n o k"]:
        """Numbers whose inner products are the posterior covariances of the function, y²."""
        x = self._standardised(self._checked_inputs(X))
        features = np.einsum("nk,okj->noj", x, self.posterior_.root)
        return features * self.y_scaler_.scale[:, None]

    def weights(self, coverage: float = 0.9) -> dict[str, np.ndarray]:
        """Table of the weights: columns output, feature, mean, std, lower, upper, of equal length.

        In y per unit of every input, or per column of a basis: of "polynomial", products of
        standardised inputs. The intercept is y where all columns are zero. `lower` and `upper`
        hold a weight with probability `coverage`; `polars.DataFrame(table)` shows it.
        """
        check_is_fitted(self)
        check_coverage(coverage)
        matrix, names = self._from_internal()
        scale = self.y_scaler_.scale[:, None]
        mean = self.posterior_.mean @ matrix.T * scale
        mean[:, 0] += self.y_scaler_.inverse_mean(np.zeros((1, self.n_outputs_)))[0]
        std = np.linalg.norm(matrix @ self.posterior_.root, axis=2) * scale
        outputs, dof = np.arange(self.n_outputs_), float(self.posterior_.dof[0])
        return weight_table(outputs, "output", names, mean, std, coverage=coverage, dof=dof)

    def _from_internal(self) -> tuple[np.ndarray, list[str]]:
        """Return what undoes the scaling of the columns, and the names of the weights."""
        names = input_names(self)
        if self.basis_ is None:
            scaler = self.x_scaler_
            matrix = from_standardised(scaler.mean * scaler.unit, scaler.scale)
            return matrix, [INTERCEPT, *names]
        k = self.posterior_.mean.shape[1] - 1
        shift = getattr(self.basis_, "mean", np.zeros(k))
        scale = getattr(self.basis_, "std", np.ones(k))
        return from_standardised(shift, scale), [INTERCEPT, *self.basis_.names(names)]

    def _begin(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Self:
        """Learn scaling and basis."""
        self._standardise(X, y, weight, reference=False)
        x = standardised_inputs(self, X)
        rng = check_random_state(self.random_state)
        self.basis_ = learn_basis(self._choice(), X, x, weight, rng)
        self.statistics_ = regression.init(self._standardised(X[:1]).shape[1], self.n_outputs_)
        return self

    def _absorb(self, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Self:
        started = time.perf_counter()
        state, t = self.statistics_, self.y_scaler_.transform(y)
        for first in range(0, len(X), CHUNK_ROWS):
            rows = slice(first, first + CHUNK_ROWS)
            part = None if weight is None else weight[rows]
            state = regression.update(state, self._standardised(X[rows], first), t[rows], part)
        self.statistics_ = state
        infos = self._infer()
        log_scale = state.weight_sum * float(np.sum(np.log(self.y_scaler_.scale)))
        self.log_evidence_ = float(np.sum(self.posterior_.log_evidence)) - log_scale
        advice = fit_advice(state, infos, self.max_steps)
        warn(advice)
        traces = [info.trace for info in infos]
        self.n_iter_ = max((len(trace) for trace in traces), default=1)
        self.fit_report_ = FitReport(
            n_rows=len(X),
            n_epochs=self.n_iter_,
            seconds=time.perf_counter() - started,
            n_updates=sum(map(len, traces)) or 1,
            guards={
                "steps_repaired": sum(info.n_repaired for info in infos),
                "noise_at_bound": sum(info.at_bound for info in infos),
                "not_converged": sum(not info.converged for info in infos),
            },
            trace={"log_evidence": _summed(traces, log_scale)} if traces else {},
            log_evidence={"exact": self.log_evidence_},
            warnings=advice,
            step="step",
        )
        return self

    def _infer(self) -> tuple[evidence.EvidenceInfo, ...]:
        """Find the posterior from the statistics."""
        state, known = self.statistics_, None
        k, o = state.target.shape
        if not isinstance(self.noise, str):
            known = float(self.noise) / self.y_scaler_.scale**2
        prec = np.full(k, 1.0 if isinstance(self.prior_prec, str) else float(self.prior_prec))
        prec[0] = self.intercept_prec
        precs = np.tile(prec, (o, 1))
        self.prior_prec_ = precs
        if self.noise == CONJUGATE:
            self.posterior_ = regression.conjugate(state, precs, NoisePrior(*self.noise_prior))
            return ()
        if known is not None and not isinstance(self.prior_prec, str):
            self.posterior_ = regression.known_noise(state, precs, known)
            return ()
        found = evidence.maximise(
            state, prec, self._groups(k), noise_var=known, max_steps=self.max_steps
        )
        self.posterior_, self.prior_prec_ = found.posterior, found.prior_prec
        return found.info

    def _groups(self, k: int) -> np.ndarray:
        """Say which weights share a precision that is to be found."""
        if self.prior_prec == ARD:
            return np.arange(-1, k - 1)
        free = 0 if self.prior_prec == EVIDENCE else FIXED
        return np.where(np.arange(k) == 0, FIXED, free)

    def _choice(self) -> BasisChoice:
        return BasisChoice(self.basis, self.degree, self.n_centres, self.width)

    def _check_hyper_parameters(self) -> None:
        check_settings(self)
        check_basis(self._choice())

    def _standardised(self, X: np.ndarray, first_row: int = 0) -> np.ndarray:
        """Return the columns that the weights multiply, the intercept's first."""
        return columns(self.basis_, X, standardised_inputs(self, X, first_row))

    def _sample_standardised(
        self, rng: Any, x: np.ndarray, n_samples: int
    ) -> tuple[np.ndarray, np.ndarray]:
        check_int("n_samples", n_samples)
        drawn = regression.sample(rng, self.posterior_, n_samples)
        return np.einsum("nk,sok->sno", x, drawn.weights), drawn.noise_var[:, None, :]

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything that `_from_stored` needs: a JSON-ready header and named arrays."""
        basis, arrays = basis_to_stored(getattr(self, "basis_", None))
        header = estimator_header(self) | regressor_header(self)
        header |= {"basis": basis, "log_evidence": self.log_evidence_}
        header |= {"weight_sum": self.statistics_.weight_sum}
        named = self.statistics_._asdict() | self.posterior_._asdict()
        named |= {"prior_prec": self.prior_prec_}
        del named["weight_sum"], named["dof"]
        return header, arrays | named

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild a fitted regressor from what `_to_stored` gave."""
        model = restored(cls, header)
        restore_regressor(model, header)
        model._check_hyper_parameters()
        model.basis_ = basis_from_stored(header["basis"], arrays, model.n_features_in_)
        probe = model.x_scaler_.inverse_mean(np.zeros((1, model.n_features_in_)))
        k, o = model._standardised(probe).shape[1], model.n_outputs_
        check_arrays(arrays, k, o)
        total = float(header["weight_sum"])
        model.statistics_ = Statistics(
            arrays["design"], arrays["target"], arrays["residual"], total
        )
        shape = model.noise_prior[0] + 0.5 * total
        dof = np.full(o, 2.0 * shape if model.noise == CONJUGATE else np.inf)
        model.posterior_ = LinearPosterior(
            arrays["mean"], arrays["root"], arrays["noise_var"], dof, arrays["log_evidence"]
        )
        model.prior_prec_ = arrays["prior_prec"]
        model.log_evidence_ = float(header["log_evidence"])
        return model


def _summed(traces: list[list[float]], log_scale: float) -> list[float]:
    """Log evidence of all outputs step by step; one that has converged stays where it is."""
    length = max(map(len, traces))
    padded = [trace + trace[-1:] * (length - len(trace)) for trace in traces]
    return [float(total) - log_scale for total in np.sum(padded, axis=0)]
