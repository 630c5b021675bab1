"""The curvature H of a log-likelihood: full, by Kronecker factors, or diagonal; and its posterior.

A structure adds up J' middle J over rows (`add`), says what that costs in memory (`gigabytes`) and
as a matrix (`finish`), and how the posterior is drawn from (`draw`) and pushed through the
linearised network (`output_cov`). A `Curvature` stands for the posterior covariance (b H + P)^-1,
with a diagonal prior precision P that is constant on every leaf of the weights, and b a factor of
the noise precision: `spread` describes it, `root` is the pytree that stands for it in `draw` and
`output_cov`.

J, the derivatives of a network's outputs by its weights, comes one leaf of the weights after
another. Each network has them as arrays; those of the multilayer perceptron are outer products of a
layer's inputs and of what reaches its units from the outputs, and are never multiplied out where
that can be avoided.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from math import prod
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from scipy import linalg

from bayesprop.networks.gradient_method import Apply
from bayesprop.networks.mlp import plain_activation
from bayesprop.numerics import graphs
from bayesprop.numerics.graphs import Node

Shapes = Sequence[tuple[int, ...]]
Spread = tuple[float, Float[np.ndarray, " l"]]
"""Of b H + P: its log determinant, and the trace of its inverse on every leaf."""

NOT_POSITIVE = (
    "the posterior precision is not positive definite even after rounding was repaired: "
    "raise prior_prec, or choose structure='diagonal'"
)
Middle = Float[Array, "b k k"]
_BYTES = 8e-9  # gigabytes of a float64


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
        by_unit = (self.inputs * self.inputs) @ var
        return (self.units * by_unit.reshape(-1, 1, var.shape[1])) @ self.units.mT


LeafSlopes = ArraySlopes | LayerSlopes
"""Derivatives of the k outputs at b rows by one leaf."""

Slopes = tuple[LeafSlopes, ...]


def linearise(
    apply: Apply, weights: PyTree, x: Float[Array, "b ..."]
) -> tuple[Float[Array, "b k"], Slopes]:
    """Compute the outputs at every row and their derivatives by every leaf of the weights."""
    if (nonlinearity := plain_activation(apply)) is not None:

        def bent(z: Array) -> tuple[Array, Array]:
            return jax.jvp(nonlinearity.apply, (z,), (jnp.ones_like(z),))

        add_one = partial(jnp.pad, pad_width=((0, 0), (0, 1)), constant_values=1.0)
        return _layers(bent, add_one, weights, x)
    slopes = jax.vmap(jax.jacrev(apply), in_axes=(None, 0))(weights, x)
    outputs = jax.vmap(partial(apply, weights))(x)
    return outputs, tuple(map(ArraySlopes, jax.tree.leaves(slopes)))


def relu_layers(weights: Sequence[np.ndarray], x: Node) -> tuple[Node, Slopes]:
    """Write `linearise` of a multilayer perceptron of rectifiers as a graph of ONNX."""

    def bent(z: Node) -> tuple[Node, Node]:
        return graphs.larger(z, 0.0), graphs.where_less(0.0, z, 1.0, 0.0)

    return _layers(bent, lambda z: graphs.side_by_side([z, z.sum() * 0.0 + 1.0]), weights, x)


def _layers(
    bent: Callable, with_one: Callable, weights: Sequence[Any], x: Any
) -> tuple[Any, Slopes]:
    """Go forward keeping every layer's inputs, and back.

    bent
        The nonlinearity and its slope.
    with_one
        Appends the constant input.
    """
    inputs, slopes_of_units, z = [], [], x
    for number, w in enumerate(weights):
        if number:
            z, slope = bent(z)
            slopes_of_units.append(slope.reshape(-1, 1, len(w) - 1))
        inputs.append(with_one(z))
        z = inputs[-1] @ w
    n_outputs = weights[-1].shape[1]
    units = z.reshape(-1, n_outputs, 1) * 0.0 + np.eye(n_outputs, dtype=weights[-1].dtype)[None]
    slopes = [LayerSlopes(inputs[-1], units)]
    for number in reversed(range(len(weights) - 1)):
        units = (units @ weights[number + 1][:-1].T) * slopes_of_units[number]
        slopes.append(LayerSlopes(inputs[number], units))
    return z, tuple(reversed(slopes))


def tangent_apply(apply: Apply) -> Apply:
    """Return the network that is linear in its weights: ((centre, deviation), row) -> outputs."""

    def linear(weights: tuple[PyTree, PyTree], x: Array) -> Array:
        centre, deviation = weights
        outputs, change = jax.jvp(lambda w: apply(w, x), (centre,), (deviation,))
        return outputs + change

    return linear


def leaf_sizes(shapes: Shapes) -> Float[np.ndarray, " l"]:
    """Weights of every leaf."""
    return np.array([prod(shape) for shape in shapes], dtype=np.float64)


class DenseCurvature:
    """H in full (MacKay 1992).

    sizes
        Weights of every leaf.
    """

    def __init__(self, matrix: Float[np.ndarray, "p p"], shapes: Shapes) -> None:
        self.sizes = leaf_sizes(shapes)
        self._matrix = np.asfortranarray(0.5 * (matrix + matrix.T))
        self._places = np.repeat(np.arange(len(self.sizes)), self.sizes.astype(int))

    def _factor(self, prior_prec: np.ndarray, b: float) -> np.ndarray:
        """Lower Cholesky factor of b H + P; rounding's negative eigenvalues are set to 0."""
        try:
            return self._cholesky(prior_prec, b)
        except linalg.LinAlgError:
            values, vectors = linalg.eigh(self._matrix, check_finite=False)
            self._matrix = np.asfortranarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
        try:
            return self._cholesky(prior_prec, b)
        except linalg.LinAlgError:
            raise FloatingPointError(NOT_POSITIVE) from None

    def _cholesky(self, prior_prec: np.ndarray, b: float) -> np.ndarray:
        matrix = b * self._matrix
        matrix[np.diag_indices_from(matrix)] += prior_prec[self._places]
        return linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)

    def spread(self, prior_prec: Float[np.ndarray, " l"], b: float) -> Spread:
        """Log determinant and traces, by a Cholesky factor."""
        factor = self._factor(prior_prec, b)
        log_det = 2.0 * float(np.sum(np.log(np.diag(factor))))
        of_weights = np.sum(np.square(_inverse(factor)), axis=0)
        return log_det, np.bincount(self._places, of_weights, len(self.sizes))

    def root(self, prior_prec: Float[np.ndarray, " l"], b: float) -> Float[np.ndarray, "p p"]:
        """R with R R' = (b H + P)^-1: the inverse transpose of the Cholesky factor."""
        return np.ascontiguousarray(_inverse(self._factor(prior_prec, b)).T)


