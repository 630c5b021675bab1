"""Kinds of targets: monotone maps from where a target can lie onto the whole line, and back.

A method learns the mapped target z = h(y) as it would any number; what it predicts of z is brought
back, so that no bound can leave the support. A map says of a target where it may lie (`check`),
h and its inverse g, and their slopes, elementwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.model.left_out import left_out_log_likelihood

NUMBERS, POSITIVE, SHARE, COUNT = "numbers", "positive", "share", "count"
KINDS = (NUMBERS, POSITIVE, SHARE, COUNT)
_TINY = float(np.finfo(np.float64).tiny)
_BELOW_ONE = 1.0 - float(np.finfo(np.float64).epsneg)
_FEW_ROWS = 20
_SCALES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03)
_LEAST_STEP, _LEAST_ROWS = 0.1, 5.0
_LARGEST_COUNT = 2.0**50


@dataclass(frozen=True, eq=False)
class TargetMap(ABC):
    """A monotone map h from a support onto the whole line, z = h(y), and its inverse y = g(z)."""

    kind: ClassVar[str]
    rule: ClassVar[str]
    remedy: ClassVar[str]
    support: ClassVar[tuple[float, float]]

    @classmethod
    def check(cls, y: np.ndarray) -> None:
        """Raise ValueError, naming the first row, unless all targets lie in the support."""
        is_good = cls.holds(y).reshape(len(y), -1).all(axis=1)
        if not is_good.all():
            row = int(np.argmin(is_good))
            got = float(np.ravel(y[row])[np.argmin(cls.holds(np.ravel(y[row])))])
            raise ValueError(
                f"y must hold {cls.rule} for target_kind={cls.kind!r}, got {got:g} in row {row}: "
                f"{cls.remedy}"
            )

    @classmethod
    @abstractmethod
    def holds(cls, y: np.ndarray) -> np.ndarray:
        """Whether each target lies in the support."""

    def encode(self, y: np.ndarray, rng: np.random.RandomState) -> np.ndarray:  # noqa: ARG002
        """Map targets that a method is to learn."""
        return self.forward(y)

    @abstractmethod
    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return h(y)."""

    @abstractmethod
    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return g(z)."""

    def observed(self, z: np.ndarray) -> np.ndarray:
        """Return the observation at z."""
        return self.inverse(z)

    @abstractmethod
    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Return log dh/dy, the log Jacobian of a density, at y."""

    @abstractmethod
    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return dg/dz at z, y per unit of z."""

    def limited(self, interval: Float[np.ndarray, "n ... 2"]) -> Float[np.ndarray, "n ... 2"]:
        """Bring the bounds of intervals of targets into the support."""
        return np.clip(interval, *self.support)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return what `map_from_dict` reads, for JSON."""


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
        "take 'numbers', for whole numbers 'count', or leave out rows that stand for no value"
    )
    support: ClassVar[tuple[float, float]] = (0.0, np.inf)

    @classmethod
    def holds(cls, y: np.ndarray) -> np.ndarray:
        """Whether each target is positive."""
        return y > 0.0

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

    def to_dict(self) -> dict[str, Any]:
        """Return what `map_from_dict` reads, for JSON."""
        return {"kind": self.kind, "scale": self.scale}


@dataclass(frozen=True, eq=False)
class Logit(TargetMap):
    """h(y) = log(y / (1 - y)); 0 < y < 1."""

    kind: ClassVar[str] = SHARE
    rule: ClassVar[str] = "numbers above 0 and below 1"
    remedy: ClassVar[str] = (
        "divide per cent by 100, move 0 and 1 inside by half the step of the measurement, or take "
        "'numbers'"
    )
    support: ClassVar[tuple[float, float]] = (0.0, 1.0)

    @classmethod
    def holds(cls, y: np.ndarray) -> np.ndarray:
        """Whether each target lies between 0 and 1."""
        return (y > 0.0) & (y < 1.0)

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return the log odds."""
        return special.logit(np.clip(y, _TINY, _BELOW_ONE))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return the share of log odds."""
        return np.clip(special.expit(z), _TINY, _BELOW_ONE)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Return -log y - log(1 - y)."""
        y = np.clip(y, _TINY, _BELOW_ONE)
        return -np.log(y) - np.log1p(-y)

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return y (1 - y) at y = g(z)."""
        return special.expit(z) * special.expit(-z)

    def to_dict(self) -> dict[str, Any]:
        """Return what `map_from_dict` reads, for JSON."""
        return {"kind": self.kind}


