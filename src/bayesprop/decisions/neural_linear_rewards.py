"""Rewards that are linear in what a network has learnt to see: its last hidden layer.

The network practises on the memory now and then; on its features stands an exact Bayesian linear
regression for each arm, which learns from every reward at once and says how sure it is.
"NeuralLinear" of Riquelme, Tucker & Snoek (2018), with one addition: rows are divided by the noise
that the network expects of them, so that an arm whose rewards are certain in one context and wild
in another is learnt at once where they are certain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from bayesprop.decisions import linear_rewards
from bayesprop.decisions.arms import Arms
from bayesprop.decisions.linear_rewards import Noise, Statistics
from bayesprop.decisions.replayed_rewards import ReplayedRewards
from bayesprop.decisions.rewards import Belief
from bayesprop.estimators import online_network
from bayesprop.estimators.checks import check_positive
from bayesprop.estimators.inputs import padded
from bayesprop.estimators.point_network import PointNetworkRegressor


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
    every: int = 20
    prior_prec: float = 0.25
    noise_shape: float = 2.0
    noise_rate: float = 1.0
    least_noise: float = 0.1

    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Draw the start of the network; all regressions are at their prior."""
        super().begin(n_features, arms, seed)
        self._heads: dict[int, Statistics] = {}

    def learn(
        self,
        contexts: Float[np.ndarray, "n d"],
        arms: Arms,
        numbers: Int[np.ndarray, " n"],
        rewards: Float[np.ndarray, " n"],
    ) -> None:
        """Remember rows; condition on them, or after practice on all that is remembered, anew."""
        before = self._memory.n_seen // self.every
        super().learn(contexts, arms, numbers, rewards)
        if self._memory.n_seen // self.every > before:
            self._regress_anew(arms)
            return
        z, std = self._seen(arms.inputs(contexts, numbers))
        y = rewards / (self.reward_scale * std)
        for row, number in enumerate(numbers.tolist()):
            head = self._head(number, z.shape[1])
            self._heads[number] = linear_rewards.absorb(head, z[row] / std[row], float(y[row]))

    def believe(
        self, context: Float[np.ndarray, " d"], arms: Arms, numbers: Int[np.ndarray, " k"]
    ) -> Belief:
        """Mean and variance of a Student-t, given what the network sees."""
        shapes, scales, means = self._student_t(context, arms, numbers)
        var = np.square(scales) * shapes / (shapes - 1.0)
        return Belief(self.reward_scale * means, self.reward_scale**2 * var)

    def draw(
        self,
        rng: np.random.Generator,
        context: Float[np.ndarray, " d"],
        arms: Arms,
        numbers: Int[np.ndarray, " k"],
        n_draws: int,
    ) -> Float[np.ndarray, "s k"]:
        """Draw the regressions of arms, which are independent given what the network sees."""
        shapes, scales, means = self._student_t(context, arms, numbers)
        gamma = rng.standard_gamma(shapes, (n_draws, len(numbers))) / shapes
        normals = rng.standard_normal((n_draws, len(numbers))) / np.sqrt(gamma)
        return self.reward_scale * (means + scales * normals)

    def to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return network, memory and regressions."""
        header, arrays = super().to_stored()
        for number, head in self._heads.items():
            arrays |= {f"head.{number}.{k}": np.asarray(v) for k, v in head._asdict().items()}
        return header | {"heads": sorted(self._heads)}, arrays

    @classmethod
    def from_stored(
        cls, header: dict[str, Any], arrays: dict[str, np.ndarray], n_features: int, arms: Arms
    ) -> Self:
        """Rebuild what `to_stored` gave."""
        rewards = super().from_stored(header, arrays, n_features, arms)
        n_columns = rewards._n_seen_features()
        for number in map(int, header["heads"]):
            if not 0 <= number < len(arms.names):
                raise ValueError("there is a regression for an unknown arm")
            rewards._heads[number] = linear_rewards.checked(arrays, f"head.{number}.", n_columns)
        return rewards

    def _student_t(
        self, context: np.ndarray, arms: Arms, numbers: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Shape of the noise, scale and mean of the expected reward of arms, standardised."""
        z, _ = self._seen(self._rows(context, arms, numbers))
        prior = Noise(float(self.noise_shape), float(self.noise_rate))
        shapes, scales, means = np.empty((3, len(numbers)))
        for place, number in enumerate(numbers.tolist()):
            head = self._head(number, z.shape[1])
            noise, spread = linear_rewards.noise_of(head, prior), z[place] @ head.cov @ z[place]
            shapes[place], means[place] = noise.shape, z[place] @ head.mean
            scales[place] = np.sqrt(noise.rate / noise.shape * max(0.0, float(spread)))
        return shapes, scales, means

    def _regress_anew(self, arms: Arms) -> None:
        """Condition every arm's regression on the memory, as the network sees it now."""
        memory = self._memory
        x, y = (np.asarray(part)[: memory.n_rows] for part in (memory.x, memory.y))
        z, std = self._seen(memory.x)
        z, std = z[: memory.n_rows] / std[: memory.n_rows, None], std[: memory.n_rows]
        told = x[:, -arms.width :]
        self._heads = {}
        for number in range(len(arms.names)):
            mine = (told == arms.columns(np.array([number])).astype(np.float32)).all(axis=1)
            if mine.any():
                fresh = linear_rewards.start(z.shape[1], float(self.prior_prec))
                rows = y[mine, 0] / std[mine]
                self._heads[number] = linear_rewards.absorb_all(fresh, z[mine], rows)

    def _head(self, number: int, n_columns: int) -> Statistics:
        if number in self._heads:
            return self._heads[number]
        return linear_rewards.start(n_columns, float(self.prior_prec))

    def _seen(self, x: Any) -> online_network.Seen:
        """Return what the network makes of rows, with a one, and the noise that it expects."""
        rows = jnp.asarray(padded(x) if isinstance(x, np.ndarray) else x, jnp.float32)
        found, noise_std = online_network.seen(self.model_, rows)
        z = np.hstack([found, np.ones((len(found), 1))])
        std = np.maximum(noise_std, self.least_noise)
        return online_network.Seen(z[: len(x)], std[: len(x)])

    def _n_seen_features(self) -> int:
        return self._seen(np.zeros((1, self.model_.n_features_in_))).features.shape[1]

    def _check(self) -> None:
        super()._check()
        model = self.estimator
        if not isinstance(model, PointNetworkRegressor) or model.n_members != 1:
            raise ValueError(
                "estimator must be a PointNetworkRegressor with n_members=1, whose last hidden "
                f"layer is what the regressions see; got {model!r}"
            )
        if np.size(model.hidden_layer_sizes) == 0:
            raise ValueError("estimator must have a hidden layer; without one take LinearRewards")
        for name in ("prior_prec", "noise_shape", "noise_rate", "least_noise"):
            check_positive(name, getattr(self, name))
        if self.noise_shape <= 1.0:
            raise ValueError(f"noise_shape must be > 1, got {self.noise_shape!r}")
