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

_NAMES = {
    "decisions.active_learner": "ActiveLearner",
    "decisions.bandits": "EpsilonGreedy Greedy ThompsonSampler UpperConfidence",
    "decisions.conformal": "ConformalClassifier ConformalRegressor",
    "decisions.durable_bandit": "DurableBandit",
    "estimators.pruning": "prune",
    "model.class_predictive": "ClassPredictive",
    "model.predictive": "GaussianPredictive MixturePredictive Predictive",
    "model.progress": "time_limit",
    "scale.merging": "merge",
    "scale.shards": "fit_shards",
    "table_model.from_python": "fit load",
    "table_model.model": "TableModel",
}
"""Public names but those of estimators, which `catalogue` knows, by their module."""

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


def _homes() -> dict[str, str]:
    """Return the module of every public name."""
    from bayesprop.catalogue import METHODS

    estimators = [home for method in METHODS.values() for home in method.homes.values()]
    homes = {name: module for module, _, name in (home.partition(":") for home in estimators)}
    of_others = ((name, module) for module, names in _NAMES.items() for name in names.split())
    return homes | {name: f"bayesprop.{module}" for name, module in of_others}


def __getattr__(name: str) -> Any:
    """Import a public name where it lives, the first time it is asked for."""
    home = _homes().get(name)
    if home is None:
        raise AttributeError(f"module 'bayesprop' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names without importing them."""
    return sorted({*globals(), *__all__})
