"""Contextual bandits: choose an arm in a context, see what it pays, and learn from that alone.

A bandit is a reward model (what is believed) and a policy (what is done about it). Thompson (1933);
Blundell et al. (2015), section 4.1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int

from bayesprop.decisions import bandit_files
from bayesprop.decisions.arms import Arms, finite
from bayesprop.decisions.reward_models import rewards_of
from bayesprop.decisions.rewards import Rewards
from bayesprop.estimators.checks import check_int, check_not_negative

_MOST_PENDING = 100_000
_SELECT, _LEARN = 0, 1


class Decision(NamedTuple):
    """An arm that was chosen.

    id
        Number of the decision, to settle it by when its reward comes.
    action
        Name of the arm.
    probability
        With which the policy chose it; None where it is not known in closed form
        (`action_probabilities` estimates it).
    """

    id: int
    action: Any
    probability: float | None


class Bandit(ABC):
    """Base of the bandits; a subclass says how an arm is chosen.

    Parameters
    ----------
    rewards : reward model, estimator or name of a method
        What learns; see `bayesprop.decisions.reward_models.rewards_of`.
    arms : sequence
        Names of the arms, text or numbers.
    arm_features : (k, f) array or None
        Numbers known about each arm; without them arms are told apart by name only.
    room : int or None
        Arms that there will ever be, where they have no features; None: no further ones.
    random_state : int
        Seed of everything: the same stream of contexts and rewards gives the same decisions.

    Attributes
    ----------
    arms : Arms
    rewards : Rewards
    n_selected_, n_learnt_ : int
        Decisions taken, rewards learnt.
    pending_ : dict
        Decisions whose reward has not come: context and number of the arm, by id. The oldest of
        more than 100 000 is forgotten.
    """

    def __init__(
        self,
        rewards: Any,
        arms: Sequence[Hashable],
        *,
        arm_features: Any = None,
        room: int | None = None,
        random_state: int = 0,
    ) -> None:
        check_int("random_state", random_state, least=0)
        self.rewards: Rewards = rewards_of(rewards)
        self.arms = Arms(arms, features=arm_features, room=room)
        self.random_state = int(random_state)
        self.n_features_: int | None = None
        self.n_selected_ = self.n_learnt_ = 0
        self.pending_: dict[int, tuple[Float[np.ndarray, " d"], int]] = {}

    @abstractmethod
    def _scores(
        self, rng: np.random.Generator, context: Float[np.ndarray, " d"], numbers: Any
    ) -> Float[np.ndarray, " k"]:
        """Score arms; one with the highest score is chosen."""

    def select(self, context: Float[Any, " d"]) -> Decision:
        """Choose an arm in a context, a vector of finite numbers."""
        row = self._checked_context(context)
        rng = self._rng(_SELECT, self.n_selected_)
        number, probability = self._choose(rng, row, self.arms.active)
        self.pending_[self.n_selected_] = (row, number)
        if len(self.pending_) > _MOST_PENDING:
            del self.pending_[next(iter(self.pending_))]
        self.n_selected_ += 1
        return Decision(self.n_selected_ - 1, self.arms.names[number], probability)

    def update(self, context: Float[Any, " d"], action: Hashable, reward: float) -> Self:
        """Learn what an arm paid in a context; whoever chose it, and whenever.

        Rewards of this bandit's own decisions are better given to `settle`, which counts each once.
        """
        row = self._checked_context(context)
        number = self.arms.number(action, removed_too=True)
        return self._learn(row[None], np.array([number]), np.array([_checked_reward(reward)]))

    def settle(self, decision: Decision | int, reward: float) -> Self:
        """Learn the reward of a decision, which may come late and out of order, once.

        Raises ValueError for a decision that was never taken, is settled already, or was forgotten.
        """
        name = decision.id if isinstance(decision, Decision) else decision
        paid = _checked_reward(reward)
        if name not in self.pending_:
            taken = isinstance(name, int) and 0 <= name < self.n_selected_
            why = "has its reward already, or is forgotten" if taken else "was never taken"
            raise ValueError(f"decision {name!r} {why}: its reward was not learnt")
        row, number = self.pending_[name]
        self._learn(row[None], np.array([number]), np.array([paid]))
        del self.pending_[name]
        return self

    def teach(self, contexts: Any, actions: Sequence[Hashable], rewards: Any) -> Self:
        """Learn rows of a log: (n, d) contexts, n names of arms, n rewards."""
        rows = finite("contexts", contexts, (None, None))
        numbers = np.array([self.arms.number(name, removed_too=True) for name in actions], int)
        paid = finite("rewards", rewards, (len(rows),))
        if len(numbers) != len(rows):
            raise ValueError(f"actions must name an arm a row, {len(rows)}, got {len(numbers)}")
        self._checked_context(rows[0])
        return self._learn(rows, numbers, paid)

    def action_probabilities(
        self, context: Float[Any, " d"], n_draws: int = 1000
    ) -> Float[np.ndarray, " k"]:
        """Probability with which each of `actions` would be chosen now; sums to one.

        n_draws
            Choices that are tried, where there is no closed form; leaves no trace.
        """
        check_int("n_draws", n_draws)
        row, rng = self._checked_context(context), self._rng(_SELECT, self.n_selected_)
        return self._probabilities(rng, row, self.arms.active, n_draws)

    @property
    def actions(self) -> list[Any]:
        """Names of the arms that can be chosen."""
        return [self.arms.names[number] for number in self.arms.active]

    def add_arm(self, name: Hashable, features: Any = None) -> Self:
        """Add an arm, with its features if the others have some."""
        self.arms.add(name, features)
        return self

    def remove_arm(self, name: Hashable) -> Self:
        """Choose an arm no more; rewards that are on their way are still learnt."""
        self.arms.remove(name)
        return self

    def save(self, path: str | Path) -> None:
        """Write everything to one file that loads without running code."""
        bandit_files.save(path, self)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote, to go on as if never interrupted; ModelFileError if it is not.

        `Bandit.load` reads any bandit, a subclass its own kind only.
        """
        return bandit_files.load(path, cls)

    def settings(self) -> dict[str, Any]:
        """Return what the policy has beside the parameters of `Bandit`, for JSON."""
        return {}

    def _choose(
        self, rng: np.random.Generator, row: np.ndarray, numbers: Int[np.ndarray, " k"]
    ) -> tuple[int, float | None]:
        """Return the number of an arm, and the probability with which it was chosen."""
        return int(numbers[_best(rng, self._scores(rng, row, numbers))]), None

    def _probabilities(
        self, rng: np.random.Generator, row: np.ndarray, numbers: Any, n_draws: int
    ) -> Float[np.ndarray, " k"]:
        """Share the probability among the arms of the highest score; for scores without chance."""
        del n_draws
        return _shared(self._scores(rng, row, numbers))

    def _learn(self, rows: np.ndarray, numbers: np.ndarray, paid: np.ndarray) -> Self:
        self.rewards.learn(rows, self.arms, numbers, paid)
        self.n_learnt_ += len(paid)
        return self

    def _checked_context(self, context: Any) -> Float[np.ndarray, " d"]:
        row = finite("context", context, (self.n_features_,))
        if self.n_features_ is None:
            self.rewards.begin(len(row), self.arms, self.random_state)
            self.n_features_ = len(row)
        return row

    def _rng(self, purpose: int, place: int) -> np.random.Generator:
        """Return the generator of one decision: no earlier one moves it."""
        key = np.array([self.random_state, 2 * place + purpose], np.uint64)
        return np.random.Generator(np.random.Philox(key=key))


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

    def _scores(self, rng: np.random.Generator, context: np.ndarray, numbers: Any) -> np.ndarray:
        drawn = self.rewards.draw(rng, context, self.arms, numbers, self.n_averaged)
        return drawn.mean(axis=0)

    def _probabilities(
        self, rng: np.random.Generator, row: np.ndarray, numbers: Any, n_draws: int
    ) -> np.ndarray:
        n = n_draws * self.n_averaged
        drawn = self.rewards.draw(rng, row, self.arms, numbers, n)
        averages = drawn.reshape(n_draws, self.n_averaged, -1).mean(axis=1)
        return np.mean([_shared(scores) for scores in averages], axis=0)


