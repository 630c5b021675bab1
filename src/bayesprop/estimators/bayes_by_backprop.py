"""Bayes by Backprop as a scikit-learn regressor and classifier."""

from __future__ import annotations

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.bayes_by_backprop import (
    BayesByBackpropClassifierParams,
    BayesByBackpropRegressorParams,
)
from bayesprop.estimators.shell import ClassifierBase, RegressorBase


@hyper_parameters
class BayesByBackpropRegressor(BayesByBackpropRegressorParams, RegressorBase):
    """A Gaussian over every weight by unbiased gradients, for regression (Blundell et al. 2015).

    A prediction is the mixture of what networks drawn from the posterior predict.
    """


@hyper_parameters
class BayesByBackpropClassifier(BayesByBackpropClassifierParams, ClassifierBase):
    """A Gaussian over every weight by unbiased gradients, to classify (Blundell et al. 2015).

    A prediction is the average of the probabilities of networks drawn from the posterior.

    Examples
    --------
    >>> model = BayesByBackpropClassifier(n_epochs=60, random_state=0)
    """
