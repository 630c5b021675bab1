"""A point network as a scikit-learn regressor and classifier: the baseline without a posterior."""

from __future__ import annotations

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.point_network import (
    PointNetworkClassifierParams,
    PointNetworkRegressorParams,
)
from bayesprop.estimators.shell import ClassifierBase, RegressorBase


@hyper_parameters
class PointNetworkRegressor(PointNetworkRegressorParams, RegressorBase):
    """A network with one value a weight, for regression.

    Maximum a posteriori by gradient steps, with the usual means against overfitting. It doubts the
    noise, never its own weights: the epistemic part of its doubt is zero unless `n_members` > 1.
    """


@hyper_parameters
class PointNetworkClassifier(PointNetworkClassifierParams, ClassifierBase):
    """A network with one value a weight, for classification.

    Maximum a posteriori by gradient steps, with the usual means against overfitting. It doubts the
    class, never its own weights: the epistemic part of its doubt is zero unless `n_members` > 1.
    """
