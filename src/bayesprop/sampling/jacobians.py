"""Derivatives of a network's outputs by its weights, one leaf of the weights after another.

Any network has them as arrays; those of the multilayer perceptron are outer products of a layer's
inputs and of what reaches its units from the outputs, and are never multiplied out where that can
be avoided.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from bayesprop.networks.gradient_method import Apply
from bayesprop.networks.mlp import Activation, Weights, plain_activation


class ArraySlopes(NamedTuple):
    """Derivatives as an array: any network."""

    slopes: Float[Array, "b k ..."]

    def rows(self) -> Float[Array, "b k p"]:
        """As an array, the leaf flattened."""
        return self.slopes.reshape(*self.slopes.shape[:2], -1)

    def squares(self, middle: Float[Array, "b k k"]) -> Array:
        """Sum over rows of diag(J' middle J), in the shape of the leaf."""
        return jnp.einsum("bk...,bkl,bl...->...", self.slopes, middle, self.slopes)

    def spread(self, var: Array) -> Float[Array, "b k k"]:
        """J diag(var) J' at every row."""
        rows = self.rows()
        return jnp.einsum("bkp,p,blp->bkl", rows, var.ravel(), rows)


class LayerSlopes(NamedTuple):
    """df_k / dW_io = inputs_i units_ko: a layer of the multilayer perceptron.

    inputs
        Of the layer, the constant 1 of its biases last.
    units
        Derivatives of the outputs by the sums that enter the layer's units.
    """

    inputs: Float[Array, "b i"]
    units: Float[Array, "b k o"]

    def rows(self) -> Float[Array, "b k p"]:
        """As an array, the leaf flattened."""
        product = self.inputs[:, None, :, None] * self.units[:, :, None, :]
        return product.reshape(*self.units.shape[:2], -1)

    def squares(self, middle: Float[Array, "b k k"]) -> Array:
        """Sum over rows of diag(J' middle J), in the shape of the leaf."""
        by_unit = jnp.sum(self.units * (middle @ self.units), axis=1)
        return jnp.square(self.inputs).T @ by_unit

    def spread(self, var: Array) -> Float[Array, "b k k"]:
        """J diag(var) J' at every row."""
        by_unit = jnp.square(self.inputs) @ var
        return (self.units * by_unit[:, None, :]) @ jnp.swapaxes(self.units, 1, 2)


LeafSlopes = ArraySlopes | LayerSlopes
"""Derivatives of the k outputs at b rows by one leaf."""


def linearise(
    apply: Apply, weights: PyTree, x: Float[Array, "b ..."]
) -> tuple[Float[Array, "b k"], tuple[LeafSlopes, ...]]:
    """Compute the outputs at every row and their derivatives by every leaf of the weights."""
    nonlinearity = plain_activation(apply)
    if nonlinearity is not None:
        return _layers(nonlinearity, weights, x)
    slopes = jax.vmap(jax.jacrev(apply), in_axes=(None, 0))(weights, x)
    outputs = jax.vmap(partial(apply, weights))(x)
    return outputs, tuple(map(ArraySlopes, jax.tree.leaves(slopes)))


def _layers(
    nonlinearity: Activation, weights: Weights, x: Float[Array, "b d"]
) -> tuple[Float[Array, "b k"], tuple[LeafSlopes, ...]]:
    """Go forward keeping every layer's inputs, and back."""
    inputs, bends, z = [], [], x
    for number, w in enumerate(weights):
        if number:
            z, bend = jax.jvp(nonlinearity.apply, (z,), (jnp.ones_like(z),))
            bends.append(bend)
        inputs.append(jnp.concatenate([z, jnp.ones_like(z[:, :1])], axis=1))
        z = inputs[-1] @ w
    n_rows, n_outputs = z.shape
    units = jnp.broadcast_to(jnp.eye(n_outputs, dtype=z.dtype), (n_rows, n_outputs, n_outputs))
    slopes = [LayerSlopes(inputs[-1], units)]
    for number in reversed(range(len(weights) - 1)):
        units = (units @ weights[number + 1][:-1].T) * bends[number][:, None, :]
        slopes.append(LayerSlopes(inputs[number], units))
    return z, tuple(reversed(slopes))


def tangent_apply(apply: Apply) -> Apply:
    """Return the network that is linear in its weights: ((centre, deviation), row) -> outputs."""

    def linear(weights: tuple[PyTree, PyTree], x: Array) -> Array:
        centre, deviation = weights
        outputs, change = jax.jvp(lambda w: apply(w, x), (centre,), (deviation,))
        return outputs + change

    return linear
