"""Predictions of a target that was learnt through a monotone map, in the target's own unit.

The map is z = h(y), y = g(z) (`target_kinds`); `latent` is what a method predicts of z. Quantiles
go through g as they are; what takes an integral is summed from the distribution function of z.

The variance of y is exact, up to quadrature. Its parts are not: by the law of total variance
Var y = Var E[y | f] + E Var[y | f], for a Gaussian function f and Gaussian noise of the latent
variances; the shares that these have of their sum are the shares of the variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NoReturn

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.distributions.predictive import GaussianPredictive, Moments, Predictive
from bayesprop.targets.bijectors import TargetMap
from bayesprop.targets.counts import CountScores
from bayesprop.targets.limited import LimitedMap

_MOST_COUNTS, _COUNT_TAIL = 96, 1e-7
_LEAST_PROBABILITY = 1e-7
_LEAST_STD = 1e-3  # of a function, over which a slope is taken
_TINY = float(np.finfo(np.float64).tiny)
_ROUNDING = float(np.finfo(np.float64).eps)
_LEGENDRE = np.polynomial.legendre.leggauss(12)
_HERMITE, _weights = np.polynomial.hermite_e.hermegauss(12)
_HERMITE_WEIGHTS = _weights / np.sum(_weights)
_CELL_NODES, _CELL_WEIGHTS = np.polynomial.legendre.leggauss(4)
_GRID = np.linspace(-12.0, 12.0, 45)
_LEAST_TAIL = 1e-13  # of a probability: less is rounding, which a far slope would multiply


@dataclass(frozen=True, repr=False)
class TransformedPredictive(Predictive):
    """What `latent` says of z, said of y = g(z). Built by `transformed`."""

    latent: Predictive
    map: TargetMap

    def rescaled(
        self,
        shift: np.ndarray | float,  # noqa: ARG002
        scale: np.ndarray | float,  # noqa: ARG002
    ) -> NoReturn:
        """Refuse: a shift would leave the support."""
        raise TypeError(
            f"a prediction of target_kind={self.map.kind!r} keeps its unit and its support: draw "
            "from it with `sample`, and rescale the draws"
        )

    def limited(self, interval: Float[np.ndarray, "n ... 2"]) -> Float[np.ndarray, "n ... 2"]:
        """Bring the bounds of intervals into the support."""
        return self.map.limited(interval)

    @property
    def gap_share(self) -> Moments:
        """That of the variance of z."""
        return self.latent.gap_share

    @property
    def slope(self) -> Moments:
        """Derivative dy/dz at the mean of z: what a small change of the function does to y."""
        return self.map.inverse_slope(self.latent.mean)

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        return self.map.observed(self.latent.sample(rng, n))

    def _quantiles(self, levels: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "q ..."]:
        return self.map.observed(np.moveaxis(self.latent.quantile(levels.ravel()), -1, 0))


class ContinuousPredictive(TransformedPredictive):
    """A density of y: that of z times dz/dy."""

    @classmethod
    def of(cls, latent: Predictive, map: TargetMap) -> ContinuousPredictive:
        """Integrate mean and variance."""
        return cls(*_moments(latent, map), latent, map)

    def _log_prob(self, y: Moments) -> Moments:
        log_density = self.latent.log_prob(self.map.forward(y)) + self.map.log_slope(y)
        return np.where(self.map.holds(y), log_density, -np.inf)

    def _cdfs(self, y: np.ndarray) -> np.ndarray:
        low, high = self.map.support
        inside = self.latent.cdfs(self.map.forward(y))
        return np.where(y <= low, 0.0, np.where(y >= high, 1.0, inside))

    def _crps(self, y: Moments) -> Moments:
        """Integrate over z; what lies outside the support adds its distance."""
        inside = np.clip(y, *self.map.support)
        at = self.map.forward(inside)
        z, width = _cells(self.latent, self.map.bends, at)
        apart = self.latent.cdfs(z) - (z >= at)
        crps = np.sum(apart**2 * self.map.inverse_slope(z) * width, axis=0)
        return crps + np.abs(y - inside)


class CensoredPredictive(ContinuousPredictive):
    """A probability of 0, F(h(0)), or of another limit, and a density elsewhere, F of z.

    `log_prob` is that of a probability at a bound and of a density elsewhere.
    """

    map: LimitedMap

    @property
    def slope(self) -> Moments:
        """Mean derivative dg/df over the distribution of the function f: there are kinks in g."""
        var = np.maximum(self.latent.epistemic_var, _LEAST_STD**2 * self.latent.var)
        f = GaussianPredictive(self.latent.mean, var, np.zeros_like(var))
        z, width = _cells(f, self.map.bends)
        return np.sum(self.map.inverse_slope(z) * np.exp(f.log_prob(z)) * width, axis=0)

    def _log_prob(self, y: Moments) -> Moments:
        log_prob = super()._log_prob(y)
        for side, bound, end in zip(
            (-1.0, 1.0), self.map.support, self.map.thresholds, strict=True
        ):
            is_bound = (side * (y - bound) >= 0.0) & self.map.holds(y)
            if np.isfinite(end) and is_bound.any():
                log_prob = np.where(
                    is_bound, self._log_beyond(np.full(np.shape(y), end), side), log_prob
                )
        return log_prob

    def _log_beyond(self, end: Moments, side: float) -> Moments:
        """Return the log probability of z below (side -1) or above (1) a threshold."""
        below = self.latent.cdf(end)
        p = below if side < 0.0 else 1.0 - below
        is_exact = p > _LEAST_PROBABILITY
        log_p = np.log(np.where(is_exact, p, 1.0))
        if is_exact.all():
            return log_p
        low, high = np.sort([end, end + side * self.latent.std], axis=0)
        return np.where(is_exact, log_p, _log_between(self.latent, low, high))

    def _cdfs(self, y: np.ndarray) -> np.ndarray:
        low, high = self.map.support
        inside = self.latent.cdfs(self.map.forward(y))
        return np.where(y < low, 0.0, np.where(y >= high, 1.0, inside))

    def _below(self, y: Moments) -> Moments:
        low, high = self.map.support
        inside = self.latent.cdf(self.map.forward(y))
        return np.where(y <= low, 0.0, np.where(y > high, 1.0, inside))


class CountPredictive(TransformedPredictive):
    """Probabilities of 0, 1, 2, ...: P(k) = F(h(k + 1/2)) - F(h(k - 1/2)), F of z.

    `log_prob` is a log probability, quantiles are whole numbers, and `cdf` is a step function.
    """

    map: CountScores
    step: ClassVar[float] = 1.0

    @classmethod
    def of(cls, latent: Predictive, map: CountScores) -> CountPredictive:
        """Sum mean and variance."""
        zero = np.zeros(np.shape(latent.mean))
        bare = cls(zero, zero, zero, latent, map)
        counts = bare._counts(zero)
        above = 1.0 - bare._until(counts)
        mean = _sum(above, counts)
        # E (k - c)² = c² + sum over k of P(> k) (2 (k - c) + 1).
        var = mean**2 + _sum(above * (2.0 * (counts - mean) + 1.0), counts)
        return cls(mean, *_in_parts(latent, map, np.maximum(var, _TINY)), latent, map)

    @property
    def slope(self) -> Moments:
        """Slope of the line closest to y = g(f), over the distribution of the function f.

        By a heap g jumps, and its derivative at a point says nothing of how the function changes;
        for a Gaussian f the mean derivative is E (f - m) g(f) / Var f (Stein 1981).
        """
        mean, std = self.latent.mean, np.sqrt(self.latent.epistemic_var)
        std = np.maximum(std, _LEAST_STD)
        at = self.map.inverse(mean)
        away = std * _HERMITE[(slice(None),) + (None,) * np.ndim(mean)]
        rise = np.tensordot(_HERMITE_WEIGHTS, away * (self.map.inverse(mean + away) - at), 1)
        return rise / std**2

    def _until(self, k: np.ndarray) -> np.ndarray:
        """Probability of k or less, at whole numbers; k may have an axis more, in front."""
        z = self.map.forward(np.maximum(k, 0.0) + 0.5)
        return np.where(k < 0.0, 0.0, self.latent.cdf(z))

    def _log_prob(self, y: Moments) -> Moments:
        is_count = self.map.holds(y)
        k = np.where(is_count, y, 0.0)
        below, at = self._until(k - 1.0), self._until(k)
        is_exact = (at - below > _LEAST_PROBABILITY) | ((k == 0.0) & (at > 0.0))
        with np.errstate(divide="ignore"):
            log_prob = np.log(np.where(is_exact, at - below, 1.0))
        # Far in a tail the difference is rounding: an integral of the density takes its place.
        if not is_exact.all():
            log_prob = np.where(is_exact, log_prob, self._log_integral(k))
        return np.where(is_count, log_prob, -np.inf)

    def _log_integral(self, k: Moments) -> Moments:
        """Integrate the density of z over the interval of a count; of 0 over its last unit."""
        high = self.map.forward(k + 0.5)
        low = np.where(k == 0.0, high - 1.0, self.map.forward(np.maximum(k - 0.5, 0.0)))
        return _log_between(self.latent, low, high)

    def _cdfs(self, y: np.ndarray) -> np.ndarray:
        return self._until(np.floor(y))

    def _below(self, y: Moments) -> Moments:
        return self._until(np.ceil(y) - 1.0)

    def _crps(self, y: Moments) -> Moments:
        """Sum over k of (F(k) - 1{k >= y})² (Czado, Gneiting & Held 2009), linear between."""
        whole = np.maximum(np.floor(y), 0.0)
        counts = self._counts(whole)
        below = self._until(counts)
        crps = _sum(np.where(counts < whole, below, 1.0 - below) ** 2, counts)
        at = self._until(whole)
        return crps + np.maximum(y - whole, 0.0) * (2.0 * at - 1.0) + np.maximum(-y, 0.0)

    def _counts(self, y: Moments) -> Float[np.ndarray, "k ..."]:
        """Return counts to sum over, rising: all of a small range, some of a wide one, and y."""
        most = np.maximum(self.quantile(1.0 - _COUNT_TAIL) + 1.0, y + 1.0)
        largest = float(np.max(most, initial=0.0))
        ahead = (slice(None),) + (None,) * np.ndim(y)
        counts = np.arange(min(largest, _MOST_COUNTS) + 1.0)[ahead]
        if largest > _MOST_COUNTS:
            middle = self.quantile(0.5)
            unit = np.maximum(self.quantile(0.9) - self.quantile(0.1), 1.0) / 4.0
            low, high = np.arcsinh(-middle / unit), np.arcsinh((most - middle) / unit)
            t = low + (high - low) * np.linspace(0.0, 1.0, _MOST_COUNTS + 1)[ahead]
            some = np.rint(middle + unit * np.sinh(t))
            knots = np.floor(self.map.knots) if self.map.has_heaps else np.zeros(0)
            knots = np.broadcast_to(knots[ahead], (len(knots), *np.shape(y)))
            ends = np.concatenate([[np.zeros_like(y), y - 1.0, y, most], knots])
            some = np.concatenate([some, ends])
            every = np.concatenate([np.broadcast_to(counts, (len(counts), *y.shape)), 0.0 * ends])
            counts = np.where(most > _MOST_COUNTS, some, every)
        return np.sort(np.clip(counts, 0.0, most), axis=0)


def transformed(latent: Predictive, map: TargetMap) -> TransformedPredictive:
    """Say of y = g(z) what is said of z."""
    if isinstance(map, CountScores):
        return CountPredictive.of(latent, map)
    if isinstance(map, LimitedMap):
        return CensoredPredictive.of(latent, map)
    return ContinuousPredictive.of(latent, map)


def _sum(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Sum from the first count to the one before the last, linear between those that are given."""
    width, fall = np.diff(counts, axis=0), -np.diff(values, axis=0)
    mean = 0.5 * (values[1:] + values[:-1])
    return np.sum(np.where(width > 0.0, width * mean + 0.5 * fall, 0.0), axis=0)


