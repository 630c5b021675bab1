"""Rewards that are linear in the context, each arm with weights and a noise of its own.

"LinFullPost" of Riquelme, Tucker & Snoek (2018). The posteriors of arms are independent, and a
draw of the function at one context needs no draw of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float, Int
from scipy import linalg

from bayesprop.decisions.arms import Arms, Choices
from bayesprop.decisions.regressions import Prior, Regressions
from bayesprop.decisions.rewards import Belief, Rewards
from bayesprop.store import Stored


@dataclass(eq=False, kw_only=True)
class LinearRewards(Rewards):
    """Bayesian linear regression of each arm's rewards on the context, exact and streaming.

    With features of arms, one regression of all rewards on [1, context, features, and products of
    a number of the context with one of the arm].

    Parameters
    ----------
    prior_prec : float
        Precision of the weights, times the noise variance.
    noise_shape, noise_rate : float
        Prior of the noise variance, InverseGamma: its mean is noise_rate / (noise_shape - 1), in
        rewards squared. A rate near the variance of rewards lets it explore from the start.
    """

    prior_prec: float = 1.0
    noise_shape: float = 2.0
    noise_rate: float = 1.0

    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Stand at the prior; no random number is needed."""
        del seed
        first = Choices(np.zeros((1, n_features)), arms, np.zeros(1, int))
        prior = Prior(self.prior_prec, self.noise_shape, self.noise_rate)
        self._regressions = Regressions(_columns(first).shape[1], prior)

    def learn(self, choices: Choices, rewards: Float[np.ndarray, " n"]) -> None:
        """Condition on rows, exactly: their order does not matter."""
        with np.errstate(over="ignore", invalid="ignore"):
            learnt = self._regressions.after(_owners(choices), _columns(choices), rewards)
        self._regressions.learnt |= learnt

    def believe(self, choices: Choices) -> Belief:
        """Mean and variance of a Student-t, the noise variance integrated out."""
        predictive = self._regressions.student_t(_owners(choices), _columns(choices))
        return Belief(predictive.mean, predictive.var)

    def draw(
        self, rng: np.random.Generator, choices: Choices, n_draws: int
    ) -> Float[np.ndarray, "s k"]:
        """Draw noise variances, then functions at this context: as by drawn weights."""
        x = _columns(choices)
        if choices.arms.features is None:
            return self._regressions.student_t(choices.numbers, x).draw(rng, n_draws)
        posterior, (shape, rate) = self._regressions[0], self._regressions.noise_of(0)
        std = np.sqrt(rate / rng.standard_gamma(shape, n_draws))
        normals = rng.standard_normal((n_draws, x.shape[1])) * std[:, None]
        root = np.linalg.cholesky(posterior.gram)
        moved = linalg.solve_triangular(root, normals.T, lower=True, trans=1)
        return (posterior.mean + moved.T) @ x.T

    def to_stored(self) -> Stored:
        """Return the sums and posteriors of all arms that have rows."""
        header = {"settings": self.settings(), "arms": sorted(self._regressions.learnt)}
        return Stored(header, self._regressions.to_arrays())

    @classmethod
    def from_stored(cls, stored: Stored, n_features: int, arms: Arms) -> Self:
        """Rebuild what `to_stored` gave."""
        model = cls(**stored.header["settings"])
        model.begin(n_features, arms, 0)
        model._regressions.restore(
            stored.arrays, list(map(int, stored.header["arms"])), len(arms.names)
        )
        return model


def _owners(choices: Choices) -> Int[np.ndarray, " n"]:
    """Say whose regression a row belongs to: with features, there is one."""
    numbers = choices.numbers
    return numbers if choices.arms.features is None else np.zeros(len(numbers), int)


def _columns(choices: Choices) -> Float[np.ndarray, "n p"]:
    x = choices.contexts
    ones = np.ones((len(x), 1))
    if choices.arms.features is None:
        return np.hstack([ones, x])
    known = choices.arms.features[choices.numbers]
    products = (x[:, :, None] * known[:, None, :]).reshape(len(x), -1)
    return np.hstack([ones, x, known, products])
