"""Predictions from draws of the weights: one draw at a time, so that memory stays a draw's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.networks.gradient_method import Apply, Draw
from bayesprop.networks.likelihoods import GaussianNoise, NetworkLikelihood

Sample = Callable[[PRNGKeyArray, Any], Draw]


class ClassMoments(NamedTuple):
    """Mean class probabilities (n, c), and the mean over draws of their entropy, nats (n,)."""

    proba: Float[Array, "n c"]
    expected_entropy: Float[Array, " n"]


class Observed(NamedTuple):
    """Means and noise variances of the targets under every draw, (s, n, o)."""

    m: Float[Array, "s n o"]
    noise_var: Float[Array, "s n o"]


@partial(jax.jit, static_argnames=("apply", "sample", "likelihood", "n_draws"))
def observations(
    apply: Apply,
    sample: Sample,
    likelihood: GaussianNoise,
    key: PRNGKeyArray,
    state: Any,
    x: Float[Array, "n ..."],
    *,
    n_draws: int,
) -> Observed:
    """Predict the targets by each of n_draws networks; the same networks for every row.

    likelihood
        Whose `observe` says what outputs mean for the targets.
    """

    def one(key: PRNGKeyArray) -> Observed:
        return _observed(apply, likelihood, sample(key, state), x)

    return jax.lax.map(one, jax.random.split(key, n_draws))


def _observed(apply: Apply, likelihood: GaussianNoise, draw: Draw, x: Array) -> Observed:
    return Observed(*likelihood.observe(draw.likelihood, jax.vmap(partial(apply, draw.weights))(x)))


@partial(jax.jit, static_argnames=("apply", "sample", "n_draws"))
def class_moments(
    apply: Apply,
    sample: Sample,
    key: PRNGKeyArray,
    state: Any,
    x: Float[Array, "n ..."],
    *,
    n_draws: int,
) -> ClassMoments:
    """Average softmax probabilities and their entropies over n_draws networks."""
    keys = jax.random.split(key, n_draws)
    return _averaged(apply, lambda key: sample(key, state).weights, keys, x)


@partial(jax.jit, static_argnames=("apply", "likelihood"))
def of_networks(
    apply: Apply, likelihood: NetworkLikelihood, networks: Any, x: Float[Array, "n ..."]
) -> Observed | ClassMoments:
    """Predict targets by every one of some networks, or classes by their average.

    networks
        `weights` and `likelihood`, stacked along a leading axis.
    """
    if isinstance(likelihood, GaussianNoise):
        return jax.lax.map(lambda one: _observed(apply, likelihood, one, x), networks)
    return _averaged(apply, lambda one: one.weights, networks, x)


def _averaged(
    apply: Apply, weights_of: Callable[[Any], Any], drawn: Any, x: Float[Array, "n ..."]
) -> ClassMoments:
    """Average over the leading axis of `drawn`, of whose elements `weights_of` makes a network."""

    def add(total: ClassMoments, one: Any) -> tuple[ClassMoments, None]:
        log_p = jax.nn.log_softmax(jax.vmap(partial(apply, weights_of(one)))(x))
        p = jnp.exp(log_p)
        entropy = -jnp.sum(jnp.where(p > 0.0, p * log_p, 0.0), axis=-1)
        return ClassMoments(total.proba + p, total.expected_entropy + entropy), None

    first = jax.tree.map(lambda leaf: leaf[0], drawn)
    n_classes = jax.eval_shape(apply, jax.eval_shape(weights_of, first), x[0]).shape[-1]
    zero = ClassMoments(jnp.zeros((x.shape[0], n_classes)), jnp.zeros(x.shape[0]))
    total, _ = jax.lax.scan(add, zero, drawn)
    n_draws = jax.tree.leaves(drawn)[0].shape[0]
    return ClassMoments(*(part / n_draws for part in total))
