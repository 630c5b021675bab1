"""Gamma distributions over a precision: moment matching against a Gaussian factor."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float


class Gamma(NamedTuple):
    """Shapes and rates; the mean precision is shape / rate."""

    shape: Float[Array, "..."]
    rate: Float[Array, "..."]


def expected_variance(q: Gamma) -> Float[Array, "..."]:
    """E[1 / precision]; infinite in truth, negative here, for a shape at or below 1."""
    return q.rate / (q.shape - 1.0)


def match_moments(q: Gamma, v: Float[Array, "..."], resid: Float[Array, "..."]) -> Gamma:
    """Absorb N(resid | 0, v + 1/precision) into a Gamma by its first two moments.

    Hernández-Lobato & Adams (2015), eq. 9-10, with Z, Z1, Z2 approximated by eq. 11-12: Gaussians
    of variance v + rate / (shape - 1), v + rate / shape and v + rate / (shape + 1). Written in
    differences, because the textbook form subtracts numbers that agree to all digits once the
    shape is large.
    """
    shape, rate = q
    v_0 = v + rate / (shape - 1.0)
    v_1 = v + rate / shape
    v_2 = v + rate / (shape + 1.0)
    gap_01 = rate / (shape * (shape - 1.0))
    gap_12 = rate / (shape * (shape + 1.0))
    resid_sq = resid * resid
    log_ratio_1 = -0.5 * (jnp.log1p(-gap_01 / v_0) + resid_sq * gap_01 / (v_0 * v_1))
    log_ratio_2 = -0.5 * (jnp.log1p(-gap_12 / v_1) + resid_sq * gap_12 / (v_1 * v_2))
    new_shape = 1.0 / jnp.expm1(log_ratio_2 - log_ratio_1 + jnp.log1p(1.0 / shape))
    return Gamma(new_shape, new_shape * rate / (shape * jnp.exp(log_ratio_1)))


def log_partition(q: Gamma) -> Float[Array, "..."]:
    """Log normaliser of x^(shape - 1) exp(-rate x), nats."""
    return gammaln(q.shape) - q.shape * jnp.log(q.rate)
