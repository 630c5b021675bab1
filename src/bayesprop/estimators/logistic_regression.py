"""Bayesian logistic regression as a scikit-learn classifier."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bayesprop.data.standardise import Standardiser
from bayesprop.estimators.checks import check_choice, check_int, check_positive
from bayesprop.estimators.classification import BayesianClassifier
from bayesprop.estimators.inputs import standardised_inputs
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
from bayesprop.linear import logistic, logistic_predictive
from bayesprop.linear.logistic import Fitted, GaussianPrior, GaussianWeights
from bayesprop.linear.logistic_vi import variational
from bayesprop.model.fit_report import FitReport
from bayesprop.numerics.gaussian_logits import PREDICTIONS

POSTERIORS: dict[str, Callable[..., Fitted]] = {"vi": variational, "laplace": logistic.laplace}
_MONTE_CARLO = "monte-carlo"
_MOST_WEIGHTS = 20_000


class _Fitted(BayesianClassifier):
    """What a fit leaves."""

    posterior_: GaussianWeights
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
    prior_prec : float
        Precision of the prior of every weight, standardised inputs; 1 / C of scikit-learn.
    intercept_prec : float
        Precision of the prior of the intercepts.
    n_draws : int
        Draws of "monte-carlo".
    max_steps : int
        Most Newton steps, and most steps of "vi".
    random_state : int, RandomState or None
        Seeds the draws; nothing else is random.

    Attributes
    ----------
    posterior_ : GaussianWeights
        Of the weights of standardised inputs, the intercept first, class after class. Two classes
        have one logit, that of `classes_[1]`; more have one each.
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
    prior_prec: float = 1.0
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
        return self._begin(X, weight)._absorb(X, codes, weight)

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
            self._begin(X, weight)
        return self._absorb(X, codes, weight)

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

    def _begin(self, X: np.ndarray, weight: np.ndarray | None) -> Self:
        """Learn the scaling; the posterior is the prior."""
        n_weights = self._n_logits() * (X.shape[1] + 1)
        if n_weights > _MOST_WEIGHTS:
            gigabytes = 8e-9 * n_weights**2
            raise ValueError(
                f"X must lead to {_MOST_WEIGHTS} weights at most, got {n_weights}, whose "
                f"covariance would take {gigabytes:.0f} GB: reduce the columns, or use "
                "ClosedFormVIClassifier with hidden_layer_sizes=()"
            )
        self.x_scaler_ = Standardiser.fit(X, weight)
        prec = np.full(X.shape[1] + 1, float(self.prior_prec))
        prec[0] = self.intercept_prec
        prior = logistic.isotropic_prior(prec, self._n_logits())
        self.posterior_ = GaussianWeights(prior.mean, np.diag(np.diag(prior.prec) ** -0.5))
        self.log_evidence_ = 0.0
        return self

    def _absorb(self, X: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> Self:
        started = time.perf_counter()
        phi = _columns(standardised_inputs(self, X))
        data = logistic.rows(phi, codes, len(self.classes_), weight)
        found = POSTERIORS[self.posterior](
            data, self._prior(), covariance=self.covariance, max_steps=self.max_steps
        )
        self.posterior_, info = found.posterior, found.info
        self.log_evidence_ += info.log_evidence
        self.n_iter_ = max(len(info.trace) - 1, 1)
        advice = self._advice(info)
        for sentence in advice:
            warnings.warn(sentence, stacklevel=3)
        is_vi = self.posterior == "vi"
        self.fit_report_ = FitReport(
            n_rows=len(X),
            n_epochs=self.n_iter_,
            seconds=time.perf_counter() - started,
            n_updates=self.n_iter_,
            guards={"not_converged": int(not info.converged)},
            trace={"elbo" if is_vi else "log_joint": info.trace[1:] or info.trace},
            log_evidence={"lower bound" if is_vi else "laplace": self.log_evidence_},
            warnings=advice,
            step="step",
        )
        return self

    def _prior(self) -> GaussianPrior:
        """Turn the posterior of the rows so far into the prior of the next."""
        inverse = np.linalg.inv(self.posterior_.root)
        return GaussianPrior(self.posterior_.mean, inverse.T @ inverse)

    def _advice(self, info: logistic.FitInfo) -> list[str]:
        if info.converged:
            return []
        return [
            f"the posterior was not found in {self.max_steps} steps (squared gradient "
            f"{info.residual:.2g} in its own metric): raise max_steps, or prior_prec"
        ]

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
        check_positive("prior_prec", self.prior_prec)
        check_positive("intercept_prec", self.intercept_prec)
        check_int("n_draws", self.n_draws)
        check_int("max_steps", self.max_steps)

    def _to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything that `_from_stored` needs: a JSON-ready header and named arrays."""
        header = estimator_header(self) | classifier_header(self)
        return header | {"log_evidence": self.log_evidence_}, self.posterior_._asdict()

    @classmethod
    def _from_stored(cls, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild a fitted classifier from what `_to_stored` gave."""
        model = restored(cls, header)
        restore_classifier(model, header)
        model._check_hyper_parameters()
        p = model._n_logits() * (model.n_features_in_ + 1)
        for name, shape in (("mean", (p,)), ("root", (p, p))):
            array = arrays[name]
            if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(f"array {name} must be finite, float64 of shape {shape}")
        model.posterior_ = GaussianWeights(arrays["mean"], arrays["root"])
        model.log_evidence_ = float(header["log_evidence"])
        return model


def _columns(x: np.ndarray) -> np.ndarray:
    """Put the intercept's column of ones first."""
    return np.hstack([np.ones((len(x), 1)), x])
