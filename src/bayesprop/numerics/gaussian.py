"""Gaussians in mean and variance: density, and moment matching from the derivatives of log Z."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

LOG_2PI = 1.8378770664093453


class Gaussian(NamedTuple):
    """Means and variances of independent Gaussians."""

    m: Float[Array, "..."]
    v: Float[Array, "..."]


def log_pdf(
    y: Float[Array, "..."], m: Float[Array, "..."], v: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Log density of N(m, v) at y, nats."""
    return -0.5 * (LOG_2PI + jnp.log(v) + (y - m) ** 2 / v)


def log_cdf(z: Float[Array, "..."]) -> Float[Array, "..."]:
    """Log Phi(z), nats; the default three terms of the tail leave an error of 4e-9 at -20."""
    return jax.scipy.special.log_ndtr(z, 10)


def match_moments(
    q: Gaussian, dlogz_dm: Float[Array, "..."], dlogz_dv: Float[Array, "..."]
) -> Gaussian:
    """Mean and variance of f(w) N(w | m, v) / Z, exactly, from the derivatives of log Z.

    m + v dlogZ/dm and v - v² [(dlogZ/dm)² - 2 dlogZ/dv] (Minka 2001, eq. 5.12-5.13;
    Hernández-Lobato & Adams 2015, eq. 6-7).
    """
    return Gaussian(
        q.m + q.v * dlogz_dm,
        q.v - q.v**2 * (dlogz_dm**2 - 2.0 * dlogz_dv),
    )
