"""Layers in sequence, as numbers and as moments. Parameters are one (n_in + 1, n_out) a layer."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesprop.model.layers import activation, dense_apply, dense_propagate
from bayesprop.numerics.gaussian import Gaussian

Weights = tuple[Float[Array, "i+1 o"], ...]


def mlp_apply(
    weights: Weights, x: Float[Array, " d"], *, activation_name: str = "relu"
) -> Float[Array, " o"]:
    """Output of the multilayer perceptron at one input; the last layer is linear."""
    nonlinearity = activation(activation_name)
    for w in weights[:-1]:
        x = nonlinearity.apply(dense_apply(w, x))
    return dense_apply(weights[-1], x)


def mlp_propagate(
    m: Weights, v: Weights, x: Float[Array, " d"], *, activation_name: str = "relu"
) -> Gaussian:
    """Mean and variance of the output for Gaussian weights N(m, v) at one certain input.

    Each layer's output is replaced by independent Gaussians of the same moments
    (Hernández-Lobato & Adams 2015, section 3.3).
    """
    nonlinearity = activation(activation_name)
    z = Gaussian(x, jnp.zeros_like(x))
    for m_w, v_w in zip(m[:-1], v[:-1], strict=True):
        z = nonlinearity.propagate(*dense_propagate(Gaussian(m_w, v_w), z))
    return dense_propagate(Gaussian(m[-1], v[-1]), z)
