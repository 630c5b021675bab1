"""Numbers of which those at an end stand for all beyond it: limits of detection, topped scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float

from bayesprop.model.censored import Tendency
from bayesprop.model.censored_arsinh import CensoredArsinh, learnt_censored
from bayesprop.model.target_maps import CENSORED, TargetMap

FEW_ROWS, SHARE_OF_ROWS = 5, 0.02
"""Rows of one value, at least, that tell of a limit or of a bound there; and their share."""


@dataclass(frozen=True, eq=False)
class CensoredNumbers(TargetMap):
    """What is seen of a number that lies between limits, or beyond one: then that limit.

    Distances from a limit are learnt as numbers from 0 on are.

    distance
        The map of distances.
    origin
        From where they are measured, in y: the lower limit, or 0 where all numbers lie above it,
        or else the upper.
    sign
        1 where numbers lie above it, -1 where they lie below.
    """

    distance: CensoredArsinh
    origin: float
    sign: float

    kind: ClassVar[str] = CENSORED
    rule: ClassVar[str] = "finite numbers"
    remedy: ClassVar[str] = "leave the row out"

    @classmethod
    def holds(cls, y: np.ndarray) -> np.ndarray:
        """Whether each target is a number: one beyond a limit is seen as that."""
        return np.isfinite(y)

    @property
    def tendency(self) -> Tendency | None:
        """Where scores of distances lie, by the inputs."""
        return self.distance.tendency

    @property
    def support(self) -> tuple[float, float]:
        """Bounds of what is seen."""
        return self._in_order(self.origin + self.sign * np.array(self.distance.support))

    @property
    def thresholds(self) -> tuple[float, float]:
        """Value of z up to which y is the lower limit, and from which it is the upper, or inf."""
        return self._in_order(self.sign * np.array(self.distance.thresholds))

    @property
    def bends(self) -> Float[np.ndarray, " b"]:
        """Values of z where dg/dz jumps, rising; -inf before them where there is no lower limit."""
        bends = np.sort(self.sign * self.distance.bends)
        return bends if self.sign > 0.0 else np.append(-np.inf, bends)

    def encode(
        self, y: np.ndarray, rng: np.random.RandomState, x: Float[np.ndarray, "n d"]
    ) -> np.ndarray:
        """Draw the scores of targets (n, o), of those at a limit beyond it."""
        return self.sign * self.distance.encode(self._away(y), rng, x)

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return h(y), at a limit or beyond its threshold."""
        return self.sign * self.distance.forward(self._away(y))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return g(z), a limit beyond its threshold."""
        return self.origin + self.sign * self.distance.inverse(self.sign * z)

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return dg/dz, 0 beyond the thresholds."""
        return self.distance.inverse_slope(self.sign * z)

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` reads, for JSON."""
        own = {"origin": self.origin, "sign": self.sign, "distance": self.distance.to_dict()}
        return {"kind": self.kind} | own

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Self:
        """Rebuild a map from `to_dict`; ValueError where it is none."""
        origin, sign = float(stored["origin"]), float(stored["sign"])
        if not np.isfinite(origin) or sign not in (1.0, -1.0):
            raise ValueError(f"a limit must be finite, its sign 1 or -1, got {origin}, {sign}")
        return cls(CensoredArsinh.from_dict(stored["distance"]), origin, sign)

    def _away(self, y: np.ndarray) -> np.ndarray:
        """Return distances from the limit, 0 beyond it."""
        return np.maximum(self.sign * (np.asarray(y, np.float64) - self.origin), 0.0)

    def _in_order(self, pair: np.ndarray) -> tuple[float, float]:
        low, high = np.sort(pair)
        return float(low), float(high)


def are_many(rows: np.ndarray, times: float = 1.0) -> bool:
    """Whether as many rows have one value as a limit or a bound would give it, or so many times."""
    return int(np.sum(rows)) >= times * max(FEW_ROWS, SHARE_OF_ROWS * len(rows))


def learnt_limits(
    x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> CensoredNumbers:
    """Learn which ends are limits, and the map of distances; ValueError where none is.

    x
        Standardised inputs.
    """
    low, high = float(np.min(y)), float(np.max(y))
    is_low, is_high = are_many(y == low), are_many(y == high)
    if low == high or not (is_low or is_high):
        needed = int(np.ceil(max(FEW_ROWS, SHARE_OF_ROWS * len(y))))
        raise ValueError(
            f"y must have its least or its largest value in {needed} rows or more for "
            f"target_kind={CENSORED!r}, as a limit beyond which nothing is told apart, got {low:g} "
            f"in {np.sum(y == low)} and {high:g} in {np.sum(y == high)}: take 'numbers'"
        )
    origin, sign = (low, 1.0) if is_low else (0.0, 1.0) if low > 0.0 else (high, -1.0)
    most = high - origin if is_high and sign > 0.0 else np.inf
    distance = learnt_censored(CensoredArsinh, x, sign * (y - origin), weight, most)
    return CensoredNumbers(distance, origin, sign)
