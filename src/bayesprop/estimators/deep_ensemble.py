"""Deep ensembles as a scikit-learn regressor and classifier."""

from __future__ import annotations

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.deep_ensemble import (
    DeepEnsembleClassifierParams,
    DeepEnsembleRegressorParams,
)
from bayesprop.estimators.shell import ClassifierBase, RegressorBase


@hyper_parameters
class DeepEnsembleRegressor(DeepEnsembleRegressorParams, RegressorBase):
    """Several networks from different starts, for regression (Lakshminarayanan et al. 2017).

    Every member predicts a mean and, by default, a noise variance that depends on the input; the
    prediction is their equal mixture, and their disagreement its epistemic part.
    """


@hyper_parameters
class DeepEnsembleClassifier(DeepEnsembleClassifierParams, ClassifierBase):
    """Several networks from different starts, for classification (Lakshminarayanan et al. 2017).

    The prediction is the average of the members' probabilities, and their disagreement its
    epistemic part.
    """
