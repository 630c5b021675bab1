"""Columns of linear models, and which prior precisions their weights have.

A basis makes columns of inputs; the intercept is not among them. It is learnt once, from
the first rows, and stays: columns that moved would make the statistics of earlier rows meaningless.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from bayesprop.model.task import Standardiser
from bayesprop.numerics.evidence import FIXED, Groups
from bayesprop.numerics.machine import free_memory

EVIDENCE, ARD = "evidence", "ard"
_LARGEST = 1e100


@dataclass(frozen=True)
class PriorChoice:
    """Which precisions the weights of columns have, the intercept's first.

    prec
        A number; or those that maximise the evidence, `EVIDENCE` (one) or `ARD` (one a column).
    intercept
        Of the intercept, which evidence does not move.
    """

    prec: float | str
    intercept: float

    @property
    def is_known(self) -> bool:
        """Whether there is nothing to find."""
        return not isinstance(self.prec, str)

    def start(self, k: int) -> Float[np.ndarray, " k"]:
        """Precisions of k weights, ones where they are to be found."""
        prec = np.full(k, float(self.prec) if self.is_known else 1.0)
        prec[0] = self.intercept
        return prec

    def groups(self, k: int) -> Groups:
        """Say which of k weights share a precision that is to be found; `FIXED` is not."""
        return _groups(k, is_known=self.is_known, by_column=self.prec == ARD)


@lru_cache(maxsize=16)
def _groups(k: int, *, is_known: bool, by_column: bool) -> Groups:
    columns = np.arange(-1, k - 1)
    if by_column:
        return Groups(columns)
    return Groups(np.where(columns < 0, FIXED, FIXED if is_known else 0))


@dataclass(frozen=True)
class Polynomial:
    """Products of powers of the inputs, each column brought to mean zero and variance one.

    powers
        Exponent of every input in every column.
    mean, std
        Of the columns, over the rows that the basis was learnt from.
    """

    powers: Int[np.ndarray, "k d"]
    mean: Float[np.ndarray, " k"]
    std: Float[np.ndarray, " k"]

    def validate(self) -> None:
        """Raise ValueError where there are no such columns."""
        if (self.powers < 0).any() or not (self.std > 0.0).all():
            raise ValueError("the powers of a basis must be >= 0, and its std > 0")

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Columns of some rows."""
        return (_products(x, self.powers) - self.mean) / self.std

    def names(self, inputs: list[str]) -> list[str]:
        """Name every column by its product, such as `age^2 bmi`."""
        return [
            " ".join(
                name if power == 1 else f"{name}^{power}"
                for name, power in zip(inputs, row, strict=True)
                if power
            )
            for row in self.powers.tolist()
        ]


def _square_distances(
    a: Float[np.ndarray, "n d"], b: Float[np.ndarray, "k d"]
) -> Float[np.ndarray, "n k"]:
    from scipy.spatial.distance import cdist

    return cdist(a, b, "sqeuclidean")


@dataclass(frozen=True)
class Radial:
    """Gaussian bumps exp(-|x - centre|² / (2 width²)).

    Far from every centre all columns are zero, and with them the epistemic variance: the error bars
    of this basis must not be trusted beyond the data.
    """

    centres: Float[np.ndarray, "k d"]
    width: float

    def validate(self) -> None:
        """Raise ValueError where bumps have no width."""
        if not 0.0 < self.width < np.inf:
            raise ValueError(f"width must be a finite number > 0, got {self.width!r}")

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Columns of some rows."""
        return np.exp(-0.5 * _square_distances(x, self.centres) / self.width**2)

    def names(self, inputs: list[str]) -> list[str]:
        """Name the bumps by number; `inputs` are in all of them."""
        del inputs
        return [f"bump {i + 1}" for i in range(len(self.centres))]


@dataclass(frozen=True)
class Given:
    """A function of the rows, its columns brought to mean zero and variance one."""

    function: Callable[[np.ndarray], ArrayLike]
    mean: Float[np.ndarray, " k"]
    std: Float[np.ndarray, " k"]

    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Columns of some rows."""
        phi = _checked(self.function(x), len(x))
        if phi.shape[1] != len(self.mean):
            raise ValueError(
                f"basis must give {len(self.mean)} columns, as for the first rows, "
                f"got {phi.shape[1]}"
            )
        return (phi - self.mean) / self.std

    def names(self, inputs: list[str]) -> list[str]:
        """Name the columns by number; only the function knows which `inputs` are in them."""
        del inputs
        return [f"phi{i}" for i in range(len(self.mean))]


