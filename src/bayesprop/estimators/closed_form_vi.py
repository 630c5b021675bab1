"""Closed-form variational inference as a scikit-learn regressor and classifier."""

from __future__ import annotations

from typing import Any

from bayesprop.estimators.descriptions import hyper_parameters
from bayesprop.estimators.hyper.closed_form_vi import (
    ClosedFormVIClassifierParams,
    ClosedFormVIRegressorParams,
)
from bayesprop.estimators.shell import ClassifierBase, RegressorBase


def _gradient_norm(estimator: Any) -> float:
    """Largest derivative of the objective a row where L-BFGS stopped."""
    state: Any = getattr(estimator, "state_", None)
    if state is None or state.gradient_norm is None:
        raise AttributeError("gradient_norm_ is there after a fit with optimizer='lbfgs'")
    return state.gradient_norm


@hyper_parameters
class ClosedFormVIRegressor(ClosedFormVIRegressorParams, RegressorBase):
    """Network with Gaussian weights for regression, fitted and used without drawing any.

    Means and variances pass through the network once; the objective is in closed form. Roth &
    Pernkopf (2016). `BayesianRegressor` builds on it, and needs no tuning.

    Examples
    --------
    >>> model = ClosedFormVIRegressor(n_epochs=50, kl_warm_up=25, random_state=0)
    """

    gradient_norm_ = property(_gradient_norm)


@hyper_parameters
class ClosedFormVIClassifier(ClosedFormVIClassifierParams, ClassifierBase):
    """Network with Gaussian weights for classification, fitted and used without drawing any.

    Means and variances pass through the network once; the objective and the predicted
    probabilities are expectations over the Gaussian logits. Roth & Pernkopf (2016).

    Examples
    --------
    >>> model = ClosedFormVIClassifier(n_epochs=20, kl_warm_up=10, random_state=0)
    """

    gradient_norm_ = property(_gradient_norm)
