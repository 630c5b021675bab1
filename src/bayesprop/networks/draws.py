"""Predictions from draws of the weights: one draw at a time, so that memory stays a draw's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from bayesprop.distributions.mixture import LEAST_LOG_NOISE, MOST_LOG_NOISE
from bayesprop.networks.gradient_method import Apply, GradientMethod, Parameters
from bayesprop.networks.likelihoods import GaussianNoise, InputNoise, NetworkLikelihood
from bayesprop.networks.mlp import ACTIVATIONS, plain_activation
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.graphs import (
    ClassNodes,
    Node,
    NumberNodes,
    applied,
    entropy,
    larger,
    smaller,
    taken,
)

_MOST_WRITTEN = 2**26
"""Of float64, twice in a file, which may have 2 GiB."""


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


def graph(
    apply: Apply, likelihood: NetworkLikelihood, networks: Parameters, x: Node
) -> NumberNodes | ClassNodes:
    """Write `predict_networks` of one target as a graph of ONNX, in float64.

    ValueError for activations but relu, and for more weights than a file may hold.
    """
    if plain_activation(apply) is not ACTIVATIONS["relu"]:
        raise ValueError("ONNX takes plain networks with activation='relu' alone: fit one")
    n_weights = sum(np.size(layer) for layer in networks.weights)
    if n_weights > _MOST_WRITTEN:
        raise ValueError(
            f"ONNX takes up to {_MOST_WRITTEN} weights of all draws together, got {n_weights}: fit "
            "with fewer draws (n_draws, n_members), or smaller hidden_layer_sizes"
        )
    first, *others = (np.asarray(layer, np.float64) for layer in networks.weights)
    f = x @ first[:, :-1] + first[:, -1:]
    for w in others:
        f = larger(f, 0.0) @ w[:, :-1] + w[:, -1:]
    n, k = len(first), likelihood.n_outputs
    if not isinstance(likelihood, GaussianNoise):
        e = applied("exp", f - f.max())
        p = e / e.sum()
        proba, expected = (part.sum(0) * (1.0 / n) for part in (p, entropy(p)))
        return ClassNodes(proba.reshape(-1, k), expected.reshape(-1, 1))
    f = f.transposed(1, 0, 2)
    if isinstance(likelihood, InputNoise):
        mean, log_var = (taken(f, np.arange(part, part + 1), 2) for part in range(2))
        noise_var = applied("exp", smaller(larger(log_var, LEAST_LOG_NOISE), MOST_LOG_NOISE))
    else:
        own = jax.vmap(likelihood.observe)(networks.likelihood, jnp.zeros((n, 1))).v
        mean, noise_var = f, f * 0.0 + np.asarray(own, np.float64)
    mean, noise_var = mean.reshape(-1, 1), noise_var.reshape(-1, 1)
    return NumberNodes(mean, mean * 0.0, noise_var, n_draws=n)
