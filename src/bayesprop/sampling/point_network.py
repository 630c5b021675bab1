"""One network without a posterior: maximum a posteriori by gradient steps.

Descends -log p(w) - sum log p(y | x, w), each batch standing for its share of the rows. Dropout
and DropConnect enter as another network in training, `forward`; prediction uses the weights as they
are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from bayesprop.networks.gradient_method import (
    Apply,
    GradientMethod,
    Info,
    Parameters,
    State,
    clipped,
)
from bayesprop.networks.likelihoods import NetworkLikelihood
from bayesprop.networks.priors import Prior, log_prior
from bayesprop.numerics.loops import Batch

Penalty = Callable[[PyTree], Float[Array, ""]]
"""Minus log prior of the network's parameters, or what stands for it, nats."""


def point_network(
    apply: Apply,
    likelihood: NetworkLikelihood,
    optimizer: optax.GradientTransformation,
    *,
    prior: Prior | Penalty | None = None,
    forward: Callable[[PRNGKeyArray, PyTree, Array], Array] | None = None,
    adversarial_step: float = 0.0,
) -> GradientMethod:
    """Build maximum a posteriori learning of one network; its state is a `State`.

    prior
        Density of single weights, or a penalty of them all; None for maximum likelihood. N(0, v)
        is weight decay: its -log p(w) = |w|² / (2 v) + constant stands beside the SUM of log p over
        the rows.
    forward
        (key, parameters, rows) -> outputs in training, such as `mc_dropout.dropout_forward`; None:
        `apply`.
    adversarial_step
        Half of every batch's loss is that of its rows moved by this much, in units of x, along
        the sign of the loss's gradient (Lakshminarayanan et al. 2017, section 2.3); 0: none.
    """
    forward = forward or (lambda _, weights, x: jax.vmap(partial(apply, weights))(x))
    optimizer = clipped(optimizer, likelihood)

    def penalty(weights: PyTree) -> Float[Array, ""]:
        if prior is None:
            return jnp.zeros(())
        return -log_prior(prior, weights) if isinstance(prior, Prior) else prior(weights)

    def log_likelihood(
        params: Parameters, key: PRNGKeyArray, batch: Batch, x: Array
    ) -> Float[Array, ""]:
        outputs = forward(key, params.weights, x)
        log_p = jax.vmap(partial(likelihood.log_prob, params.likelihood))(outputs, batch.y)
        return jnp.sum(batch.weight * log_p)

    def objective(
        params: Parameters, key: PRNGKeyArray, batch: Batch
    ) -> tuple[Float[Array, ""], Info]:
        fitted = total = log_likelihood(params, key, batch, batch.x)
        if adversarial_step > 0.0:
            slope = jax.grad(log_likelihood, argnums=3)(params, key, batch, batch.x)
            moved = jax.lax.stop_gradient(batch.x - adversarial_step * jnp.sign(slope))
            fitted = 0.5 * (total + log_likelihood(params, key, batch, moved))
        cost = penalty(params.weights)
        a_row = batch.n_batches / batch.n_total
        loss = (cost / batch.n_batches - fitted) * a_row
        return loss, Info(loss, a_row * total, cost)

    def init(key: PRNGKeyArray, weights: PyTree) -> State:
        del key
        params = Parameters(weights, likelihood.init())
        return State(params, optimizer.init(params))

    def update(key: PRNGKeyArray, state: State, batch: Batch) -> tuple[State, Info]:
        slopes, info = jax.grad(objective, has_aux=True)(state.params, key, batch)
        return state.descend(optimizer, slopes), info

    def mean(state: State) -> Parameters:
        return state.params

    return GradientMethod(apply, likelihood, init, update, lambda _, state: mean(state), mean)