def _cells(
    latent: Predictive, bends: Float[np.ndarray, " b"], also: Moments | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, (q, n[, o]), of a quadrature over z above the first bend.

    Between neighbours among the places where dg/dz jumps, `also`, and a grid that is dense about
    the mean, which it holds, and reaches far into the tails.
    """
    mean = latent.mean
    ahead = (slice(None),) + (None,) * np.ndim(mean)
    grid = mean + 0.5 * np.maximum(latent.std, _TINY) * np.sinh(_GRID)[ahead]
    own = bends[np.isfinite(bends)]
    own = np.broadcast_to(own[ahead], (len(own), *np.shape(mean)))
    edges = np.concatenate([own, grid] if also is None else [own, grid, also[None]])
    edges = np.sort(np.maximum(edges, bends[0]), axis=0)
    half = 0.5 * np.diff(edges, axis=0)
    middle = edges[:-1] + half
    z = np.concatenate([middle + node * half for node in _CELL_NODES])
    return z, np.concatenate([weight * half for weight in _CELL_WEIGHTS])


def _moments(latent: Predictive, map: TargetMap) -> tuple[Moments, Moments, Moments]:
    """Mean and parts of the variance of y = g(z), by its distribution about the middle c = g(m).

    With p = -F below c and 1 - F above it, E (y - c) is the integral of p over y, and E (y - c)²
    that of 2 (y - c) p: nothing cancels where a narrow distribution lies far from where y begins.
    """
    z, width = _cells(latent, map.bends)
    middle = np.maximum(latent.mean, map.bends[0])
    c, y = map.inverse(middle), map.inverse(z)
    p = np.where(z > middle, 1.0, 0.0) - latent.cdfs(z)
    p = np.where(np.abs(p) > _LEAST_TAIL, p, 0.0)
    mass = p * map.inverse_slope(z) * width
    shift = np.sum(mass, axis=0)
    var = 2.0 * np.sum((y - c) * mass, axis=0) - shift**2
    mean = c + shift
    least = np.square(_ROUNDING * mean) + _TINY  # of a share so near 1 that no other is a number
    return mean, *_in_parts(latent, map, np.maximum(var, least))


def _log_between(latent: Predictive, low: Moments, high: Moments) -> Moments:
    """Return the log probability of z between two values, from its density."""
    parts = [
        latent.log_prob(low + 0.5 * (node + 1.0) * (high - low)) + np.log(0.5 * weight)
        for node, weight in zip(*_LEGENDRE, strict=True)
    ]
    return special.logsumexp(parts, axis=0) + np.log(high - low)


def _in_parts(latent: Predictive, map: TargetMap, var: Moments) -> tuple[Moments, Moments]:
    """Divide a variance of y by the law of total variance under Gaussians of the latent parts."""
    ahead = (slice(None),) + (None,) * np.ndim(latent.mean)
    nodes = _HERMITE[ahead]
    f = latent.mean + np.sqrt(latent.epistemic_var) * nodes
    y = map.inverse(f[:, None] + np.sqrt(latent.noise_var) * nodes)
    weight = _HERMITE_WEIGHTS[ahead]
    mean_given_f, square_given_f = np.sum(weight * y, axis=1), np.sum(weight * y**2, axis=1)
    mean, square = np.sum(weight * mean_given_f, axis=0), np.sum(weight * square_given_f, axis=0)
    epistemic, total = np.sum(weight * (mean_given_f - mean) ** 2, axis=0), square - mean**2
    share = np.divide(epistemic, total, out=np.zeros_like(total), where=total > 0.0)
    share = np.where(share > _ROUNDING, np.minimum(share, 1.0), 0.0)
    return share * var, (1.0 - share) * var