class Greedy(Bandit):
    """Choose the arm with the highest expected reward, and never explore on purpose."""

    def _scores(self, rng: np.random.Generator, context: np.ndarray, numbers: Any) -> np.ndarray:
        del rng
        return self.rewards.believe(context, self.arms, numbers).mean


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
        if isinstance(epsilon, bool) or not 0.0 <= float(epsilon) <= 1.0:
            raise ValueError(f"epsilon must be a probability from 0 to 1, got {epsilon!r}")
        self.epsilon = float(epsilon)
        super().__init__(rewards, arms, **others)

    def settings(self) -> dict[str, Any]:
        """Return epsilon."""
        return {"epsilon": self.epsilon}

    def _choose(
        self, rng: np.random.Generator, row: np.ndarray, numbers: np.ndarray
    ) -> tuple[int, float | None]:
        probabilities = self._probabilities(rng, row, numbers, 1)
        if rng.random() < self.epsilon:
            place = int(rng.integers(len(numbers)))
        else:
            place = _best(rng, probabilities)
        return int(numbers[place]), float(probabilities[place])

    def _probabilities(
        self, rng: np.random.Generator, row: np.ndarray, numbers: Any, n_draws: int
    ) -> np.ndarray:
        greedy = super()._probabilities(rng, row, numbers, n_draws)
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

    def _scores(self, rng: np.random.Generator, context: np.ndarray, numbers: Any) -> np.ndarray:
        del rng
        belief = self.rewards.believe(context, self.arms, numbers)
        return belief.mean + self.width * np.sqrt(belief.var)


def _best(rng: np.random.Generator, scores: Float[np.ndarray, " k"]) -> int:
    """Return the place of the highest score, of equal ones any, evenly."""
    if not np.isfinite(scores).all():
        raise ValueError(f"the reward model expects {scores.tolist()}: it left the finite numbers")
    places = np.flatnonzero(scores == scores.max())
    return int(places[0] if len(places) == 1 else rng.choice(places))


def _shared(scores: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    best = scores == scores.max()
    return best / best.sum()


def _checked_reward(reward: Any) -> float:
    try:
        value = float(reward)
    except (TypeError, ValueError):
        value = float("nan")
    if not np.isfinite(value):
        raise ValueError(f"reward must be a finite number, got {reward!r}: nothing was learnt")
    return value
