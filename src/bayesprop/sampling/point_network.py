"""One network without a posterior: maximum a posteriori by gradient steps.

Descends -log p(w) - sum log p(y | x, w), each batch standing for its share of the rows. Dropout
and DropConnect enter as another network in training, `forward`; prediction uses the weights as they
are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.networks.gradient_method import Apply, Draw, GradientMethod, Info, clipped
from bayesprop.networks.likelihoods import NetworkLikelihood
from bayesprop.networks.priors import Prior, log_prior
from bayesprop.numerics.loops import Batch

Penalty = Callable[[Any], Float[Array, ""]]
"""Minus log prior of the network's parameters, or what stands for it, nats."""


class PointState(NamedTuple):
    """Network parameters, likelihood parameters, and what the optimiser remembers."""

    weights: Any
    likelihood: Any
    optimizer: Any


def point_network(
    apply: Apply,
    likelihood: NetworkLikelihood,
    optimizer: optax.GradientTransformation,
    *,
    prior: Prior | Penalty | None = None,
    forward: Callable[[PRNGKeyArray, Any, Array], Array] | None = None,
    adversarial_step: float = 0.0,
) -> GradientMethod:
    """Build maximum a posteriori learning of one network.

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

    def penalty(weights: Any) -> Float[Array, ""]:
        if prior is None:
            return jnp.zeros(())
        return -log_prior(prior, weights) if isinstance(prior, Prior) else prior(weights)

    def log_likelihood(
        params: tuple[Any, Any], key: PRNGKeyArray, batch: Batch, x: Array
    ) -> Float[Array, ""]:
        weights, noise = params
        log_p = jax.vmap(partial(likelihood.log_prob, noise))(forward(key, weights, x), batch.y)
        return jnp.sum(batch.weight * log_p)

    def attacked(params: tuple[Any, Any], key: PRNGKeyArray, batch: Batch) -> Array:
        slope = jax.grad(log_likelihood, argnums=3)(params, key, batch, batch.x)
        return jax.lax.stop_gradient(batch.x - adversarial_step * jnp.sign(slope))

    def objective(
        params: tuple[Any, Any], key: PRNGKeyArray, batch: Batch
    ) -> tuple[Float[Array, ""], Info]:
        total = log_likelihood(params, key, batch, batch.x)
        fitted = total
        if adversarial_step > 0.0:
            moved = log_likelihood(params, key, batch, attacked(params, key, batch))
            fitted = 0.5 * (total + moved)
        cost = penalty(params[0])
        a_row = batch.n_batches / batch.n_total
        loss = (cost / batch.n_batches - fitted) * a_row
        return loss, Info(loss, a_row * total, cost)

    def init(key: PRNGKeyArray, weights: Any) -> PointState:
        del key
        noise = likelihood.init()
        return PointState(weights, noise, optimizer.init((weights, noise)))

    def update(key: PRNGKeyArray, state: PointState, batch: Batch) -> tuple[PointState, Info]:
        params = state.weights, state.likelihood
        grads, info = jax.grad(objective, has_aux=True)(params, key, batch)
        steps, memory = optimizer.update(grads, state.optimizer, params)
        moved = optax.apply_updates(params, steps)
        weights, noise = cast(tuple[Any, Any], moved)
        return PointState(weights, noise, memory), info

    def mean(state: PointState) -> Draw:
        return Draw(state.weights, state.likelihood)

    return GradientMethod(init, update, lambda _, state: mean(state), mean)
