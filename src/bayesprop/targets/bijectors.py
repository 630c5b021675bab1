"""Monotone maps from where a target can lie onto the whole line, and back.

A method learns the mapped target z = h(y) as it would any number; what it predicts of z is brought
back, so that no bound can leave the support. A map says of a target where it may lie (`check`),
h and its inverse g, and their slopes, elementwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float
from scipy import special

NUMBERS, POSITIVE, NONNEGATIVE = "numbers", "positive", "nonnegative"
CENSORED, SHARE, COUNT = "censored", "share", "count"
PER_CENT = 100.0
WHOLES = (1.0, PER_CENT)
"""Of shares, and of those that are written in per cent."""
LARGEST = 1e300
_SCALES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
"""In medians of the targets."""
_TINY = float(np.finfo(np.float64).tiny)
_BELOW_ONE = 1.0 - float(np.finfo(np.float64).epsneg)


class TargetMap(ABC):
    """A monotone map h from a support onto the whole line, z = h(y), and its inverse y = g(z).

    Subclasses are frozen dataclasses.
    """

    kind: str
    rule: str = "finite numbers"
    """Where targets lie; `{most}` stands for the upper bound of the support."""
    remedy: str = "leave the row out"
    step: float = 0.0
    """Distance of neighbouring targets: 1 for counts, 0 where they lie densely."""

    @property
    def support(self) -> tuple[float, float]:
        """Bounds of what a target can be."""
        return -np.inf, np.inf

    @property
    def bends(self) -> Float[np.ndarray, " b"]:
        """Places in z, rising, between which g is nearly straight or exponential.

        Below the first, -inf where there is no other, g is the least of the support.
        """
        return np.array([-np.inf])

    @property
    def jumps(self) -> Float[np.ndarray, " j"]:
        """Targets, rising, at which many rows stand in the middle of a wide range."""
        return np.zeros(0)

    def check(self, y: np.ndarray) -> None:
        """Raise ValueError, naming the first row, unless all targets lie in the support."""
        is_good = self.holds(y).all(axis=tuple(range(1, np.ndim(y))))
        if not is_good.all():
            row = int(np.argmin(is_good))
            got = float(np.ravel(y[row])[np.argmin(self.holds(np.ravel(y[row])))])
            rule = self.rule.format(most=f"{self.support[1]:g}")
            raise ValueError(
                f"y must hold {rule} for target_kind={self.kind!r}, got {got:g} in row {row}: "
                f"{self.remedy}"
            )

    def holds(self, y: np.ndarray) -> np.ndarray:
        """Whether each target lies in the support."""
        return np.isfinite(y)

    def encode(
        self,
        y: np.ndarray,
        rng: np.random.RandomState,  # noqa: ARG002
        x: Float[np.ndarray, "n d"],  # noqa: ARG002
    ) -> np.ndarray:
        """Map targets (n, o) that a method is to learn from standardised inputs."""
        return self.forward(y)

    def __getitem__(self, rows: slice | np.ndarray | tuple) -> TargetMap:
        """Return the map of some rows: that of all, where a kind says nothing else."""
        return self

    @classmethod
    def joined(cls, parts: Sequence) -> TargetMap:
        """Return the map of the rows of several predictions, one after another."""
        return parts[0]

    @abstractmethod
    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return h(y)."""

    @abstractmethod
    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return g(z)."""

    @abstractmethod
    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return dg/dz at z, y per unit of z."""

    def bounds(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the values of z between which each target lies; twice the same of a point."""
        z = self.forward(y)
        return z, z

    def observed(self, z: np.ndarray) -> np.ndarray:
        """Return the observation at z."""
        return self.inverse(z)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Return log dh/dy, the log Jacobian of a density, at y."""
        return -np.log(np.maximum(self.inverse_slope(self.forward(y)), _TINY))

    def limited(self, interval: Float[np.ndarray, "n ... 2"]) -> Float[np.ndarray, "n ... 2"]:
        """Bring the bounds of intervals of targets into the support."""
        return np.clip(interval, *self.support)


@dataclass(frozen=True, eq=False)
class Identity(TargetMap):
    """h(y) = y."""

    kind = NUMBERS

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return y."""
        return y

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return z."""
        return z

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return 1."""
        return np.ones(np.shape(z))


AS_THEY_ARE = Identity()


@dataclass(frozen=True, eq=False)
class SoftplusInverse(TargetMap):
    """h(y) = log(exp(y / scale) - 1): a log far below `scale`, linear far above it; y > 0.

    scale
        In y. Large: a log, errors in percent. Small: targets as they are, but positive. Beyond it
        a heavy tail of z stays a heavy tail, so that y has a mean and a variance whenever z has.
    """

    scale: float

    kind = POSITIVE
    rule = "numbers > 0"
    remedy = (
        "take 'nonnegative' where 0 can be, 'count' for whole numbers, 'numbers' for any, or leave "
        "out rows that stand for no value"
    )

    @classmethod
    def candidates(cls, y: Float[np.ndarray, " n"]) -> list[Self]:
        """Return maps of positive targets, from a log to nearly a line."""
        largest, median = 3.0 * float(np.max(y)), float(np.median(y))
        scales = [scale * median for scale in _SCALES]
        return [cls(largest), *(cls(scale) for scale in scales if scale <= largest)]

    def validate(self) -> None:
        """Raise ValueError where the scale is none."""
        if not 1.0 / LARGEST < self.scale < LARGEST:
            raise ValueError(f"the scale of positive targets must be > 0, got {self.scale!r}")

    @property
    def support(self) -> tuple[float, float]:
        """Bounds of what a target can be."""
        return 0.0, np.inf

    def holds(self, y: np.ndarray) -> np.ndarray:
        """Whether each target is positive."""
        return y > 0.0

    @property
    def bends(self) -> Float[np.ndarray, " b"]:
        """From exponential to straight."""
        return np.array([-np.inf, -3.0, 0.0, 3.0])

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return h(y) = y / scale + log(1 - exp(-y / scale))."""
        ratio = np.maximum(y, _TINY) / self.scale
        return ratio + np.log(-np.expm1(-np.maximum(ratio, _TINY)))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return g(z) = scale log(1 + exp(z))."""
        return np.maximum(self.scale * np.logaddexp(0.0, z), _TINY)

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return dg/dz = scale / (1 + exp(-z))."""
        return self.scale * special.expit(z)


@dataclass(frozen=True, eq=False)
class Logit(TargetMap):
    """h(y) = log(y / (whole - y)); 0 < y < whole.

    whole
        In y: 1, or 100 for per cent.
    """

    whole: float = 1.0

    kind = SHARE
    rule = "numbers above 0 and below {most}"
    remedy = (
        "keep to the unit of the first fit, a whole of 1 or of 100 per cent, fit rows of 0 and of "
        "the whole from the start, or take 'numbers'"
    )

    def validate(self) -> None:
        """Raise ValueError where the whole is none."""
        if self.whole not in WHOLES:
            raise ValueError(f"the whole of shares must be one of {WHOLES}, got {self.whole:g}")

    def holds(self, y: np.ndarray) -> np.ndarray:
        """Whether each target lies between 0 and the whole."""
        return (y > 0.0) & (y < self.whole)

    @property
    def support(self) -> tuple[float, float]:
        """Bounds of what a target can be."""
        return 0.0, self.whole

    @property
    def bends(self) -> Float[np.ndarray, " b"]:
        """From a rising exponential to a falling one."""
        return np.array([-np.inf, -6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0])

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return the log odds."""
        return special.logit(np.clip(y / self.whole, _TINY, _BELOW_ONE))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return the share of log odds, in y."""
        return self.whole * np.clip(special.expit(z), _TINY, _BELOW_ONE)

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return y (1 - y / whole) at y = g(z)."""
        return self.whole * special.expit(z) * special.expit(-z)


@dataclass(frozen=True, eq=False)
class Arsinh(TargetMap):
    """h(y) = arsinh((y - least) / scale): a line below `scale`, a log far above it.

    An inverse hyperbolic sine (Burbidge, Magee & Robb 1988). Below `least` h is a line that falls
    by `gap` to 0, beyond `largest` a line with the slope that it has there, so that y has a mean
    and a variance whenever z has.

    least
        Just below the least target above 0.
    scale, largest
        In y.
    gap
        Of z: h(0) = -gap.
    """

    least: float
    scale: float
    largest: float
    gap: float

    kind = NUMBERS

    @classmethod
    def of_unit(cls, unit: float) -> Self:
        """Return a map without learnt parameters, for numbers of order one."""
        return cls(0.25 * unit, unit, 0.75 * unit, 1.0)

    @property
    def bends(self) -> Float[np.ndarray, " b"]:
        """Values of z where dg/dz jumps, rising."""
        return np.array([-np.inf, 0.0, self._last])

    @property
    def _last(self) -> float:
        return float(np.arcsinh((self.largest - self.least) / self.scale))

    @property
    def _last_slope(self) -> float:
        """dg/dz beyond `largest`."""
        return float(np.hypot(self.largest - self.least, self.scale))

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return h(y)."""
        middle = np.clip(y, self.least, self.largest) - self.least
        beyond = np.maximum(y - self.largest, 0.0) / self._last_slope
        below = self.gap * np.maximum(1.0 - y / self.least, 0.0)
        return np.arcsinh(middle / self.scale) + beyond - below

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return g(z)."""
        middle = self.least + self.scale * np.sinh(np.clip(z, 0.0, self._last))
        beyond = np.maximum(z - self._last, 0.0) * self._last_slope
        return middle + beyond - self.least * np.maximum(-z / self.gap, 0.0)

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return dg/dz."""
        middle = self.scale * np.cosh(np.clip(z, 0.0, self._last))
        where = [z < 0.0, z < self._last]
        return np.select(where, [self.least / self.gap, middle], self._last_slope)

    def validate(self) -> None:
        """Raise ValueError where the parts are not those of a map."""
        numbers = (self.least, self.scale, self.largest, self.gap)
        if not all(1.0 / LARGEST <= number < LARGEST for number in numbers):
            raise ValueError(f"the parts of a map of numbers >= 0 must be > 0, got {numbers}")
        if not self.least < self.largest:
            raise ValueError("the largest number of a map must be above its least")


def whole_of(y: np.ndarray) -> float:
    """Return the whole of shares: 1 where none exceeds it, else 100."""
    return PER_CENT if np.max(y, initial=0.0) > 1.0 else 1.0
