"""Layers in sequence, as numbers and as moments. Parameters are one (n_in + 1, n_out) a layer.

PBP's layers divide by sqrt(n_in + 1) (`mlp_*`); those of the gradient methods do not (`plain_*`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesprop.model.layers import (
    Activation,
    activation,
    affine_apply,
    affine_propagate,
    affine_propagate_certain,
    dense_apply,
    dense_propagate,
)
from bayesprop.numerics.gaussian import Gaussian

Weights = tuple[Float[Array, "i+1 o"], ...]
Layer = Callable[[Float[Array, "i+1 o"], Float[Array, " i"]], Float[Array, " o"]]


def mlp_apply(
    weights: Weights,
    x: Float[Array, " d"],
    *,
    activation_name: str = "relu",
    layer: Layer = dense_apply,
) -> Float[Array, " o"]:
    """Output of the multilayer perceptron at one input; the last layer is linear."""
    nonlinearity = activation(activation_name)
    for w in weights[:-1]:
        x = nonlinearity.apply(layer(w, x))
    return layer(weights[-1], x)


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


def plain_apply(
    weights: Weights, x: Float[Array, " d"], *, activation_name: str = "relu"
) -> Float[Array, " o"]:
    """Output at one input of the network whose layers are not scaled by their fan-in."""
    return mlp_apply(weights, x, activation_name=activation_name, layer=affine_apply)


def plain_activation(apply: Any) -> Activation | None:
    """Return the nonlinearity of `plain_apply` or a partial of it; None: another network."""
    if apply is plain_apply:
        return activation("relu")
    if isinstance(apply, partial) and apply.func is plain_apply and not apply.args:
        return activation(apply.keywords.get("activation_name", "relu"))
    return None


def plain_propagate(
    m: Weights, v: Weights, x: Float[Array, " d"], *, activation_name: str = "relu"
) -> Gaussian:
    """Mean and variance of `plain_apply` for Gaussian weights N(m, v) (Roth & Pernkopf, eq. 7-11).

    As in `mlp_propagate`, every layer's output is taken for independent Gaussians.
    """
    nonlinearity = activation(activation_name)
    out = affine_propagate_certain(Gaussian(m[0], v[0]), x)
    for m_w, v_w in zip(m[1:], v[1:], strict=True):
        out = affine_propagate(Gaussian(m_w, v_w), nonlinearity.propagate(*out))
    return out


def init_weights(key: Array, sizes: Sequence[int]) -> Weights:
    """Draw zero-mean uniform weights of variance 2 / n_in, biases zero (He et al. 2015).

    The start of Roth & Pernkopf (2016), section 4.1: the bound of the uniform is sqrt(6 / n_in).
    """
    keys = jax.random.split(key, len(sizes) - 1)
    return tuple(
        jnp.concatenate([_uniform(key, n_in, n_out), jnp.zeros((1, n_out))])
        for key, n_in, n_out in zip(keys, sizes[:-1], sizes[1:], strict=True)
    )


def _uniform(key: Array, n_in: int, n_out: int) -> Float[Array, "i o"]:
    bound = (6.0 / n_in) ** 0.5
    return jax.random.uniform(key, (n_in, n_out), minval=-bound, maxval=bound)