def _inverse(factor: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p p"]:
    """Invert a lower triangular matrix in place; above the diagonal it holds zeros."""
    (invert,) = linalg.get_lapack_funcs(("trtri",), (factor,))
    inverse, _ = invert(factor, lower=1, overwrite_c=1)
    return inverse


class LeafwiseCurvature:
    """H that is diagonal in a basis of each leaf; values that rounding made negative are 0."""

    def __init__(
        self, values: Sequence[Float[np.ndarray, "..."]], bases: Sequence[tuple[np.ndarray, ...]]
    ) -> None:
        self.sizes = np.array([leaf.size for leaf in values], dtype=np.float64)
        self._values = [np.maximum(leaf, 0.0) for leaf in values]
        self._bases = bases

    def _along(self, prior_prec: np.ndarray, b: float) -> list[np.ndarray]:
        return [b * leaf + prec for leaf, prec in zip(self._values, prior_prec, strict=True)]

    def spread(self, prior_prec: Float[np.ndarray, " l"], b: float) -> Spread:
        """Log determinant and traces, by the eigenvalues."""
        along = self._along(prior_prec, b)
        log_det = float(sum(np.sum(np.log(leaf)) for leaf in along))
        return log_det, np.array([np.sum(1.0 / leaf) for leaf in along])

    def root(self, prior_prec: Float[np.ndarray, " l"], b: float) -> PyTree:
        """Return the basis and standard deviations along it, leaf after leaf."""
        stds = [leaf**-0.5 for leaf in self._along(prior_prec, b)]
        return tuple((*basis, std) for basis, std in zip(self._bases, stds, strict=True))


Curvature = DenseCurvature | LeafwiseCurvature
"""H, the generalised Gauss-Newton matrix of minus the log-likelihood."""


def _float64(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.float64)


def _cut(flat: Float[Array, " p"], shapes: Shapes) -> tuple[Array, ...]:
    """Cut a vector into leaves."""
    edges = np.cumsum(leaf_sizes(shapes).astype(int))[:-1].tolist()
    parts = zip(jnp.split(flat, edges), shapes, strict=True)
    return tuple(part.reshape(shape) for part, shape in parts)


@dataclass(frozen=True)
class Full:
    """Every weight with every other: P² numbers."""

    name = "full"

    def gigabytes(self, shapes: Shapes) -> float:
        """Curvature, factor and root."""
        return 3.0 * _BYTES * float(leaf_sizes(shapes).sum()) ** 2

    def values_a_row(self, held: int, shapes: Shapes, n_outputs: int) -> int:
        """Layers are multiplied out, and once more with what stands between."""
        return held + 2 * n_outputs * int(leaf_sizes(shapes).sum())

    def zero(self, shapes: Shapes, dtype: jnp.dtype) -> Float[Array, "p p"]:
        """Start of the sum over rows."""
        p = int(leaf_sizes(shapes).sum())
        return jnp.zeros((p, p), dtype)

    def add(self, total: Array, slopes: Slopes, middle: Middle, weight: Array) -> Array:
        """One matrix product for all rows."""
        del weight
        every = jnp.concatenate([leaf.rows() for leaf in slopes], axis=-1)
        p = every.shape[-1]
        return total + every.reshape(-1, p).T @ (middle @ every).reshape(-1, p)

    def finish(self, total: PyTree, shapes: Shapes) -> DenseCurvature:
        """Read the sum."""
        return DenseCurvature(np.asarray(total, np.float64), shapes)

    def draw(self, root: PyTree, key: PRNGKeyArray, shapes: Shapes) -> tuple[Array, ...]:
        """R z, cut into leaves."""
        return _cut(root @ jax.random.normal(key, root.shape[:1], root.dtype), shapes)

    def output_cov(self, root: PyTree, slopes: Slopes) -> Float[Array, "b k k"]:
        """J R (J R)'."""
        moved = jnp.concatenate([leaf.rows() for leaf in slopes], axis=-1) @ root
        return moved @ moved.mT

    def shape_of_root(self, shapes: Shapes) -> PyTree:
        """One square array."""
        p = int(leaf_sizes(shapes).sum())
        return _float64(p, p)


@dataclass(frozen=True)
class _Leafwise:
    """Independent numbers along a basis of every leaf: root is (*basis, std), leaf after leaf."""

    def values_a_row(self, held: int, shapes: Shapes, n_outputs: int) -> int:
        """Numbers that a row's derivatives take, `held` before they are used."""
        del shapes, n_outputs
        return held

    def draw(self, root: PyTree, key: PRNGKeyArray, shapes: Shapes) -> tuple[Array, ...]:
        """Independent numbers along the basis, turned back."""

        def one(key: Array, leaf: tuple[Array, ...]) -> Array:
            *basis, std = leaf
            z = std * jax.random.normal(key, std.shape, std.dtype)
            return basis[0] @ z @ basis[1].T if basis else z

        return tuple(map(one, jax.random.split(key, len(shapes)), root))

    def output_cov(self, root: PyTree, slopes: Slopes) -> Float[Array, "b k k"]:
        """Sum over leaves of J diag(var) J', inputs and units turned to the basis."""

        def one(slope: LeafSlopes, leaf: tuple[Array, ...]) -> Array:
            *basis, std = leaf
            if basis and isinstance(slope, LayerSlopes):
                slope = LayerSlopes(slope.inputs @ basis[0], slope.units @ basis[1])
            return slope.spread(std**2)

        return reduce(operator.add, map(one, slopes, root))


class Diagonal(_Leafwise):
    """Every weight by itself: P numbers."""

    name = "diagonal"

    def gigabytes(self, shapes: Shapes) -> float:
        """Curvature and standard deviations."""
        return 3.0 * _BYTES * float(leaf_sizes(shapes).sum())

    def zero(self, shapes: Shapes, dtype: jnp.dtype) -> tuple[Array, ...]:
        """Start of the sum over rows."""
        return tuple(jnp.zeros(shape, dtype) for shape in shapes)

    def add(
        self, total: tuple[Array, ...], slopes: Slopes, middle: Middle, weight: Array
    ) -> tuple[Array, ...]:
        """Leaf after leaf."""
        del weight
        leaves = zip(total, slopes, strict=True)
        return tuple(leaf + slope.squares(middle) for leaf, slope in leaves)

    def finish(self, total: PyTree, shapes: Shapes) -> LeafwiseCurvature:
        """Read the sum."""
        values = [np.asarray(leaf, np.float64) for leaf in total]
        return LeafwiseCurvature(values, [() for _ in shapes])

    def shape_of_root(self, shapes: Shapes) -> PyTree:
        """One array a leaf, of its shape."""
        return tuple((_float64(*shape),) for shape in shapes)


class _Factors(NamedTuple):
    """Of a layer, summed over rows; `mass` is the sum of the rows' weights."""

    inputs: Array
    units: Array
    mass: Array


class Kron(_Leafwise):
    """A Kronecker product a layer: inputs with inputs, units with units.

    sum_n (z z') x (u' M u) ~ (mean z z') x (sum u' M u), exact for one row, and where inputs and
    slopes are independent (Martens & Grosse 2015; Ritter, Botev & Barber 2018, eq. 6). Layers do
    not know of each other; biases are the weights of a constant input.
    """

    name = "kron"

    def gigabytes(self, shapes: Shapes) -> float:
        """Factors, their eigenvectors and what the decomposition works in; standard deviations."""
        return _BYTES * sum(4.0 * (i**2 + o**2) + 2.0 * i * o for i, o in shapes)

    def zero(self, shapes: Shapes, dtype: jnp.dtype) -> tuple[_Factors, ...]:
        """Start of the sum over rows."""
        nothing = jnp.zeros((), dtype)
        return tuple(
            _Factors(jnp.zeros((i, i), dtype), jnp.zeros((o, o), dtype), nothing) for i, o in shapes
        )

    def add(
        self, total: tuple[_Factors, ...], slopes: Slopes, middle: Middle, weight: Array
    ) -> tuple[_Factors, ...]:
        """Add to the two factors of every layer."""

        def one(sums: _Factors, layer: LayerSlopes) -> _Factors:
            o = layer.units.shape[-1]
            pushed = (middle @ layer.units).reshape(-1, o)
            return _Factors(
                sums.inputs + (layer.inputs * weight[:, None]).T @ layer.inputs,
                sums.units + layer.units.reshape(-1, o).T @ pushed,
                sums.mass + jnp.sum(weight),
            )

        return tuple(map(one, total, cast(tuple[LayerSlopes, ...], slopes)))

    def finish(self, total: PyTree, shapes: Shapes) -> LeafwiseCurvature:
        """Decompose both factors of every layer."""
        del shapes
        values, bases = [], []
        for factors in total:
            inputs, units = (np.asarray(part, np.float64) for part in factors[:2])
            along_i, turn_i = linalg.eigh(inputs / float(factors.mass), check_finite=False)
            along_o, turn_o = linalg.eigh(units, check_finite=False)
            values.append(np.outer(np.maximum(along_i, 0.0), np.maximum(along_o, 0.0)))
            bases.append((turn_i, turn_o))
        return LeafwiseCurvature(values, bases)

    def shape_of_root(self, shapes: Shapes) -> PyTree:
        """Three arrays a layer: eigenvectors of both factors, standard deviations."""
        return tuple((_float64(i, i), _float64(o, o), _float64(i, o)) for i, o in shapes)


Structure = Full | Kron | Diagonal
"""A shape of the curvature; hashable, so that it keys compilation. `name` is what users say."""