Basis = Polynomial | Radial | Given


def polynomial(
    x: Float[np.ndarray, "n d"],
    degree: int,
    weight: Float[np.ndarray, " n"] | None = None,
) -> Polynomial:
    """Learn the columns of all products up to a degree from standardised rows."""
    d = x.shape[1]
    rows = [
        np.bincount(chosen, minlength=d)
        for total in range(1, degree + 1)
        for chosen in itertools.combinations_with_replacement(range(d), total)
    ]
    powers = np.array(rows, dtype=np.int64)
    return Polynomial(powers, *_mean_and_std(_products(x, powers), weight))


def radial(centres: Float[np.ndarray, "k d"], width: float | None = None) -> Radial:
    """Put a bump on every centre.

    width
        Of the bumps, in units of x; None: the median distance of a centre to its nearest neighbour.
    """
    if width is None:
        square = _square_distances(centres, centres)
        np.fill_diagonal(square, np.inf)
        nearest = np.sqrt(square.min(axis=1)) if len(centres) > 1 else np.ones(1)
        width = float(np.median(nearest))
    return Radial(centres, width if width > 0.0 else 1.0)


def given(
    function: Callable[[np.ndarray], ArrayLike],
    x: Float[np.ndarray, "n d"],
    weight: Float[np.ndarray, " n"] | None = None,
) -> Given:
    """Learn the scale of the columns that a function gives; ValueError unless (n, k), finite."""
    phi = _checked(function(x), len(x))
    return Given(function, *_mean_and_std(phi, weight))


def _mean_and_std(
    x: Float[np.ndarray, "n k"], weight: Float[np.ndarray, " n"] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation as `Standardiser` learns them, in the units of x."""
    scaler = Standardiser.fit(x, weight)
    return scaler.inverse_mean(np.zeros(x.shape[1])), scaler.scale


def design(basis: Basis | None, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k+1"]:
    """Return a column of ones and those of the basis; ValueError where it overflows.

    basis
        None: the inputs themselves.
    """
    phi = x if basis is None else basis(x)
    is_small = np.abs(phi) < _LARGEST
    if not is_small.all():
        raise ValueError(
            "X must lie nearer to the training table: the basis overflows in row "
            f"{int(np.argmin(is_small.all(axis=1)))} (rows count from 0)"
        )
    joint = np.ones((len(phi), phi.shape[1] + 1))
    joint[:, 1:] = phi
    return joint


def check_memory(n_matrices: int, n_weights: int) -> None:
    """Raise ValueError where matrices of all weights by all weights would not fit into memory."""
    needed, free = 8.0 * n_matrices * n_weights**2, free_memory()
    if needed > free:
        raise ValueError(
            f"the covariance of {n_weights} weights must fit into memory, and takes "
            f"{needed / 2**30:.3g} GiB while it is learnt; {free / 2**30:.3g} GiB are free: "
            "reduce the columns or the classes, or use closed-form-vi without hidden layers"
        )


def _checked(phi: ArrayLike, n_rows: int) -> Float[np.ndarray, "n k"]:
    """Return float64 columns; ValueError where they are not finite or not (n, k)."""
    phi = np.asarray(getattr(phi, "toarray", lambda: phi)(), dtype=np.float64)
    if phi.ndim != 2 or len(phi) != n_rows or phi.shape[1] == 0:
        raise ValueError(f"basis must give a row of columns for each of {n_rows}, got {phi.shape}")
    if not np.isfinite(phi).all():
        row = int(np.argmin(np.isfinite(phi).all(axis=1)))
        raise ValueError(f"basis must give finite columns, got {phi[row]} for row {row}")
    return phi


def _products(x: np.ndarray, powers: np.ndarray) -> np.ndarray:
    products = np.ones((len(x), len(powers)))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for column in range(x.shape[1]):
            products *= x[:, column : column + 1] ** powers[:, column]
    return products
