"""Few points that stand for a standard Gaussian in several dimensions, the same every time.

The additive recurrence of the generalised golden ratio (Roberts 2018, "The unreasonable
effectiveness of quasirandom sequences") through the Gaussian quantile function, with every point's
opposite, and then turned so that the covariance is exact: polynomials up to degree three are
integrated without error.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy import linalg, special


@lru_cache(maxsize=16)
def gaussian_nodes(n_dims: int, n_pairs: int) -> Float[np.ndarray, "r d"]:
    """Return 2 max(n_pairs, 2 n_dims) points of equal weight; do not write to them."""
    n_pairs = max(n_pairs, 2 * n_dims)
    golden = 2.0
    for _ in range(60):
        golden = (1.0 + golden) ** (1.0 / (n_dims + 1.0))
    steps = golden ** -np.arange(1.0, n_dims + 1.0)
    z = special.ndtri((0.5 + np.outer(np.arange(1, n_pairs + 1), steps)) % 1.0)
    factor = linalg.cholesky(z.T @ z / n_pairs, lower=True)
    z = linalg.solve_triangular(factor, z.T, lower=True).T
    nodes = np.concatenate([z, -z])
    nodes.flags.writeable = False
    return nodes
