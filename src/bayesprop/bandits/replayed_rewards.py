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
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bayesprop import codec
from bayesprop.bandits.arms import Arms, Belief, Choices, Draws, Rewards
from bayesprop.bandits.linear_rewards import AboveOne, Noise, Regressions, StudentT, start
from bayesprop.codec import Stored
from bayesprop.estimators.params import Count, Positive, bounded
from bayesprop.estimators.shell import RegressorBase
from bayesprop.model.task import Numbers, Standardiser
from bayesprop.targets.bijectors import NUMBERS

if TYPE_CHECKING:
    from jax import Array

    from bayesprop.estimators.any_estimator import Estimator
    from bayesprop.networks.replay import LastLayer, Replay, ReplayState


@dataclass(eq=False, kw_only=True)
class ReplayedRewards(Rewards):
    """A regressor of ours that trains a network by gradient steps, taught as rewards come.

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

    estimator: RegressorBase = field(kw_only=False)
    reward_scale: Positive = 1.0
    buffer_size: Count = 4096
    n_steps: Count = 64
    batch_size: Count = 64
    every: Count = 1

    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Draw the start of the network."""
        self.check()
        self._method = self._built(n_features + arms.width)
        self.state_: ReplayState = self.replay.start(seed)

    def _built(self, n_inputs: int) -> Any:
        """Return the network for inputs as they are and rewards in units of reward_scale."""
        one = np.ones(1)
        units = Standardiser(one, np.zeros(1), float(self.reward_scale) * one)
        return self.estimator.build_method(Numbers(units, True), n_inputs)

    @property
    def replay(self) -> Replay:
        """The fold that teaches the network."""
        from bayesprop.networks.replay import Replay

        return Replay(self._method, self.buffer_size, self.n_steps, self.batch_size, self.every)

    def learn(self, choices: Choices, rewards: Float[np.ndarray, " n"]) -> None:
        """Remember rows, and practise once for every `every` of them."""
        x = self._single("contexts", choices.inputs)
        y = self._single("rewards / reward_scale", rewards / self.reward_scale)
        self.state_ = self.replay.absorb(self.state_, x, y)

    def believe(self, choices: Choices) -> Belief:
        """Moments over the networks of a prediction, n_draws of the estimator."""
        rows, method, state = self._single("context", choices.inputs), self._method, self.state_
        if getattr(self.estimator, "n_members", 1) > 1:
            drawn = method.predict(state.network, rows).means[..., 0]  # every member once
        else:
            drawn = self.replay.draw(state, rows, state.network.seed, method.n_draws)
        drawn = self.reward_scale * drawn
        return Belief(drawn.mean(axis=0), drawn.var(axis=0))

    def draw(self, rng: np.random.Generator, choices: Choices, n_draws: int) -> Draws:
        """Evaluate networks drawn from the posterior."""
        rows, seed = self._single("context", choices.inputs), int(rng.integers(2**32))
        return self.reward_scale * self.replay.draw(self.state_, rows, seed, n_draws)

    def _single(self, name: str, values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Round to float32; ValueError for numbers that are too large to be worked with in it."""
        return bounded(name, values, self._method.furthest_input).astype(np.float32)

    @property
    def guards_(self) -> dict[str, int]:
        """Times of practice that left the finite numbers, and were undone."""
        return {"practice_undone": int(self.state_.n_undone)}

    def to_stored(self) -> Stored:
        """Return the network with its optimiser, and the memory."""
        return codec.write(self.state_)

    def restore(self, stored: Stored, n_features: int, arms: Arms, seed: int) -> None:
        """Stand where `to_stored` was called."""
        del seed
        self.check()
        self._method = self._built(n_features + arms.width)
        self.state_ = codec.read(self.replay.state_kind, stored)

    def check(self) -> None:
        """Raise ValueError for settings that cannot be."""
        estimator = self.estimator
        if not can_replay(estimator):
            raise ValueError(
                "estimator must be a regressor trained by gradient steps, such as "
                f"BayesByBackpropRegressor; got {type(estimator).__name__}"
            )
        super().check()
        estimator.check_params()
        if estimator.target_kind != NUMBERS:
            raise ValueError(
                f"target_kind must be {NUMBERS!r} for a network that is taught from a memory, "
                "because no rows are there to learn a map from; got "
                f"{estimator.target_kind!r}"
            )
        kl_weights = getattr(estimator, "kl_weights", "uniform")
        if kl_weights != "uniform":
            raise ValueError(
                "kl_weights must be 'uniform' for an estimator that practises on a memory, which "
                f"has no epochs whose batches could share the KL; got {kl_weights!r}"
            )


def can_replay(estimator: Estimator) -> bool:
    """Whether an estimator is a regressor whose posterior gradient steps alone make."""
    return isinstance(estimator, RegressorBase) and getattr(
        estimator.method_class, "replays", False
    )


def _network() -> RegressorBase:
    from bayesprop.estimators.point_network import PointNetworkRegressor

    return PointNetworkRegressor((100, 100), learning_rate=1e-3, weight_decay=1.0, noise="input")


@dataclass(eq=False, kw_only=True)
class NeuralLinearRewards(ReplayedRewards):
    """Bayesian linear regression of each arm's rewards on the features of a network.

    Parameters
    ----------
    estimator : RegressorBase
        Unfitted, a network of one member, such as PointNetworkRegressor, with one hidden layer at
        least. With noise="input" the noise depends on context and arm; with "learned" or a number
        it is the same everywhere, as in the paper.
    reward_scale, buffer_size, n_steps, batch_size, every
        As in `ReplayedRewards`; the regressions, too, know the rows of the memory alone.
    prior_prec : float
        Precision of the last layer's weights, times the noise variance.
    noise_shape, noise_rate : float
        Prior of the noise variance, InverseGamma, over what the network expects of it.
    least_noise : float
        The smallest standard deviation of the noise that is believed, in units of reward_scale.
    """

    estimator: RegressorBase = field(default_factory=_network, kw_only=False)
    every: Count = 20
    prior_prec: Positive = 0.25
    noise_shape: AboveOne = 2.0
    noise_rate: Positive = 1.0
    least_noise: Positive = 0.1

    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Draw the start of the network; all regressions are at their prior."""
        super().begin(n_features, arms, seed)
        self._heads = Regressions(start(self._n_columns, float(self.prior_prec)))

    @property
    def _n_columns(self) -> int:
        return self._method.sizes[-2] + 1

    def learn(self, choices: Choices, rewards: Float[np.ndarray, " n"]) -> None:
        """Remember rows; condition on them, or after practice on all that is remembered, anew."""
        before = self.state_.n_seen // self.every
        super().learn(choices, rewards)
        if self.state_.n_seen // self.every > before:
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

    def to_stored(self) -> Stored:
        """Return network, memory and regressions."""
        heads = codec.write(self._heads, Regressions)
        return codec.joined(replay=super().to_stored(), heads=heads)

    def restore(self, stored: Stored, n_features: int, arms: Arms, seed: int) -> None:
        """Stand where `to_stored` was called."""
        super().restore(codec.part_of(stored, "replay"), n_features, arms, seed)
        self._heads = codec.read(Regressions, codec.part_of(stored, "heads"))
        self._heads.check(self._n_columns, len(arms.names))

    def check(self) -> None:
        """Raise ValueError for settings that cannot be."""
        super().check()
        model: Any = self.estimator
        if getattr(model, "n_members", 0) != 1:
            raise ValueError(
                "estimator must be a network of n_members=1, such as PointNetworkRegressor, whose "
                f"last hidden layer is what the regressions see; got {model!r}"
            )
        if np.size(model.hidden_layer_sizes) == 0:
            raise ValueError("estimator must have a hidden layer; without one take LinearRewards")

    def _student_t(self, choices: Choices) -> StudentT:
        """Regress on what the network sees: expected rewards, standardised."""
        z, _ = self._seen(self._single("context", choices.inputs))
        noise = Noise(self.noise_shape, self.noise_rate)
        return self._heads.student_t(choices.numbers, z, noise)

    def _regress_anew(self, arms: Arms) -> None:
        """Condition every arm's regression on the memory, as the network sees it now."""
        n, state = self.state_.n_rows, self.state_
        columns, y = np.asarray(state.x)[:n, -arms.width :], np.asarray(state.y)[:n, 0]
        z, std = (part[:n] for part in self._seen(state.x))
        self._heads.learnt = {}
        for number in range(len(arms.names)):
            mine = (columns == arms.columns(np.array([number])).astype(np.float32)).all(axis=1)
            owners = np.full(np.count_nonzero(mine), number)
            self._heads.learn(owners, z[mine] / std[mine, None], y[mine] / std[mine])

    def _seen(self, x: Array | np.ndarray) -> LastLayer:
        """Return the last hidden layer at rows, with a one, and the noise there."""
        layer = self.replay.last_layer(self.state_, x)
        z = np.hstack([layer.features, np.ones((len(x), 1))])
        return layer._replace(features=z, noise_std=np.maximum(layer.noise_std, self.least_noise))
