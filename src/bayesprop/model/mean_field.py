"""A posterior of independent Gaussians over any pytree of weights, kept as (m, rho).

`rho` is the inverse softplus of the standard deviation: std = log(1 + exp(rho)), never negative
(Blundell et al. 2015, section 3.2).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesprop.model.priors import ClosedPrior, Prior
from bayesprop.numerics.gaussian import Gaussian, log_pdf
from bayesprop.numerics.softplus import softplus


class MeanField(NamedTuple):
    """Means and inverse-softplus standard deviations, two pytrees of one structure."""

    m: Any
    rho: Any


def rho_of(std: float) -> float:
    """Inverse softplus of a standard deviation."""
    if not std > 0.0:
        raise ValueError(f"std must be > 0, got {std!r}")
    return float(np.log(np.expm1(std))) if std < 30.0 else std


def from_weights(weights: Any, *, std: float) -> MeanField:
    """Start a posterior at the given weights, with one standard deviation for all."""
    rho = rho_of(std)
    return MeanField(weights, jax.tree.map(lambda w: jnp.full_like(w, rho), weights))


def stds(q: MeanField) -> Any:
    """Return the standard deviation of every weight."""
    return jax.tree.map(softplus, q.rho)


def variances(q: MeanField) -> Any:
    """Return the variance of every weight."""
    return jax.tree.map(lambda rho: softplus(rho) ** 2, q.rho)


def draw(key: Array, q: MeanField) -> Any:
    """Draw all weights once: w = m + softplus(rho) e (Blundell et al. 2015, section 3.2)."""
    leaves, structure = jax.tree.flatten(q.m)
    keys = structure.unflatten(jax.random.split(key, len(leaves)))

    def one(key: Array, m: Array, rho: Array) -> Array:
        return m + softplus(rho) * jax.random.normal(key, m.shape, m.dtype)

    return jax.tree.map(one, keys, q.m, q.rho)


def log_prob(q: MeanField, weights: Any) -> Float[Array, ""]:
    """Log q(weights), summed, nats."""

    def one(w: Array, m: Array, rho: Array) -> Array:
        return jnp.sum(log_pdf(w, m, softplus(rho) ** 2))

    return _total(jax.tree.map(one, weights, q.m, q.rho))


def log_prior(prior: Prior, weights: Any) -> Float[Array, ""]:
    """Log p(weights), summed, nats."""
    return _total(jax.tree.map(lambda w: jnp.sum(prior.log_prob(w)), weights))


def kl(prior: ClosedPrior, q: MeanField) -> Float[Array, ""]:
    """KL(q || prior) in closed form, summed over all weights, nats."""
    return _total(
        jax.tree.map(lambda m, rho: prior.kl(Gaussian(m, softplus(rho) ** 2)), q.m, q.rho)
    )


def sampled_kl(prior: Prior, q: MeanField, weights: Any) -> Float[Array, ""]:
    """Log q(w) - log p(w) at a draw: unbiased for the KL (Blundell et al. 2015, eq. 2)."""
    return log_prob(q, weights) - log_prior(prior, weights)


def _total(tree: Any) -> Float[Array, ""]:
    return jnp.sum(jnp.stack(jax.tree.leaves(tree)))
