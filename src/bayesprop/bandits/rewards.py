"""The interface of reward models of bandits.

A reward model meets rows, a context and the number of the arm that was chosen in it, and what they
paid. It says what it expects of every arm in a context, and how sure it is, by moments or by draws
of the whole function.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.bandits.arms import Arms, Choices
from bayesprop.codec import JsonObject, Stored
from bayesprop.estimators.params import check_fields

Draws = Float[np.ndarray, "s k"]
"""Functions drawn from the posterior, evaluated for k arms."""


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
