"""Sums of Gaussians, thousands at once: density, distribution, quantiles and CRPS.

What takes an error function for every Gaussian is compiled (`kernel_sums.py`), and loaded when it
is asked for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.numerics import LOG_2PI

_LANES = 8
_FURTHEST_LEVEL = 1e-7
_LEVELS_OF_CRPS = np.array([_FURTHEST_LEVEL, 0.25, 0.5, 0.75, 1.0 - _FURTHEST_LEVEL])


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


def log_density(parts: Components, y: Float[np.ndarray, "q n"]) -> Float[np.ndarray, "q n"]:
    """Log density of q numbers for every element."""
    z = (y[..., None] - parts.m) / parts.std
    with np.errstate(divide="ignore"):
        log_heights = np.log(parts.share / parts.std) - 0.5 * (LOG_2PI + z * z)
    largest = log_heights.max(axis=-1)
    return largest + np.log(np.exp(log_heights - largest[..., None]).sum(axis=-1))


def distribution(parts: Components, y: Float[np.ndarray, "q n"]) -> Float[np.ndarray, "q n"]:
    """Probability of no more than each of q numbers, for every element."""
    from bayesprop.numerics import kernel_sums

    below = np.empty(y.shape)
    kernel_sums.distribution(*parts.in_lanes(), np.array(y, order="C"), below)
    return below


def quantiles(parts: Components, levels: Float[np.ndarray, " q"]) -> Float[np.ndarray, "q n"]:
    """Return all levels of all elements."""
    from bayesprop.numerics import kernel_sums

    y = np.empty((len(levels), len(parts.m)))
    kernel_sums.quantiles(*parts.in_lanes(), np.array(levels), special.ndtri(levels), y)
    return y


def crps(
    parts: Components, y: Float[np.ndarray, "q n"], *, n_nodes: int
) -> Float[np.ndarray, "q n"]:
    """CRPS = E|x - y| - integral of F (1 - F), the first in closed form."""
    from bayesprop.numerics import kernel_sums

    z = (y[..., None] - parts.m) / parts.std
    density = np.exp(-0.5 * (LOG_2PI + z * z))
    distance = parts.std * (z * (2.0 * special.ndtr(z) - 1.0) + 2.0 * density)
    spread, z_levels = np.empty(len(parts.m)), special.ndtri(_LEVELS_OF_CRPS)
    arrays = *parts.in_lanes(), _LEVELS_OF_CRPS, z_levels
    kernel_sums.spread(*arrays, n_nodes, np.empty(len(z_levels)), spread)
    return np.sum(parts.share * distance, axis=-1) - spread
