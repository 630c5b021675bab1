"""Contextual bandits: choose an arm in a context, see what it pays, and learn from that alone.

A bandit is a reward model (what is believed) and a policy (what is done about it). Thompson (1933);
Blundell et al. (2015), section 4.1.
"""

from __future__ import annotations

import copy
import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import InitVar, dataclass, field, fields
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import numpy as np
from jaxtyping import Float, Float64, Int64
from numpy.random import Generator
from numpy.typing import ArrayLike

from bayesprop import codec
from bayesprop.bandits import reward_models
from bayesprop.bandits.arms import Arms, Choices, Name, choices_in
from bayesprop.codec import Stored
from bayesprop.estimators.params import (
    Count,
    NotNegative,
    Whole,
    bounded,
    check_fields,
    check_int,
    finite,
    number,
)
from bayesprop.model.method import FURTHEST_INPUT
from bayesprop.sealed import ModelFileError, believing, read_sealed, write_sealed

SCHEMA = 1
Shares = Float[np.ndarray, " k"]

_MOST_PENDING = 100_000
_SELECT, _TRY = 0, 1
Probability = Annotated[
    float, number("a probability from 0 to 1", lambda chance: 0.0 <= chance <= 1.0)
]
B = TypeVar("B", bound="Bandit")


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


class Contents(NamedTuple):
    """Stored state of a bandit, without its policy and its reward model.

    pending_id, pending_arm, pending_context
        Decisions whose rewards have not come yet.
    """

    arms: Arms
    random_state: int
    n_features: int
    n_selected: int
    n_learnt: int
    pending_id: Int64[np.ndarray, " n"]
    pending_arm: Int64[np.ndarray, " n"]
    pending_context: Float64[np.ndarray, "n d"]

    def validate(self) -> None:
        """Raise ValueError unless all decisions that wait were taken once, among the arms."""
        if not (self.n_features >= 1 and 0 <= self.n_selected < 2**63 and self.n_learnt >= 0):
            raise ValueError("numbers of a context, decisions and rewards must be counts")
        if self.pending_context.shape[1] != self.n_features:
            raise ValueError(f"contexts must hold {self.n_features} numbers")
        if len(np.unique(self.pending_id)) != len(self.pending_id):
            raise ValueError("a decision waits twice")
        ends = (self.pending_id, self.n_selected), (self.pending_arm, len(self.arms.names))
        if not all(((part >= 0) & (part < end)).all() for part, end in ends):
            raise ValueError("there are pending decisions that were never taken")


