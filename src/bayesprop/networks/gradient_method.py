"""The contract of a method that learns by gradient steps: init, update, sample.

And what its optimiser is where the noise depends on the input: one of bounded gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.networks.likelihoods import InputNoise, NetworkLikelihood
from bayesprop.numerics.loops import Batch

_LONGEST_GRADIENT = 10.0

Apply = Callable[[Any, Float[Array, "..."]], Float[Array, " k"]]
"""A network: its parameters and ONE input to the outputs at it; batched with vmap."""


class Info(NamedTuple):
    """What one update reports.

    loss
        The objective that was descended, nats a row.
    mean_log_likelihood
        (Expected) log-likelihood of the batch before the step, nats a row.
    kl
        KL from posterior to prior, or minus the log prior of a point estimate, nats in all. Where
        it costs a pass over the weights it is that after an epoch's first step (`once_an_epoch`).
    """

    loss: Float[Array, ""]
    mean_log_likelihood: Float[Array, ""]
    kl: Float[Array, ""]


class Draw(NamedTuple):
    """One draw of everything a prediction needs: network parameters, likelihood parameters."""

    weights: Any
    likelihood: Any


class GradientMethod(NamedTuple):
    """Pure functions over pytrees. Build one for one configuration: identity keys compilation.

    init
        (key, parameters to start from) -> State.
    update
        (key, State, Batch) -> (State, Info): one step on one mini-batch.
    sample
        (key, State) -> Draw: one draw from the posterior (of a point estimate: itself).
    mean
        State -> Draw: the network at the posterior mean.
    """

    init: Callable[[PRNGKeyArray, Any], Any]
    update: Callable[[PRNGKeyArray, Any, Batch], tuple[Any, Info]]
    sample: Callable[[PRNGKeyArray, Any], Draw]
    mean: Callable[[Any], Draw]


def clipped(optimizer: Any, likelihood: NetworkLikelihood) -> Any:
    """Bound the gradients that an optimiser of optax takes, if the noise depends on the input.

    A residual counts by the exponential of minus the log noise variance. Where a network has no
    idea of that yet, at a row far from most, one batch would throw all its weights away: no
    gradient is longer than 10, in nats a row (Pascanu et al. 2013, algorithm 1). The optimiser's
    memory is that of the one given.
    """
    if not isinstance(likelihood, InputNoise):
        return optimizer

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        squares = [jnp.sum(part**2) for part in jax.tree.leaves(updates)]
        share = jnp.minimum(1.0, _LONGEST_GRADIENT / jnp.sqrt(sum(squares)))
        bounded = jax.tree.map(lambda part: share * part, updates)
        return optimizer.update(bounded, state, params)

    return optimizer._replace(update=update)
