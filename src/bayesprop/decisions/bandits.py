"""The bandits: how each chooses an arm by what is believed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from bayesprop.decisions.arms import Choices
from bayesprop.decisions.bandit import Bandit, best_of, shared
from bayesprop.estimators.params import check_int, check_not_negative


class ThompsonSampler(Bandit):
    """Choose the arm that is best according to a function drawn from the posterior.

    Thompson (1933); Blundell et al. (2015), section 4.1.

    Parameters
    ----------
    rewards, arms, arm_features, room, random_state
        Of `Bandit`.
    n_averaged : int
        Draws that are averaged before the best arm is taken: 1 is Thompson sampling, the paper's
        agent averages 2, and many are the greedy policy.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesprop import ThompsonSampler
    >>> shop = ThompsonSampler("linear", ["blue", "green"])
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(200):
    ...     visitor = rng.standard_normal(3)
    ...     decision = shop.select(visitor)
    ...     paid = visitor[0] if decision.action == "blue" else -visitor[0]
    ...     _ = shop.settle(decision, paid + 0.1 * rng.standard_normal())
    >>> shop.action_probabilities([1.0, 0.0, 0.0]).round(2)
    array([1., 0.])
    """

    def __init__(
        self, rewards: Any, arms: Sequence[Hashable], *, n_averaged: int = 1, **others: Any
    ) -> None:
        check_int("n_averaged", n_averaged)
        self.n_averaged = int(n_averaged)
        super().__init__(rewards, arms, **others)

    def settings(self) -> dict[str, Any]:
        """Return n_averaged."""
        return {"n_averaged": self.n_averaged}

    def _scores(self, rng: np.random.Generator, choices: Choices) -> np.ndarray:
        drawn = self.rewards.draw(rng, choices, self.n_averaged)
        return drawn.mean(axis=0)

    def _choose(self, rng: np.random.Generator, choices: Choices) -> tuple[int, float | None]:
        return int(choices.numbers[best_of(rng, self._scores(rng, choices))]), None

    def _probabilities(
        self, rng: np.random.Generator, choices: Choices, n_draws: int
    ) -> np.ndarray:
        n = n_draws * self.n_averaged
        drawn = self.rewards.draw(rng, choices, n)
        averages = drawn.reshape(n_draws, self.n_averaged, -1).mean(axis=1)
        return np.mean([shared(scores) for scores in averages], axis=0)


class Greedy(Bandit):
    """Choose the arm with the highest expected reward, and never explore on purpose."""

    def _scores(self, rng: np.random.Generator, choices: Choices) -> np.ndarray:
        del rng
        return self.rewards.believe(choices).mean


class EpsilonGreedy(Greedy):
    """Be greedy, but with probability `epsilon` choose any arm, evenly (Sutton & Barto 2018, 2.2).

    Parameters
    ----------
    rewards, arms, arm_features, room, random_state
        Of `Bandit`.
    epsilon : float
        From 0 to 1.
    """

    def __init__(
        self, rewards: Any, arms: Sequence[Hashable], *, epsilon: float = 0.05, **others: Any
    ) -> None:
        if isinstance(epsilon, bool) or not isinstance(epsilon, Real) or not 0.0 <= epsilon <= 1.0:
            raise ValueError(f"epsilon must be a probability from 0 to 1, got {epsilon!r}")
        self.epsilon = float(epsilon)
        super().__init__(rewards, arms, **others)

    def settings(self) -> dict[str, Any]:
        """Return epsilon."""
        return {"epsilon": self.epsilon}

    def _choose(self, rng: np.random.Generator, choices: Choices) -> tuple[int, float | None]:
        probabilities = self._probabilities(rng, choices, 1)
        if rng.random() < self.epsilon:
            place = int(rng.integers(len(probabilities)))
        else:
            place = best_of(rng, probabilities)
        return int(choices.numbers[place]), float(probabilities[place])

    def _probabilities(
        self, rng: np.random.Generator, choices: Choices, n_draws: int
    ) -> np.ndarray:
        greedy = super()._probabilities(rng, choices, n_draws)
        return self.epsilon / len(greedy) + (1.0 - self.epsilon) * greedy


class UpperConfidence(Bandit):
    """Choose the arm whose expected reward could be highest: mean + width std (Auer 2002).

    Parameters
    ----------
    rewards, arms, arm_features, room, random_state
        Of `Bandit`.
    width : float
        Standard deviations of the expected reward, not of its noise; 0 is greedy.
    """

    def __init__(
        self, rewards: Any, arms: Sequence[Hashable], *, width: float = 2.0, **others: Any
    ) -> None:
        check_not_negative("width", width)
        self.width = float(width)
        super().__init__(rewards, arms, **others)

    def settings(self) -> dict[str, Any]:
        """Return width."""
        return {"width": self.width}

    def _scores(self, rng: np.random.Generator, choices: Choices) -> np.ndarray:
        del rng
        belief = self.rewards.believe(choices)
        return belief.mean + self.width * np.sqrt(belief.var)