@dataclass(eq=False, repr=False, kw_only=True)
class Bandit(ABC):
    """Base of the bandits; a subclass says how an arm is chosen.

    Parameters
    ----------
    rewards : reward model, estimator or name of a method
        What learns, a copy of it; see `bayesprop.bandits.reward_models.rewards_of`.
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

    rewards: Any = field(kw_only=False)
    arms: Any = field(kw_only=False)
    arm_features: InitVar[Float64[np.ndarray, "k f"] | None] = None
    room: InitVar[int | None] = None
    random_state: Whole = 0

    def __post_init__(self, arm_features: np.ndarray | None, room: int | None) -> None:
        check_fields(self)
        if self.random_state >= 2**32:
            raise ValueError(f"random_state must be below 2**32, got {self.random_state!r}")
        self.rewards = copy.copy(reward_models.rewards_of(self.rewards))
        self.arms = Arms(self.arms, arm_features, room)
        self.random_state = int(self.random_state)
        self.n_features_: int | None = None
        self.n_selected_ = self.n_learnt_ = 0
        self.pending_: dict[int, tuple[Float[np.ndarray, " d"], int]] = {}
        self._generator = Generator(np.random.Philox(key=0))
        self._start = self._generator.bit_generator.state

    @abstractmethod
    def _scores(self, rng: Generator, choices: Choices) -> Float[np.ndarray, " k"]:
        """Score arms; one with the highest score is chosen."""

    def begin(self, n_features: int) -> Self:
        """Stand at the prior for contexts of so many numbers; otherwise the first one does it."""
        check_int("n_features", n_features)
        if self.n_features_ is not None:
            raise ValueError(f"this bandit has begun, with contexts of {self.n_features_} numbers")
        self.rewards.begin(int(n_features), self.arms, self.random_state)
        self.n_features_ = int(n_features)
        return self

    def select(self, context: ArrayLike) -> Decision:
        """Choose an arm in a context, a vector of finite numbers."""
        row = self._row(context)
        choices = choices_in(row, self.arms, self.arms.active)
        place, probability = self._choose(self._rng(_SELECT, self.n_selected_), choices)
        return self._taken(row, int(choices.numbers[place]), probability)

    def note(self, context: ArrayLike, action: Hashable) -> Decision:
        """Record a choice of an arm, made by any policy, to be settled with its reward."""
        number = self.arms.number(action)
        return self._taken(self._row(context), number, None)

    def update(self, context: ArrayLike, action: Hashable, reward: float) -> Self:
        """Learn the reward of an arm in a context, chosen by any policy at any time.

        Rewards of this bandit's own decisions are better given to `settle`, which counts each once.
        """
        number, paid = self.arms.number(action, removed_too=True), finite("reward", reward, ())
        return self._learn(self._row(context)[None], [number], paid[None])

    def settle(self, decision: Decision | int, reward: float) -> Self:
        """Learn the reward of a decision, which may come late and out of order, once.

        Raises ValueError for a decision that was never taken, is settled already, or was forgotten.
        """
        name, paid = decision_id(decision), finite("reward", reward, ())
        if name not in self.pending_:
            taken = 0 <= name < self.n_selected_
            why = "has its reward already, or is forgotten" if taken else "was never taken"
            raise ValueError(f"decision {name} {why}: its reward was not learnt")
        row, number = self.pending_[name]
        self._learn(row[None], [number], paid[None])
        del self.pending_[name]
        return self

    def is_pending(self, decision: Decision | int) -> bool:
        """Whether a decision waits for its reward, so that `settle` would take it."""
        return decision_id(decision) in self.pending_

    def teach(self, contexts: ArrayLike, actions: Sequence[Hashable], rewards: ArrayLike) -> Self:
        """Learn rows of a log: (n, d) contexts, n names of arms, n rewards."""
        rows = finite("contexts", contexts, (None, self.n_features_))
        numbers = [self.arms.number(name, removed_too=True) for name in actions]
        paid = finite("rewards", rewards, (len(rows),))
        if len(numbers) != len(rows):
            raise ValueError(f"actions must name an arm a row, {len(rows)}, got {len(numbers)}")
        self._row(rows[0])
        return self._learn(rows, numbers, paid)

    def action_probabilities(self, context: ArrayLike, n_draws: int = 1000) -> Shares:
        """Probability with which each of `actions` would be chosen now; sums to one.

        n_draws
            Choices that are tried, where there is no closed form; by random numbers of their own,
            and without a trace.
        """
        check_int("n_draws", n_draws)
        choices = choices_in(self._row(context), self.arms, self.arms.active)
        return self._probabilities(self._rng(_TRY, self.n_selected_), choices, n_draws)

    @property
    def actions(self) -> list[Name]:
        """Names of the arms that can be chosen."""
        return [self.arms.names[number] for number in self.arms.active]

    def add_arm(self, name: Hashable, features: ArrayLike | None = None) -> Self:
        """Add an arm, with its features if the others have some."""
        self.arms.add(name, features)
        return self

    def remove_arm(self, name: Hashable) -> Self:
        """Choose an arm no more; rewards that are on their way are still learnt."""
        self.arms.remove(name)
        return self

    def save(self, path: str | Path) -> None:
        """Write everything to one file that loads without running code."""
        write_sealed(path, *to_stored(self))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote, to go on as if never interrupted; ModelFileError if it is not.

        `Bandit.load` reads any bandit, a subclass its own kind only.
        """
        return from_stored(read_sealed(path), name_of(path), cls)

    def _choose(self, rng: Generator, choices: Choices) -> tuple[int, float | None]:
        """Return the place of an arm, and the probability with which it was chosen."""
        scores = self._scores(rng, choices)
        place = best_of(rng, scores)
        return place, float(shared(scores)[place])

    def _probabilities(self, rng: Generator, choices: Choices, n_draws: int) -> Shares:
        """Share the probability among the arms of the highest score; for scores without chance."""
        del n_draws
        return shared(self._scores(rng, choices))

    def _learn(self, rows: np.ndarray, numbers: list[int], paid: np.ndarray) -> Self:
        self.rewards.learn(Choices(rows, self.arms, np.array(numbers, int)), paid)
        self.n_learnt_ += len(paid)
        return self

    def _taken(self, row: Float[np.ndarray, " d"], number: int, chance: float | None) -> Decision:
        self.pending_[self.n_selected_] = (row, number)
        if len(self.pending_) > _MOST_PENDING:
            del self.pending_[next(iter(self.pending_))]
        self.n_selected_ += 1
        return Decision(self.n_selected_ - 1, self.arms.names[number], chance)

    def _row(self, context: ArrayLike) -> Float[np.ndarray, " d"]:
        """Return a checked copy of a context; the first one begins the bandit."""
        row = finite("context", context, (self.n_features_,)).copy()
        bounded("context", row, FURTHEST_INPUT)
        if self.n_features_ is None:
            self.begin(len(row))
        return row

    def _rng(self, purpose: int, place: int) -> Generator:
        """Return the generator of one decision: no earlier one moves it.

        One of Philox (Salmon et al. 2011), set to its start under another key: a tenth of the time
        of a new one.
        """
        self._start["state"]["key"][:] = self.random_state, 2 * place + purpose
        self._generator.bit_generator.state = self._start
        return self._generator


