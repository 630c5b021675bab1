"""Hyper-parameters of Bayesian logistic regression."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import Any, Literal

import numpy as np

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.params import COUNT, POSITIVE, OfClasses, number_or
from bayesprop.linear.bases import ARD, EVIDENCE, PriorChoice
from bayesprop.linear.logistic import n_logits
from bayesprop.linear.logistic_model import LogisticModel
from bayesprop.model.task import Classes

_MOST_WEIGHTS = 20_000


def _generator(seed: Any) -> np.random.RandomState:
    """Return what "monte-carlo" draws from."""
    from sklearn.utils import check_random_state

    return check_random_state(seed)


@hyper_parameters
class BayesianLogisticClassifierParams(OfClasses):
    """Those of `BayesianLogisticClassifier`.

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
    """

    method_class = LogisticModel
    posterior: Literal["vi", "laplace"] = field(default="vi", kw_only=False)
    covariance: Literal["full", "diagonal"] = "full"
    prediction: Literal["quadrature", "probit", "monte-carlo"] = "quadrature"
    prior_prec: Any = field(default=EVIDENCE, metadata=number_or(EVIDENCE, ARD))
    intercept_prec: float = field(default=0.01, metadata=POSITIVE)
    n_draws: int = field(default=1000, metadata=COUNT)
    max_steps: int = field(default=200, metadata=COUNT)
    random_state: Any = None

    def build_method(self, task: Classes, n_inputs: int) -> LogisticModel:
        """Return the method that the hyper-parameters describe; ValueError if it is too large."""
        n_weights = n_logits(task.n_classes) * (n_inputs + 1)
        if n_weights > _MOST_WEIGHTS:
            raise ValueError(
                f"X must lead to {_MOST_WEIGHTS} weights at most, got {n_weights}, whose "
                f"covariance would take {8e-9 * n_weights**2:.0f} GB: reduce the columns, or use "
                "ClosedFormVIClassifier with hidden_layer_sizes=()"
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
