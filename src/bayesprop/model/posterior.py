"""The joint log density of a network's weights, its noise and their scales, for samplers.

The model is that of probabilistic backpropagation (Hernández-Lobato & Adams 2015, eq. 1-4): weights
N(0, 1/lambda) beside scaled layers, lambda ~ Gamma(6, 6), noise precision gamma ~ Gamma(6, 6).
Precisions are held as logarithms, so that every parameter is a real number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesprop.model.method import Apply
from bayesprop.model.network_likelihoods import LearnedNoise, NetworkLikelihood
from bayesprop.numerics.gaussian import LOG_2PI
from bayesprop.numerics.loops import Batch, Rows

SHAPE = RATE = 6.0
"""Of both Gamma hyper-priors (section 2.1): six prior observations of variance one."""


class Position(NamedTuple):
    """Everything unknown.

    weights
        Parameters of the network, any pytree.
    log_precision
        Log of the weights' prior precision lambda.
    likelihood
        The likelihood's own parameters: for learnt noise minus the log precision of every target.
    """

    weights: Any
    log_precision: Float[Array, ""]
    likelihood: Any


@dataclass(frozen=True)
class PosteriorModel:
    """Network, likelihood and prior; hashable, so that it keys compilation.

    apply
        (weights, one input) -> outputs.
    weight_precision
        lambda; None: unknown, with the Gamma hyper-prior.
    """

    apply: Apply
    likelihood: NetworkLikelihood
    weight_precision: float | None = None


def log_gamma_prior(log_precision: Float[Array, "..."]) -> Float[Array, "..."]:
    """Log density of log p for p ~ Gamma(6, 6): the Jacobian p is part of it."""
    log_norm = SHAPE * jnp.log(RATE) - jax.scipy.special.gammaln(SHAPE)
    return log_norm + SHAPE * log_precision - RATE * jnp.exp(log_precision)


def log_prior(model: PosteriorModel, position: Position) -> Float[Array, ""]:
    """Log p(weights, log lambda, noise), nats; a known lambda is taken as it is."""
    leaves = jax.tree.leaves(position.weights)
    n_weights = sum(leaf.size for leaf in leaves)
    squares = sum((jnp.sum(leaf**2) for leaf in leaves), start=jnp.zeros(()))
    known = model.weight_precision
    log_lambda = position.log_precision if known is None else jnp.log(known)
    of_weights = 0.5 * (n_weights * (log_lambda - LOG_2PI) - jnp.exp(log_lambda) * squares)
    # A coordinate that nothing depends on still needs a density that can be normalised.
    total = of_weights + log_gamma_prior(position.log_precision)
    if isinstance(model.likelihood, LearnedNoise):
        total = total + jnp.sum(log_gamma_prior(-position.likelihood))
    return total


def log_likelihood(model: PosteriorModel, position: Position, rows: Rows) -> Float[Array, ""]:
    """Sum over rows of weight * log p(y | x, position), nats."""
    outputs = jax.vmap(partial(model.apply, position.weights))(rows.x)
    log_p = partial(model.likelihood.log_prob, position.likelihood)
    return jnp.sum(rows.weight * jax.vmap(log_p)(outputs, rows.y))


def log_posterior(model: PosteriorModel, position: Position, rows: Rows) -> Float[Array, ""]:
    """Log p(position, y), nats: the log posterior up to the evidence."""
    return log_prior(model, position) + log_likelihood(model, position, rows)


def log_posterior_estimate(
    model: PosteriorModel, position: Position, batch: Batch
) -> Float[Array, ""]:
    """Estimate `log_posterior` from one batch of an epoch; the mean over the epoch is exact."""
    rows = Rows(batch.x, batch.y, batch.weight)
    return log_prior(model, position) + batch.n_batches * log_likelihood(model, position, rows)


def start(model: PosteriorModel, weights: Any) -> Position:
    """Start at given weights, with precisions of one and the likelihood's own start."""
    return Position(weights, jnp.zeros(()), model.likelihood.init())
