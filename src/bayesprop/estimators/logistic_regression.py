"""Bayesian logistic regression as a scikit-learn classifier."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.logistic_regression import BayesianLogisticClassifierParams
from bayesprop.estimators.shell import ClassifierBase, of_state
from bayesprop.estimators.weight_table import input_columns, weight_table


@hyper_parameters
class BayesianLogisticClassifier(BayesianLogisticClassifierParams, ClassifierBase):
    """Bayesian logistic regression, of two classes or of more, with doubt that grows off the data.

    Bishop (2006), sections 4.4 and 4.5. `linear/logistic.py` and `linear/logistic_vi.py` have the
    equations. The weights of standardised inputs have independent Gaussian priors. `partial_fit`
    makes the Gaussian posterior the prior (Spiegelhalter & Lauritzen 1990), which comes near one
    `fit` to all rows where each call brings few or many; the scaling stays that of the first rows.

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
    n_iter_ : int
        Steps of the last fit.
    """

    posterior_ = of_state("posterior")
    prior_prec_ = of_state("prior_prec")
    log_evidence_ = of_state("log_evidence")

    def weights(self, coverage: float = 0.9) -> dict[str, np.ndarray]:
        """Table of the weights: columns class, feature, mean, std, lower, upper, of equal length.

        In logits per unit of every input; the intercept is the logit where all inputs are zero. Two
        classes: log odds of the second. More: logits, whose differences between classes count.
        `lower` and `upper` hold a weight with probability `coverage`; `polars.DataFrame(table)`
        shows it.
        """
        check_is_fitted(self)
        columns, k = input_columns(self), self.n_features_in_ + 1
        mean, root = self.posterior_
        mean, std = columns.moments(mean.reshape(-1, k), root.reshape(-1, k, len(mean)))
        classes = self.classes_[-len(mean) :]
        return weight_table("class", classes, columns.names, mean, std, coverage=coverage)
