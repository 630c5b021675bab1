"""The reward models by name, and which of them serves an estimator."""

from __future__ import annotations

import importlib
from typing import Any

from bayesprop.decisions.rewards import Rewards

_HOME = "bayesprop.decisions"
KINDS = {
    "linear": "linear_rewards:LinearRewards",
    "neural-linear": "neural_linear_rewards:NeuralLinearRewards",
    "streamed": "streamed_rewards:StreamedRewards",
    "refitted": "refitted_rewards:RefittedRewards",
    "replayed": "replayed_rewards:ReplayedRewards",
}

_ON_THEIR_OWN = {"linear": "linear", "neural-linear": "neural-linear", "pbp": "streamed"}
"""Names for which a kind needs no estimator."""


def kind_class(kind: str) -> Any:
    """Return the class of a kind; ValueError names those that there are."""
    if kind not in KINDS:
        raise ValueError(f"no reward model {kind!r}; there are {', '.join(KINDS)}")
    module, _, name = KINDS[kind].partition(":")
    return getattr(importlib.import_module(f"{_HOME}.{module}"), name)


def kind_of(rewards: Rewards) -> str:
    """Return the name of a reward model's kind; TypeError for one that is not of this library."""
    for kind, home in KINDS.items():
        if f"{_HOME}.{home}" == f"{type(rewards).__module__}:{type(rewards).__qualname__}":
            return kind
    raise TypeError(f"only reward models of bayesprop can be saved, got {type(rewards).__name__}")


def rewards_of(model: Any) -> Rewards:
    """Return the reward model that serves: itself, or one for an estimator or a method's name.

    "linear" is `LinearRewards`, "neural-linear" `NeuralLinearRewards`, "pbp" `StreamedRewards` with
    the network that it chooses for rewards. Otherwise a regressor, or the name of a method of
    regression: PBP absorbs every reward (`StreamedRewards`), networks that are trained by gradient
    steps practise on a memory (`ReplayedRewards`), and any other, of scikit-learn too, is fitted
    anew now and then (`RefittedRewards`). ValueError for what is none of these.
    """
    if isinstance(model, Rewards):
        return model
    if isinstance(model, str) and model in _ON_THEIR_OWN:
        return kind_class(_ON_THEIR_OWN[model])()
    from bayesprop import methods

    if isinstance(model, str):
        regressors = [m.name for m in methods.METHODS.values() if methods.REGRESSION in m.homes]
        known = list(dict.fromkeys([*_ON_THEIR_OWN, *regressors]))
        if model not in known:
            raise ValueError(f"rewards must be one of {', '.join(known)}; got {model!r}")
        model = methods.make(model)
    if isinstance(model, type):
        raise ValueError(f"rewards must be an estimator, not its class: {model.__name__}()")
    rewards = kind_class(_kind_for(model))(model)
    rewards.check()
    return rewards


def _kind_for(estimator: Any) -> str:
    """Return the kind that serves an estimator."""
    from bayesprop.estimators.pbp import PBPRegressor

    if isinstance(estimator, PBPRegressor):
        return "streamed"
    from bayesprop.estimators.closed_form_vi import ClosedFormVIRegressor
    from bayesprop.estimators.deep_ensemble import DeepEnsembleRegressor
    from bayesprop.estimators.laplace import LaplaceRegressor
    from bayesprop.estimators.online_network import can_practise

    at_once = LaplaceRegressor | DeepEnsembleRegressor | ClosedFormVIRegressor
    is_trained = can_practise(estimator) and not isinstance(estimator, at_once)
    return "replayed" if is_trained else "refitted"
