"""Dense matrices: few directions that stand for a space, an inverse from a factor, threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import numpy as np
from jaxtyping import Float
from scipy import linalg
from threadpoolctl import threadpool_limits

_one_at_a_time = RLock()


def orthogonal_columns(rng: np.random.Generator, n: int, number: int) -> Float[np.ndarray, "n s"]:
    """Orthogonal columns in random directions, whose outer products add up to 1 on average.

    No more than n of them.
    """
    if number >= n:
        return np.eye(n)
    columns, _ = np.linalg.qr(rng.standard_normal((n, number)))
    return columns * np.sqrt(n / number)


def inverse_triangle(root: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """Lower triangle of the inverse of a symmetric matrix with that lower Cholesky factor."""
    (potri,) = linalg.get_lapack_funcs(("potri",), (root,))
    return potri(root, lower=1)[0]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the products of matrices to one thread.

    Matrices of a thousand rows gain nothing from more, and lose where a core is busy. The limit is
    the whole process's: two at a time would leave each other's behind.
    """
    with _one_at_a_time, threadpool_limits(1, user_api="blas"):
        yield
