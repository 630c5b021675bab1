"""The arms of a bandit: their names, what is known about each; what a model of rewards does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int
from numpy.typing import ArrayLike

from bayesprop.codec import JsonObject, Stored
from bayesprop.estimators.params import check_fields, check_int, finite

Name = str | int | float
Draws = Float[np.ndarray, "s k"]
"""Functions drawn from the posterior, evaluated for k arms."""


@dataclass(eq=False)
class Arms:
    """Arms by name, numbered in the order in which they came; a number is never used again.

    Parameters
    ----------
    names : sequence
        Text or numbers, one an arm; one at least.
    features : (k, f) array or None
        What is known about each arm. Without it arms are told apart by a column of 0 and 1 each.
    room : int or None
        Columns for arms without features, those that will be added among them; None: as many as
        there are names.
    removed : list of int
        Numbers of arms that are never chosen again.
    """

    names: list[Name]
    features: Float64[np.ndarray, "k f"] | None = None
    room: int | None = None
    removed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        names, known, removed = list(self.names), self.features, self.removed
        if not names:
            raise ValueError("arms must hold one name at least, got none")
        if known is not None:
            known = finite("arm_features", known, (len(names), None))
            if self.room is not None:
                raise ValueError("room is for arms without arm_features: leave it out")
            self.features = known[:0]
        else:
            self.room = len(names) if self.room is None else self.room
            check_int("room", self.room)
        self.names, self.removed = [], []
        for number, name in enumerate(names):
            self.add(name, None if known is None else known[number])
        for number in removed:
            self.remove(names[number])

    def add(self, name: Hashable, features: ArrayLike | None = None) -> None:
        """Add an arm; ValueError if the name was ever used, or there is no column for it."""
        name = name.item() if isinstance(name, np.generic) else name
        if isinstance(name, bool) or not (
            isinstance(name, str) or (isinstance(name, int | float) and abs(name) < float("inf"))
        ):
            raise ValueError(f"the name of an arm must be text or a finite number, got {name!r}")
        if name in self.names:
            raise ValueError(f"arm {name!r} is there already, or was and keeps its name")
        if (features is None) != (self.features is None):
            lacks = "has none: leave them out" if self.features is None else "needs them"
            raise ValueError(f"features of arm {name!r}: this bandit {lacks}")
        if self.features is not None:
            row = finite("features", features, (self.features.shape[1],))
            self.features = np.vstack([self.features, row])
        elif len(self.names) >= self.width:
            raise ValueError(
                f"there is room for {self.room} arms, removed ones included: give room= when the "
                f"bandit is made, to add {name!r}"
            )
        self.names.append(name)

    def remove(self, name: Hashable) -> None:
        """Never choose an arm again; what was learnt about it stays."""
        number = self.number(name)
        if len(self.active) == 1:
            raise ValueError(f"arm {name!r} is the last one: add another before removing it")
        self.removed.append(number)

    def number(self, name: Any, *, removed_too: bool = False) -> int:
        """Return the number of an arm; ValueError names those that there are."""
        names = self.names if removed_too else [self.names[i] for i in self.active]
        if name not in names or isinstance(name, bool):
            shown = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
            raise ValueError(f"no arm {name!r}; there are {shown}")
        return self.names.index(name)

    @property
    def active(self) -> Int[np.ndarray, " a"]:
        """Numbers of the arms that can be chosen."""
        removed = set(self.removed)
        return np.array([i for i in range(len(self.names)) if i not in removed])

    @property
    def width(self) -> int:
        """Columns that tell arms apart."""
        return int(self.room or 0) if self.features is None else self.features.shape[1]

    def columns(self, numbers: Int[np.ndarray, " n"]) -> Float[np.ndarray, "n w"]:
        """Return the columns of some arms: features, or 0 and 1."""
        if self.features is not None:
            return self.features[numbers]
        return (np.asarray(numbers)[:, None] == np.arange(self.width)).astype(np.float64)


class Choices(NamedTuple):
    """Rows of a reward model: a context each, and the number of an arm that is chosen in it."""

    contexts: Float[np.ndarray, "n d"]
    arms: Arms
    numbers: Int[np.ndarray, " n"]

    @property
    def inputs(self) -> Float[np.ndarray, "n d+w"]:
        """Contexts, and the columns of their arms beside them (Blundell et al. 2015, 5.3)."""
        return np.hstack([self.contexts, self.arms.columns(self.numbers)])


def choices_in(
    context: Float[np.ndarray, " d"], arms: Arms, numbers: Int[np.ndarray, " k"]
) -> Choices:
    """Return one context, with each of some arms."""
    return Choices(context[None].repeat(len(numbers), axis=0), arms, numbers)


class Belief(NamedTuple):
    """Mean and variance of the expected reward of some arms; the noise of rewards not included."""

    mean: Float[np.ndarray, " k"]
    var: Float[np.ndarray, " k"]

    def scaled(self, unit: float) -> Belief:
        """Return the belief about rewards that are so many times as large."""
        return Belief(unit * self.mean, unit**2 * self.var)


class Rewards(ABC):
    """Base of the reward models: settings, the fields of a dataclass, and what was learnt.

    `believe` and `draw` change nothing, and the same calls of `learn` leave the same state to the
    last bit: a journal repeats them.
    """

    def check(self) -> None:
        """Raise ValueError for settings that cannot be."""
        check_fields(self)

    @abstractmethod
    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Stand at the prior, for contexts of so many numbers; forget what was learnt."""

    @abstractmethod
    def learn(self, choices: Choices, rewards: Float[np.ndarray, " n"]) -> None:
        """Learn what some arms paid, all of it or, with ValueError, nothing."""

    @abstractmethod
    def believe(self, choices: Choices) -> Belief:
        """Return the belief about arms in a context."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, choices: Choices, n_draws: int) -> Draws:
        """Draw expected rewards of arms in a context, jointly: each draw is one function."""

    @abstractmethod
    def to_stored(self) -> Stored:
        """Return what was learnt as a header for JSON, and named arrays."""

    @abstractmethod
    def restore(self, stored: Stored, n_features: int, arms: Arms, seed: int) -> None:
        """Stand where `to_stored` was called, as `begin` at the prior; any error if it is none.

        Makes no room for sizes that the arrays do not have.
        """

    def settings(self) -> JsonObject:
        """Return the settings by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]
