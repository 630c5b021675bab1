"""Predictions that are sums of Gaussians: of draws of the weights, or members of an ensemble.

What takes an error function for every Gaussian is compiled (`simd/mixtures.py`), and loaded when it
is asked for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.model.predictive import (
    BY_MEMBER,
    IN_Y,
    IN_Y_SQUARED,
    Function,
    Moments,
    Predictive,
    expected_of_gaussians,
)

Draws = Float[np.ndarray, "s n"] | Float[np.ndarray, "s n o"]
_LOG_2PI = float(np.log(2.0 * np.pi))
_LANES = 8
_FURTHEST_LEVEL = 1e-7
_LEVELS_OF_CRPS = np.array([_FURTHEST_LEVEL, 0.25, 0.5, 0.75, 1.0 - _FURTHEST_LEVEL])
_FURTHEST = 1e150  # whose square is a number
_MOST_COMPONENTS = 2**17
"""Of all elements that are held at a time: a megabyte an array."""


class Components(NamedTuple):
    """Gaussians of some elements, (n, c); shares sum to 1 over the last axis."""

    share: Float[np.ndarray, "n c"]
    m: Float[np.ndarray, "n c"]
    std: Float[np.ndarray, "n c"]

    def in_lanes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return shares, means and inverse standard deviations as compiled code takes them."""
        more = ((0, 0), (0, -self.m.shape[1] % _LANES))
        parts = ((self.share, 0.0), (self.m, 0.0), (1.0 / self.std, 1.0))
        share, m, precision = (
            np.pad(part, more, constant_values=filler).ravel() for part, filler in parts
        )
        return share, m, precision


