"""Targets that are intervals of a latent number: where in them each row lies, by its inputs.

Of counts every target is one; of others those at a limit, which stand for all beyond it. Spending
and rain are 0 or above, shares 0, 1 or between; limits are those of detection, or of a scale that
is topped. A criterion that is fast to compute, for the units of a target too, are predictions of
held-out rows by a ridge regression.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
from jaxtyping import Float, Int
from scipy import special

from bayesprop.targets.bijectors import (
    CENSORED,
    LARGEST,
    NONNEGATIVE,
    SHARE,
    WHOLES,
    Arsinh,
    Identity,
    SoftplusInverse,
    TargetMap,
)

PRECISIONS = (1e-6, 1e-2, 1.0, 1e1, 1e2, 1e3, 1e4)
_MOST_ROWS, _MOST_COLUMNS = 2000, 500
_LENGTH, _LINE, _FAR = 3.0, 0.3, 5.0
_ROUNDS = 4
_LEAST_STD = 0.1
"""Of what a ridge leaves, in standard deviations of all."""
_TINY = float(np.finfo(np.float64).tiny)
_SCALES = (30.0, 10.0, 3.0, 1.0)
"""In medians of what is above 0; a log from nearer on has no bound on what is far above."""
_BELOW_LEAST = 0.9
_LEAST_OF_MOST = 0.1
"""Of a bound above: a smaller scale would put its threshold far from all that is below."""
FEW_ROWS, SHARE_OF_ROWS = 5, 0.02
"""Rows of one value, at least, that tell of a limit or of a bound there; and their share."""
OFTEN = 2.0
"""Times these rows that are enough for a guess: parts of the table are to have them, too."""
_RULES = {
    NONNEGATIVE: ("numbers >= 0", "take 'numbers', or leave out rows that stand for no value"),
    SHARE: (
        "numbers from 0 to {most}",
        "a share is of 1, or of 100 in per cent, the same in every row; take 'numbers' for others",
    ),
    CENSORED: (TargetMap.rule, TargetMap.remedy),
}
"""Where targets of a kind lie, and what to do where one does not."""


class LeftOut(NamedTuple):
    """Errors of rows by ridges without them, at the precision that has the least mean square."""

    precision: float
    errors: Float[np.ndarray, " n"]
    mean_square: float


class Ridge(NamedTuple):
    """Standardised inputs of weighted rows, decomposed once for every target and precision.

    The intercept has no prior.

    at
        Places of these rows in their table.
    """

    at: Int[np.ndarray, " n"]
    x: Float[np.ndarray, "n d"]
    weight: Float[np.ndarray, " n"]
    share: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " d"]
    root: Float[np.ndarray, "n 1"]
    basis: Float[np.ndarray, "n r"]
    size: Float[np.ndarray, " r"]
    axes: Float[np.ndarray, "r d"]

    @classmethod
    def of(cls, x: Float[np.ndarray, "n d"], weight: Float[np.ndarray, " n"]) -> Ridge:
        """Decompose the centred rows."""
        share, root = weight / np.sum(weight), np.sqrt(weight)[:, None]
        mean = share @ x
        parts = np.linalg.svd(root * (x - mean), full_matrices=False)
        return cls(np.arange(len(x)), x, weight, share, mean, root, *parts)

    @classmethod
    def of_some(cls, x: Float[np.ndarray, "n d"], weight: Float[np.ndarray, " n"]) -> Ridge:
        """Decompose rows evenly spaced, where there are too many to be fast."""
        at = evenly(len(x), _MOST_ROWS if x.shape[1] <= _MOST_COLUMNS else _MOST_COLUMNS)
        return cls.of(x[at], weight[at])._replace(at=at)

    def left_out_errors(self, z: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "p n k"]:
        """Error of every row by a ridge fitted without it, for each precision of the ridge.

        (z_i - f_i) / (1 - H_ii) with the hat matrix H of weighted rows (Allen 1974).
        """
        centred, square = self.root * (z - self.share @ z), self.size**2
        along, errors = self.basis.T @ centred, []
        for precision in PRECISIONS:
            shrink = square / (square + precision)
            predicted = self.basis @ (shrink[:, None] * along)
            leverage = (self.basis**2) @ shrink + self.share
            residual = (centred - predicted) / self.root
            errors.append(residual / np.maximum(1.0 - leverage, 1e-6)[:, None])
        return np.stack(errors)

    def left_out(self, z: Float[np.ndarray, " n"]) -> LeftOut:
        """Return the errors at the best precision."""
        errors = self.left_out_errors(z[:, None])[..., 0]
        mean_square = np.average(errors**2, axis=1, weights=self.weight)
        best = int(np.argmin(mean_square))
        return LeftOut(PRECISIONS[best], errors[best], float(mean_square[best]))

    def line(self, z: Float[np.ndarray, " n"], precision: float) -> tuple[np.ndarray, float]:
        """Return slopes and intercept for one target and precision."""
        mean = float(self.share @ z)
        along = self.basis.T @ (self.root[:, 0] * (z - mean))
        slopes = self.axes.T @ (along * self.size / (self.size**2 + precision))
        return slopes, mean - float(self.mean @ slopes)


def curves(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n n"]:
    """Return columns whose ridge is a kernel ridge: linear, and a curve much smoother than x.

    The squared exponential kernel of three times the distance of standardised rows, and a linear
    one; cubic in the rows.
    """
    near, d = np.clip(x, -_FAR, _FAR), max(x.shape[1], 1)
    inner = near @ near.T
    square = np.diag(inner)
    distance = np.maximum(square[:, None] + square - 2.0 * inner, 0.0)
    kernel = np.exp(-0.5 * distance / (_LENGTH**2 * d)) + _LINE * inner / d
    size, axes = np.linalg.eigh(kernel)
    return axes * np.sqrt(len(x) * np.maximum(size, 1e-9))


def evenly(n: int, most: int) -> np.ndarray:
    """Return places of rows, evenly spaced where there are more than `most`."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(int)


