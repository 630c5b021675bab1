"""Monotone maps from where a target can lie onto the whole line, and back.

A method learns the mapped target z = h(y) as it would any number; what it predicts of z is brought
back, so that no bound can leave the support. A map says of a target where it may lie (`check`),
h and its inverse g, and their slopes, elementwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float
from scipy import special

NUMBERS, POSITIVE, NONNEGATIVE = "numbers", "positive", "nonnegative"
CENSORED, SHARE, COUNT = "censored", "share", "count"
PER_CENT = 100.0
"""The whole of shares that are written in per cent; that of others is 1."""
_SCALES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
"""In medians of the targets."""
_TINY = float(np.finfo(np.float64).tiny)
_BELOW_ONE = 1.0 - float(np.finfo(np.float64).epsneg)


@dataclass(frozen=True, eq=False)
class TargetMap(ABC):
    """A monotone map h from a support onto the whole line, z = h(y), and its inverse y = g(z)."""

    kind: ClassVar[str]
    rule: ClassVar[str]
    """Where targets lie; `{most}` stands for the upper bound of the support."""
    remedy: ClassVar[str]

    @property
    def support(self) -> tuple[float, float]:
        """Bounds of what a target can be."""
        return 0.0, np.inf

    @property
    def bends(self) -> Float[np.ndarray, " b"]:
        """Places in z, rising, between which g is nearly straight or exponential.

        Below the first, -inf where there is no other, g is the least of the support.
        """
        return np.array([-np.inf])

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

    @abstractmethod
    def holds(self, y: np.ndarray) -> np.ndarray:
        """Whether each target lies in the support."""

    def encode(
        self,
        y: np.ndarray,
        rng: np.random.RandomState,  # noqa: ARG002
        x: Float[np.ndarray, "n d"],  # noqa: ARG002
    ) -> np.ndarray:
        """Map targets (n, o) that a method is to learn from standardised inputs."""
        return self.forward(y)

    def __getitem__(self, rows: Any) -> TargetMap:
        """Return the map of some rows: that of all, where a kind says nothing else."""
        return self

    @classmethod
    def joined(cls, parts: Sequence[Any]) -> TargetMap:
        """Return the map of the rows of several predictions, one after another."""
        return parts[0]

    @abstractmethod
    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return h(y)."""

    @abstractmethod
    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return g(z)."""

    def observed(self, z: np.ndarray) -> np.ndarray:
        """Return the observation at z."""
        return self.inverse(z)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Return log dh/dy, the log Jacobian of a density, at y."""
        return -np.log(np.maximum(self.inverse_slope(self.forward(y)), _TINY))

    @abstractmethod
    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return dg/dz at z, y per unit of z."""

    def limited(self, interval: Float[np.ndarray, "n ... 2"]) -> Float[np.ndarray, "n ... 2"]:
        """Bring the bounds of intervals of targets into the support."""
        return np.clip(interval, *self.support)


@dataclass(frozen=True, eq=False)
class SoftplusInverse(TargetMap):
    """h(y) = log(exp(y / scale) - 1): a log far below `scale`, linear far above it; y > 0.

    scale
        In y. Large: a log, errors in percent. Small: targets as they are, but positive. Beyond it
        a heavy tail of z stays a heavy tail, so that y has a mean and a variance whenever z has.
    """

    scale: float

    kind: ClassVar[str] = POSITIVE
    rule: ClassVar[str] = "numbers > 0"
    remedy: ClassVar[str] = (
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
        if not 1e-300 < self.scale < 1e300:
            raise ValueError(f"the scale of positive targets must be > 0, got {self.scale!r}")

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

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Return log dh/dy = -log scale - log(1 - exp(-y / scale))."""
        ratio = np.maximum(np.maximum(y, _TINY) / self.scale, _TINY)
        return -np.log(self.scale) - np.log(-np.expm1(-ratio))

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

    kind: ClassVar[str] = SHARE
    rule: ClassVar[str] = "numbers above 0 and below {most}"
    remedy: ClassVar[str] = (
        "keep to the unit of the first fit, a whole of 1 or of 100 per cent, fit rows of 0 and of "
        "the whole from the start, or take 'numbers'"
    )

    def validate(self) -> None:
        """Raise ValueError where the whole is none."""
        check_whole(self.whole)

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
        return special.logit(self._share(y))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return the share of log odds, in y."""
        return self.whole * np.clip(special.expit(z), _TINY, _BELOW_ONE)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Return -log s - log(1 - s) - log whole at the share s = y / whole."""
        share = self._share(y)
        return -np.log(share) - np.log1p(-share) - np.log(self.whole)

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return y (1 - y / whole) at y = g(z)."""
        return self.whole * special.expit(z) * special.expit(-z)

    def _share(self, y: np.ndarray) -> np.ndarray:
        return np.clip(y / self.whole, _TINY, _BELOW_ONE)


def whole_of(y: np.ndarray) -> float:
    """Return the whole of shares: 1 where none exceeds it, else 100."""
    return PER_CENT if np.max(y, initial=0.0) > 1.0 else 1.0


def check_whole(whole: float) -> None:
    """Raise ValueError where shares have no such whole."""
    if whole not in (1.0, PER_CENT):
        raise ValueError(f"the whole of shares must be 1 or {PER_CENT:g}, got {whole:g}")
