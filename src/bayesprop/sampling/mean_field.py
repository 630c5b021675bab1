"""A posterior of independent Gaussians over any pytree of weights, kept as (m, rho).

`rho` is the inverse softplus of the standard deviation: std = log(1 + exp(rho)), never negative
(Blundell et al. 2015, section 3.2). What Bayes by Backprop and Graves' method share: the state, its
steps and draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from bayesprop.networks.gradient_method import Parameters, State
from bayesprop.networks.likelihoods import NetworkLikelihood
from bayesprop.networks.mlp import Activation
from bayesprop.networks.priors import ClosedPrior
from bayesprop.numerics import LOG_2PI
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.softplus import softplus
from bayesprop.numerics.threefry import normal


class MeanField(NamedTuple):
    """Means and inverse-softplus standard deviations, two pytrees of one structure."""

    m: PyTree
    rho: PyTree

    @property
    def std(self) -> PyTree:
        """Standard deviations of the weights."""
        return jax.tree.map(softplus, self.rho)


def rho_of(std: float) -> float:
    """Inverse softplus of a standard deviation."""
    if not std > 0.0:
        raise ValueError(f"std must be > 0, got {std!r}")
    return float(np.log(np.expm1(std))) if std < 30.0 else std


def from_weights(weights: PyTree, *, std: float) -> MeanField:
    """Start a posterior at the given weights, with one standard deviation for all."""
    rho = rho_of(std)
    return MeanField(weights, jax.tree.map(lambda w: jnp.full_like(w, rho), weights))


def starts(
    likelihood: NetworkLikelihood, optimizer: optax.GradientTransformation, init_std: float
) -> Callable[[PRNGKeyArray, PyTree], State]:
    """Build `GradientMethod.init`, of a `State` whose weights are a `MeanField`."""

    def init(key: PRNGKeyArray, weights: PyTree) -> State:
        del key
        q = from_weights(weights, std=init_std)
        params = Parameters(q, likelihood.init())
        return State(params, optimizer.init(params))

    return init


def sample(key: PRNGKeyArray, state: State) -> Parameters:
    """Draw the weights of one network from the posterior."""
    q, likelihood = state.params
    return Parameters(weights_at(q, draw_noise(key, q.m)), likelihood)


def mean(state: State) -> Parameters:
    """Return the network of the posterior means."""
    return state.params._replace(weights=state.params.weights.m)


def variances(q: MeanField) -> PyTree:
    """Return the variance of every weight."""
    return jax.tree.map(lambda rho: softplus(rho) ** 2, q.rho)


def kl(prior: ClosedPrior, q: MeanField) -> Float[Array, ""]:
    """KL(q || prior) in closed form, summed over all weights, one leaf a layer, nats."""
    leaves = enumerate(zip(jax.tree.leaves(q.m), jax.tree.leaves(q.rho), strict=True))
    parts = [prior.of_layer(k).kl(Gaussian(m, softplus(rho) ** 2)) for k, (m, rho) in leaves]
    return jnp.sum(jnp.stack(parts))


def draw_noise(key: PRNGKeyArray, like: PyTree) -> PyTree:
    """Draw standard normals, a pytree of the same shapes, at once: every draw has a fixed price."""
    flat, unravel = ravel_pytree(like)
    return unravel(normal(key, flat.shape))


def weights_at(q: MeanField, noise: PyTree) -> PyTree:
    """Return m + softplus(rho) e (Blundell et al. 2015, section 3.2, step 2)."""
    return jax.tree.map(lambda m, rho, e: m + softplus(rho) * e, q.m, q.rho, noise)


def log_q(q: MeanField, noise: PyTree) -> Float[Array, ""]:
    """Log q(m + std e) in terms of e: its gradients in m, which cancel (eq. 3), are not there."""

    def one(rho: Array, e: Array) -> Array:
        return -jnp.sum(jnp.log(softplus(rho)) + 0.5 * (LOG_2PI + e * e))

    return jnp.sum(jnp.stack(jax.tree.leaves(jax.tree.map(one, q.rho, noise))))


def sample_outputs(
    key: PRNGKeyArray, q: MeanField, x: Float[Array, "b d"], nonlinearity: Activation
) -> Float[Array, "b k"]:
    """Draw the outputs of a perceptron at every row through freshly drawn activations.

    a ~ N(z m, z² v) for every unit and row, z the inputs of its layer (Kingma, Salimans & Welling
    2015, eq. 6): every row has its own noise, at the cost of one number a unit instead of one a
    weight, and with less variance in the gradient.
    """
    keys = jax.random.split(key, len(q.m))
    layers = zip(keys, q.m, variances(q), strict=True)
    z = x
    for place, (key_layer, m, v) in enumerate(layers):
        z = nonlinearity.apply(z) if place else z
        # One product with a column of ones: to cut the biases off would copy the weights.
        z = jnp.concatenate([z, jnp.ones_like(z[:, :1])], axis=1)
        a = Gaussian(z @ m, (z * z) @ v)
        z = a.m + jnp.sqrt(a.v) * normal(key_layer, a.m.shape)
    return z
