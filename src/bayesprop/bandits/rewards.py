"""What a bandit believes about rewards: the contract of every reward model, and their names.

A reward model sees rows: a context and the arm that was chosen in it, by number. It says what it
expects of every arm in a context, and how sure it is, by moments or by draws of the whole function.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float

from bayesprop.bandits.arms import Arms, Choices
from bayesprop.codec import Stored
from bayesprop.estimators.params import check_choice, check_fields
from bayesprop.estimators.stored import unfitted_from_stored, unfitted_to_stored

Draws = Float[np.ndarray, "s k"]
"""Functions drawn from the posterior, evaluated for k arms."""

_HOME = "bayesprop.bandits"
KINDS = {
    "linear": "linear_rewards:LinearRewards",
    "neural-linear": "replayed_rewards:NeuralLinearRewards",
    "streamed": "streamed_rewards:StreamedRewards",
    "refitted": "refitted_rewards:RefittedRewards",
    "replayed": "replayed_rewards:ReplayedRewards",
}
_ON_THEIR_OWN = {"linear": "linear", "neural-linear": "neural-linear", "pbp": "streamed"}
"""Names for which a kind needs no estimator."""
_MOST_UNSEEN = 2**14
"""Columns that a file may ask room for though its arrays do not have them: 2 GiB a regression."""


class Belief(NamedTuple):
    """Mean and variance of the expected reward of some arms; the noise of rewards not included."""

    mean: Float[np.ndarray, " k"]
    var: Float[np.ndarray, " k"]

    def scaled(self, unit: float) -> Belief:
        """Return the belief about rewards that are so many times as large."""
        return Belief(unit * self.mean, unit**2 * self.var)


class Rewards(ABC):
    """Base of the reward models; `begin` makes one ready, and forgets what it had learnt.

    Settings are the fields of a dataclass. `believe` and `draw` change nothing, and the same calls
    of `learn` leave the same state to the last bit: a journal repeats them.
    """

    def check(self) -> None:
        """Raise ValueError for settings that cannot be."""
        check_fields(self)

    @abstractmethod
    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Stand at the prior, for contexts of so many numbers."""

    @abstractmethod
    def learn(self, choices: Choices, rewards: Float[np.ndarray, " n"]) -> None:
        """Learn what some arms paid, all of it or, with ValueError, nothing."""

    @abstractmethod
    def believe(self, choices: Choices) -> Belief:
        """Say what is believed of arms in a context."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, choices: Choices, n_draws: int) -> Draws:
        """Draw expected rewards of arms in a context, jointly: each draw is one function."""

    @abstractmethod
    def state(self) -> Stored:
        """Return what was learnt: a header for JSON, and named arrays."""

    @abstractmethod
    def restore(self, state: Stored) -> None:
        """Take back what `state` gave, once begun; any error where it is something else."""

    def to_stored(self) -> Stored:
        """Return settings and what was learnt; TypeError for an estimator that is not ours."""
        estimator, state = getattr(self, "estimator", None), self.state()
        header = {
            "settings": self.settings(),
            "estimator": None if estimator is None else unfitted_to_stored(estimator),
            "state": state.header,
        }
        return Stored(header, state.arrays)

    @classmethod
    def from_stored(cls, stored: Stored, n_features: int, arms: Arms, seed: int) -> Self:
        """Rebuild what `to_stored` gave; any error where it is something else."""
        header, arrays = stored
        settings = dict(header["settings"])
        if header["estimator"] is not None:
            settings["estimator"] = unfitted_from_stored(header["estimator"])
        sizes = [n_features, arms.width, settings.get("n_recalled", 0)]
        sizes += [settings.get("buffer_size", 0) // 64]  # its rows take memory as they come
        sizes += np.ravel(getattr(settings.get("estimator"), "hidden_layer_sizes", 0)).tolist()
        if max(sizes) > max(_MOST_UNSEEN, sum(array.size for array in arrays.values())):
            raise ValueError(f"the arrays hold nothing that has a size of {max(sizes)}")
        rewards = cls(**settings)
        rewards.begin(n_features, arms, seed)
        rewards.restore(Stored(header["state"], arrays))
        return rewards

    def settings(self) -> dict[str, Any]:
        """Return the settings other than an estimator, for JSON."""
        names = [f.name for f in fields(self)]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names if name != "estimator"}


def kind_class(kind: str) -> Any:
    """Return the class of a kind; KeyError where there is none."""
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
    from bayesprop import catalogue

    if isinstance(model, str):
        regressors = [m.name for m in catalogue.METHODS.values() if catalogue.REGRESSION in m.homes]
        check_choice("rewards", model, tuple(dict.fromkeys([*_ON_THEIR_OWN, *regressors])))
        model = catalogue.make(model)
    if isinstance(model, type):
        raise ValueError(f"rewards must be an estimator, not its class: {model.__name__}()")
    rewards = kind_class(_kind_for(model))(model)
    rewards.check()
    return rewards


def _kind_for(estimator: Any) -> str:
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
