"""What a ridge says of rows that it has not seen: a cheap judge between units of a target."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

PRECISIONS = (1e-2, 1.0, 1e1, 1e2, 1e3, 1e4)
_MOST_ROWS, _MOST_COLUMNS = 2000, 500


def left_out_log_likelihood(
    x: Float[np.ndarray, "n d"], z: Float[np.ndarray, "n k"], weight: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " k"]:
    """Mean log density of every row by a ridge without it, nats, of each of k targets.

    Errors are taken for Laplace's, -log(2 b) - 1 with b their mean absolute value, so that a few
    far rows do not decide; the ridge's precision is the best of a few. Of many rows some are
    taken, evenly spaced.

    x
        Standardised inputs. The intercept has no prior.
    """
    at = some_rows(*x.shape)
    x, z, weight = x[at], z[at], weight[at]
    errors = left_out_errors(x, z, weight)
    mean_error = np.average(np.abs(errors), axis=1, weights=weight)
    least = 1e-12 * np.maximum(np.abs(z).max(axis=0), 1e-290)
    return np.max(-np.log(2.0 * np.maximum(mean_error, least)) - 1.0, axis=0)


def left_out_errors(
    x: Float[np.ndarray, "n d"], z: Float[np.ndarray, "n k"], weight: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "p n k"]:
    """Error of every row by a ridge fitted without it, for each precision of the ridge.

    (z_i - f_i) / (1 - H_ii) with the hat matrix H of weighted rows (Allen 1974).
    """
    share = weight / np.sum(weight)
    root = np.sqrt(weight)[:, None]
    basis, size, _ = np.linalg.svd(root * (x - share @ x), full_matrices=False)
    centred = root * (z - share @ z)
    along, square = basis.T @ centred, size**2
    errors = []
    for precision in PRECISIONS:
        shrink = square / (square + precision)
        fitted = basis @ (shrink[:, None] * along)
        leverage = (basis**2) @ shrink + share
        errors.append((centred - fitted) / root / np.maximum(1.0 - leverage, 1e-6)[:, None])
    return np.stack(errors)


def some_rows(n: int, d: int) -> np.ndarray:
    """Return places of rows, evenly spaced where there are many, that a ridge fits fast."""
    most = _MOST_ROWS if d <= _MOST_COLUMNS else _MOST_COLUMNS
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(int)
