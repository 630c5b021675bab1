"""Gaussians in natural form, exp(shift x - precision x² / 2): products and quotients are sums."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesprop.numerics.gaussian import Gaussian


class Joint(NamedTuple):
    """Gaussian vector: mean (..., k), covariance (..., k, k)."""

    m: Float[Array, "... k"]
    cov: Float[Array, "... k k"]


class Natural(NamedTuple):
    """Precision and shift, of numbers or of vectors; a site's precision may be negative."""

    precision: Array
    shift: Array


def natural(q: Gaussian) -> Natural:
    """Turn means and variances into natural form."""
    return Natural(1.0 / q.v, q.m / q.v)


def gaussian(q: Natural) -> Gaussian:
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