@dataclass(eq=False, repr=False, kw_only=True)
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

    n_averaged: Count = 1

    def _scores(self, rng: Generator, choices: Choices) -> np.ndarray:
        return self.rewards.draw(rng, choices, self.n_averaged).mean(axis=0)

    def _choose(self, rng: Generator, choices: Choices) -> tuple[int, float | None]:
        return best_of(rng, self._scores(rng, choices)), None

    def _probabilities(self, rng: Generator, choices: Choices, n_draws: int) -> Shares:
        drawn = self.rewards.draw(rng, choices, n_draws * self.n_averaged)
        averages = drawn.reshape(n_draws, self.n_averaged, -1).mean(axis=1)
        return np.mean([shared(scores) for scores in averages], axis=0)


class Greedy(Bandit):
    """Choose the arm with the highest expected reward, and never explore on purpose."""

    def _scores(self, rng: Generator, choices: Choices) -> np.ndarray:
        del rng
        return self.rewards.believe(choices).mean


@dataclass(eq=False, repr=False, kw_only=True)
class EpsilonGreedy(Greedy):
    """Be greedy, but with probability `epsilon` choose any arm, evenly (Sutton & Barto 2018, 2.2).

    Parameters
    ----------
    rewards, arms, arm_features, room, random_state
        Of `Bandit`.
    epsilon : float
        From 0 to 1.
    """

    epsilon: Probability = 0.05

    def _choose(self, rng: Generator, choices: Choices) -> tuple[int, float | None]:
        probabilities = self._probabilities(rng, choices, 1)
        explores = rng.random() < self.epsilon
        place = int(rng.integers(len(probabilities))) if explores else best_of(rng, probabilities)
        return place, float(probabilities[place])

    def _probabilities(self, rng: Generator, choices: Choices, n_draws: int) -> Shares:
        greedy = super()._probabilities(rng, choices, n_draws)
        return self.epsilon / len(greedy) + (1.0 - self.epsilon) * greedy


@dataclass(eq=False, repr=False, kw_only=True)
class UpperConfidence(Bandit):
    """Choose the arm whose expected reward could be highest: mean + width std (Auer 2002).

    Parameters
    ----------
    rewards, arms, arm_features, room, random_state
        Of `Bandit`.
    width : float
        Standard deviations of the expected reward, not of its noise; 0 is greedy.
    """

    width: NotNegative = 2.0

    def _scores(self, rng: Generator, choices: Choices) -> np.ndarray:
        del rng
        belief = self.rewards.believe(choices)
        return belief.mean + self.width * np.sqrt(belief.var)


