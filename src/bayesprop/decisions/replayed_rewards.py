"""Rewards by a network that practises on its memory after every reward.

Blundell et al. (2015), section 5.3: the last 4096 rows are kept, and 64 steps of 64 rows taken an
interaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from sklearn.base import clone

from bayesprop.decisions.arms import Arms, Choices
from bayesprop.decisions.pool import finite
from bayesprop.decisions.rewards import Belief, Rewards, below
from bayesprop.estimators import online_network
from bayesprop.estimators.params import check_int, check_positive
from bayesprop.model.trained_network import FURTHEST_INPUT
from bayesprop.store import Stored, estimator_from_stored, estimator_to_stored


@dataclass(eq=False, kw_only=True)
class ReplayedRewards(Rewards):
    """Any regressor of ours that trains a network by gradient steps, taught as rewards come.

    Its input is a context and the columns of an arm, its output the expected reward.

    Parameters
    ----------
    estimator : BayesianRegressor
        Unfitted: BayesByBackpropRegressor, MCDropoutRegressor, PointNetworkRegressor, ...; its
        n_epochs and batch_size are not used.
    reward_scale : float
        Size of a typical reward, by which rewards are divided.
    buffer_size : int
        Rows remembered.
    n_steps, batch_size : int
        Gradient steps at a time, and rows of each, drawn with replacement.
    every : int
        Rewards between two times of practice.
    """

    estimator: Any = field(kw_only=False)
    reward_scale: float = 1.0
    buffer_size: int = 4096
    n_steps: int = 64
    batch_size: int = 64
    every: int = 1

    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Draw the start of the network."""
        self.check()
        self.model_ = online_network.begun(
            self.estimator, n_features + arms.width, y_scale=self.reward_scale, seed=seed
        )
        self._memory = online_network.empty(self.buffer_size, n_features + arms.width)
        self._undone: Any = 0

    def learn(self, choices: Choices, rewards: Float[np.ndarray, " n"]) -> None:
        """Remember rows, and practise once for every `every` of them."""
        x = single("contexts", choices.inputs)
        y = single("rewards / reward_scale", rewards[:, None] / self.reward_scale)
        before = self._memory.n_seen // self.every
        self._memory = online_network.remembered(self._memory, x, y)
        for time in range(before, self._memory.n_seen // self.every):
            self._undone += online_network.practise(
                self.model_, self._memory, time, n_steps=self.n_steps, batch_size=self.batch_size
            )

    def believe(self, choices: Choices) -> Belief:
        """Moments over the networks of a prediction, n_draws of the estimator."""
        rows, n_draws = single("context", choices.inputs), getattr(self.model_, "n_draws", 1)
        if getattr(self.model_, "n_members", 1) > 1:
            drawn = online_network.members(self.model_, rows)
        else:
            drawn = online_network.functions(
                self.model_, rows, online_network.seed_of(self.model_), n_draws
            )
        return Belief(drawn.mean(axis=0), drawn.var(axis=0))

    def draw(
        self, rng: np.random.Generator, choices: Choices, n_draws: int
    ) -> Float[np.ndarray, "s k"]:
        """Evaluate networks drawn from the posterior."""
        rows, seed = single("context", choices.inputs), int(rng.integers(2**32))
        return online_network.functions(self.model_, rows, seed, n_draws)

    def to_stored(self) -> Stored:
        """Return the network with its optimiser, and the memory."""
        header, arrays = estimator_to_stored(self.model_)
        memory = {"x": np.asarray(self._memory.x), "y": np.asarray(self._memory.y)}
        arrays = {f"model.{name}": array for name, array in arrays.items()}
        arrays |= {f"memory.{name}": array for name, array in memory.items()}
        about = {"settings": self.settings(), "model": header, "guards": self.guards_}
        return Stored(about | {"n_seen": self._memory.n_seen}, arrays)

    @classmethod
    def from_stored(cls, stored: Stored, n_features: int, arms: Arms) -> Self:
        """Rebuild what `to_stored` gave."""
        model = estimator_from_stored(stored.header["model"], below("model.", stored.arrays))
        rewards = cls(clone(model), **stored.header["settings"])
        rewards.begin(n_features, arms, online_network.seed_of(model))
        if model.n_features_in_ != rewards.model_.n_features_in_:
            raise ValueError("the stored model has another number of inputs")
        names = ("memory.x", "memory.y")
        x, y = (
            jnp.asarray(finite(name, stored.arrays[name], like.shape), like.dtype)
            for name, like in zip(names, rewards._memory[:2], strict=True)
        )
        rewards.model_ = model
        rewards._memory = online_network.Memory(x, y, int(stored.header["n_seen"]))
        rewards._undone = int(stored.header["guards"]["practice_undone"])
        return rewards

    @property
    def guards_(self) -> dict[str, int]:
        """Times of practice that left the finite numbers, and were undone."""
        return {"practice_undone": int(self._undone)}

    def check(self) -> None:
        """Raise ValueError for settings that cannot be."""
        if not online_network.can_practise(self.estimator):
            raise ValueError(
                "estimator must be a regressor trained by gradient steps, such as "
                f"BayesByBackpropRegressor; got {type(self.estimator).__name__}"
            )
        kl_weights = getattr(self.estimator, "kl_weights", "uniform")
        if kl_weights != "uniform":
            raise ValueError(
                "kl_weights must be 'uniform' for an estimator that practises on a memory, which "
                f"has no epochs whose batches could share the KL; got {kl_weights!r}"
            )
        check_positive("reward_scale", self.reward_scale)
        for name in ("buffer_size", "n_steps", "batch_size", "every"):
            check_int(name, getattr(self, name))


def single(name: str, values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Round to float32; ValueError for numbers that are too large to be worked with in it."""
    most = float(np.abs(values).max())
    if most > FURTHEST_INPUT:
        raise ValueError(
            f"{name} must be at most {FURTHEST_INPUT:g} in size, got {most:g}: scale them"
        )
    return values.astype(np.float32)
