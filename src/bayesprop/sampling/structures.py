"""Shapes that the curvature of a log-likelihood may have: full, by Kronecker factors, diagonal.

A structure says what is added up over rows (`add`), what it costs in memory (`gigabytes`), what it
is as a matrix (`finish`), and how the posterior is drawn from (`draw`) and pushed through the
linearised network (`output_cov`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy import linalg

from bayesprop.sampling.curvature import (
    Curvature,
    DenseCurvature,
    LeafwiseCurvature,
    Shapes,
    leaf_sizes,
)
from bayesprop.sampling.jacobians import LayerSlopes, LeafSlopes

ColumnReader = Callable[[Callable[[Array, Array], Array]], Array]
"""Maps a function of (column, its number) over the columns of a matrix, some at a time."""

_BYTES = 8e-9  # gigabytes of a float64


@dataclass(frozen=True)
class Structure(ABC):
    """A shape of the curvature; hashable, so that it keys compilation."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What users call it."""

    @abstractmethod
    def gigabytes(self, shapes: Shapes) -> float:
        """Most memory that curvature and posterior take."""

    def values_a_row(self, held: int, shapes: Shapes, n_outputs: int) -> int:
        """Numbers that a row's derivatives take, `held` before they are used."""
        del shapes, n_outputs
        return held

    @abstractmethod
    def zero(self, shapes: Shapes, dtype: Any) -> Any:
        """Start of the sum over rows."""

    @abstractmethod
    def add(
        self,
        total: Any,
        slopes: tuple[LeafSlopes, ...],
        middle: Float[Array, "b k k"],
        weight: Float[Array, " b"],
    ) -> Any:
        """Add sum over rows of J' middle J; `middle` is weighted already."""

    @abstractmethod
    def finish(self, total: Any, shapes: Shapes) -> Curvature:
        """Read the sum."""

    @abstractmethod
    def draw(self, root: Any, key: PRNGKeyArray, shapes: Shapes) -> tuple[Array, ...]:
        """Draw a departure of every leaf from its mean."""

    @abstractmethod
    def output_cov(self, root: Any, slopes: tuple[LeafSlopes, ...]) -> Float[Array, "b k k"]:
        """J (b H + P)^-1 J' at every row."""

    @abstractmethod
    def shape_of_root(self, shapes: Shapes) -> Any:
        """Shapes of the arrays of `Curvature.root`, to check those of a file."""


@dataclass(frozen=True)
class ExactStructure(Structure):
    """A shape that exact second derivatives can have, too."""

    @abstractmethod
    def add_columns(self, total: Any, read: ColumnReader) -> Any:
        """Add the columns of exact second derivatives."""


def _float64(shape: tuple[int, ...]) -> Any:
    return jax.ShapeDtypeStruct(shape, np.float64)


def _whole(column: Array, number: Array) -> Array:
    del number
    return column


def _cut(flat: Float[Array, " p"], shapes: Shapes) -> tuple[Array, ...]:
    """Cut a vector into leaves."""
    edges = np.cumsum(leaf_sizes(shapes).astype(int))[:-1].tolist()
    parts = zip(jnp.split(flat, edges), shapes, strict=True)
    return tuple(part.reshape(shape) for part, shape in parts)


@dataclass(frozen=True)
class Full(ExactStructure):
    """Every weight with every other: P² numbers."""

    @property
    def name(self) -> str:
        """What users call it."""
        return "full"

    def gigabytes(self, shapes: Shapes) -> float:
        """Curvature, factor and root."""
        return 3.0 * _BYTES * float(leaf_sizes(shapes).sum()) ** 2

    def values_a_row(self, held: int, shapes: Shapes, n_outputs: int) -> int:
        """Layers are multiplied out, and once more with what stands between."""
        return held + 2 * n_outputs * int(leaf_sizes(shapes).sum())

    def zero(self, shapes: Shapes, dtype: Any) -> Float[Array, "p p"]:
        """Start of the sum over rows."""
        p = int(leaf_sizes(shapes).sum())
        return jnp.zeros((p, p), dtype)

    def add(
        self,
        total: Any,
        slopes: tuple[LeafSlopes, ...],
        middle: Float[Array, "b k k"],
        weight: Float[Array, " b"],
    ) -> Any:
        """One matrix product for all rows."""
        del weight
        rows = jnp.concatenate([leaf.rows() for leaf in slopes], axis=-1)
        p = rows.shape[-1]
        return total + rows.reshape(-1, p).T @ (middle @ rows).reshape(-1, p)

    def add_columns(self, total: Any, read: ColumnReader) -> Any:
        """Keep every column."""
        return total + read(_whole)

    def finish(self, total: Any, shapes: Shapes) -> DenseCurvature:
        """Read the sum."""
        return DenseCurvature(np.asarray(total, np.float64), shapes)

    def draw(self, root: Any, key: PRNGKeyArray, shapes: Shapes) -> tuple[Array, ...]:
        """R z, cut into leaves."""
        return _cut(root @ jax.random.normal(key, root.shape[:1], root.dtype), shapes)

    def output_cov(self, root: Any, slopes: tuple[LeafSlopes, ...]) -> Float[Array, "b k k"]:
        """J R (J R)'."""
        moved = jnp.concatenate([leaf.rows() for leaf in slopes], axis=-1) @ root
        return moved @ jnp.swapaxes(moved, 1, 2)

    def shape_of_root(self, shapes: Shapes) -> Any:
        """One square array."""
        p = int(leaf_sizes(shapes).sum())
        return _float64((p, p))