def best_of(rng: Generator, scores: Float[np.ndarray, " k"]) -> int:
    """Return the place of the highest score, of equal ones any, evenly."""
    places = np.flatnonzero(shared(scores))
    return int(places[0] if len(places) == 1 else rng.choice(places))


def shared(scores: Float[np.ndarray, " k"]) -> Shares:
    """Return a probability of one, shared among the highest scores."""
    if not np.isfinite(scores).all():
        raise ValueError(f"the reward model expects {scores.tolist()}: it left the finite numbers")
    best = scores == scores.max()
    return best / best.sum()


def decision_id(decision: Decision | int) -> int:
    """Return the id of a decision, or of an id; ValueError for anything else."""
    name = decision.id if isinstance(decision, Decision) else decision
    if isinstance(name, bool) or not isinstance(name, Integral):
        raise ValueError(f"decision must be a Decision or its id, got {name!r}")
    return int(name)


_POLICIES: dict[str, type[Bandit]] = {
    kind.__name__: kind for kind in (ThompsonSampler, Greedy, EpsilonGreedy, UpperConfidence)
}


def to_stored(bandit: Bandit) -> Stored:
    """Return everything that a bandit is, as a header for JSON and named arrays.

    TypeError for a policy or reward model that is not of this library.
    """
    policy, n_features = type(bandit).__name__, bandit.n_features_
    if type(bandit) is not _POLICIES.get(policy):
        raise TypeError(f"only bandits of bayesprop can be saved, got {policy}")
    if n_features is None:
        raise ValueError("there is nothing to save before the first context: call begin(n) first")
    settings = {one.name for one in fields(bandit)} - {one.name for one in fields(Bandit)}
    waiting = sorted(bandit.pending_.items())
    contents = Contents(
        bandit.arms,
        bandit.random_state,
        n_features,
        bandit.n_selected_,
        bandit.n_learnt_,
        np.array([name for name, _ in waiting], np.int64),
        np.array([arm for _, (_, arm) in waiting], np.int64),
        np.array([row for _, (row, _) in waiting], np.float64).reshape(-1, n_features),
    )
    rewards = reward_models.to_stored(bandit.rewards)
    about, arrays = codec.joined(about=codec.write(contents, Contents), rewards=rewards)
    header = {
        "bandit": SCHEMA,
        "version": importlib.metadata.version("bayesprop"),
        "policy": policy,
        "settings": {name: getattr(bandit, name) for name in settings},
    }
    return Stored(header | about, arrays)


def from_stored(stored: Stored, source: str, kind: type[B] = Bandit) -> B:
    """Rebuild a bandit of a kind; ModelFileError names the source and says what is wrong."""
    header = stored.header
    schema = header.get("bandit")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise ModelFileError(f"{source} holds no bandit")
    if schema > SCHEMA:
        raise ModelFileError(
            f"{source} has schema {schema}, and this bayesprop reads up to {SCHEMA}: upgrade it"
        )
    policy = _POLICIES.get(str(header.get("policy")))
    if policy is None or not issubclass(policy, kind):
        raise ModelFileError(f"{source} holds a {str(header.get('policy'))[:40]!r}")
    with believing(f"{source} does not describe a bandit"):
        contents: Contents = codec.read(Contents, codec.part_of(stored, "about"))
        learnt = codec.part_of(stored, "rewards")
        rewards = reward_models.from_stored(
            learnt, contents.n_features, contents.arms, contents.random_state
        )
        seed = contents.random_state
        bandit = policy(rewards, ["-"], random_state=seed, **header["settings"])
    bandit.arms, bandit.n_features_ = contents.arms, contents.n_features
    bandit.n_selected_, bandit.n_learnt_ = contents.n_selected, contents.n_learnt
    waiting = zip(contents.pending_context, contents.pending_arm.tolist(), strict=True)
    bandit.pending_ = dict(zip(contents.pending_id.tolist(), waiting, strict=True))
    return bandit


def name_of(path: str | Path) -> str:
    """Return what messages call the file."""
    return f"bandit file {str(path)[:200]!r}"
