"""Contextual bandits: choose an arm in a context, see what it pays, and learn from that alone.

A bandit is a reward model (what is believed) and a policy (what is done about it). Thompson (1933);
Blundell et al. (2015), section 4.1.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Bool, Float

from bayesprop.decisions import bandit_files
from bayesprop.decisions.arms import Arms, Choices, choices_in
from bayesprop.decisions.pool import finite
from bayesprop.decisions.reward_models import rewards_of
from bayesprop.decisions.rewards import Rewards
from bayesprop.estimators.params import check_int
from bayesprop.model.method import FURTHEST_INPUT

_MOST_PENDING = 100_000
_SEEDS = 2**32
_SELECT, _TRY = 0, 1


class Decision(NamedTuple):
    """An arm that was chosen.

    id
        Number of the decision, to settle it by when its reward comes.
    action
        Name of the arm.
    probability
        With which the policy chose it; None where it is not known in closed form, as by Thompson
        sampling (`action_probabilities` estimates it).
    """

    id: int
    action: Any
    probability: float | None


class Bandit(ABC):
    """Base of the bandits; a subclass says how an arm is chosen.

    Parameters
    ----------
    rewards : reward model, estimator or name of a method
        What learns, a copy of it; see `bayesprop.decisions.reward_models.rewards_of`.
    arms : sequence
        Names of the arms, text or numbers.
    arm_features : (k, f) array or None
        Numbers known about each arm; without them arms are told apart by name only.
    room : int or None
        Arms that there will ever be, where they have no features; None: no further ones.
    random_state : int
        Seed of everything: the same calls in the same order give the same decisions.

    Attributes
    ----------
    arms : Arms
    rewards : Rewards
    n_features_ : int or None
        Numbers in a context; None before the first.
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
        if random_state >= _SEEDS:
            raise ValueError(f"random_state must be below 2**32, got {random_state!r}")
        self.rewards: Rewards = copy.copy(rewards_of(rewards))
        self.arms = Arms(arms, features=arm_features, room=room)
        self.random_state = int(random_state)
        self.n_features_: int | None = None
        self.n_selected_ = self.n_learnt_ = 0
        self.pending_: dict[int, tuple[Float[np.ndarray, " d"], int]] = {}
        self._generator = np.random.Generator(np.random.Philox(key=0))
        self._start: Any = self._generator.bit_generator.state

    @abstractmethod
    def _scores(self, rng: np.random.Generator, choices: Choices) -> Float[np.ndarray, " k"]:
        """Score arms; one with the highest score is chosen."""

    def begin(self, n_features: int) -> Self:
        """Stand at the prior for contexts of so many numbers; otherwise the first one does it."""
        check_int("n_features", n_features)
        if self.n_features_ is not None:
            raise ValueError(f"this bandit has begun, with contexts of {self.n_features_} numbers")
        self.rewards.begin(int(n_features), self.arms, self.random_state)
        self.n_features_ = int(n_features)
        return self

    def select(self, context: Float[Any, " d"]) -> Decision:
        """Choose an arm in a context, a vector of finite numbers."""
        row = self._checked_context(context)
        self._begin_with(row)
        rng = self._rng(_SELECT, self.n_selected_)
        number, probability = self._choose(rng, choices_in(row, self.arms, self.arms.active))
        return Decision(self._taken(row, number), self.arms.names[number], probability)

    def note(self, context: Float[Any, " d"], action: Hashable) -> Decision:
        """Take down that an arm was chosen, by whoever, to be settled when its reward comes."""
        row, number = self._checked_context(context), self.arms.number(action)
        self._begin_with(row)
        return Decision(self._taken(row, number), self.arms.names[number], None)

    def update(self, context: Float[Any, " d"], action: Hashable, reward: float) -> Self:
        """Learn what an arm paid in a context; whoever chose it, and whenever.

        Rewards of this bandit's own decisions are better given to `settle`, which counts each once.
        """
        row = self._checked_context(context)
        number = self.arms.number(action, removed_too=True)
        paid = _checked_reward(reward)
        self._begin_with(row)
        return self._learn(row[None], np.array([number]), np.array([paid]))

    def settle(self, decision: Decision | int, reward: float) -> Self:
        """Learn the reward of a decision, which may come late and out of order, once.

        Raises ValueError for a decision that was never taken, is settled already, or was forgotten.
        """
        name, paid = decision_id(decision), _checked_reward(reward)
        if name not in self.pending_:
            taken = 0 <= name < self.n_selected_
            why = "has its reward already, or is forgotten" if taken else "was never taken"
            raise ValueError(f"decision {name} {why}: its reward was not learnt")
        row, number = self.pending_[name]
        self._learn(row[None], np.array([number]), np.array([paid]))
        del self.pending_[name]
        return self

    def is_pending(self, decision: Decision | int) -> bool:
        """Whether a decision waits for its reward, so that `settle` would take it."""
        return decision_id(decision) in self.pending_

    def teach(self, contexts: Any, actions: Sequence[Hashable], rewards: Any) -> Self:
        """Learn rows of a log: (n, d) contexts, n names of arms, n rewards."""
        rows = finite("contexts", contexts, (None, self.n_features_))
        numbers = np.array([self.arms.number(name, removed_too=True) for name in actions], int)
        paid = finite("rewards", rewards, (len(rows),))
        if len(numbers) != len(rows):
            raise ValueError(f"actions must name an arm a row, {len(rows)}, got {len(numbers)}")
        self._begin_with(rows[0])
        return self._learn(rows, numbers, paid)

    def action_probabilities(
        self, context: Float[Any, " d"], n_draws: int = 1000
    ) -> Float[np.ndarray, " k"]:
        """Probability with which each of `actions` would be chosen now; sums to one.

        n_draws
            Choices that are tried, where there is no closed form; by random numbers of their own,
            and without a trace.
        """
        check_int("n_draws", n_draws)
        row, rng = self._checked_context(context), self._rng(_TRY, self.n_selected_)
        self._begin_with(row)
        return self._probabilities(rng, choices_in(row, self.arms, self.arms.active), n_draws)

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

    def _choose(self, rng: np.random.Generator, choices: Choices) -> tuple[int, float | None]:
        """Return the number of an arm, and the probability with which it was chosen."""
        scores = self._scores(rng, choices)
        place = best_of(rng, scores)
        return int(choices.numbers[place]), float(shared(scores)[place])

    def _probabilities(
        self, rng: np.random.Generator, choices: Choices, n_draws: int
    ) -> Float[np.ndarray, " k"]:
        """Share the probability among the arms of the highest score; for scores without chance."""
        del n_draws
        return shared(self._scores(rng, choices))

    def _learn(self, rows: np.ndarray, numbers: np.ndarray, paid: np.ndarray) -> Self:
        self.rewards.learn(Choices(rows, self.arms, numbers), paid)
        self.n_learnt_ += len(paid)
        return self

    def _taken(self, row: Float[np.ndarray, " d"], number: int) -> int:
        """Keep a decision until its reward comes; return its id."""
        self.pending_[self.n_selected_] = (row, number)
        if len(self.pending_) > _MOST_PENDING:
            del self.pending_[next(iter(self.pending_))]
        self.n_selected_ += 1
        return self.n_selected_ - 1

    def _checked_context(self, context: Any) -> Float[np.ndarray, " d"]:
        row = finite("context", context, (self.n_features_,)).copy()
        most = float(np.abs(row).max())
        if most > FURTHEST_INPUT:
            raise ValueError(
                f"context must be at most {FURTHEST_INPUT:g} in size, got {most:g}: scale it"
            )
        return row

    def _begin_with(self, row: Float[np.ndarray, " d"]) -> None:
        if self.n_features_ is None:
            self.begin(len(row))

    def _rng(self, purpose: int, place: int) -> np.random.Generator:
        """Return the generator of one decision: no earlier one moves it.

        One of Philox (Salmon et al. 2011), set to its start under another key: a tenth of the time
        of a new one.
        """
        self._start["state"]["key"][:] = self.random_state, 2 * place + purpose
        self._generator.bit_generator.state = self._start
        return self._generator


def best_of(rng: np.random.Generator, scores: Float[np.ndarray, " k"]) -> int:
    """Return the place of the highest score, of equal ones any, evenly."""
    places = np.flatnonzero(_is_best(scores))
    return int(places[0] if len(places) == 1 else rng.choice(places))


def shared(scores: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """Return a probability of one, shared among the highest scores."""
    best = _is_best(scores)
    return best / best.sum()


def _is_best(scores: Float[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
    if not np.isfinite(scores).all():
        raise ValueError(f"the reward model expects {scores.tolist()}: it left the finite numbers")
    return scores == scores.max()


def decision_id(decision: Any) -> int:
    """Return the id of a decision, or of an id; ValueError for anything else."""
    name = decision.id if isinstance(decision, Decision) else decision
    if isinstance(name, bool) or not isinstance(name, Integral):
        raise ValueError(f"decision must be a Decision or its id, got {name!r}")
    return int(name)


def _checked_reward(reward: Any) -> float:
    try:
        value = float(reward)
    except (TypeError, ValueError):
        value = float("nan")
    if not np.isfinite(value):
        raise ValueError(f"reward must be a finite number, got {reward!r}: nothing was learnt")
    return value
