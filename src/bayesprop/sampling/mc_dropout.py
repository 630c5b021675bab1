"""Dropout, DropConnect, and Monte Carlo dropout (Gal & Ghahramani 2016).

Dropout in training is variational inference. The posterior of layer l is W_l = diag(z_l) M_l, z_l
Bernoulli with the probability p_l of keeping a unit. Its KL to the prior N(0, 1 / l²), l the length
scale, is up to a constant

    KL = sum_l (p_l l² / 2) |M_l|² + (l² / 2) |bias_l|²       (supplement, from the paper's eq. 6)

and the objective KL - sum log p(y | x, W) is dropout with weight decay lambda = p l² / (2 N tau)
(eq. 7 solved for lambda) beside the mean over N rows of half the squared error.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.networks.gradient_method import Apply, GradientMethod, Parameters, State
from bayesprop.networks.likelihoods import NetworkLikelihood
from bayesprop.networks.mlp import Weights, activation, affine_apply
from bayesprop.sampling.point_network import Penalty, point_network

Forward = Callable[[PRNGKeyArray, Weights, Float[Array, "b d"]], Float[Array, "b k"]]
"""(key, parameters, rows) -> outputs of a network whose units or weights are randomly missing."""


class Rates(NamedTuple):
    """Probabilities of zero: of an input, of a hidden unit, of a single weight.

    connection_by_row
        Whether every row misses weights of its own, or a whole batch the same.
    """

    input: float = 0.0
    hidden: float = 0.0
    connection: float = 0.0
    connection_by_row: bool = False

    @property
    def drops(self) -> bool:
        """Whether anything is ever missing."""
        return max(self.input, self.hidden, self.connection) > 0.0

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
    size = prod(shape)
    n_a_word = 4 // jnp.dtype(kind).itemsize
    words = jax.random.bits(key, (-(-size // n_a_word),), jnp.uint32)
    levels = lax.bitcast_convert_type(words, kind).reshape(-1)[:size].reshape(shape)
    return jnp.where(levels < round(keep * n_levels), 1.0 / keep, 0.0)


def dropout_forward(rates: Rates, *, activation_name: str) -> Forward:
    """Build the network of training: a fresh mask for every row and unit (Hinton et al. 2012).

    What is kept is divided by the share kept, so that the network without masks has the mean of
    every unit's input. With a rate of connections, single weights and biases are missing
    (DropConnect, Wan et al. 2013): the same ones for all rows of a batch, or others for every row,
    as in the paper, at as many random numbers as multiplications.
    """
    nonlinearity = activation(activation_name)

    def affine(key: PRNGKeyArray, w: Float[Array, "i+1 o"], x: Float[Array, "b i"]) -> Array:
        def masked(key: PRNGKeyArray) -> Float[Array, "i+1 o"]:
            return w * keep_mask(key, w.shape, rates.connection)

        if rates.connection > 0.0 and rates.connection_by_row:
            # One mask at a time, drawn again for the gradient: all would be rows x weights.
            one = jax.checkpoint(lambda row: affine_apply(masked(row[0]), row[1]))
            return lax.map(one, (jax.random.split(key, len(x)), x))
        kept = masked(key) if rates.connection > 0.0 else w
        return jax.vmap(affine_apply, in_axes=(None, 0))(kept, x)

    def forward(key: PRNGKeyArray, weights: Weights, x: Float[Array, "b d"]) -> Float[Array, "b k"]:
        keys = jax.random.split(key, len(weights))
        for k, (w, rate) in enumerate(zip(weights, rates.of_layers(len(weights)), strict=True)):
            key_units, key_weights = jax.random.split(keys[k])
            if rate > 0.0:
                x = x * keep_mask(key_units, x.shape, rate)
            x = affine(key_weights, w, x)
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


def mc_dropout(
    apply: Apply,
    likelihood: NetworkLikelihood,
    optimizer: optax.GradientTransformation,
    *,
    rates: Rates,
    length_scale: float,
    activation_name: str = "relu",
) -> GradientMethod:
    """Build dropout as approximate inference: draws of the weights are networks with missing units.

    rates
        Probability that an input or a hidden unit is missing, in training and in every draw.
    length_scale
        Weights have the prior N(0, 1 / length_scale²): the larger, the smoother the function.
    """
    method = point_network(
        apply,
        likelihood,
        optimizer,
        prior=dropout_kl(rates, length_scale=length_scale),
        forward=dropout_forward(rates, activation_name=activation_name),
    )

    def sample(key: PRNGKeyArray, state: State) -> Parameters:
        weights, likelihood = state.params
        return Parameters(drop_rows(key, weights, rates), likelihood)

    return method._replace(sample=sample)


def dropout_kl(rates: Rates, *, length_scale: float) -> Penalty:
    """Build the KL above, without its constant, of weights as they are trained.

    Kept units are divided by p, so M_l = w_l / p_l and (p_l l² / 2) |M_l|² = l² |w_l|² / (2 p_l).
    """

    def kl(weights: Weights) -> Float[Array, ""]:
        def one(w: Array, rate: float) -> Float[Array, ""]:
            return jnp.sum(w[:-1] ** 2) / keep_share(rate) + jnp.sum(w[-1] ** 2)

        layers = zip(weights, rates.of_layers(len(weights)), strict=True)
        return 0.5 * length_scale**2 * sum((one(*layer) for layer in layers), jnp.zeros(()))

    return kl
