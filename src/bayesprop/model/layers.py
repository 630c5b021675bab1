"""A layer has two views: numbers (`apply`) and moments (`propagate`). Written for one example."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesprop.numerics import activation_moments
from bayesprop.numerics.gaussian import Gaussian


def dense_apply(w: Float[Array, "i+1 o"], z: Float[Array, " i"]) -> Float[Array, " o"]:
    """Return [z, 1] w / sqrt(i + 1): the scale keeps units comparable whatever their fan-in.

    Hernández-Lobato & Adams (2015), section 2; the bias is the last row of w.
    """
    return (z @ w[:-1] + w[-1]) / jnp.sqrt(w.shape[0])


def dense_propagate(w: Gaussian, z: Gaussian) -> Gaussian:
    """Mean and variance of `dense_apply` for independent weights and inputs.

    Hernández-Lobato & Adams (2015), eq. 13-14 with 17: the bias input is 1 with variance 0.
    """
    m_z = jnp.append(z.m, 1.0)
    v_z = jnp.append(z.v, 0.0)
    fan_in = w.m.shape[0]
    m = m_z @ w.m / jnp.sqrt(fan_in)
    v = (v_z @ (w.m * w.m) + (m_z * m_z + v_z) @ w.v) / fan_in
    return Gaussian(m, v)


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
