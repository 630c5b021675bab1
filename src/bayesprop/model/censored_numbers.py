"""Numbers of which those at an end stand for all beyond it: limits of detection, topped scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.model.censored import CensoredMap, Tendency
from bayesprop.model.censored_arsinh import left_out_score
from bayesprop.model.left_out import Ridge, some_rows
from bayesprop.model.target_maps import CENSORED, SoftplusInverse

FEW_ROWS, SHARE_OF_ROWS = 5, 0.02
"""Rows of one value, at least, that tell of a limit or of a bound there; and their share."""
OFTEN = 2.0
"""Times these rows that are enough for a guess: parts of the table are to have them, too."""


@dataclass(frozen=True, eq=False)
class CensoredNumbers(CensoredMap):
    """What is seen of a number that lies between limits, or beyond one: then that limit.

    A tobit (Tobin 1958; Rosett & Nelson 1975) of the numbers as they are, or of their map.

    low, high
        The limits; infinite where there is none.
    positive
        The map of numbers that all lie above 0; None: they are learnt as they are.
    """

    low: float
    high: float
    positive: SoftplusInverse | None = None
    tendency: Tendency | None = None

    kind: ClassVar[str] = CENSORED
    rule: ClassVar[str] = "finite numbers"
    remedy: ClassVar[str] = "leave the row out"

    def holds(self, y: np.ndarray) -> np.ndarray:
        """Whether each target is a number: one beyond a limit is seen as that."""
        return np.isfinite(y)

    @property
    def support(self) -> tuple[float, float]:
        """Bounds of what is seen."""
        return (self.low if self.positive is None else max(self.low, 0.0)), self.high

    @property
    def thresholds(self) -> tuple[float, float]:
        """Value of z up to which y is the lower limit, and from which it is the upper, or inf."""
        low, high = (
            float(self._bare(np.array(end))) if np.isfinite(end) else end
            for end in (self.low, self.high)
        )
        return low, high

    @property
    def bends(self) -> Float[np.ndarray, " b"]:
        """Values of z where dg/dz jumps or turns, rising; -inf first without a lower limit."""
        low, high = self.thresholds
        within = np.zeros(0) if self.positive is None else self.positive.bends
        within = within[(within > low) & (within < high)]
        return np.array([low, *within, *([high] if np.isfinite(high) else [])])

    def bounds(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z of each target twice; of one at a limit all that lies beyond."""
        z = self.forward(y)
        return np.where(y > self.low, z, -np.inf), np.where(y < self.high, z, np.inf)

    def spread(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return z of each target; at a limit the quantile u of half a normal beyond."""
        z = self.forward(y)
        away = np.std(z) * special.ndtri(0.5 * u)
        return z + np.where(y > self.low, 0.0, away) - np.where(y < self.high, 0.0, away)

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return h(y), at a limit or beyond its threshold."""
        return self._bare(np.clip(np.asarray(y, np.float64), self.low, self.high))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return g(z), a limit beyond its threshold."""
        y = z if self.positive is None else self.positive.inverse(z)
        return np.clip(y, self.low, self.high)

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return dg/dz, 0 beyond the thresholds."""
        low, high = self.thresholds
        slope = np.ones(np.shape(z)) if self.positive is None else self.positive.inverse_slope(z)
        return np.where((z <= low) | (z >= high), 0.0, slope)

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` reads, for JSON."""
        limits = {"low": self.low, "high": self.high}
        stored: dict[str, Any] = {name: end for name, end in limits.items() if np.isfinite(end)}
        if self.positive is not None:
            stored["scale"] = self.positive.scale
        own = {} if self.tendency is None else self.tendency.to_dict()
        return {"kind": self.kind} | stored | own

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Self:
        """Rebuild a map from `to_dict`; ValueError where it is none."""
        low, high = float(stored.get("low", -np.inf)), float(stored.get("high", np.inf))
        if not low < high or not (np.isfinite(low) or np.isfinite(high)):
            raise ValueError(f"limits must be one or two, rising, got {low:g} and {high:g}")
        positive = SoftplusInverse.of_scale(stored["scale"]) if "scale" in stored else None
        if positive is not None and not (high > 0.0 and (low > 0.0 or low == -np.inf)):
            raise ValueError(f"limits of positive numbers must be > 0, got {low:g} and {high:g}")
        return cls(low, high, positive, Tendency.from_dict(stored))

    def _bare(self, y: np.ndarray) -> np.ndarray:
        return y if self.positive is None else self.positive.forward(y)


def are_many(rows: np.ndarray, times: float = 1.0) -> bool:
    """Whether as many rows have one value as a limit or a bound would give it, or so many times."""
    return int(np.sum(rows)) >= times * max(FEW_ROWS, SHARE_OF_ROWS * len(rows))


def learnt_limits(
    x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> CensoredNumbers:
    """Learn which ends are limits, and a scale of numbers above 0; ValueError where none is.

    The scale is the best by the likelihood of a tobit ridge for rows left out.

    x
        Standardised inputs.
    """
    least, most = float(np.min(y)), float(np.max(y))
    is_low, is_high = are_many(y == least), are_many(y == most)
    if least == most or not (is_low or is_high):
        needed = int(np.ceil(max(FEW_ROWS, SHARE_OF_ROWS * len(y))))
        raise ValueError(
            f"y must have its least or its largest value in {needed} rows or more for "
            f"target_kind={CENSORED!r}, as a limit beyond which nothing is told apart, got "
            f"{least:g} in {np.sum(y == least)} and {most:g} in {np.sum(y == most)}: take 'numbers'"
        )
    low, high = least if is_low else -np.inf, most if is_high else np.inf
    scaled = SoftplusInverse.candidates(y) if least > 0.0 else [None]
    maps = [CensoredNumbers(low, high, one).with_tendency(x, y, weight) for one in scaled]
    at = some_rows(*x.shape)
    ridge = Ridge.of(x[at], weight[at])
    scores = [left_out_score(one, ridge, x[at], y[at], weight[at]) for one in maps]
    return maps[int(np.argmax(scores))]