@dataclass(frozen=True)
class SummedGaussians(Predictive):
    """A sum of Gaussians for every element (row, or output of a row); the base of mixtures."""

    @property
    @abstractmethod
    def n_components(self) -> int:
        """Number of Gaussians of an element."""

    @abstractmethod
    def components(self, at: slice) -> Components:
        """Return the Gaussians of some elements, of which outputs of one row are neighbours."""

    def expected(self, function: Function) -> Moments:
        """Return E function(y) by the rule of Gauss and Hermite, summed over all Gaussians."""

        def of_parts(parts: Components, _y: np.ndarray) -> np.ndarray:
            values = expected_of_gaussians(function, parts.m, parts.std)
            return np.sum(parts.share * values, axis=1)[None]

        return self.elementwise(of_parts, self.mean)

    def elementwise(
        self, function: Callable[[Components, np.ndarray], np.ndarray], values: np.ndarray
    ) -> np.ndarray:
        """Apply a function of components and numbers to all elements, in bounded chunks.

        values
            (..., n) or (..., n, o): all of one element are taken with its components.
        """
        if not np.size(values):
            return np.empty(np.shape(values))
        flat = np.reshape(values, (-1, self.mean.size))
        result = np.empty(flat.shape)
        for at in self._pieces():
            result[:, at] = function(self.components(at), flat[:, at])
        return result.reshape(np.shape(values))

    def _log_prob(self, y: Moments) -> Moments:
        inside = self.elementwise(log_density, np.clip(y, -_FURTHEST, _FURTHEST))
        return np.where(np.isinf(y), -np.inf, inside)

    def _cdfs(self, y: np.ndarray) -> np.ndarray:
        return np.clip(self.elementwise(distribution, y), 0.0, 1.0)

    def _quantile(self, level: float) -> Moments:
        return self._quantiles(np.array([level]))[0]

    def _quantiles(self, levels: Float[np.ndarray, " q"]) -> Float[np.ndarray, "q ..."]:
        y = np.empty((len(levels), self.mean.size))
        for at in self._pieces():
            y[:, at] = quantiles(self.components(at), levels)
        return y.reshape(len(levels), *self.mean.shape)

    def _pieces(self) -> Iterator[slice]:
        """Divide the elements."""
        room = max(1, _MOST_COMPONENTS // self.n_components)
        for first in range(0, self.mean.size, room):
            yield slice(first, first + room)


@dataclass(frozen=True)
class MixturePredictive(SummedGaussians):
    """Equal shares of N(means[s], noise_vars[s]), one a draw of the weights or a member s.

    Built by `of`. The variance of the means over s is the epistemic one.

    means, noise_vars
        In y and y²; (s, n) or (s, n, o).
    """

    means: Draws = field(metadata=BY_MEMBER | IN_Y)
    noise_vars: Draws = field(metadata=BY_MEMBER | IN_Y_SQUARED)

    @classmethod
    def of(cls, means: Draws, noise_vars: Draws) -> Self:
        """Build it from what every draw predicts."""
        noise_vars = np.broadcast_to(noise_vars, means.shape)
        mean = means.mean(axis=0)
        return cls(mean, means.var(axis=0), noise_vars.mean(axis=0), means, noise_vars)

    def of_some_members(self, n: int) -> Self:
        """Hear n members on every row, in turns."""
        heard = members_in_turns(n, self.means)
        return self if heard is None else self.of(heard(self.means), heard(self.noise_vars))

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        chosen = rng.integers(len(self.means), size=(n, *self.mean.shape))
        m = np.take_along_axis(self.means, chosen, axis=0)
        v = np.take_along_axis(self.noise_vars, chosen, axis=0)
        return m + np.sqrt(v) * rng.standard_normal(m.shape)

    @property
    def n_components(self) -> int:
        """One a draw of the weights or a member."""
        return len(self.means)

    def components(self, at: slice) -> Components:
        """Return equal shares."""
        m, var = (a.reshape(len(a), -1)[:, at].T for a in (self.means, self.noise_vars))
        return Components(np.full(m.shape, 1.0 / len(self.means)), m, np.sqrt(var))

    def _crps(self, y: Moments) -> Moments:
        """E|x - y| - E|x - x'| / 2 in closed form (Grimit et al. 2006); s² terms a row."""
        distance = _mean_abs(self.means - y, self.noise_vars).mean(axis=0)
        spread = np.zeros_like(distance)
        for m, v in zip(self.means, self.noise_vars, strict=True):
            spread += _mean_abs(self.means - m, self.noise_vars + v).mean(axis=0)
        return distance - 0.5 * spread / len(self.means)


def log_density(parts: Components, y: Float[np.ndarray, "q n"]) -> Float[np.ndarray, "q n"]:
    """Log density of q numbers for every element."""
    z = (y[..., None] - parts.m) / parts.std
    with np.errstate(divide="ignore"):
        log_heights = np.log(parts.share / parts.std) - 0.5 * (_LOG_2PI + z * z)
    largest = log_heights.max(axis=-1)
    return largest + np.log(np.exp(log_heights - largest[..., None]).sum(axis=-1))


def distribution(parts: Components, y: Float[np.ndarray, "q n"]) -> Float[np.ndarray, "q n"]:
    """Probability of no more than each of q numbers, for every element."""
    from bayesprop.simd import mixtures

    below = np.empty(y.shape)
    mixtures.distribution(*parts.in_lanes(), np.array(y, order="C"), below)
    return np.where(np.isnan(y), np.nan, below)


def quantiles(parts: Components, levels: Float[np.ndarray, " q"]) -> Float[np.ndarray, "q n"]:
    """Return all levels of all elements."""
    from bayesprop.simd import mixtures

    y = np.empty((len(levels), len(parts.m)))
    mixtures.quantiles(*parts.in_lanes(), np.array(levels), special.ndtri(levels), y)
    return y


def crps(
    parts: Components, y: Float[np.ndarray, "q n"], *, n_nodes: int
) -> Float[np.ndarray, "q n"]:
    """CRPS = E|x - y| - integral of F (1 - F), the first in closed form."""
    from bayesprop.simd import mixtures

    z = (y[..., None] - parts.m) / parts.std
    density = np.exp(-0.5 * (_LOG_2PI + z * z))
    distance = parts.std * (z * (2.0 * special.ndtr(z) - 1.0) + 2.0 * density)
    spread, z_levels = np.empty(len(parts.m)), special.ndtri(_LEVELS_OF_CRPS)
    arrays = *parts.in_lanes(), _LEVELS_OF_CRPS, z_levels
    mixtures.spread(*arrays, n_nodes, np.empty(len(z_levels)), spread)
    return np.sum(parts.share * distance, axis=-1) - spread


def members_in_turns(n: int, of: Draws) -> Callable[[Draws], Draws] | None:
    """Return what keeps n members of every row, evenly spaced, others in the next row.

    None where there are no more than n.
    """
    k, n_rows = of.shape[:2]
    if k <= n:
        return None
    heard = (np.arange(n)[:, None] * k // n + np.arange(n_rows)) % k
    return lambda values: values[heard, np.arange(n_rows)]


def _mean_abs(m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """E|x| of x ~ N(m, v)."""
    std = np.sqrt(v)
    z = m / std
    return m * (2.0 * special.ndtr(z) - 1.0) + 2.0 * std * np.exp(-0.5 * (_LOG_2PI + z * z))
