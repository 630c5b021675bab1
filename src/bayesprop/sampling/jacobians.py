"""Derivatives of a network's outputs by its weights, one leaf of the weights after another.

Any network has them as arrays; those of the multilayer perceptron are outer products of a layer's
inputs and of what reaches its units from the outputs, and are never multiplied out where that can
be avoided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from bayesprop.model.gradient_method import Apply
from bayesprop.model.networks import Activation, plain_activation

_COLUMNS_AT_ONCE = 32


@dataclass(frozen=True)
class Chosen:
    """Which leaves of the weights are unknown; all others are taken as they were trained.

    places
        Their numbers in `jax.tree.leaves`, negative ones from the end; None: every leaf.
    """

    places: tuple[int, ...] | None = None

    def numbers(self, n_leaves: int) -> tuple[int, ...]:
        """Sorted numbers of the leaves, from 0."""
        if self.places is None:
            return tuple(range(n_leaves))
        wrong = [place for place in self.places if not -n_leaves <= place < n_leaves]
        if wrong or not self.places:
            raise ValueError(
                f"places must name leaves of the {n_leaves} that the weights have, got "
                f"{self.places!r}"
            )
        return tuple(sorted({place % n_leaves for place in self.places}))

    def of(self, weights: Any) -> tuple[Array, ...]:
        """Take the unknown leaves."""
        leaves = jax.tree.leaves(weights)
        return tuple(leaves[place] for place in self.numbers(len(leaves)))

    def put(self, weights: Any, leaves: tuple[Array, ...]) -> Any:
        """Put other values in their places."""
        every, structure = jax.tree.flatten(weights)
        for place, leaf in zip(self.numbers(len(every)), leaves, strict=True):
            every[place] = leaf
        return jax.tree.unflatten(structure, every)


EVERY_LEAF = Chosen()


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


class Linearised(NamedTuple):
    """Outputs at b rows, and their derivatives by every chosen leaf."""

    outputs: Float[Array, "b k"]
    slopes: tuple[LeafSlopes, ...]


def linearise(apply: Apply, chosen: Chosen, weights: Any, x: Float[Array, "b ..."]) -> Linearised:
    """Differentiate the outputs at every row by the chosen leaves."""
    nonlinearity = plain_activation(apply)
    if nonlinearity is not None:
        return _layers(nonlinearity, chosen.numbers(len(weights)), weights, x)
    leaves = chosen.of(weights)

    def outputs(leaves: tuple[Array, ...], row: Array) -> Array:
        return apply(chosen.put(weights, leaves), row)

    slopes = jax.vmap(jax.jacrev(outputs), in_axes=(None, 0))(leaves, x)
    return Linearised(jax.vmap(partial(apply, weights))(x), tuple(map(ArraySlopes, slopes)))


def _layers(
    nonlinearity: Activation, places: tuple[int, ...], weights: Any, x: Float[Array, "b d"]
) -> Linearised:
    """Go forward keeping every layer's inputs, and back no further than needed."""
    inputs, bends, z = [], [], x
    for number, w in enumerate(weights):
        if number:
            z, bend = jax.jvp(nonlinearity.apply, (z,), (jnp.ones_like(z),))
            bends.append(bend)
        inputs.append(jnp.concatenate([z, jnp.ones_like(z[:, :1])], axis=1))
        z = inputs[-1] @ w
    n_rows, n_outputs = z.shape
    units = jnp.broadcast_to(jnp.eye(n_outputs, dtype=z.dtype), (n_rows, n_outputs, n_outputs))
    slopes: dict[int, LeafSlopes] = {}
    for number in reversed(range(places[0], len(weights))):
        if number in places:
            slopes[number] = LayerSlopes(inputs[number], units)
        if number > places[0]:
            units = (units @ weights[number][:-1].T) * bends[number - 1][:, None, :]
    return Linearised(z, tuple(slopes[number] for number in places))


def map_hessian_columns(
    loss: Callable[[Any], Array], leaves: Any, read: Callable[[Array, Array], Array]
) -> Array:
    """Map `read` of (column, its number) over the second derivatives of a loss, flattened.

    A column is the derivative of the gradient along one weight: no more than some are held.
    """
    flat, unravel = ravel_pytree(leaves)

    def column(number: Array) -> Array:
        along = jnp.zeros_like(flat).at[number].set(1.0)
        return jax.jvp(jax.grad(lambda flat: loss(unravel(flat))), (flat,), (along,))[1]

    return jax.lax.map(
        lambda number: read(column(number), number),
        jnp.arange(flat.size),
        batch_size=_COLUMNS_AT_ONCE,
    )


def tangent_apply(apply: Apply) -> Callable[[tuple[Any, Any], Array], Array]:
    """Return the network that is linear in its weights: ((centre, departure), row) -> outputs."""

    def linear(weights: tuple[Any, Any], x: Array) -> Array:
        centre, departure = weights
        outputs, change = jax.jvp(lambda w: apply(w, x), (centre,), (departure,))
        return outputs + change

    return linear