@dataclass(frozen=True, eq=False)
class CountScores(TargetMap):
    """Normal scores of counts k, each spread over (k - 1/2, k + 1/2); from -1/2 on.

    Between knots z is linear in log(t + 1/2). Below the first knot Phi(z) is linear in t and zero
    at -1/2; beyond the last z is linear in t, with the slope that it has there.

    Spreading makes a density of probabilities (jittering; Machado & Santos Silva 2005), and the
    expected log density of what is spread bounds the log probability from below (Theis, van den
    Oord & Bethge 2016, s. 3.1). Only the scores of half-integers matter to a probability.

    knots
        Half-integers, rising.
    scores
        Of the knots, rising: normal quantiles of the share of training targets below.
    """

    knots: Float[np.ndarray, " k"]
    scores: Float[np.ndarray, " k"]

    kind: ClassVar[str] = COUNT
    rule: ClassVar[str] = "whole numbers >= 0 (below 2^50)"
    remedy: ClassVar[str] = "take 'numbers', or 'positive' for numbers > 0"
    support: ClassVar[tuple[float, float]] = (0.0, np.inf)

    @classmethod
    def holds(cls, y: np.ndarray) -> np.ndarray:
        """Whether each target is a count."""
        return (y >= 0.0) & (y == np.floor(y)) & (y < _LARGEST_COUNT)

    def encode(self, y: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        """Map counts that are spread over their unit interval."""
        spread = y - 0.5 + np.clip(rng.random_sample(y.shape), 1e-9, 1.0 - 1e-9)
        return self.forward(spread)

    def limited(self, interval: Float[np.ndarray, "n ... 2"]) -> Float[np.ndarray, "n ... 2"]:
        """Bring the bounds of intervals to the outermost counts that they hold."""
        low, high = np.moveaxis(np.maximum(interval, 0.0), -1, 0)
        return np.stack([np.ceil(low), np.floor(high)], axis=-1)

    @property
    def _log_knots(self) -> np.ndarray:
        return np.log(self.knots + 0.5)

    @property
    def _last_slope(self) -> float:
        """dz/dt beyond the last knot."""
        rise = 1.0
        if len(self.knots) > 1:
            rise = float(np.diff(self.scores)[-1] / np.diff(self._log_knots)[-1])
        return rise / float(self.knots[-1] + 0.5)

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return the score of a place t >= -1/2; -inf at -1/2."""
        t = np.maximum(np.asarray(y, np.float64), -0.5)
        share = special.ndtr(self.scores[0]) * np.minimum((t + 0.5) / (self.knots[0] + 0.5), 1.0)
        z = np.interp(np.log(np.maximum(t + 0.5, 0.5)), self._log_knots, self.scores)
        z = z + self._last_slope * np.maximum(t - self.knots[-1], 0.0)
        return np.where(t < self.knots[0], special.ndtri(share), z)

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return the place of a score, above -1/2."""
        share = np.exp(special.log_ndtr(z) - special.log_ndtr(self.scores[0]))
        below = share * (self.knots[0] + 0.5) - 0.5
        t = np.exp(np.interp(z, self.scores, self._log_knots)) - 0.5
        t = t + np.maximum(z - self.scores[-1], 0.0) / self._last_slope
        return np.where(z < self.scores[0], below, t)

    def observed(self, z: np.ndarray) -> np.ndarray:
        """Return the count in whose unit interval g(z) lies."""
        return np.maximum(np.ceil(self.inverse(z) - 0.5), 0.0)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Return log dz/dt at places t."""
        return -np.log(np.maximum(self.inverse_slope(self.forward(y)), _TINY))

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return dt/dz."""
        log_density = -0.5 * z * z - 0.5 * np.log(2.0 * np.pi)
        below = np.exp(log_density - special.log_ndtr(self.scores[0])) * (self.knots[0] + 0.5)
        beyond = np.full(np.shape(z), 1.0 / self._last_slope)
        if len(self.knots) == 1:
            return np.where(z < self.scores[0], below, beyond)
        piece = np.clip(np.searchsorted(self.scores, z, side="right") - 1, 0, len(self.knots) - 2)
        rise = (np.diff(self._log_knots) / np.diff(self.scores))[piece]
        within = rise * (self.inverse(z) + 0.5)
        return np.select([z < self.scores[0], z < self.scores[-1]], [below, within], beyond)

    def to_dict(self) -> dict[str, Any]:
        """Return what `map_from_dict` reads, for JSON."""
        return {"kind": self.kind, "knots": self.knots.tolist(), "scores": self.scores.tolist()}


MAPS: dict[str, type[TargetMap]] = {
    POSITIVE: SoftplusInverse,
    SHARE: Logit,
    COUNT: CountScores,
}
"""The map of every kind that is not numbers as they are."""


def learnt_map(
    kind: str,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    weight: Float[np.ndarray, " n"] | None = None,
) -> TargetMap:
    """Learn the map of a kind from training rows; ValueError where a target leaves its support.

    x
        Standardised inputs, by which a ridge judges scales of `SoftplusInverse` on rows left out.
    weight
        Of each row; rows of weight 0 teach nothing.
    """
    MAPS[kind].check(y)
    if y.shape[1] != 1:
        raise ValueError(
            f"target_kind={kind!r} takes one target, got {y.shape[1]}: fit one model a target"
        )
    counted = np.ones(len(y), bool) if weight is None else weight > 0.0
    weight = np.ones(len(y)) if weight is None else weight
    x, y, weight = x[counted], y[counted, 0], weight[counted]
    if kind == POSITIVE:
        return _learnt_softplus(x, y, weight)
    return Logit() if kind == SHARE else _learnt_scores(y, weight)


def _learnt_softplus(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> SoftplusInverse:
    """Choose the scale by the left-out likelihood of a ridge, its Jacobian included."""
    largest = SoftplusInverse(3.0 * float(np.max(y)))
    if len(y) < _FEW_ROWS:
        return largest
    median = float(np.median(y))
    maps = [largest, *(SoftplusInverse(scale * median) for scale in _SCALES)]
    maps = [one for one in maps if one.scale <= largest.scale]
    z, log_slope = (
        np.stack([part(y) for part in parts], axis=1)
        for parts in ([one.forward for one in maps], [one.log_slope for one in maps])
    )
    scores = left_out_log_likelihood(x, z, weight)
    scores = scores + np.average(log_slope, axis=0, weights=weight)
    return maps[int(np.argmax(scores))]


def _learnt_scores(y: np.ndarray, weight: np.ndarray) -> CountScores:
    """Take knots that lie apart in score, each with rows enough between it and the last."""
    n = len(y)
    values, place = np.unique(y, return_inverse=True)
    n_below = np.cumsum(np.bincount(place, weights=weight)) * n / np.sum(weight)
    scores = special.ndtri(n_below / (n + 1.0))
    kept = [0]
    for k in range(1, len(values)):
        is_apart = scores[k] - scores[kept[-1]] >= _LEAST_STEP
        if is_apart and n_below[k] - n_below[kept[-1]] >= _LEAST_ROWS:
            kept.append(k)
    return CountScores(values[kept] + 0.5, scores[kept])


def map_from_dict(stored: dict[str, Any]) -> TargetMap:
    """Rebuild a map from `to_dict`; ValueError where it is none."""
    kind = stored["kind"]
    if kind == SHARE:
        return Logit()
    if kind == POSITIVE:
        scale = float(stored["scale"])
        if not 1e-300 < scale < 1e300:
            raise ValueError(f"the scale of positive targets must be > 0, got {scale!r}")
        return SoftplusInverse(scale)
    if kind != COUNT:
        raise ValueError(f"the target must be of kind {', '.join(MAPS)}, got {str(kind)[:40]!r}")
    knots, scores = (np.asarray(stored[name], np.float64) for name in ("knots", "scores"))
    if knots.ndim != 1 or knots.shape != scores.shape or not len(knots):
        raise ValueError("the knots and scores of counts must be as many")
    for name, column in (("knots", knots), ("scores", scores)):
        if not np.isfinite(column).all() or (np.diff(column) <= 0.0).any():
            raise ValueError(f"the {name} of counts must be finite and rise")
    if knots[0] < 0.5 or knots[-1] > 2.0 * _LARGEST_COUNT or np.abs(scores).max() > 30.0:
        raise ValueError("the knots of counts must be at least 1/2, their scores within 30")
    return CountScores(knots, scores)
