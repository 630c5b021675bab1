"""Rewards by a network that practises on a memory, and by regressions on its last hidden layer.

Blundell et al. (2015), section 5.3: the last 4096 rows are kept, and 64 steps of 64 rows taken an
interaction.

"NeuralLinear" of Riquelme, Tucker & Snoek (2018): the network practises now and then; on its last
hidden layer stands an exact Bayesian linear regression for each arm, which learns from every reward
at once and says how sure it is. One addition: rows are divided by the noise that the network
expects of them, so that an arm whose rewards are certain in one context and wild in another is
learnt at once where they are certain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesprop.bandits.arms import Arms, Choices
from bayesprop.bandits.linear_rewards import ABOVE_ONE, Regressions, StudentT
from bayesprop.bandits.rewards import Belief, Draws, Rewards
from bayesprop.codec import Stored, prefixed, unprefixed
from bayesprop.estimators import online_network
from bayesprop.estimators.params import COUNT, POSITIVE, bounded, finite
from bayesprop.estimators.point_network import PointNetworkRegressor
from bayesprop.networks.training import FURTHEST_INPUT
from bayesprop.numerics.filling import padded
from bayesprop.store import estimator_from_stored, estimator_to_stored


@dataclass(eq=False, kw_only=True)
class ReplayedRewards(Rewards):
    """Any regressor of ours that trains a network by gradient steps, taught as rewards come.

    Its input is a context and the columns of an arm, its output the expected reward.

    Parameters
    ----------
    estimator : RegressorBase
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
        rows, model = single("context", choices.inputs), self.model_
        if getattr(model, "n_members", 1) > 1:
            drawn = model.predict_dist(rows).means  # every member once
        else:
            n_draws = getattr(model, "n_draws", 1)
            drawn = online_network.functions(model, rows, model.state_.seed, n_draws)
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
        return Stored(about, prefixed("model.", arrays) | memory)

    def restore(self, state: Stored) -> None:
        """Take back what `state` gave."""
        header, arrays = state
        model = estimator_from_stored(header["model"], unprefixed("model.", arrays))
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


def _network() -> PointNetworkRegressor:
    return PointNetworkRegressor((100, 100), learning_rate=1e-3, weight_decay=1.0, noise="input")


@dataclass(eq=False, kw_only=True)
class NeuralLinearRewards(ReplayedRewards):
    """Bayesian linear regression of each arm's rewards on the features of a network.

    Parameters
    ----------
    estimator : PointNetworkRegressor
        Unfitted, of one member, with one hidden layer at least. With noise="input" the noise
        depends on context and arm; with "learned" or a number it is the same everywhere, as in the
        paper.
    reward_scale, buffer_size, n_steps, batch_size, every
        As in `ReplayedRewards`; the regressions, too, know the rows of the memory alone.
    prior_prec : float
        Precision of the last layer's weights, times the noise variance.
    noise_shape, noise_rate : float
        Prior of the noise variance, InverseGamma, over what the network expects of it.
    least_noise : float
        The smallest standard deviation of the noise that is believed, in units of reward_scale.
    """

    estimator: Any = field(default_factory=_network, kw_only=False)
    every: int = field(default=20, metadata=COUNT)
    prior_prec: float = field(default=0.25, metadata=POSITIVE)
    noise_shape: float = field(default=2.0, metadata=ABOVE_ONE)
    noise_rate: float = field(default=1.0, metadata=POSITIVE)
    least_noise: float = field(default=0.1, metadata=POSITIVE)

    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Draw the start of the network; all regressions are at their prior."""
        super().begin(n_features, arms, seed)
        self._n_arms = len(arms.names)
        self._heads = Regressions(
            self._seen(np.zeros((1, self.model_.n_features_in_))).features.shape[1],
            prior_prec=self.prior_prec,
            noise_shape=self.noise_shape,
            noise_rate=self.noise_rate,
        )

    def learn(self, choices: Choices, rewards: Float[np.ndarray, " n"]) -> None:
        """Remember rows; condition on them, or after practice on all that is remembered, anew."""
        before = self._memory.n_seen // self.every
        super().learn(choices, rewards)
        if self._memory.n_seen // self.every > before:
            self._regress_anew(choices.arms)
            return
        z, std = self._seen(choices.inputs)
        y = rewards / (self.reward_scale * std)
        self._heads.learn(choices.numbers, z / std[:, None], y)

    def believe(self, choices: Choices) -> Belief:
        """Mean and variance of a Student-t, given what the network sees."""
        return self._student_t(choices).belief.scaled(self.reward_scale)

    def draw(self, rng: np.random.Generator, choices: Choices, n_draws: int) -> Draws:
        """Draw the regressions of arms, which are independent given what the network sees."""
        return self.reward_scale * self._student_t(choices).draw(rng, n_draws)

    def state(self) -> Stored:
        """Return network, memory and regressions."""
        header, arrays = super().state()
        return Stored(header, arrays | prefixed("head.", self._heads.to_arrays()))

    def restore(self, state: Stored) -> None:
        """Take back what `state` gave."""
        super().restore(state)
        self._heads.restore(unprefixed("head.", state.arrays), self._n_arms)

    def check(self) -> None:
        """Raise ValueError for settings that cannot be."""
        super().check()
        model = self.estimator
        if not isinstance(model, PointNetworkRegressor) or model.n_members != 1:
            raise ValueError(
                "estimator must be a PointNetworkRegressor with n_members=1, whose last hidden "
                f"layer is what the regressions see; got {model!r}"
            )
        if np.size(model.hidden_layer_sizes) == 0:
            raise ValueError("estimator must have a hidden layer; without one take LinearRewards")

    def _student_t(self, choices: Choices) -> StudentT:
        """Regress on what the network sees: expected rewards, standardised."""
        z, _ = self._seen(single("context", choices.inputs))
        return self._heads.student_t(choices.numbers, z)

    def _regress_anew(self, arms: Arms) -> None:
        """Condition every arm's regression on the memory, as the network sees it now."""
        n, memory = self._memory.n_rows, self._memory
        columns, y = np.asarray(memory.x)[:n, -arms.width :], np.asarray(memory.y)[:n, 0]
        z, std = (part[:n] for part in self._seen(memory.x))
        self._heads.learnt = {}
        for number in range(len(arms.names)):
            mine = (columns == arms.columns(np.array([number])).astype(np.float32)).all(axis=1)
            owners = np.full(np.count_nonzero(mine), number)
            self._heads.learn(owners, z[mine] / std[mine, None], y[mine] / std[mine])

    def _seen(self, x: Any) -> online_network.Seen:
        """Return what the network makes of rows, with a one, and the noise that it expects."""
        rows = jnp.asarray(padded(x) if isinstance(x, np.ndarray) else x, jnp.float32)
        features, noise_std = online_network.seen(self.model_, rows)
        z = np.hstack([features, np.ones((len(features), 1))])
        std = np.maximum(noise_std, self.least_noise)
        return online_network.Seen(z[: len(x)], std[: len(x)])


def single(name: str, values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Round to float32; ValueError for numbers that are too large to be worked with in it."""
    return bounded(name, values, FURTHEST_INPUT).astype(np.float32)
