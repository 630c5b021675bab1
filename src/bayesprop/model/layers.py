"""A layer has two views: numbers (`apply`) and moments (`propagate`). Written for one example."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesprop.numerics import activation_moments
from bayesprop.numerics.gaussian import Gaussian


def affine_apply(w: Float[Array, "i+1 o"], z: Float[Array, " i"]) -> Float[Array, " o"]:
    """[z, 1] w: the bias is the last row of w."""
    return z @ w[:-1] + w[-1]


def affine_propagate(w: Gaussian, z: Gaussian) -> Gaussian:
    """Mean and variance of `affine_apply` for independent weights and inputs.

    Roth & Pernkopf (2016), eq. 7 and 9; the bias input is 1 with variance 0.
    """
    m, v = _and(z.m, 1.0), _and(z.v, 0.0)
    return Gaussian(m @ w.m, v @ (w.m * w.m) + (m * m + v) @ w.v)


def affine_propagate_certain(w: Gaussian, x: Float[Array, " i"]) -> Gaussian:
    """`affine_propagate` of inputs without variance, at a third less work."""
    x = _and(x, 1.0)
    return Gaussian(x @ w.m, (x * x) @ w.v)


def dense_apply(w: Float[Array, "i+1 o"], z: Float[Array, " i"]) -> Float[Array, " o"]:
    """[z, 1] w / sqrt(i + 1): the scale keeps units comparable whatever their fan-in.

    Hernández-Lobato & Adams (2015), section 2; the bias is the last row of w.
    """
    return affine_apply(w, z) / jnp.sqrt(w.shape[0])


def dense_propagate(w: Gaussian, z: Gaussian) -> Gaussian:
    """Mean and variance of `dense_apply` for independent weights and inputs.

    Hernández-Lobato & Adams (2015), eq. 13-14 with 17: the bias input is 1 with variance 0.
    """
    m, v = affine_propagate(w, z)
    fan_in = w.m.shape[0]
    return Gaussian(m / jnp.sqrt(fan_in), v / fan_in)


def _and(z: Float[Array, " i"], last: float) -> Float[Array, " i+1"]:
    """Append a number to the inputs: to cut the biases off would copy means and variances.

    `affine_apply` cuts: with one array a layer that is 4 % faster at 784-1200-1200-10.
    """
    return jnp.concatenate([z, jnp.full(1, last, z.dtype)])


class Activation(NamedTuple):
    """A nonlinearity: of numbers, and of means and variances."""

    apply: Callable[[Array], Array]
    propagate: Callable[[Array, Array], Gaussian]


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(jax.nn.relu, activation_moments.relu),
    "leaky_relu": Activation(lambda x: jax.nn.leaky_relu(x, 0.01), activation_moments.leaky_relu),
    "erf": Activation(jax.scipy.special.erf, activation_moments.erf),
    "identity": Activation(lambda x: x, activation_moments.identity),
}


def activation(name: str) -> Activation:
    """Return a nonlinearity by name; ValueError names those that can propagate moments."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {name!r}")
    return ACTIVATIONS[name]
