"""Rewards by a network that practises on its memory after every reward.

Blundell et al. (2015), section 5.3: the last 4096 rows are kept, and 64 steps of 64 rows taken an
interaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesprop.decisions.arms import Arms, Choices
from bayesprop.decisions.pool import bounded, finite
from bayesprop.decisions.rewards import Belief, Draws, Rewards, above, below
from bayesprop.estimators import online_network
from bayesprop.estimators.params import COUNT, POSITIVE
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
    reward_scale: float = field(default=1.0, metadata=POSITIVE)
    buffer_size: int = field(default=4096, metadata=COUNT)
    n_steps: int = field(default=64, metadata=COUNT)
    batch_size: int = field(default=64, metadata=COUNT)
    every: int = field(default=1, metadata=COUNT)

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

    def draw(self, rng: np.random.Generator, choices: Choices, n_draws: int) -> Draws:
        """Evaluate networks drawn from the posterior."""
        rows, seed = single("context", choices.inputs), int(rng.integers(2**32))
        return online_network.functions(self.model_, rows, seed, n_draws)

    @property
    def guards_(self) -> dict[str, int]:
        """Times of practice that left the finite numbers, and were undone."""
        return {"practice_undone": int(self._undone)}

    def state(self) -> Stored:
        """Return the network with its optimiser, and the memory."""
        model, arrays = estimator_to_stored(self.model_)
        x, y, n_seen = self._memory
        memory = {"memory.x": np.asarray(x), "memory.y": np.asarray(y)}
        about = {"model": model, "undone": int(self._undone), "n_seen": n_seen}
        return Stored(about, above("model.", arrays) | memory)

    def restore(self, state: Stored) -> None:
        """Take back what `state` gave."""
        header, arrays = state
        model = estimator_from_stored(header["model"], below("model.", arrays))
        if model.n_features_in_ != self.model_.n_features_in_:
            raise ValueError("the stored model has another number of inputs")
        x, y = (
            jnp.asarray(finite(name, arrays[f"memory.{name}"], like.shape), like.dtype)
            for name, like in zip("xy", self._memory[:2], strict=True)
        )
        self.model_, self._undone = model, int(header["undone"])
        self._memory = online_network.Memory(x, y, int(header["n_seen"]))

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
        super().check()


def single(name: str, values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Round to float32; ValueError for numbers that are too large to be worked with in it."""
    return bounded(name, values, FURTHEST_INPUT).astype(np.float32)
