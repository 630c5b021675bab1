"""The joint log density of a network's weights, its noise and their scales, for samplers.

The model is that of probabilistic backpropagation (Hernández-Lobato & Adams 2015, eq. 1-4): weights
N(0, 1/lambda) beside scaled layers, lambda and the noise precision gamma with Gamma priors.
Precisions are held as logarithms, so that every parameter is a real number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesprop.networks.gradient_method import Apply
from bayesprop.networks.likelihoods import LearnedNoise, NetworkLikelihood
from bayesprop.numerics import LOG_2PI
from bayesprop.numerics.rows import Rows

GammaPrior = tuple[float, float]
"""Shape and rate of the prior of a precision."""

SIX: GammaPrior = (6.0, 6.0)
"""Of both precisions in the paper (section 2.1): six prior observations of variance one."""


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
        lambda, or the Gamma prior that it has.
    noise_prior
        Gamma prior of gamma, for every target, where the noise is learnt.
    """

    apply: Apply
    likelihood: NetworkLikelihood
    weight_precision: float | GammaPrior = SIX
    noise_prior: GammaPrior = SIX


def log_gamma_prior(
    log_precision: Float[Array, "..."], prior: GammaPrior = SIX
) -> Float[Array, "..."]:
    """Log density of log p for p ~ Gamma(shape, rate): the Jacobian p is part of it."""
    shape, rate = prior
    log_norm = shape * jnp.log(rate) - jax.scipy.special.gammaln(shape)
    return log_norm + shape * log_precision - rate * jnp.exp(log_precision)


def log_prior(model: PosteriorModel, position: Position) -> Float[Array, ""]:
    """Log p(weights, log lambda, noise), nats; a known lambda is taken as it is."""
    leaves = jax.tree.leaves(position.weights)
    n_weights = sum(leaf.size for leaf in leaves)
    squares = sum((jnp.sum(leaf**2) for leaf in leaves), start=jnp.zeros(()))
    prior = model.weight_precision
    is_unknown = isinstance(prior, tuple)
    log_lambda = position.log_precision if is_unknown else jnp.log(prior)
    of_weights = 0.5 * (n_weights * (log_lambda - LOG_2PI) - jnp.exp(log_lambda) * squares)
    # A coordinate that nothing depends on still needs a density that can be normalised.
    total = of_weights + log_gamma_prior(position.log_precision, prior if is_unknown else SIX)
    if isinstance(model.likelihood, LearnedNoise):
        total = total + jnp.sum(log_gamma_prior(-position.likelihood, model.noise_prior))
    return total


def log_likelihood(model: PosteriorModel, position: Position, rows: Rows) -> Float[Array, ""]:
    """Sum over rows of weight * log p(y | x, position), nats."""
    outputs = jax.vmap(partial(model.apply, position.weights))(rows.x)
    log_p = partial(model.likelihood.log_prob, position.likelihood)
    return jnp.sum(rows.weights * jax.vmap(log_p)(outputs, rows.y))


def log_posterior(model: PosteriorModel, position: Position, rows: Rows) -> Float[Array, ""]:
    """Log p(position, y), nats: the log posterior up to the evidence."""
    return log_prior(model, position) + log_likelihood(model, position, rows)


def start(model: PosteriorModel, weights: Any) -> Position:
    """Start at given weights, with precisions of one and the likelihood's own start."""
    return Position(weights, jnp.zeros(()), model.likelihood.init())
