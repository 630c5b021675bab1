"""Predictions from draws of the weights: one draw at a time, so that memory stays a draw's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from bayesprop.networks.gradient_method import Apply, GradientMethod, Parameters
from bayesprop.networks.likelihoods import GaussianNoise, NetworkLikelihood
from bayesprop.numerics.gaussian import Gaussian


class ClassMoments(NamedTuple):
    """Mean class probabilities (n, c), and the mean over draws of their entropy, nats (n,)."""

    proba: Float[Array, "n c"]
    expected_entropy: Float[Array, " n"]


@partial(jax.jit, static_argnames=("method", "n_draws"))
def predict_draws(
    method: GradientMethod,
    key: PRNGKeyArray,
    state: PyTree,
    x: Float[Array, "n ..."],
    *,
    n_draws: int,
) -> Gaussian | ClassMoments:
    """Predict by n_draws networks, the same ones for every row.

    Means and noise variances of the targets under each of them, (s, n, o); of classes the average
    over all.
    """
    keys = jax.random.split(key, n_draws)
    return _predict(method.apply, method.likelihood, lambda key: method.sample(key, state), keys, x)


@partial(jax.jit, static_argnames=("apply", "likelihood"))
def predict_networks(
    apply: Apply, likelihood: NetworkLikelihood, networks: PyTree, x: Float[Array, "n ..."]
) -> Gaussian | ClassMoments:
    """Predict as `predict_draws` does by given networks.

    networks
        `weights` and `likelihood`, stacked along a leading axis.
    """
    return _predict(apply, likelihood, lambda network: network, networks, x)


def _predict(
    apply: Apply,
    likelihood: NetworkLikelihood,
    network_of: Callable[[PyTree], Parameters],
    drawn: PyTree,
    x: Float[Array, "n ..."],
) -> Gaussian | ClassMoments:
    """Predict by the networks made of each element of `drawn` along its leading axis."""

    def outputs(network: Parameters) -> Float[Array, "n k"]:
        return jax.vmap(partial(apply, network.weights))(x)

    if isinstance(likelihood, GaussianNoise):

        def observe(one: PyTree) -> Gaussian:
            network = network_of(one)
            return likelihood.observe(network.likelihood, outputs(network))

        return jax.lax.map(observe, drawn)

    def add(total: ClassMoments, one: PyTree) -> tuple[ClassMoments, None]:
        log_p = jax.nn.log_softmax(outputs(network_of(one)))
        p = jnp.exp(log_p)
        entropy = -jnp.sum(jnp.where(p > 0.0, p * log_p, 0.0), axis=-1)
        return ClassMoments(total.proba + p, total.expected_entropy + entropy), None

    zero = ClassMoments(jnp.zeros((x.shape[0], likelihood.n_outputs)), jnp.zeros(x.shape[0]))
    total, _ = jax.lax.scan(add, zero, drawn)
    n_draws = jax.tree.leaves(drawn)[0].shape[0]
    return ClassMoments(*(part / n_draws for part in total))
