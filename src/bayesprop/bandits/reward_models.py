"""The reward models of this library: which serves an estimator, and what a file holds of one."""

from __future__ import annotations

from typing import Any

from bayesprop import catalogue
from bayesprop.bandits.arms import Arms, Rewards
from bayesprop.bandits.linear_rewards import LinearRewards
from bayesprop.bandits.refitted_rewards import RefittedRewards
from bayesprop.bandits.replayed_rewards import NeuralLinearRewards, ReplayedRewards, can_replay
from bayesprop.bandits.streamed_rewards import StreamedRewards, can_stream
from bayesprop.codec import Stored
from bayesprop.estimators.params import one_of
from bayesprop.estimators.stored import unfitted_to_stored
from bayesprop.store import unfitted_from_stored

_ALONE: dict[str, type[Rewards]] = {
    "linear": LinearRewards,
    "neural-linear": NeuralLinearRewards,
    "pbp": StreamedRewards,
}
"""Names for which a reward model has an estimator of its own, or needs none."""
_BY_NAME: dict[str, type[Rewards]] = {
    kind.__name__: kind
    for kind in (*_ALONE.values(), ReplayedRewards, RefittedRewards)
}  # fmt: skip


def rewards_of(model: Any) -> Rewards:
    """Return the reward model that serves: itself, or one for an estimator or a method's name.

    "linear" is `LinearRewards`, "neural-linear" `NeuralLinearRewards`, "pbp" `StreamedRewards` with
    the network that it chooses for rewards. Otherwise a regressor, or the name of a method of
    regression, by what the method can do: one that meets one row after another absorbs every reward
    (`StreamedRewards`), a network whose posterior gradient steps make practises on a memory
    (`ReplayedRewards`), unless it has several members, who would learn the same; and any other, of
    scikit-learn too, is fitted anew now and then (`RefittedRewards`). ValueError for what is none
    of these.
    """
    if isinstance(model, Rewards):
        return model
    if isinstance(model, str) and model in _ALONE:
        return _ALONE[model]()
    if isinstance(model, str):
        regressors = [m.name for m in catalogue.METHODS.values() if catalogue.REGRESSION in m.homes]
        one_of(*dict.fromkeys([*_ALONE, *regressors])).check("rewards", model)
        model = catalogue.make(model)
    if isinstance(model, type):
        raise ValueError(f"rewards must be an estimator, not its class: {model.__name__}()")
    kind: Any = RefittedRewards
    if can_stream(model):
        kind = StreamedRewards
    elif can_replay(model) and getattr(model, "n_members", 1) == 1:
        kind = ReplayedRewards
    rewards = kind(model)
    rewards.check()
    return rewards


def to_stored(rewards: Rewards) -> Stored:
    """Return kind, settings and what was learnt; TypeError for a model not of this library."""
    kind = type(rewards).__name__
    if type(rewards) is not _BY_NAME.get(kind):
        raise TypeError(f"only reward models of bayesprop can be saved, got {kind}")
    settings, learnt = rewards.settings(), rewards.to_stored()
    if "estimator" in settings:
        settings["estimator"] = unfitted_to_stored(settings["estimator"])
    return Stored({"kind": kind, "settings": settings, "learnt": learnt.header}, learnt.arrays)


def from_stored(stored: Stored, n_features: int, arms: Arms, seed: int) -> Rewards:
    """Rebuild what `to_stored` gave; any error where it is something else."""
    header, arrays = stored
    settings = dict(header["settings"])
    if "estimator" in settings:
        settings["estimator"] = unfitted_from_stored(settings["estimator"])
    rewards = _BY_NAME[header["kind"]](**settings)
    rewards.restore(Stored(header["learnt"], arrays), n_features, arms, seed)
    return rewards
