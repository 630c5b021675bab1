"""Training to the mode of the posterior under Gaussian priors whose precisions may change.

After some epochs the evidence chooses them, and training goes on (MacKay 1992).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.model.gradient_method import Apply, Draw, GradientMethod, Info
from bayesprop.model.network_likelihoods import NetworkLikelihood
from bayesprop.numerics.gaussian import LOG_2PI
from bayesprop.numerics.loops import Batch
from bayesprop.sampling.point_network import PointState, penalised_network


class ModeState(NamedTuple):
    """What training to a mode carries.

    weights, likelihood
        Of the network, and of the likelihood.
    optimizer
        What the optimiser remembers.
    prior_prec
        Precision of the prior of every leaf of the weights; constant while training.
    """

    weights: Any
    likelihood: Any
    optimizer: Any
    prior_prec: Float[Array, " l"]


class _Regularised(NamedTuple):
    """Weights beside their precisions: as an argument, new precisions need no compilation."""

    weights: Any
    prior_prec: Float[Array, " l"]


def mode_network(
    apply: Apply,
    likelihood: NetworkLikelihood,
    optimizer: optax.GradientTransformation,
    *,
    prior_prec: float = 1.0,
) -> GradientMethod:
    """Build training to the mode under priors N(0, 1 / p), with one p a leaf.

    prior_prec
        Of every leaf at the start.
    """

    def regularised_apply(regularised: _Regularised, x: Array) -> Array:
        return apply(regularised.weights, x)

    def penalty(regularised: _Regularised) -> Float[Array, ""]:
        leaves = jax.tree.leaves(regularised.weights)
        precs = jax.lax.stop_gradient(regularised.prior_prec)
        squares = jnp.stack([jnp.sum(leaf**2) for leaf in leaves])
        sizes = jnp.array([leaf.size for leaf in leaves], precs.dtype)
        return 0.5 * jnp.sum(precs * squares - sizes * (jnp.log(precs) - LOG_2PI))

    inner = penalised_network(regularised_apply, likelihood, optimizer, penalty=penalty)

    def init(key: PRNGKeyArray, weights: Any) -> ModeState:
        precs = jnp.full(len(jax.tree.leaves(weights)), prior_prec, jnp.float32)
        return pack(inner.init(key, _Regularised(weights, precs)))

    def pack(state: PointState) -> ModeState:
        return ModeState(
            state.weights.weights, state.likelihood, state.optimizer, state.weights.prior_prec
        )

    def update(key: PRNGKeyArray, state: ModeState, batch: Batch) -> tuple[ModeState, Info]:
        regularised = _Regularised(state.weights, state.prior_prec)
        moved, info = inner.update(
            key, PointState(regularised, state.likelihood, state.optimizer), batch
        )
        return pack(moved), info

    def mean(state: ModeState) -> Draw:
        return Draw(state.weights, state.likelihood)

    def draw(key: PRNGKeyArray, state: ModeState) -> Draw:
        del key
        return mean(state)

    return GradientMethod(init, update, draw, mean)
