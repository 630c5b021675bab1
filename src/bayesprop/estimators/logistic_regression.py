"""Bayesian logistic regression as a scikit-learn classifier."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.advice import warn
from bayesprop.estimators.checks import check_choice, check_int, check_positive
from bayesprop.estimators.classification import BayesianClassifier
from bayesprop.estimators.inputs import standardised_inputs
from bayesprop.estimators.linear_checks import ARD, EVIDENCE, check_number_or
from bayesprop.estimators.stored import (
    classifier_header,
    estimator_header,
    restore_classifier,
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
from bayesprop.linear import logistic, logistic_evidence, logistic_predictive
from bayesprop.linear.logistic import Fitted, GaussianPrior, GaussianWeights, Rows
from bayesprop.linear.logistic_evidence import Maximised
from bayesprop.linear.logistic_vi import variational
from bayesprop.linear.precisions import FIXED
from bayesprop.model.fit_report import FitReport
from bayesprop.model.standardiser import Standardiser
from bayesprop.numerics.gaussian_logits import PREDICTIONS

_VI = "vi"
POSTERIORS: dict[str, Callable[..., Fitted]] = {_VI: variational, "laplace": logistic.laplace}
_MONTE_CARLO = "monte-carlo"
_MOST_WEIGHTS = 20_000


class _Fitted(BayesianClassifier):
    """What a fit leaves."""

    posterior_: GaussianWeights
    prior_prec_: np.ndarray
    log_evidence_: float
    n_iter_: int


@dataclass(eq=False, repr=False, kw_only=True)
class BayesianLogisticClassifier(_Fitted):
    """Bayesian logistic regression, of two classes or of more, with doubt that grows off the data.

    Bishop (2006), sections 4.4 and 4.5. `linear/logistic.py` and `linear/logistic_vi.py` have the
    equations. The weights of standardised inputs have independent Gaussian priors.

    Parameters
    ----------
    posterior : {"vi", "laplace"}
        The Gaussian nearest the posterior in KL(q || p), which maximises a lower bound of the
        evidence; or the one at the mode with the curvature there, in half the time (a fortieth of
        it for 650 weights of ten classes), which makes probabilities too careful where rows are few
        or classes separable.
    covariance : {"full", "diagonal"}
        Of the posterior; "diagonal" with "vi" is mean-field.
    prediction : {"quadrature", "probit", "monte-carlo"}
        How the weights are averaged over: integrals of the logits of every row, to 1e-9 with two
        classes; the probit's closed form; or `n_draws` draws of the weights.
    prior_prec : float, "evidence" or "ard"
        Precision of the prior of every weight, standardised inputs; 1 / C of scikit-learn. Or the
        one that the evidence prefers (MacKay 1992), at least 0.01; or one for each column
        (automatic relevance determination), which leaves idle columns without weight. `partial_fit`
        keeps what the first rows chose.
    intercept_prec : float
        Precision of the prior of the intercepts, which evidence does not move.
    n_draws : int
        Draws of "monte-carlo".
    max_steps : int
        Most Newton steps, most steps of "vi", and most of the maximisation of the evidence.
    random_state : int, RandomState or None
        Seeds the draws; nothing else is random.

    Attributes
    ----------
    posterior_ : GaussianWeights
        Of the weights of standardised inputs, the intercept first, class after class. Two classes
        have one logit, that of `classes_[1]`; more have one each.
    prior_prec_ : ndarray of shape (d + 1,)
        Precision of the prior of every column's weights, the intercept first.
    log_evidence_ : float
        Estimate of log p(y | X), nats: Laplace's, or with "vi" a lower bound. After `partial_fit`,
        the sum over the calls.
    fit_report_ : FitReport
        Course of the optimisation, guards, advice.
    classes_ : ndarray of shape (c,)
        Labels, sorted.
    x_scaler_ : Standardiser
        How the inputs were standardised.
    n_iter_ : int
        Steps of the last fit.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bayesprop import BayesianLogisticClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianLogisticClassifier().fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True
    """

    posterior: Literal["vi", "laplace"] = field(default="vi", kw_only=False)
    covariance: Literal["full", "diagonal"] = "full"
    prediction: Literal["quadrature", "probit", "monte-carlo"] = "quadrature"
    prior_prec: Any = EVIDENCE
    intercept_prec: float = 0.01
    n_draws: int = 1000
    max_steps: int = 200
    random_state: Any = None

    @unharmed
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit from scratch.

        X
            (n, d) finite numbers; a frame's column names are remembered and checked later.
        y
            (n,) labels of any type, two classes at least.
        sample_weight
            (n,), not negative: each row's log-likelihood is multiplied by it.
        """
        self._check_hyper_parameters()
        X, codes, weight = self._check_rows(X, y, sample_weight, reset=True)
        return self._begin(X, codes, weight)

    @unharmed
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Condition on further rows: the Gaussian posterior becomes the prior.

        An approximation (Spiegelhalter & Lauritzen 1990), near one `fit` to all rows where each
        call brings few or many; the scaling stays that of the first rows.

        classes
            All labels there will be, in the first call; None: those of its y.
        """
        self._check_hyper_parameters()
        is_first = not hasattr(self, "posterior_")
        X, codes, weight = self._check_stream(X, y, classes, sample_weight, is_first=is_first)
        if is_first:
            return self._begin(X, codes, weight)
        started, data = time.perf_counter(), self._data(X, codes, weight)
        inverse = np.linalg.inv(self.posterior_.root)
        so_far = GaussianPrior(self.posterior_.mean, inverse.T @ inverse)
        return self._absorb(self._approximate(data, so_far), started, len(X))

    def weights(self, coverage: float = 0.9) -> dict[str, np.ndarray]:
        """Table of the weights: columns class, feature, mean, std, lower, upper, of equal length.

        In logits per unit of every input; the intercept is the logit where all inputs are zero. Two
        classes: log odds of the second. More: logits, whose differences between classes count.
        `lower` and `upper` hold a weight with probability `coverage`; `polars.DataFrame(table)`
        shows it.
        """
        check_is_fitted(self)
        check_coverage(coverage)
        scaler, n_logits = self.x_scaler_, self._n_logits()
        matrix = from_standardised(scaler.mean * scaler.unit, scaler.scale)
        mean = self.posterior_.mean.reshape(n_logits, -1) @ matrix.T
        root = self.posterior_.root.reshape(n_logits, len(matrix), -1)
        std = np.linalg.norm(matrix @ root, axis=2)
        classes = self.classes_ if n_logits > 1 else self.classes_[1:]
        names = [INTERCEPT, *input_names(self)]
        return weight_table(classes, "class", names, mean, std, coverage=coverage)

    def _begin(self, X: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> Self:
        """Learn scaling, prior and posterior from the first rows."""
        started, n_weights = time.perf_counter(), self._n_logits() * (X.shape[1] + 1)
        if n_weights > _MOST_WEIGHTS:
            gigabytes = 8e-9 * n_weights**2
            raise ValueError(
                f"X must lead to {_MOST_WEIGHTS} weights at most, got {n_weights}, whose "
                f"covariance would take {gigabytes:.0f} GB: reduce the columns, or use "
                "ClosedFormVIClassifier with hidden_layer_sizes=()"
            )
        self.x_scaler_ = Standardiser.fit(X, weight)
        self.log_evidence_ = 0.0
        data = self._data(X, codes, weight)
        is_number = not isinstance(self.prior_prec, str)
        prec = np.full(data.phi.shape[1], float(self.prior_prec) if is_number else 1.0)
        prec[0] = self.intercept_prec
        self.prior_prec_ = prec
        if is_number:
            found = self._approximate(data, logistic.isotropic_prior(prec, data.n_logits))
            return self._absorb(found, started, len(X))
        columns = np.arange(-1, len(prec) - 1)
        groups = columns if self.prior_prec == ARD else np.where(columns < 0, FIXED, 0)
        best = logistic_evidence.maximise(
            data,
            prec,
            groups,
            self._approximate,
            is_bound=self.posterior == _VI,
            max_steps=self.max_steps,
        )
        self.prior_prec_ = best.prior_prec
        return self._absorb(best.fitted, started, len(X), best)

    def _data(self, X: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> Rows:
        phi = _columns(standardised_inputs(self, X))
        return logistic.rows(phi, codes, len(self.classes_), weight)

    @property
    def _approximate(self) -> Callable[..., Fitted]:
        return partial(
            POSTERIORS[self.posterior], covariance=self.covariance, max_steps=self.max_steps
        )

    def _absorb(
        self, found: Fitted, started: float, n_rows: int, best: Maximised | None = None
    ) -> Self:
        """Keep a posterior, and say how it was found."""
        self.posterior_, info = found.posterior, found.info
        self.log_evidence_ += info.log_evidence
        trace = info.trace if best is None else best.trace
        self.n_iter_ = max(len(trace) - 1, 1)
        advice = self._advice(info, best)
        warn(advice)
        is_vi = self.posterior == _VI
        name = "elbo" if is_vi else "log_joint" if best is None else "log_evidence"
        is_found = info.converged if best is None else best.converged
        guards = {"not_converged": int(not is_found)}
        if best is not None:
            guards |= {"steps_repaired": best.n_repaired, "priors_at_widest": best.n_widest}
        self.fit_report_ = FitReport(
            n_rows=n_rows,
            n_epochs=self.n_iter_,
            seconds=time.perf_counter() - started,
            n_updates=self.n_iter_,
            guards=guards,
            trace={name: trace[1:] or trace},
            log_evidence={"lower bound" if is_vi else "laplace": self.log_evidence_},
            warnings=advice,
            step="step",
        )
        return self

    def _advice(self, info: logistic.FitInfo, best: Maximised | None) -> list[str]:
        if not info.converged:
            return [
                f"the posterior was not found in {self.max_steps} steps (squared gradient "
                f"{info.residual:.2g} in its own metric): raise max_steps, or give prior_prec a "
                "larger number"
            ]
        if best is not None and not best.converged:
            return [
                f"the evidence was not maximised in {self.max_steps} steps (it still rises by "
                f"{best.gradient:.2g} nats a unit of log precision): raise max_steps, or give "
                "prior_prec a number"
            ]
        return []

    def _n_logits(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _class_moments_standardised(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        phi, n_logits = _columns(x), self._n_logits()
        if self.prediction == _MONTE_CARLO:
            rng = check_random_state(0 if self.random_state is None else self.random_state)
            drawn = self.posterior_.sample(rng, self.n_draws)
            return logistic_predictive.monte_carlo(drawn, phi, n_logits)
        return logistic_predictive.predict(self.posterior_, phi, n_logits, self.prediction)

    def _check_hyper_parameters(self) -> None:
        check_choice("posterior", self.posterior, tuple(POSTERIORS))
        check_choice("covariance", self.covariance, ("full", "diagonal"))
        ways = (*PREDICTIONS, _MONTE_CARLO)
        check_choice("prediction", self.prediction, ways)
        check_number_or("prior_prec", self.prior_prec, (EVIDENCE, ARD))
        check_positive("intercept_prec", self.intercept_prec)
        check_int("n_draws", self.n_draws)
        check_int("max_steps", self.max_steps)

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything that `_from_stored` needs: a JSON-ready header and named arrays."""
        header = estimator_header(self) | classifier_header(self)
        arrays = self.posterior_._asdict() | {"prior_prec": self.prior_prec_}
        return header | {"log_evidence": self.log_evidence_}, arrays

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild a fitted classifier from what `_to_stored` gave."""
        model = restored(cls, header)
        restore_classifier(model, header)
        model._check_hyper_parameters()
        k = model.n_features_in_ + 1
        p = model._n_logits() * k
        for name, shape in (("mean", (p,)), ("root", (p, p)), ("prior_prec", (k,))):
            array = arrays[name]
            if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"array {name} must be finite, float64 of shape {shape}")
        if not (arrays["prior_prec"] > 0.0).all():
            raise ValueError("array prior_prec must be positive")
        model.posterior_ = GaussianWeights(arrays["mean"], arrays["root"])
        model.prior_prec_ = arrays["prior_prec"]
        model.log_evidence_ = float(header["log_evidence"])
        return model


def _columns(x: np.ndarray) -> np.ndarray:
    """Put the intercept's column of ones first."""
    return np.hstack([np.ones((len(x), 1)), x])
