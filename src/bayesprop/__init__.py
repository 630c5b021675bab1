"""Bayesian neural networks with calibrated predictions, fast and without tuning.

Public names are loaded on first use, so that ``import bayesprop`` stays instant.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bayesprop.decisions.active_learner import ActiveLearner
    from bayesprop.decisions.bandits import EpsilonGreedy, Greedy, ThompsonSampler, UpperConfidence
    from bayesprop.decisions.conformal import ConformalClassifier, ConformalRegressor
    from bayesprop.decisions.durable_bandit import DurableBandit
    from bayesprop.estimators.batch_ep import BatchEPRegressor
    from bayesprop.estimators.bayes_by_backprop import (
        BayesByBackpropClassifier,
        BayesByBackpropRegressor,
    )
    from bayesprop.estimators.bayesian_mlp import BayesianMLPClassifier, BayesianMLPRegressor
    from bayesprop.estimators.closed_form_vi import ClosedFormVIClassifier, ClosedFormVIRegressor
    from bayesprop.estimators.deep_ensemble import DeepEnsembleClassifier, DeepEnsembleRegressor
    from bayesprop.estimators.ebp import EBPClassifier
    from bayesprop.estimators.graves_vi import GravesVIClassifier, GravesVIRegressor
    from bayesprop.estimators.laplace import LaplaceClassifier, LaplaceRegressor
    from bayesprop.estimators.linear_regression import BayesianLinearRegressor
    from bayesprop.estimators.logistic_regression import BayesianLogisticClassifier
    from bayesprop.estimators.mc_dropout import MCDropoutClassifier, MCDropoutRegressor
    from bayesprop.estimators.mcmc import MCMCClassifier, MCMCRegressor
    from bayesprop.estimators.pbp import PBPClassifier, PBPRegressor
    from bayesprop.estimators.point_network import PointNetworkClassifier, PointNetworkRegressor
    from bayesprop.estimators.pruning import prune
    from bayesprop.model.class_predictive import ClassPredictive
    from bayesprop.model.predictive import GaussianPredictive, MixturePredictive, Predictive
    from bayesprop.model.progress import time_limit
    from bayesprop.scale.merging import merge
    from bayesprop.scale.shards import fit_shards
    from bayesprop.table_model.from_python import fit, load
    from bayesprop.table_model.model import TableModel

_HOMES = {
    "ActiveLearner": "bayesprop.decisions.active_learner",
    "BatchEPRegressor": "bayesprop.estimators.batch_ep",
    "BayesByBackpropClassifier": "bayesprop.estimators.bayes_by_backprop",
    "BayesByBackpropRegressor": "bayesprop.estimators.bayes_by_backprop",
    "BayesianLinearRegressor": "bayesprop.estimators.linear_regression",
    "BayesianLogisticClassifier": "bayesprop.estimators.logistic_regression",
    "BayesianMLPClassifier": "bayesprop.estimators.bayesian_mlp",
    "BayesianMLPRegressor": "bayesprop.estimators.bayesian_mlp",
    "ClassPredictive": "bayesprop.model.class_predictive",
    "ClosedFormVIClassifier": "bayesprop.estimators.closed_form_vi",
    "ClosedFormVIRegressor": "bayesprop.estimators.closed_form_vi",
    "ConformalClassifier": "bayesprop.decisions.conformal",
    "ConformalRegressor": "bayesprop.decisions.conformal",
    "DeepEnsembleClassifier": "bayesprop.estimators.deep_ensemble",
    "DeepEnsembleRegressor": "bayesprop.estimators.deep_ensemble",
    "DurableBandit": "bayesprop.decisions.durable_bandit",
    "EBPClassifier": "bayesprop.estimators.ebp",
    "EpsilonGreedy": "bayesprop.decisions.bandits",
    "GaussianPredictive": "bayesprop.model.predictive",
    "GravesVIClassifier": "bayesprop.estimators.graves_vi",
    "GravesVIRegressor": "bayesprop.estimators.graves_vi",
    "Greedy": "bayesprop.decisions.bandits",
    "LaplaceClassifier": "bayesprop.estimators.laplace",
    "LaplaceRegressor": "bayesprop.estimators.laplace",
    "MCDropoutClassifier": "bayesprop.estimators.mc_dropout",
    "MCDropoutRegressor": "bayesprop.estimators.mc_dropout",
    "MCMCClassifier": "bayesprop.estimators.mcmc",
    "MCMCRegressor": "bayesprop.estimators.mcmc",
    "MixturePredictive": "bayesprop.model.predictive",
    "PBPClassifier": "bayesprop.estimators.pbp",
    "PBPRegressor": "bayesprop.estimators.pbp",
    "PointNetworkClassifier": "bayesprop.estimators.point_network",
    "PointNetworkRegressor": "bayesprop.estimators.point_network",
    "Predictive": "bayesprop.model.predictive",
    "TableModel": "bayesprop.table_model.model",
    "ThompsonSampler": "bayesprop.decisions.bandits",
    "UpperConfidence": "bayesprop.decisions.bandits",
    "fit": "bayesprop.table_model.from_python",
    "fit_shards": "bayesprop.scale.shards",
    "load": "bayesprop.table_model.from_python",
    "merge": "bayesprop.scale.merging",
    "prune": "bayesprop.estimators.pruning",
    "time_limit": "bayesprop.model.progress",
}

__all__ = [
    "ActiveLearner",
    "BatchEPRegressor",
    "BayesByBackpropClassifier",
    "BayesByBackpropRegressor",
    "BayesianLinearRegressor",
    "BayesianLogisticClassifier",
    "BayesianMLPClassifier",
    "BayesianMLPRegressor",
    "ClassPredictive",
    "ClosedFormVIClassifier",
    "ClosedFormVIRegressor",
    "ConformalClassifier",
    "ConformalRegressor",
    "DeepEnsembleClassifier",
    "DeepEnsembleRegressor",
    "DurableBandit",
    "EBPClassifier",
    "EpsilonGreedy",
    "GaussianPredictive",
    "GravesVIClassifier",
    "GravesVIRegressor",
    "Greedy",
    "LaplaceClassifier",
    "LaplaceRegressor",
    "MCDropoutClassifier",
    "MCDropoutRegressor",
    "MCMCClassifier",
    "MCMCRegressor",
    "MixturePredictive",
    "PBPClassifier",
    "PBPRegressor",
    "PointNetworkClassifier",
    "PointNetworkRegressor",
    "Predictive",
    "TableModel",
    "ThompsonSampler",
    "UpperConfidence",
    "__version__",
    "fit",
    "fit_shards",
    "load",
    "merge",
    "prune",
    "time_limit",
]


def __getattr__(name: str) -> Any:
    """Import a public name where it lives, the first time it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bayesprop' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names without importing them."""
    return sorted({*globals(), *_HOMES})
