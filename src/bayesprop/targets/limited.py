"""Targets of which those at an end stand for all beyond it: zeros, whole shares, limits.

Spending and rain are 0 or above, shares 0, 1 or between; limits are those of detection, or of a
scale that is topped.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self, TypeVar

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.targets.bijectors import CENSORED, NONNEGATIVE, SHARE, SoftplusInverse, check_whole
from bayesprop.targets.censoring import CensoredMap, Tendency
from bayesprop.targets.left_out import Ridge

_SCALES = (30.0, 10.0, 3.0, 1.0)
"""In medians of what is above 0; a log from nearer on has no bound on what is far above."""
_BELOW_LEAST = 0.9
_LEAST_OF_MOST = 0.1
"""Of a bound above: a smaller scale would put its threshold far from all that is below."""
_LARGEST = 1e300
FEW_ROWS, SHARE_OF_ROWS = 5, 0.02
"""Rows of one value, at least, that tell of a limit or of a bound there; and their share."""
OFTEN = 2.0
"""Times these rows that are enough for a guess: parts of the table are to have them, too."""


class LimitedMap(CensoredMap):
    """A map of which targets at a limit lie anywhere beyond its threshold, others where h is."""

    @property
    @abstractmethod
    def thresholds(self) -> tuple[float, float]:
        """Value of z up to which y is the lower limit, and from which it is the upper, or inf."""

    @property
    def limits(self) -> tuple[float, float]:
        """Targets that stand for all beyond; infinite where there is none."""
        return self.support

    @staticmethod
    @abstractmethod
    def _unit(z: np.ndarray) -> np.floating:
        """Return a standard deviation of half a normal beyond a threshold."""

    def bounds(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z of each target twice; of one at a limit all that lies beyond the threshold."""
        z, (low, high) = self.forward(y), self.limits
        return np.where(y > low, z, -np.inf), np.where(y < high, z, np.inf)

    def spread(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return z of each target; at a limit the quantile u of half a normal beyond."""
        z, (low, high) = self.forward(y), self.limits
        away = self._unit(z) * special.ndtri(0.5 * u)
        return z + np.where(y > low, 0.0, away) - np.where(y < high, 0.0, away)

    def left_out_score(self, ridge: Ridge, y: Float[np.ndarray, " n"]) -> float:
        """Mean log density, of rows at a limit log probability, by a ridge without the row.

        Errors are taken for Laplace's, as by `Ridge.left_out_log_likelihood`.

        y
            Of the rows of the ridge.
        """
        z = self.encode(y[:, None], np.random.RandomState(0), ridge.x)
        errors, (low, high) = ridge.left_out_errors(z)[..., 0], self.thresholds
        scale = np.average(np.abs(errors), axis=1, weights=ridge.weight)[:, None]
        scale = np.maximum(scale, 1e-12 * np.abs(z).max())
        predicted = z[:, 0] - errors
        densities = self.log_slope(y) - np.log(2.0 * scale) - np.abs(errors) / scale
        is_bound = [y <= self.support[0], y >= self.support[1]]
        beyond = [_log_below((low - predicted) / scale), _log_below((predicted - high) / scale)]
        each = np.select(is_bound, beyond, densities)
        return float(np.max(np.average(each, axis=1, weights=ridge.weight)))


Limited = TypeVar("Limited", bound=LimitedMap)


def likeliest(maps: Sequence[Limited], ridge: Ridge, y: Float[np.ndarray, " n"]) -> Limited:
    """Learn where in each map rows at a limit lie; return the one likeliest by rows left out.

    The likelihood is that of a tobit ridge, its Jacobian included.
    """
    learnt = [one.with_tendency(ridge, y) for one in maps]
    return max(learnt, key=lambda one: one.left_out_score(ridge, y[ridge.at]))


def _log_below(t: np.ndarray) -> np.ndarray:
    """Return the log probability of less than t, of Laplace's standard distribution."""
    above = np.log1p(-0.5 * np.exp(-np.maximum(t, 0.0)))
    return np.where(t < 0.0, t - np.log(2.0), above)


@dataclass(frozen=True, eq=False)
class CensoredArsinh(LimitedMap):
    """h(y) = arsinh((y - least) / scale): a line below `scale`, a log far above it; y >= 0.

    A latent number is seen where it is above a threshold, and is 0 below, as Tobin's (1958); y is
    an inverse hyperbolic sine of what is seen (Burbidge, Magee & Robb 1988). Between 0 and `least`
    h is a line that rises by `gap`, beyond `largest` a line with the slope that it has there, so
    that y has a mean and a variance whenever z has. Where there is a most that y can be, a second
    threshold is where that line reaches it (Rosett & Nelson 1975).

    least
        Just below the least target above 0.
    scale, largest
        In y.
    gap
        Of z: how far the lower threshold, -gap, lies below 0.
    """

    least: float
    scale: float
    largest: float
    gap: float
    tendency: Tendency | None = None

    kind: ClassVar[str] = NONNEGATIVE
    rule: ClassVar[str] = "numbers >= 0"
    remedy: ClassVar[str] = "take 'numbers', or leave out rows that stand for no value"

    @classmethod
    def of_unit(cls, unit: float) -> Self:
        """Return a map of which nothing is learnt, for numbers of about a unit."""
        return cls(0.25 * unit, unit, 0.75 * unit, 1.0)

    def holds(self, y: np.ndarray) -> np.ndarray:
        """Whether each target is 0 or above."""
        return y >= 0.0

    @property
    def thresholds(self) -> tuple[float, float]:
        """Value of z up to which y is 0, and from which it is the most that it can be, or inf."""
        beyond = (self.support[1] - self.largest) / self._last_slope
        return -self.gap, self._last + beyond

    @property
    def bends(self) -> Float[np.ndarray, " b"]:
        """Values of z where dg/dz jumps, rising."""
        low, high = self.thresholds
        return np.array([low, 0.0, self._last, *([high] if np.isfinite(high) else [])])

    @staticmethod
    def _unit(z: np.ndarray) -> np.floating:
        return np.sqrt(np.mean(z**2))

    @property
    def _last(self) -> float:
        return float(np.arcsinh((self.largest - self.least) / self.scale))

    @property
    def _last_slope(self) -> float:
        """dg/dz beyond `largest`."""
        return float(np.hypot(self.largest - self.least, self.scale))

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return h(y), at a bound its threshold."""
        y = np.clip(np.asarray(y, np.float64), *self.support)
        middle = np.clip(y, self.least, self.largest) - self.least
        beyond = np.maximum(y - self.largest, 0.0) / self._last_slope
        below = self.gap * np.maximum(1.0 - y / self.least, 0.0)
        return np.arcsinh(middle / self.scale) + beyond - below

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return g(z), a bound beyond its threshold."""
        middle = self.least + self.scale * np.sinh(np.clip(z, 0.0, self._last))
        beyond = np.maximum(z - self._last, 0.0) * self._last_slope
        below = self.least * np.clip(-z / self.gap, 0.0, 1.0)
        return np.clip(middle + beyond - below, *self.support)

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return dg/dz, 0 beyond the thresholds."""
        low, high = self.thresholds
        middle = self.scale * np.cosh(np.clip(z, 0.0, self._last))
        where = [(z <= low) | (z >= high), z < 0.0, z < self._last]
        return np.select(where, [0.0, self.least / self.gap, middle], self._last_slope)

    def validate(self) -> None:
        """Raise ValueError where the parts are not those of a map."""
        numbers = (self.least, self.scale, self.largest, self.gap)
        if not all(1.0 / _LARGEST <= number < _LARGEST for number in numbers):
            raise ValueError(f"the parts of a map of numbers >= 0 must be > 0, got {numbers}")
        if not self.least < self.largest:
            raise ValueError("the largest number of a map must be above its least")


@dataclass(frozen=True, eq=False)
class CensoredShare(CensoredArsinh):
    """Shares of which some are 0 or the whole: those lie beyond one of two thresholds.

    whole
        In y: 1, or 100 for per cent.
    """

    whole: float = 1.0

    kind: ClassVar[str] = SHARE
    rule: ClassVar[str] = "numbers from 0 to {most}"
    remedy: ClassVar[str] = (
        "a share is of 1, or of 100 in per cent, the same in every row; take 'numbers' for others"
    )

    @classmethod
    def of_unit(cls, unit: float) -> Self:
        """Return a map of which nothing is learnt, the unit its whole."""
        return replace(super().of_unit(unit), whole=unit)

    @property
    def support(self) -> tuple[float, float]:
        """Bounds of what a target can be."""
        return 0.0, self.whole

    def holds(self, y: np.ndarray) -> np.ndarray:
        """Whether each target is 0, the whole or between."""
        return (y >= 0.0) & (y <= self.whole)

    def validate(self) -> None:
        """Raise ValueError where the parts are not those of a map."""
        super().validate()
        check_whole(self.whole)
        if not self.largest < self.whole:
            raise ValueError("the largest share of a map must be below its whole")


@dataclass(frozen=True, eq=False)
class CensoredNumbers(LimitedMap):
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
    def limits(self) -> tuple[float, float]:
        """Targets that stand for all beyond; infinite where there is none."""
        return self.low, self.high

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

    @staticmethod
    def _unit(z: np.ndarray) -> np.floating:
        return np.std(z)

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

    def validate(self) -> None:
        """Raise ValueError where the limits are none."""
        low, high = self.low, self.high
        if not low < high or not (np.isfinite(low) or np.isfinite(high)):
            raise ValueError(f"limits must be one or two, rising, got {low:g} and {high:g}")
        if self.positive is not None and not (high > 0.0 and (low > 0.0 or low == -np.inf)):
            raise ValueError(f"limits of positive numbers must be > 0, got {low:g} and {high:g}")

    def _bare(self, y: np.ndarray) -> np.ndarray:
        return y if self.positive is None else self.positive.forward(y)


def are_many(rows: np.ndarray, times: float = 1.0) -> bool:
    """Whether as many rows have one value as a limit or a bound would give it, or so many times."""
    return int(np.sum(rows)) >= times * max(FEW_ROWS, SHARE_OF_ROWS * len(rows))


Arsinh = TypeVar("Arsinh", bound=CensoredArsinh)


def learnt_censored(unlearnt: Arsinh, ridge: Ridge, y: Float[np.ndarray, " n"]) -> Arsinh:
    """Learn the scale by the likelihood of rows left out, and where the others lie by inputs.

    unlearnt
        Has the support; what it is where all targets lie at a bound.
    """
    most = unlearnt.support[1]
    interior = y[(y > 0.0) & (y < most)]
    if not len(interior):
        return unlearnt.with_tendency(ridge, y)
    median, least = float(np.median(interior)), _BELOW_LEAST * float(interior.min())
    shortest = _LEAST_OF_MOST * most if np.isfinite(most) else 0.0
    maps, largest = [], float(interior.max())
    for scale in (max(ratio * median, shortest) for ratio in _SCALES):
        # As many rows lie between 0 and the median as above it: a gap has room for half a row.
        gap = float(np.arcsinh((median - least) / scale)) / len(interior)
        gap = max(gap, 1.0 / _LARGEST)
        maps.append(replace(unlearnt, least=least, scale=scale, largest=largest, gap=gap))
    return likeliest(maps, ridge, y)


def learnt_limits(ridge: Ridge, y: Float[np.ndarray, " n"]) -> CensoredNumbers:
    """Learn which ends are limits, and a scale of numbers above 0; ValueError where none is."""
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
    return likeliest([CensoredNumbers(low, high, one) for one in scaled], ridge, y)