class Tendency(NamedTuple):
    """Ridge regression of scores: normal about `intercept` + x @ `slopes`, standardised x."""

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


class IntervalMap(TargetMap):
    """A map that takes some targets to an interval of scores instead of a point.

    Where in its interval a training target lies is drawn from what the inputs tell of it: data
    augmentation of a probit with known thresholds (Albert & Chib 1993), or of a tobit (Chib 1992),
    whose posterior is that of a ridge. Subclasses are dataclasses with a field `tendency`.
    """

    tendency: Tendency | None
    """Where scores lie, by the inputs. None: anywhere, evenly over what lies below."""

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


@dataclass(frozen=True, eq=False)
class CensoredMap(IntervalMap):
    """A map that takes targets at a limit beyond a threshold, and other targets to h.

    A latent number is seen where it is between thresholds, as Tobin's (1958; of two limits Rosett
    & Nelson 1975).

    kind
        NONNEGATIVE and SHARE have limits 0 and the whole, CENSORED others.
    map
        Of targets between the limits.
    low, high
        The limits; infinite where there is none.
    """

    kind: str
    map: TargetMap
    low: float
    high: float
    tendency: Tendency | None = None

    @property
    def rule(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Where targets lie."""
        return _RULES[self.kind][0]

    @property
    def remedy(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What to do where one does not."""
        return _RULES[self.kind][1]

    def holds(self, y: np.ndarray) -> np.ndarray:
        """Whether each target can be: a number beyond a limit of detection is seen as that."""
        return np.isfinite(y) if self.kind == CENSORED else (y >= self.low) & (y <= self.high)

    @property
    def support(self) -> tuple[float, float]:
        """Bounds of what is seen."""
        low, high = self.map.support
        return max(self.low, low), min(self.high, high)

    @property
    def thresholds(self) -> tuple[float, float]:
        """Value of z up to which y is the lower limit, and from which it is the upper, or inf."""
        low, high = (
            float(self.map.forward(np.array(end))) if np.isfinite(end) else end
            for end in (self.low, self.high)
        )
        return low, high

    @property
    def bends(self) -> Float[np.ndarray, " b"]:
        """Values of z where dg/dz jumps or turns, rising; -inf first without a lower limit."""
        low, high = self.thresholds
        within = self.map.bends[(self.map.bends > low) & (self.map.bends < high)]
        return np.array([low, *within, *([high] if np.isfinite(high) else [])])

    def bounds(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z of each target twice; of one at a limit all that lies beyond the threshold."""
        z = self.forward(y)
        return np.where(y > self.low, z, -np.inf), np.where(y < self.high, z, np.inf)

    def spread(self, y: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return z of each target; at a limit the quantile u of half a normal beyond."""
        z = self.forward(y)
        unit = np.std(z) if self.kind == CENSORED else np.sqrt(np.mean(z**2))
        away = unit * special.ndtri(0.5 * u)
        return z + np.where(y > self.low, 0.0, away) - np.where(y < self.high, 0.0, away)

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Return h(y), at a limit or beyond its threshold."""
        return self.map.forward(np.clip(np.asarray(y, np.float64), self.low, self.high))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Return g(z), a limit beyond its threshold."""
        return np.clip(self.map.inverse(z), self.low, self.high)

    def inverse_slope(self, z: np.ndarray) -> np.ndarray:
        """Return dg/dz, 0 beyond the thresholds."""
        low, high = self.thresholds
        return np.where((z <= low) | (z >= high), 0.0, self.map.inverse_slope(z))

    def validate(self) -> None:
        """Raise ValueError where kind, map and limits do not go together."""
        map, low, high = self.map, self.low, self.high
        if self.kind == CENSORED:
            is_right = low < high and (np.isfinite(low) or np.isfinite(high))
            if isinstance(map, SoftplusInverse):
                is_right &= high > 0.0 and (low > 0.0 or low == -np.inf)
            is_right &= isinstance(map, Identity | SoftplusInverse)
        else:
            wholes = {NONNEGATIVE: (np.inf,), SHARE: WHOLES}.get(self.kind, ())
            is_right = isinstance(map, Arsinh) and low == 0.0 and map.largest < high in wholes
        if not is_right:
            raise ValueError(f"no {self.kind} targets have limits {low:g}, {high:g} and a {map}")


def left_out_score(map: TargetMap, ridge: Ridge, y: Float[np.ndarray, " n"]) -> float:
    """Mean log density, of rows at a limit log probability, by a ridge without the row.

    Errors are taken for Laplace's of their mean absolute value, so that a few far rows do not
    decide; the ridge's precision is the best of a few.

    y
        Of the rows of the ridge.
    """
    z = map.encode(y[:, None], np.random.RandomState(0), ridge.x)
    errors, (low, high) = ridge.left_out_errors(z)[..., 0], map.bounds(y)
    scale = np.average(np.abs(errors), axis=1, weights=ridge.weight)[:, None]
    scale = np.maximum(scale, 1e-12 * np.maximum(np.abs(z).max(), 1e-290))
    predicted = z[:, 0] - errors
    densities = map.log_slope(y) - np.log(2.0 * scale) - np.abs(errors) / scale
    beyond = [_log_below((high - predicted) / scale), _log_below((predicted - low) / scale)]
    each = np.select([low == -np.inf, high == np.inf], beyond, densities)
    return float(np.max(np.average(each, axis=1, weights=ridge.weight)))


def are_many(rows: np.ndarray, times: float = 1.0) -> bool:
    """Whether as many rows have one value as a limit or a bound would give it, or so many times."""
    return int(np.sum(rows)) >= times * max(FEW_ROWS, SHARE_OF_ROWS * len(rows))


def zero_inflated(kind: str, most: float) -> CensoredMap:
    """Return a map of numbers from 0 to their maximum, without learnt parameters."""
    return CensoredMap(kind, Arsinh.of_unit(most if np.isfinite(most) else 1.0), 0.0, most)


def learn_from_zero(unlearnt: CensoredMap, ridge: Ridge, y: Float[np.ndarray, " n"]) -> CensoredMap:
    """Learn the scale by the likelihood of rows left out, and where the others lie by inputs.

    unlearnt
        Has the limits; what it is where all targets lie at one.
    """
    interior = y[(y > 0.0) & (y < unlearnt.high)]
    if not len(interior):
        return unlearnt.with_tendency(ridge, y)
    median, least = float(np.median(interior)), _BELOW_LEAST * float(interior.min())
    shortest = _LEAST_OF_MOST * unlearnt.high if np.isfinite(unlearnt.high) else 0.0
    maps, largest = [], float(interior.max())
    for scale in (max(ratio * median, shortest) for ratio in _SCALES):
        # As many rows lie between 0 and the median as above it: a gap has room for half a row.
        gap = float(np.arcsinh((median - least) / scale)) / len(interior)
        maps.append(replace(unlearnt, map=Arsinh(least, scale, largest, max(gap, 1.0 / LARGEST))))
    return _likeliest(maps, ridge, y)


def learn_limits(ridge: Ridge, y: Float[np.ndarray, " n"]) -> CensoredMap:
    """Learn which ends are limits, and a scale of numbers above 0; ValueError where none is."""
    least, most = float(np.min(y)), float(np.max(y))
    is_low, is_high = are_many(y == least), are_many(y == most)
    if least == most or not (is_low or is_high):
        needed = int(np.ceil(max(FEW_ROWS, SHARE_OF_ROWS * len(y))))
        raise ValueError(
            f"y must have its least or its largest value in {needed} rows or more for "
            f"target_kind={CENSORED!r}, as a censoring limit, got "
            f"{least:g} in {np.sum(y == least)} and {most:g} in {np.sum(y == most)}: take 'numbers'"
        )
    limits = least if is_low else -np.inf, most if is_high else np.inf
    scaled = SoftplusInverse.candidates(y) if least > 0.0 else [Identity()]
    return _likeliest([CensoredMap(CENSORED, one, *limits) for one in scaled], ridge, y)


def _likeliest(
    maps: Sequence[CensoredMap], ridge: Ridge, y: Float[np.ndarray, " n"]
) -> CensoredMap:
    """Learn where in each map rows at a limit lie; return the one likeliest by rows left out.

    The likelihood is that of a tobit ridge, its Jacobian included.
    """
    learnt = [one.with_tendency(ridge, y) for one in maps]
    return max(learnt, key=lambda one: left_out_score(one, ridge, y[ridge.at]))


def _log_below(t: np.ndarray) -> np.ndarray:
    """Return the log probability of less than t, of Laplace's standard distribution."""
    above = np.log1p(-0.5 * np.exp(-np.maximum(t, 0.0)))
    return np.where(t < 0.0, t - np.log(2.0), above)


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
