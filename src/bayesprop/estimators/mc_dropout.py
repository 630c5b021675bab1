"""Monte Carlo dropout as a scikit-learn regressor and classifier."""

from __future__ import annotations

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.mc_dropout import (
    MCDropoutClassifierParams,
    MCDropoutRegressorParams,
)
from bayesprop.estimators.shell import ClassifierBase, RegressorBase


@hyper_parameters
class MCDropoutRegressor(MCDropoutRegressorParams, RegressorBase):
    """Dropout in training and in prediction, for regression (Gal & Ghahramani 2016).

    Networks with units missing at random are draws from an approximate posterior; a prediction is
    the mixture of what they predict, its variance the noise plus the variance of their means.
    """


@hyper_parameters
class MCDropoutClassifier(MCDropoutClassifierParams, ClassifierBase):
    """Dropout in training and in prediction, for classification (Gal & Ghahramani 2016).

    Networks with units missing at random are draws from an approximate posterior; a prediction is
    the average of their probabilities.
    """
