"""Numbers from 0 on, of which some are 0 itself: spending, earnings, hours worked, rain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.model.censored import CensoredMap, Tendency
from bayesprop.model.left_out import Ridge, some_rows
from bayesprop.model.target_maps import NONNEGATIVE

_SCALES = (30.0, 10.0, 3.0, 1.0)
"""In medians of what is above 0; a log from nearer on has no bound on what is far above."""
_BELOW_LEAST = 0.9
_LARGEST = 1e300


@dataclass(frozen=True, eq=False)
class CensoredArsinh(CensoredMap):
    """h(y) = arsinh((y - least) / scale): a line below `scale`, a log far above it; y >= 0.

    A latent number is seen where it is above a threshold, and is 0 below, as Tobin's (1958); y is
    an inverse hyperbolic sine of what is seen (Burbidge, Magee & Robb 1988). Between 0 and `least`
    h is a line that rises by `gap`, beyond `largest` a line with the slope that it has there, so
    that y has a mean and a variance whenever z has.

    least
        Just below the least target above 0.
    scale, largest
        In y.
    gap
        Of z: how far the threshold, -gap, lies below 0.
    """

    least: float
    scale: float
    largest: float
    gap: float
    tendency: Tendency | None = None

    kind: ClassVar[str] = NONNEGATIVE
    rule: ClassVar[str] = "numbers >= 0"
    remedy: ClassVar[str] = "take 'numbers', or leave out rows that stand for no value"
    support: ClassVar[tuple[float, float]] = (0.0, np.inf)

    @classmethod
    def holds(cls, y: np.ndarray) -> np.ndarray:
        """Whether each target is 0 or above."""
        return y >= 0.0

    @property
    def threshold(self) -> float:
        """Value of z at and below which y is 0."""
        return -self.gap

    @property
    def bends(self) -> Float[np.ndarray, " 3"]:
        """Values of z where dg/dz jumps, rising."""
        return np.array([-self.gap, 0.0, self._last])

    @property
    def _last(self) -> float:
        return float(np.arcsinh((self.largest - self.least) / self.scale))

    @property
    def _last_slope(self) -> float:
        """dg/dz beyond `largest`."""
        return float(np.hypot(self.largest - self.least, self.scale))

    def bounds(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z of each target twice; of 0 all that lies below the threshold."""
        z = self.forward(y)
        return np.where(y > 0.0, z, -np.inf), z

    def spread(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return z of each target; of 0 the quantile u of half a normal as wide as what is seen."""
        z = self.forward(y)
        width = np.sqrt(np.mean(z**2))
        return np.where(y > 0.0, z, self.threshold + width * special.ndtri(0.5 * u))

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return h(y), at 0 the threshold."""
        y = np.maximum(np.asarray(y, np.float64), 0.0)
        seen = np.clip(y, self.least, self.largest) - self.least
        beyond = np.maximum(y - self.largest, 0.0) / self._last_slope
        below = self.gap * np.maximum(1.0 - y / self.least, 0.0)
        return np.arcsinh(seen / self.scale) + beyond - below

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return g(z), 0 below the threshold."""
        seen = self.least + self.scale * np.sinh(np.clip(z, 0.0, self._last))
        beyond = np.maximum(z - self._last, 0.0) * self._last_slope
        below = self.least * np.clip(-z / self.gap, 0.0, 1.0)
        return np.maximum(seen + beyond - below, 0.0)

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return dg/dz, 0 below the threshold."""
        seen = self.scale * np.cosh(np.clip(z, 0.0, self._last))
        below = np.where(z > self.threshold, self.least / self.gap, 0.0)
        return np.where(z < 0.0, below, np.where(z < self._last, seen, self._last_slope))

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` reads, for JSON."""
        names = ("kind", "least", "scale", "largest", "gap")
        stored = {name: getattr(self, name) for name in names}
        return stored if self.tendency is None else stored | self.tendency.to_dict()

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> CensoredArsinh:
        """Rebuild a map from `to_dict`; ValueError where it is none."""
        names = ("least", "scale", "largest", "gap")
        least, scale, largest, gap = numbers = [float(stored[name]) for name in names]
        if not all(1.0 / _LARGEST < number < _LARGEST for number in numbers):
            raise ValueError(f"the parts of a map of numbers >= 0 must be > 0, got {numbers}")
        if largest <= least:
            raise ValueError("the largest number of a map must be above its least")
        return cls(least, scale, largest, gap, Tendency.from_dict(stored))


def learnt_from_zero(
    x: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
) -> CensoredArsinh:
    """Learn the scale by the likelihood of rows left out, and where zeros lie by inputs.

    The likelihood is that of a tobit ridge, its Jacobian included.

    x
        Standardised inputs.
    """
    seen = y[y > 0.0]
    if not len(seen):
        return CensoredArsinh(1.0, 1.0, 3.0, 1.0).with_tendency(x, y, weight)
    median, n_seen = float(np.median(seen)), len(seen)
    least, largest = _BELOW_LEAST * float(seen.min()), float(seen.max())
    maps = []
    for scale in _SCALES:
        # As many rows lie between 0 and the median as above it: a gap has room for half a row.
        gap = float(np.arcsinh((median - least) / (scale * median))) / n_seen
        one = CensoredArsinh(least, scale * median, largest, gap)
        maps.append(one.with_tendency(x, y, weight))
    at = some_rows(*x.shape)
    ridge = Ridge.of(x[at], weight[at])
    scores = [_left_out_score(one, ridge, x[at], y[at], weight[at]) for one in maps]
    return maps[int(np.argmax(scores))]


def _left_out_score(
    map: CensoredArsinh,
    ridge: Ridge,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
) -> float:
    """Mean log density of numbers above 0, log probability of 0, by a ridge without the row.

    Errors are taken for Laplace's, as by `left_out_log_likelihood`.
    """
    z = map.encode(y[:, None], np.random.RandomState(0), x)
    errors = ridge.left_out_errors(z)[..., 0]
    scale = np.average(np.abs(errors), axis=1, weights=weight)[:, None]
    scale = np.maximum(scale, 1e-12 * np.abs(z).max())
    seen = map.log_slope(y) - np.log(2.0 * scale) - np.abs(errors) / scale
    t = (map.threshold - z[:, 0] + errors) / scale
    unseen = np.where(t < 0.0, t - np.log(2.0), np.log1p(-0.5 * np.exp(-np.maximum(t, 0.0))))
    each = np.where(y > 0.0, seen, unseen)
    return float(np.max(np.average(each, axis=1, weights=weight)))
