"""Held-out predictions of a ridge regression: a fast criterion for the units of a target."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

PRECISIONS = (1e-6, 1e-2, 1.0, 1e1, 1e2, 1e3, 1e4)
_MOST_ROWS, _MOST_COLUMNS = 2000, 500
_LENGTH, _LINE, _FAR = 3.0, 0.3, 5.0


class LeftOut(NamedTuple):
    """Errors of rows by ridges without them, at the precision that has the least mean square."""

    precision: float
    errors: Float[np.ndarray, " n"]
    mean_square: float


class Ridge(NamedTuple):
    """Standardised inputs of weighted rows, decomposed once for every target and precision.

    The intercept has no prior.

    at
        Places of these rows in their table.
    """

    at: Int[np.ndarray, " n"]
    x: Float[np.ndarray, "n d"]
    weight: Float[np.ndarray, " n"]
    share: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " d"]
    root: Float[np.ndarray, "n 1"]
    basis: Float[np.ndarray, "n r"]
    size: Float[np.ndarray, " r"]
    axes: Float[np.ndarray, "r d"]

    @classmethod
    def of(cls, x: Float[np.ndarray, "n d"], weight: Float[np.ndarray, " n"]) -> Ridge:
        """Decompose the centred rows."""
        share, root = weight / np.sum(weight), np.sqrt(weight)[:, None]
        mean = share @ x
        parts = np.linalg.svd(root * (x - mean), full_matrices=False)
        return cls(np.arange(len(x)), x, weight, share, mean, root, *parts)

    @classmethod
    def of_some(cls, x: Float[np.ndarray, "n d"], weight: Float[np.ndarray, " n"]) -> Ridge:
        """Decompose rows evenly spaced, where there are too many to be fast."""
        at = evenly(len(x), _MOST_ROWS if x.shape[1] <= _MOST_COLUMNS else _MOST_COLUMNS)
        return cls.of(x[at], weight[at])._replace(at=at)

    def left_out_errors(self, z: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "p n k"]:
        """Error of every row by a ridge fitted without it, for each precision of the ridge.

        (z_i - f_i) / (1 - H_ii) with the hat matrix H of weighted rows (Allen 1974).
        """
        centred, square = self.root * (z - self.share @ z), self.size**2
        along, errors = self.basis.T @ centred, []
        for precision in PRECISIONS:
            shrink = square / (square + precision)
            predicted = self.basis @ (shrink[:, None] * along)
            leverage = (self.basis**2) @ shrink + self.share
            residual = (centred - predicted) / self.root
            errors.append(residual / np.maximum(1.0 - leverage, 1e-6)[:, None])
        return np.stack(errors)

    def left_out(self, z: Float[np.ndarray, " n"]) -> LeftOut:
        """Return the errors at the best precision."""
        errors = self.left_out_errors(z[:, None])[..., 0]
        mean_square = np.average(errors**2, axis=1, weights=self.weight)
        best = int(np.argmin(mean_square))
        return LeftOut(PRECISIONS[best], errors[best], float(mean_square[best]))

    def line(self, z: Float[np.ndarray, " n"], precision: float) -> tuple[np.ndarray, float]:
        """Return slopes and intercept for one target and precision."""
        mean = float(self.share @ z)
        along = self.basis.T @ (self.root[:, 0] * (z - mean))
        slopes = self.axes.T @ (along * self.size / (self.size**2 + precision))
        return slopes, mean - float(self.mean @ slopes)


def curves(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n n"]:
    """Return columns whose ridge is a kernel ridge: linear, and a curve much smoother than x.

    The squared exponential kernel of three times the distance of standardised rows, and a linear
    one; cubic in the rows.
    """
    near, d = np.clip(x, -_FAR, _FAR), max(x.shape[1], 1)
    inner = near @ near.T
    square = np.diag(inner)
    distance = np.maximum(square[:, None] + square - 2.0 * inner, 0.0)
    kernel = np.exp(-0.5 * distance / (_LENGTH**2 * d)) + _LINE * inner / d
    size, axes = np.linalg.eigh(kernel)
    return axes * np.sqrt(len(x) * np.maximum(size, 1e-9))


def evenly(n: int, most: int) -> np.ndarray:
    """Return places of rows, evenly spaced where there are more than `most`."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(int)
