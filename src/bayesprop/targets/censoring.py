"""Targets that are intervals of a latent number: where in them each row lies, by its inputs."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.targets.bijectors import TargetMap
from bayesprop.targets.left_out import Ridge

_ROUNDS = 4
_LEAST_STD = 0.1
"""Of what a ridge leaves, in standard deviations of all."""
_TINY = float(np.finfo(np.float64).tiny)


class Tendency(NamedTuple):
    """What a ridge says of the scores: normal about `intercept` + x @ `slopes`, standardised x."""

    slopes: Float[np.ndarray, " d"]
    intercept: float
    std: float

    @classmethod
    def of(cls, ridge: Ridge, z: Float[np.ndarray, " n"]) -> Tendency:
        """Fit a ridge, its precision the best for rows left out, which say how scores scatter."""
        best = ridge.left_out(z)
        std = float(max(np.sqrt(best.mean_square), _LEAST_STD * np.std(z), _TINY))
        return cls(*ridge.line(z, best.precision), std)

    def draw(
        self,
        x: Float[np.ndarray, "n d"],
        bounds: tuple[np.ndarray, np.ndarray],
        u: np.ndarray,
        otherwise: np.ndarray,
    ) -> np.ndarray:
        """Return the quantile u of the scores (n, o) between two bounds.

        otherwise
            What is returned where the normal has next to nothing between them.
        """
        m = (x @ self.slopes + self.intercept)[:, None]
        low, high = ((bound - m) / self.std for bound in bounds)
        return _drawn_between(low, high, u, (otherwise - m) / self.std) * self.std + m

    def validate(self) -> None:
        """Raise ValueError unless it is finite, and its std positive."""
        if not np.isfinite([self.intercept, self.std]).all() or self.std <= 0.0:
            raise ValueError("the tendency of scores must be finite, its std > 0")


class CensoredMap(TargetMap):
    """A map of which some targets take an interval of scores and not a point.

    Where in its interval a training target lies is drawn from what the inputs tell of it: data
    augmentation of a probit with known thresholds (Albert & Chib 1993), or of a tobit (Chib 1992),
    whose posterior is that of a ridge. Subclasses are dataclasses with a field `tendency`.
    """

    tendency: Tendency | None
    """Where scores lie, by the inputs. None: anywhere, evenly over what lies below."""

    @abstractmethod
    def bounds(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores between which each target lies; twice the same where it has one."""

    @abstractmethod
    def spread(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return the score that has a share u of each target's interval below."""

    def encode(
        self, y: np.ndarray, rng: np.random.RandomState, x: Float[np.ndarray, "n d"]
    ) -> np.ndarray:
        """Draw the scores of targets (n, o), each in its interval."""
        u = np.clip(rng.random_sample(y.shape), 1e-9, 1.0 - 1e-9)
        spread = self.spread(y, u)
        if self.tendency is None:
            return spread
        low, high = self.bounds(y)
        return np.where(low < high, self.tendency.draw(x, (low, high), u, spread), spread)

    def with_tendency(self, ridge: Ridge, y: Float[np.ndarray, " n"]) -> Self:
        """Learn where scores lie by the inputs of a ridge, and draw them by it, in turn."""
        y, rng = y[ridge.at, None], np.random.RandomState(0)
        own = replace(cast(Any, self[ridge.at]), tendency=None)
        for _ in range(_ROUNDS):
            z = own.encode(y, rng, ridge.x)[:, 0]
            own = replace(own, tendency=Tendency.of(ridge, z))
        return own


def _drawn_between(
    low: np.ndarray, high: np.ndarray, u: np.ndarray, otherwise: np.ndarray
) -> np.ndarray:
    """Return the quantile u of a standard normal between two bounds.

    otherwise
        What is returned where the normal has next to nothing between them.
    """
    flip = low > 0.0
    low, high, u = (
        np.where(flip, -high, low),
        np.where(flip, -low, high),
        np.where(flip, 1.0 - u, u),
    )
    below, above = special.ndtr(low), special.ndtr(high)
    z = np.clip(special.ndtri(below + u * (above - below)), low, high)
    return np.where(above - below > 1e-12, np.where(flip, -z, z), otherwise)
