"""Graves' variational inference as a scikit-learn regressor and classifier."""

from __future__ import annotations

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.graves_vi import GravesVIClassifierParams, GravesVIRegressorParams
from bayesprop.estimators.shell import ClassifierBase, RegressorBase


@hyper_parameters
class GravesVIRegressor(GravesVIRegressorParams, RegressorBase):
    """Variational inference with squared gradients, for regression (Graves 2011).

    The baseline of the papers on PBP and Bayes by Backprop: one draw of the weights a step, a
    biased gradient of the variances, and a prior whose mean and variance follow the weights. For
    results of your own prefer `BayesByBackpropRegressor`.

    Examples
    --------
    >>> model = GravesVIRegressor(n_epochs=50, random_state=0)
    """


@hyper_parameters
class GravesVIClassifier(GravesVIClassifierParams, ClassifierBase):
    """Variational inference with squared gradients, to classify (Graves 2011).

    The baseline of the papers on PBP and Bayes by Backprop; for results of your own prefer
    `BayesByBackpropClassifier`.

    Examples
    --------
    >>> model = GravesVIClassifier(n_epochs=50, random_state=0)
    """
