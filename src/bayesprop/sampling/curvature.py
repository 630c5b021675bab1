"""What the curvature of a log-likelihood is as a matrix H, and the posterior that follows from it.

A `Curvature` answers for the posterior covariance (b H + P)^-1, with a diagonal prior precision P
that is constant on every leaf of the weights, and b a factor of the noise precision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg

Shapes = Sequence[tuple[int, ...]]
_NEGATIVE = -1e-9


def leaf_sizes(shapes: Shapes) -> Float[np.ndarray, " l"]:
    """Weights of every leaf."""
    return np.array([prod(shape) for shape in shapes], dtype=np.float64)


NOT_POSITIVE = (
    "the posterior precision is not positive definite even where the curvature was taken for flat: "
    "raise prior_prec, or choose structure='diagonal'"
)


class Spread(NamedTuple):
    """Of b H + P: its log determinant, and the trace of its inverse on every leaf."""

    log_det: float
    traces: Float[np.ndarray, " l"]


class Curvature(ABC):
    """H, the negative second derivatives of the log-likelihood or what stands for them.

    sizes
        Weights of every leaf.
    n_repaired
        Directions in which H curved upwards, and was taken to be flat.
    """

    sizes: Float[np.ndarray, " l"]
    n_repaired: int = 0

    @abstractmethod
    def flatten(self) -> None:
        """Take directions of negative curvature for flat, and count them."""

    @abstractmethod
    def spread(self, prior_prec: Float[np.ndarray, " l"], b: float) -> Spread:
        """Describe (b H + P)^-1."""

    @abstractmethod
    def root(self, prior_prec: Float[np.ndarray, " l"], b: float) -> Any:
        """Return the pytree that stands for (b H + P)^-1 in `Structure.draw` and `.output_cov`."""

    @abstractmethod
    def dense(self) -> Float[np.ndarray, "p p"]:
        """H as a matrix, the leaves flattened one after another."""


class DenseCurvature(Curvature):
    """H in full (MacKay 1992)."""

    def __init__(self, matrix: Float[np.ndarray, "p p"], shapes: Shapes) -> None:
        self.sizes = leaf_sizes(shapes)
        self._matrix = np.asfortranarray(0.5 * (matrix + matrix.T))
        self._places = np.repeat(np.arange(len(self.sizes)), self.sizes.astype(int))

    def flatten(self) -> None:
        """Take directions of negative curvature for flat, and count them."""
        values, vectors = linalg.eigh(self._matrix, check_finite=False)
        self.n_repaired += int(np.sum(values < _NEGATIVE * np.abs(values).max(initial=0.0)))
        self._matrix = np.asfortranarray((vectors * np.maximum(values, 0.0)) @ vectors.T)

    def _factor(self, prior_prec: np.ndarray, b: float) -> np.ndarray:
        """Lower Cholesky factor of b H + P; rounding may have to be flattened first."""
        try:
            return self._cholesky(prior_prec, b)
        except linalg.LinAlgError:
            self.flatten()
        try:
            return self._cholesky(prior_prec, b)
        except linalg.LinAlgError:
            raise FloatingPointError(NOT_POSITIVE) from None

    def _cholesky(self, prior_prec: np.ndarray, b: float) -> np.ndarray:
        matrix = b * self._matrix
        matrix[np.diag_indices_from(matrix)] += prior_prec[self._places]
        return linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)

    def spread(self, prior_prec: Float[np.ndarray, " l"], b: float) -> Spread:
        """By a Cholesky factor."""
        factor = self._factor(prior_prec, b)
        log_det = 2.0 * float(np.sum(np.log(np.diag(factor))))
        of_weights = np.sum(np.square(_inverse(factor)), axis=0)
        return Spread(log_det, np.bincount(self._places, of_weights, len(self.sizes)))

    def root(self, prior_prec: Float[np.ndarray, " l"], b: float) -> Float[np.ndarray, "p p"]:
        """R with R R' = (b H + P)^-1: the inverse transpose of the Cholesky factor."""
        return np.ascontiguousarray(_inverse(self._factor(prior_prec, b)).T)

    def dense(self) -> Float[np.ndarray, "p p"]:
        """H itself."""
        return self._matrix


def _inverse(factor: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p p"]:
    """Invert a lower triangular matrix in place; above the diagonal it holds zeros."""
    (invert,) = linalg.get_lapack_funcs(("trtri",), (factor,))
    inverse, _ = invert(factor, lower=1, overwrite_c=1)
    return inverse


class LeafwiseCurvature(Curvature):
    """H that is diagonal in a basis of each leaf, with known eigenvalues."""

    def __init__(self, values: Sequence[Float[np.ndarray, "..."]], bases: Sequence[Any]) -> None:
        self.sizes = np.array([leaf.size for leaf in values], dtype=np.float64)
        self.n_repaired = int(sum(np.sum(leaf < 0.0) for leaf in values))
        self._values = [np.maximum(leaf, 0.0) for leaf in values]
        self._bases = bases

    def flatten(self) -> None:
        """Done from the start."""

    def _along(self, prior_prec: np.ndarray, b: float) -> list[np.ndarray]:
        return [b * leaf + prec for leaf, prec in zip(self._values, prior_prec, strict=True)]

    def spread(self, prior_prec: Float[np.ndarray, " l"], b: float) -> Spread:
        """By the eigenvalues."""
        along = self._along(prior_prec, b)
        log_det = float(sum(np.sum(np.log(leaf)) for leaf in along))
        return Spread(log_det, np.array([np.sum(1.0 / leaf) for leaf in along]))

    def root(self, prior_prec: Float[np.ndarray, " l"], b: float) -> Any:
        """Return the basis and standard deviations along it, leaf after leaf."""
        stds = [leaf**-0.5 for leaf in self._along(prior_prec, b)]
        return tuple((*basis, std) for basis, std in zip(self._bases, stds, strict=True))

    def dense(self) -> Float[np.ndarray, "p p"]:
        """Blocks on the diagonal, one a leaf."""
        blocks = []
        for values, basis in zip(self._values, self._bases, strict=True):
            turn = np.kron(*basis) if basis else np.eye(values.size)
            blocks.append((turn * values.ravel()) @ turn.T)
        return np.asarray(linalg.block_diag(*blocks))
