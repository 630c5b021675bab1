"""What a bandit believes about rewards: the contract of every reward model.

A reward model sees rows: a context and the arm that was chosen in it, by number. It says what it
expects of every arm in a context, and how sure it is, by moments or by draws of the whole function.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float

from bayesprop.decisions.arms import Arms, Choices
from bayesprop.store import Stored


class Belief(NamedTuple):
    """Mean and variance of the expected reward of some arms; the noise of rewards not included."""

    mean: Float[np.ndarray, " k"]
    var: Float[np.ndarray, " k"]


class Rewards(ABC):
    """Base of the reward models; `begin` makes one ready, and forgets what it had learnt.

    Settings are the fields of a dataclass. `believe` and `draw` change nothing, and the same calls
    of `learn` leave the same state to the last bit: a journal repeats them.
    """

    @property
    def guards_(self) -> dict[str, int]:
        """How often numerical trouble was met, by name."""
        return {}

    def check(self) -> None:
        """Raise ValueError for settings that cannot be."""
        return

    @abstractmethod
    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Stand at the prior, for contexts of so many numbers."""

    @abstractmethod
    def learn(self, choices: Choices, rewards: Float[np.ndarray, " n"]) -> None:
        """Learn what some arms paid, all of it or, with ValueError, nothing."""

    @abstractmethod
    def believe(self, choices: Choices) -> Belief:
        """Say what is believed of arms in a context."""

    @abstractmethod
    def draw(
        self, rng: np.random.Generator, choices: Choices, n_draws: int
    ) -> Float[np.ndarray, "s k"]:
        """Draw expected rewards of arms in a context, jointly: each draw is one function."""

    @abstractmethod
    def to_stored(self) -> Stored:
        """Return settings and what was learnt: a header for JSON, and named arrays."""

    @classmethod
    @abstractmethod
    def from_stored(cls, stored: Stored, n_features: int, arms: Arms) -> Self:
        """Rebuild what `to_stored` gave; any error where it is something else."""

    def settings(self) -> dict[str, Any]:
        """Return the settings other than an estimator, for JSON."""
        names = [f.name for f in fields(self) if f.init]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names if name != "estimator"}


def below(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Take the arrays whose names begin with a prefix, without it."""
    return {k.removeprefix(prefix): array for k, array in arrays.items() if k.startswith(prefix)}
