"""The contract of a method that learns by gradient steps: init, update, sample, mean.

And its optimiser where the noise depends on the input: one of bounded gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from bayesprop.networks.likelihoods import InputNoise, NetworkLikelihood
from bayesprop.numerics.loops import Batch

_LONGEST_GRADIENT = 10.0

Apply = Callable[[PyTree, Float[Array, "..."]], Float[Array, " k"]]
"""A network: its parameters and ONE input to the outputs at it; batched with vmap."""


class Info(NamedTuple):
    """Report of one update.

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


class Parameters(NamedTuple):
    """Parameters of a network and of its likelihood.

    weights
        Numbers, as a prediction needs them, or the `MeanField` of a posterior.
    """

    weights: PyTree
    likelihood: PyTree


class State(NamedTuple):
    """Learnable parameters, and the memory of their optimiser; None: they are not to be trained."""

    params: Parameters
    optimizer: optax.OptState | None

    def descend(self, optimizer: optax.GradientTransformation, slopes: Parameters) -> State:
        """Return the state after one step along the gradient of a loss."""
        if self.optimizer is None:
            raise ValueError(
                "the state has no memory of an optimiser, as of a pruned network: fit anew"
            )
        steps, memory = optimizer.update(slopes, self.optimizer, self.params)
        return State(cast(Parameters, optax.apply_updates(self.params, steps)), memory)


class GradientMethod(NamedTuple):
    """Pure functions over pytrees. Build one for one configuration: identity keys compilation.

    apply, likelihood
        The network, and the likelihood of its outputs.
    init
        (key, parameters to start from) -> state, most often a `State`.
    update
        (key, state, Batch) -> (state, Info): one step on one mini-batch.
    sample
        (key, state) -> Parameters: one draw from the posterior (of a point estimate: itself).
    mean
        state -> Parameters: the network at the posterior mean.
    """

    apply: Apply
    likelihood: NetworkLikelihood
    init: Callable[[PRNGKeyArray, PyTree], PyTree]
    update: Callable[[PRNGKeyArray, PyTree, Batch], tuple[PyTree, Info]]
    sample: Callable[[PRNGKeyArray, PyTree], Parameters]
    mean: Callable[[PyTree], Parameters]


def clipped(
    optimizer: optax.GradientTransformation, likelihood: NetworkLikelihood
) -> optax.GradientTransformation:
    """Bound the gradients that an optimiser of optax takes, if the noise depends on the input.

    A residual counts by the exponential of minus the log noise variance. Where a network has no
    idea of that yet, at a row far from most, one batch would throw all its weights away: no
    gradient is longer than 10, in nats a row (Pascanu et al. 2013, algorithm 1). The optimiser's
    memory is that of the one given.
    """
    if not isinstance(likelihood, InputNoise):
        return optimizer

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        squares = [jnp.sum(part**2) for part in jax.tree.leaves(updates)]
        share = jnp.minimum(1.0, _LONGEST_GRADIENT / jnp.sqrt(sum(squares)))
        bounded = jax.tree.map(lambda part: share * part, updates)
        return optimizer.update(bounded, state, params)

    return optimizer._replace(update=update)
