"""Dense matrices: few directions that stand for a space, an inverse from a factor, threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import numpy as np
from jaxtyping import Float
from scipy import linalg
from threadpoolctl import LibController, OpenBLASController, ThreadpoolController


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


def raised_cholesky(
    square: Float[np.ndarray, "n n"], more: float, least: float = 0.0
) -> Float[np.ndarray, "n n"]:
    """Lower factor of a matrix, which is written over, with so much more on its diagonal.

    Rounded sums of large numbers may need ten times that, or `least` of the largest number there
    and of the size, and again ten times.
    """
    diagonal = np.diag_indices(len(square))
    while True:
        square[diagonal] += more
        try:
            return linalg.cholesky(square, lower=True, check_finite=False)
        except linalg.LinAlgError:
            more = max(10.0 * more, least * len(square) * square[diagonal].max())


class _Holders:
    """Blocks of code that hold the process to one BLAS thread, and what ends that.

    Not by `threadpool_limits`: it ends in no other thread than it began in, and the last of them
    may.
    """

    def __init__(self) -> None:
        self.lock, self.number = Lock(), 0
        self.before: list[tuple[LibController, int]] = []

    def add(self) -> None:
        """Begin with the first of them."""
        with self.lock:
            if not self.number:
                libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                self.before = [(one, one.num_threads) for one in libraries]
                _set_threads([(one, 1) for one in libraries])
            self.number += 1

    def remove(self) -> None:
        """End with the last of them."""
        with self.lock:
            self.number -= 1
            if not self.number:
                _set_threads(self.before)


def _set_threads(numbers: list[tuple[LibController, int]]) -> None:
    """Set the number of threads of libraries, whatever thread set it before."""
    for library, number in numbers:
        is_owned = isinstance(library, OpenBLASController)
        if is_owned:
            library.clear_controlling_thread(force=True)
        library.set_num_threads(number)
        if is_owned:
            library.clear_controlling_thread(force=True)


_holders = _Holders()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the products of matrices to one thread.

    Matrices of a thousand rows gain nothing from more, and lose where a core is busy. The limit is
    the whole process's, from the first block that asks for it to the end of the last.
    """
    _holders.add()
    try:
        yield
    finally:
        _holders.remove()
