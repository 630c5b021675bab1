"""Predictions of a target that was learnt through a monotone map, in the target's own unit.

The map is z = h(y), y = g(z) (`targets/bijectors.py`); `latent` is the prediction of z. A target
that is seen where z lies in an interval, as a count or a limit is, has the probability of that
interval, others a density. Quantiles go through g as they are; integrals over y are sums over the
distribution function of z.

The variance of y is exact, up to quadrature. Its parts are not: by the law of total variance
Var y = Var E[y | f] + E Var[y | f], for a Gaussian function f and Gaussian noise of the latent
variances; the shares that these have of their sum are the shares of the variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Self

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.distributions.predictive import GaussianPredictive, Moments, Predictive
from bayesprop.targets.bijectors import TargetMap

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


class _Places(NamedTuple):
    """Values of y, (q, n[, o]), the probability of no more, and a length: a sum is an integral."""

    y: np.ndarray
    below: np.ndarray
    width: np.ndarray


@dataclass(frozen=True, repr=False)
class TransformedPredictive(Predictive):
    """The predictive distribution `latent` of z in units of y = g(z). Built by `of`."""

    latent: Predictive
    map: TargetMap

    @classmethod
    def of(cls, latent: Predictive, map: TargetMap) -> Self:
        """Integrate mean and variance.

        About the middle c = g(m) and with p = -F below c and 1 - F above it, E (y - c) is the
        integral of p over y, and E (y - c)² that of 2 (y - c) p: nothing cancels where a narrow
        distribution lies far from where y begins.
        """
        zero = np.zeros(np.shape(latent.mean))
        bare = cls(zero, zero, zero, latent, map)
        c = map.observed(np.maximum(latent.mean, map.bends[0]))
        at = bare._places(c)
        p = np.where(at.y > c, 1.0, 0.0) - at.below
        mass = np.where(np.abs(p) > _LEAST_TAIL, p, 0.0) * at.width
        shift = np.sum(mass, axis=0)
        var = 2.0 * np.sum((at.y - c) * mass, axis=0) - shift**2
        mean = c + shift
        least = np.square(_ROUNDING * mean) + _TINY  # of a share so near 1 that no other is
        var, share = np.maximum(var, least), _epistemic_share(latent, map)
        return cls(mean, share * var, (1.0 - share) * var, latent, map)

    @property
    def step(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Distance of neighbouring values: 1 for counts, 0 where values lie densely."""
        return self.map.step

    def rescaled(self, *_: object, **__: object) -> NoReturn:
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
    def group_share(self) -> Moments:
        """That of the variance of z."""
        return self.latent.group_share

    @property
    def group_var(self) -> Moments:
        """Share of the variance of a new observation, in y²."""
        return self.group_share * self.var

    @property
    def slope(self) -> Moments:
        """Mean derivative dg/df over the distribution of the function f; there are kinks in g."""
        var = np.maximum(self.latent.epistemic_var, _LEAST_STD**2 * self.latent.var)
        f = GaussianPredictive(self.latent.mean, var, np.zeros_like(var))
        z, width = _cells(f, self.map.bends)
        return np.sum(self.map.inverse_slope(z) * np.exp(f.log_prob(z)) * width, axis=0)

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        return self.map.observed(self.latent.sample(rng, n))

    def _quantiles(self, levels: Float[np.ndarray, "q ..."]) -> Float[np.ndarray, "q ..."]:
        return self.map.observed(np.moveaxis(self.latent.quantile(levels.ravel()), -1, 0))

    def _cdfs(self, y: np.ndarray) -> np.ndarray:
        least, most = self.map.support
        _, high = self.map.bounds(np.floor(y) if self.step else y)
        return np.where(y < least, 0.0, np.where(y >= most, 1.0, self.latent.cdfs(high)))

    def _below(self, y: Moments) -> Moments:
        least, most = self.map.support
        low, _ = self.map.bounds(np.ceil(y) if self.step else y)
        return np.where(y <= least, 0.0, np.where(y > most, 1.0, self.latent.cdf(low)))

    def _log_prob(self, y: Moments) -> Moments:
        holds = self.map.holds(y)
        inside = np.where(holds, y, 0.0)
        low, high = self.map.bounds(inside)
        is_point, log_prob = low == high, np.full(np.shape(y), -np.inf)
        if is_point.any():
            z = np.where(is_point, low, self.latent.mean)
            log_prob = self.latent.log_prob(z) + self.map.log_slope(inside)
        if not is_point.all():
            z = self.latent.mean
            low, high = (np.where(is_point, z + side, end) for side, end in ((-1, low), (1, high)))
            log_prob = np.where(is_point, log_prob, self._log_mass(low, high))
        return np.where(holds, log_prob, -np.inf)

    def _log_mass(self, low: Moments, high: Moments) -> Moments:
        """Return the log probability of z between two values.

        Far in a tail a difference is rounding: an integral of the density takes its place, where
        there is no other end over one standard deviation.
        """
        mass = self.latent.cdf(high) - self.latent.cdf(low)
        is_exact = (mass > _LEAST_PROBABILITY) | ((low == -np.inf) & (mass > 0.0))
        log_mass = np.log(np.where(is_exact, mass, 1.0))
        if is_exact.all():
            return log_mass
        std = self.latent.std
        low = np.where(np.isfinite(low), low, high - std)
        high = np.where(np.isfinite(high), high, low + std)
        parts = [
            self.latent.log_prob(low + 0.5 * (node + 1.0) * (high - low)) + np.log(0.5 * weight)
            for node, weight in zip(*_LEGENDRE, strict=True)
        ]
        integral = special.logsumexp(parts, axis=0) + np.log(high - low)
        return np.where(is_exact, log_mass, integral)

    def _crps(self, y: Moments) -> Moments:
        """Integral of (F(t) - 1{t >= y})² (Gneiting & Raftery 2007); of counts linear between."""
        inside = np.clip(np.floor(y) if self.step else y, *self.map.support)
        at = self._places(inside)
        crps = np.sum((at.below - (at.y > inside)) ** 2 * at.width, axis=0)
        slope = 2.0 * self._cdf(inside) - 1.0
        return crps + np.maximum(y - inside, 0.0) * slope + np.maximum(inside - y, 0.0)

    def _places(self, y: Moments) -> _Places:
        """Return places of a quadrature over all values, none of whose parts lies about y."""
        if not self.step:
            z, width = _cells(self.latent, self.map.bends, self.map.forward(y))
            width = self.map.inverse_slope(z) * width
            return _Places(self.map.inverse(z), self.latent.cdfs(z), width)
        counts = self._counts(y)
        # A sum to the count before the last, linear between those that are given.
        apart = np.diff(counts, axis=0)
        before, after = (np.where(apart > 0.0, 0.5 * (apart + side), 0.0) for side in (1.0, -1.0))
        ends = np.zeros((1, *np.shape(y)))
        width = np.concatenate([before, ends]) + np.concatenate([ends, after])
        return _Places(counts + 0.5, self._cdfs(counts), width)

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
            jumps = self.map.jumps
            jumps = np.broadcast_to(jumps[ahead], (len(jumps), *np.shape(y)))
            ends = np.concatenate([[np.zeros_like(y), y - 1.0, y, most], jumps])
            some = np.concatenate([some, ends])
            every = np.concatenate([np.broadcast_to(counts, (len(counts), *y.shape)), 0.0 * ends])
            counts = np.where(most > _MOST_COUNTS, some, every)
        return np.sort(np.clip(counts, 0.0, most), axis=0)


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


def _epistemic_share(latent: Predictive, map: TargetMap) -> Moments:
    """Return the share of Var y by the law of total variance under Gaussians of latent parts."""
    ahead = (slice(None),) + (None,) * np.ndim(latent.mean)
    nodes = _HERMITE[ahead]
    f = latent.mean + np.sqrt(latent.epistemic_var) * nodes
    y = map.inverse(f[:, None] + np.sqrt(latent.noise_var) * nodes)
    weight = _HERMITE_WEIGHTS[ahead]
    mean_given_f, square_given_f = np.sum(weight * y, axis=1), np.sum(weight * y**2, axis=1)
    mean, square = np.sum(weight * mean_given_f, axis=0), np.sum(weight * square_given_f, axis=0)
    epistemic, total = np.sum(weight * (mean_given_f - mean) ** 2, axis=0), square - mean**2
    share = np.divide(epistemic, total, out=np.zeros_like(total), where=total > 0.0)
    return np.where(share > _ROUNDING, np.minimum(share, 1.0), 0.0)
