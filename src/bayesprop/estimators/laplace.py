"""Laplace's approximation around a trained network, as a scikit-learn regressor and classifier."""

from __future__ import annotations

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.laplace import LaplaceClassifierParams, LaplaceRegressorParams
from bayesprop.estimators.shell import ClassifierBase, RegressorBase


@hyper_parameters
class LaplaceRegressor(LaplaceRegressorParams, RegressorBase):
    """A network trained as usual, and a Gaussian around its weights afterwards, for regression.

    MacKay (1992), Immer et al. (2021): the covariance is the inverse curvature at the mode;
    precisions and noise maximise the evidence; predictions are in closed form, Gaussian, or with
    noise="input" a mixture over the log variance of the noise.
    """


@hyper_parameters
class LaplaceClassifier(LaplaceClassifierParams, ClassifierBase):
    """A network trained as usual, and a Gaussian around its weights afterwards, to classify.

    MacKay (1992), Immer et al. (2021): the covariance is the inverse curvature at the mode;
    the prior's precisions maximise the evidence; predictions average over Gaussian logits.
    """