@dataclass(frozen=True)
class Diagonal(ExactStructure):
    """Every weight by itself: P numbers."""

    @property
    def name(self) -> str:
        """What users call it."""
        return "diagonal"

    def gigabytes(self, shapes: Shapes) -> float:
        """Curvature and standard deviations."""
        return 3.0 * _BYTES * float(leaf_sizes(shapes).sum())

    def zero(self, shapes: Shapes, dtype: Any) -> tuple[Array, ...]:
        """Start of the sum over rows."""
        return tuple(jnp.zeros(shape, dtype) for shape in shapes)

    def add(
        self,
        total: Any,
        slopes: tuple[LeafSlopes, ...],
        middle: Float[Array, "b k k"],
        weight: Float[Array, " b"],
    ) -> Any:
        """Leaf after leaf."""
        del weight
        return tuple(
            leaf + slope.squares(middle) for leaf, slope in zip(total, slopes, strict=True)
        )

    def add_columns(self, total: Any, read: ColumnReader) -> Any:
        """Keep one number a column."""
        diagonal = read(lambda column, number: column[number])
        parts = _cut(diagonal, [leaf.shape for leaf in total])
        return tuple(map(jnp.add, total, parts))

    def finish(self, total: Any, shapes: Shapes) -> LeafwiseCurvature:
        """Read the sum."""
        values = [np.asarray(leaf, np.float64) for leaf in total]
        return LeafwiseCurvature(values, [() for _ in shapes])

    def draw(self, root: Any, key: PRNGKeyArray, shapes: Shapes) -> tuple[Array, ...]:
        """Independent numbers."""
        keys = jax.random.split(key, len(shapes))
        return tuple(
            std * jax.random.normal(key, std.shape, std.dtype)
            for key, (std,) in zip(keys, root, strict=True)
        )

    def output_cov(self, root: Any, slopes: tuple[LeafSlopes, ...]) -> Float[Array, "b k k"]:
        """Sum over leaves of J diag(var) J'."""
        parts = [leaf.spread(std**2) for leaf, (std,) in zip(slopes, root, strict=True)]
        return jnp.sum(jnp.stack(parts), axis=0)

    def shape_of_root(self, shapes: Shapes) -> Any:
        """One array a leaf, of its shape."""
        return tuple((_float64(tuple(shape)),) for shape in shapes)


class _Factors(NamedTuple):
    """Of a layer, summed over rows; `mass` is the sum of the rows' weights."""

    inputs: Array
    units: Array
    mass: Array


@dataclass(frozen=True)
class Kron(Structure):
    """A Kronecker product a layer: inputs with inputs, units with units.

    sum_n (z z') x (u' M u) ~ (mean z z') x (sum u' M u), exact for one row, and where inputs and
    slopes are independent (Martens & Grosse 2015; Ritter, Botev & Barber 2018, eq. 6). Layers do
    not know of each other; biases are the weights of a constant input.
    """

    @property
    def name(self) -> str:
        """What users call it."""
        return "kron"

    def gigabytes(self, shapes: Shapes) -> float:
        """Factors, their eigenvectors and what the decomposition works in; standard deviations."""
        return _BYTES * sum(4.0 * (i**2 + o**2) + 2.0 * i * o for i, o in shapes)

    def zero(self, shapes: Shapes, dtype: Any) -> tuple[_Factors, ...]:
        """Start of the sum over rows."""
        nothing = jnp.zeros((), dtype)
        return tuple(
            _Factors(jnp.zeros((i, i), dtype), jnp.zeros((o, o), dtype), nothing) for i, o in shapes
        )

    def add(
        self,
        total: Any,
        slopes: tuple[LeafSlopes, ...],
        middle: Float[Array, "b k k"],
        weight: Float[Array, " b"],
    ) -> Any:
        """Add to the two factors of every layer."""

        def one(sums: _Factors, layer: LayerSlopes) -> _Factors:
            o = layer.units.shape[-1]
            pushed = (middle @ layer.units).reshape(-1, o)
            return _Factors(
                sums.inputs + (layer.inputs * weight[:, None]).T @ layer.inputs,
                sums.units + layer.units.reshape(-1, o).T @ pushed,
                sums.mass + jnp.sum(weight),
            )

        layers = cast(tuple[LayerSlopes, ...], slopes)
        return tuple(one(*pair) for pair in zip(total, layers, strict=True))

    def finish(self, total: Any, shapes: Shapes) -> LeafwiseCurvature:
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

    def draw(self, root: Any, key: PRNGKeyArray, shapes: Shapes) -> tuple[Array, ...]:
        """Independent numbers along the eigenvectors, turned back."""
        keys = jax.random.split(key, len(shapes))
        return tuple(
            turn_i @ (std * jax.random.normal(key, std.shape, std.dtype)) @ turn_o.T
            for key, (turn_i, turn_o, std) in zip(keys, root, strict=True)
        )

    def output_cov(self, root: Any, slopes: tuple[LeafSlopes, ...]) -> Float[Array, "b k k"]:
        """Turn inputs and units to the eigenvectors; from there on as `Diagonal`."""
        layers = cast(tuple[LayerSlopes, ...], slopes)
        parts = [
            LayerSlopes(layer.inputs @ turn_i, layer.units @ turn_o).spread(std**2)
            for layer, (turn_i, turn_o, std) in zip(layers, root, strict=True)
        ]
        return jnp.sum(jnp.stack(parts), axis=0)

    def shape_of_root(self, shapes: Shapes) -> Any:
        """Three arrays a layer: eigenvectors of both factors, standard deviations."""
        return tuple((_float64((i, i)), _float64((o, o)), _float64((i, o))) for i, o in shapes)
