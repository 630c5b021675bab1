"""Bayesian logistic regression: hyper-parameters and estimators."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import Literal

import numpy as np

from bayesprop.estimators.params import Count, Positive, hyper_parameters
from bayesprop.estimators.scikit_learn import lazily
from bayesprop.estimators.shell import ClassifierBase, Seed, of_fitted
from bayesprop.estimators.weight_table import input_columns, weight_table
from bayesprop.linear.bases import EVIDENCE, PriorChoice
from bayesprop.linear.logistic import n_logits
from bayesprop.linear.logistic_model import LogisticModel
from bayesprop.model.task import Classes

_MOST_WEIGHTS = 20_000
_MOST_INTEGRATED = 300  # logits that are integrated over


def _generator(seed: Seed) -> np.random.RandomState:
    """Return what "monte-carlo" draws from."""
    from sklearn.utils import check_random_state

    return check_random_state(seed)


@hyper_parameters
class BayesianLogisticClassifier(ClassifierBase):
    """Bayesian logistic regression, of two classes or of more, with doubt that grows off the data.

    Bishop (2006), sections 4.4 and 4.5. `linear/logistic.py` and `linear/logistic_vi.py` have the
    equations. The weights of standardised inputs have independent Gaussian priors. `partial_fit`
    makes the Gaussian posterior the prior (Spiegelhalter & Lauritzen 1990), which comes near one
    `fit` to all rows where each call brings few or many; the scaling stays that of the first rows.

    Parameters
    ----------
    posterior : {"vi", "laplace"}
        The Gaussian nearest the posterior in KL(q || p), which maximises a lower bound of the
        evidence; or the one at the mode with the curvature there, in half the time (a fortieth of
        it for 650 weights of ten classes), which makes probabilities too careful where rows are few
        or classes separable. More than 300 classes need "laplace", and "monte-carlo" below.
    covariance : {"full", "diagonal"}
        Of the posterior; "diagonal" with "vi" is mean-field.
    prediction : {"quadrature", "probit", "probit-cdf", "monte-carlo"}
        How the weights are averaged over: integrals of the logits of every row, to 1e-9 with two
        classes; the probit's closed form; of two classes, Phi(m / sqrt(8 / pi + v)) of logits
        N(m, v), a probit not turned back into a sigmoid; or `n_draws` draws of the weights.
    prior_prec : float, "evidence" or "ard"
        Precision of the prior of every weight, standardised inputs: MacKay's alpha, 1 / C of
        scikit-learn. Or the one that the evidence prefers (MacKay 1992), at least 0.01; or one for
        each column (automatic relevance determination), which leaves idle columns without weight.
        `partial_fit` keeps what the first rows chose.
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
    posterior_ : Gaussian
        Of the weights of standardised inputs, the intercept first, class after class. Two classes
        have one logit, that of `classes_[1]`; more have one each.
    prior_prec_ : ndarray of shape (d + 1,)
        Precision of the prior of every column's weights, the intercept first.
    log_evidence_ : float
        Estimate of log p(y | X), nats: Laplace's, or with "vi" a lower bound. After `partial_fit`,
        the sum over the calls.
    fit_report_ : FitReport
        Course of the optimisation, guards, advice.
    n_iter_ : int
        Steps of the last fit.
    """

    method_name = "logistic"
    method_class = LogisticModel
    posterior: Literal["vi", "laplace"] = field(default="vi", kw_only=False)
    covariance: Literal["full", "diagonal"] = "full"
    prediction: Literal["quadrature", "probit", "probit-cdf", "monte-carlo"] = "quadrature"
    prior_prec: Positive | Literal["evidence", "ard"] = EVIDENCE
    intercept_prec: Positive = 0.01
    n_draws: Count = 1000
    max_steps: Count = 200
    random_state: Seed = None

    def build_method(self, task: Classes, n_inputs: int) -> LogisticModel:
        """Return the method that the hyper-parameters describe; ValueError if it is too large."""
        n_weights = n_logits(task.n_classes) * (n_inputs + 1)
        if n_weights > _MOST_WEIGHTS:
            raise ValueError(
                f"X must lead to {_MOST_WEIGHTS} weights at most, got {n_weights}, whose "
                f"covariance would take {8e-9 * n_weights**2:.0f} GB: reduce the columns, or use "
                "ClosedFormVIClassifier with hidden_layer_sizes=()"
            )
        if self.prediction == "probit-cdf" and task.n_classes > 2:
            raise ValueError(
                "prediction='probit-cdf' is for two classes, got "
                f"{task.n_classes}: set it to 'probit' or 'quadrature'"
            )
        integrates = self.posterior == "vi" or self.prediction != "monte-carlo"
        if task.n_classes > _MOST_INTEGRATED and integrates:
            raise ValueError(
                f"posterior must be 'laplace' and prediction 'monte-carlo' for more than "
                f"{_MOST_INTEGRATED} classes, whose integrals take a second a row; got "
                f"{self.posterior!r} and {self.prediction!r} for {task.n_classes} classes: set both"
            )
        return LogisticModel(
            n_inputs,
            task.n_classes,
            PriorChoice(self.prior_prec, self.intercept_prec),
            self.posterior,
            self.covariance,
            self.prediction,
            self.n_draws,
            self.max_steps,
            partial(_generator, 0 if self.random_state is None else self.random_state),
        )

    posterior_ = of_fitted("learned.state.posterior")
    prior_prec_ = of_fitted("learned.state.prior_prec")
    log_evidence_ = of_fitted("learned.state.log_evidence")

    def weights(self, coverage: float = 0.9) -> dict[str, np.ndarray]:
        """Table of the weights: columns class, feature, mean, std, lower, upper, of equal length.

        In logits per unit of every input; the intercept is the logit where all inputs are zero. Two
        classes: log odds of the second. More: logits, whose differences between classes count.
        `lower` and `upper` hold a weight with probability `coverage`; `polars.DataFrame(table)`
        shows it.
        """
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        columns, k = input_columns(self), self.n_features_in_ + 1
        mean, root = self.posterior_.mean, self.posterior_.root
        mean, std = columns.moments(mean.reshape(-1, k), root.reshape(-1, k, len(mean)))
        classes = self.classes_[-len(mean) :]
        return weight_table("class", classes, columns.names, mean, std, coverage=coverage)


__getattr__ = lazily(globals())
