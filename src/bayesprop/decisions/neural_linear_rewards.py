"""Rewards that are linear in what a network has learnt to see: its last hidden layer.

The network practises on the memory now and then; on its features stands an exact Bayesian linear
regression for each arm, which learns from every reward at once and says how sure it is.
"NeuralLinear" of Riquelme, Tucker & Snoek (2018), with one addition: rows are divided by the noise
that the network expects of them, so that an arm whose rewards are certain in one context and wild
in another is learnt at once where they are certain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesprop.decisions.arms import Arms, Choices
from bayesprop.decisions.linear_rewards import Regressions, StudentT
from bayesprop.decisions.replayed_rewards import ReplayedRewards, single
from bayesprop.decisions.rewards import Belief, Draws, above, below
from bayesprop.estimators import online_network
from bayesprop.estimators.params import COUNT, POSITIVE
from bayesprop.estimators.point_network import PointNetworkRegressor
from bayesprop.numerics.filling import padded
from bayesprop.store import Stored


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
    prior_prec: float = 0.25
    noise_shape: float = 2.0
    noise_rate: float = 1.0
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
        return Stored(header, arrays | above("head.", self._heads.to_arrays()))

    def restore(self, state: Stored) -> None:
        """Take back what `state` gave."""
        super().restore(state)
        self._heads.restore(below("head.", state.arrays), self._n_arms)

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
