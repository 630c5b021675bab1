"""Dropout and DropConnect: random zeros on the units or the weights of a perceptron."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.model.networks import Weights, activation, affine_apply

Forward = Callable[[PRNGKeyArray, Weights, Float[Array, "b d"]], Float[Array, "b k"]]
"""(key, parameters, rows) -> outputs of a network whose units or weights are randomly missing."""


class Rates(NamedTuple):
    """Probabilities of zero: of an input, of a hidden unit, of a single weight."""

    input: float = 0.0
    hidden: float = 0.0
    connection: float = 0.0

    def of_layers(self, n_layers: int) -> tuple[float, ...]:
        """Return the rate of the units that enter each layer."""
        return (self.input, *[self.hidden] * (n_layers - 1))


def keep_share(rate: float) -> float:
    """Probability of keeping, as it is drawn: 1 - rate to the nearest 65536th."""
    return round((1.0 - rate) * 2**16) / 2**16


def keep_mask(key: PRNGKeyArray, shape: tuple[int, ...], rate: float) -> Float[Array, "..."]:
    """Entries 1 / keep_share with that probability, else 0, so that their mean is one.

    One random word serves four entries where 256ths express the rate, and two otherwise: random
    numbers, not multiplication, are what dropout costs on a CPU.
    """
    keep = keep_share(rate)
    kind = jnp.uint8 if (keep * 2**8).is_integer() else jnp.uint16
    n_levels = 2 ** (8 * jnp.dtype(kind).itemsize)
    size = 1
    for length in shape:
        size *= length
    n_a_word = 4 // jnp.dtype(kind).itemsize
    words = jax.random.bits(key, (-(-size // n_a_word),), jnp.uint32)
    levels = lax.bitcast_convert_type(words, kind).reshape(-1)[:size].reshape(shape)
    return jnp.where(levels < round(keep * n_levels), 1.0 / keep, 0.0)


def dropout_forward(rates: Rates, *, activation_name: str) -> Forward:
    """Build the network of training: a fresh mask for every row and unit (Hinton et al. 2012).

    What is kept is divided by the share kept, so that the network without masks has the mean of
    every unit's input. With a rate of connections, single weights and biases are missing
    (DropConnect, Wan et al. 2013), the same ones for all rows of a batch: a mask a row, as in the
    paper, would cost as many random numbers as multiplications.
    """
    nonlinearity = activation(activation_name)

    def forward(key: PRNGKeyArray, weights: Weights, x: Float[Array, "b d"]) -> Float[Array, "b k"]:
        keys = jax.random.split(key, len(weights))
        for k, (w, rate) in enumerate(zip(weights, rates.of_layers(len(weights)), strict=True)):
            key_units, key_weights = jax.random.split(keys[k])
            if rate > 0.0:
                x = x * keep_mask(key_units, x.shape, rate)
            if rates.connection > 0.0:
                w = w * keep_mask(key_weights, w.shape, rates.connection)
            x = jax.vmap(affine_apply, in_axes=(None, 0))(w, x)
            x = nonlinearity.apply(x) if k < len(weights) - 1 else x
        return x

    return forward


def drop_rows(key: PRNGKeyArray, weights: Weights, rates: Rates) -> Weights:
    """Draw a network: the weights that leave a missing unit are zero; biases stay.

    W_l = diag(z_l) M_l with z_l Bernoulli (Gal & Ghahramani 2016, section 3), where M_l is the
    weights over keep_share.
    """
    keys = jax.random.split(key, len(weights))

    def one(key: Array, w: Array, rate: float) -> Array:
        if rate == 0.0:
            return w
        kept = keep_mask(key, (w.shape[0] - 1,), rate)
        return w * jnp.append(kept, 1.0)[:, None]

    layers = zip(keys, weights, rates.of_layers(len(weights)), strict=True)
    return tuple(one(*layer) for layer in layers)
