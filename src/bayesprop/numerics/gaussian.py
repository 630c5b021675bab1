"""Gaussians: density and moment matching; in natural form, products and quotients are sums."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesprop.numerics import LOG_2PI


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


class Joint(NamedTuple):
    """Gaussian vector: mean (..., k), covariance (..., k, k)."""

    m: Float[Array, "... k"]
    cov: Float[Array, "... k k"]


class Natural(NamedTuple):
    """exp(shift x - precision x² / 2), of numbers or vectors; a site may have precision < 0."""

    precision: Array
    shift: Array


def to_natural(q: Gaussian) -> Natural:
    """Turn means and variances into natural form."""
    return Natural(1.0 / q.v, q.m / q.v)


def from_natural(q: Natural) -> Gaussian:
    """Turn natural forms of numbers into means and variances, negative where improper."""
    return Gaussian(q.shift / q.precision, 1.0 / q.precision)


def natural_of_joint(q: Joint) -> Natural:
    """Turn vectors into natural form."""
    precision = jnp.linalg.inv(q.cov)
    return Natural(precision, jnp.einsum("...jk,...k->...j", precision, q.m))


def joint(q: Natural) -> Joint:
    """Invert by Cholesky: NaN where the precision is not positive definite."""
    half = jnp.linalg.cholesky(q.precision)
    eye = jnp.broadcast_to(jnp.eye(half.shape[-1]), half.shape)
    root = jax.lax.linalg.triangular_solve(half, eye, left_side=True, lower=True)
    cov = jnp.swapaxes(root, -1, -2) @ root
    return Joint(jnp.einsum("...jk,...k->...j", cov, q.shift), cov)


def site(match: Gaussian, rest: Natural, *, least: float = -jnp.inf) -> Natural:
    """Return what multiplies a cavity into the mean and, where allowed, the variance of a match.

    least
        The smallest precision that the site may have.
    """
    precision = jnp.maximum(1.0 / match.v - rest.precision, least)
    return Natural(precision, match.m * (rest.precision + precision) - rest.shift)
