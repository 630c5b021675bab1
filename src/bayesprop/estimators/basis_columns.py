"""Which basis a linear model uses: chosen by name or given, learnt from the first rows, stored."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans

from bayesprop.estimators.checks import check_int, check_positive
from bayesprop.linear.bases import Basis, Given, Polynomial, Radial, given, polynomial, radial

_MOST_COLUMNS = 20_000
_CLUSTERED_ROWS = 10_000


class BasisChoice(NamedTuple):
    """Hyper-parameters of a basis, as the estimator has them."""

    basis: Any
    degree: int
    n_centres: int
    width: float | None


def check_basis(choice: BasisChoice) -> None:
    """Raise ValueError for a basis that there is not."""
    check_int("degree", choice.degree)
    check_int("n_centres", choice.n_centres)
    if choice.width is not None:
        check_positive("width", choice.width)
    if choice.basis is None or choice.basis in ("polynomial", "radial"):
        return
    if not (callable(choice.basis) or hasattr(choice.basis, "transform")):
        raise ValueError(
            "basis must be None, 'polynomial', 'radial', a function of rows or a scikit-learn "
            f"transformer, got {choice.basis!r}"
        )


def learn_basis(
    choice: BasisChoice, X: np.ndarray, x: np.ndarray, weight: np.ndarray | None, rng: Any
) -> Basis | None:
    """Learn the basis from the first rows; None is the inputs themselves.

    X, x
        In the original units, which is what a given basis sees, and standardised.
    """
    if choice.basis is None:
        return None
    if isinstance(choice.basis, str):
        if choice.basis == "polynomial":
            _check_polynomial(x.shape[1], choice.degree)
            return polynomial(x, choice.degree, weight)
        return radial(_centres(choice.n_centres, x, weight, rng), choice.width)
    if hasattr(choice.basis, "transform"):
        transformer = cast(Any, clone(choice.basis)).fit(X)
        return given(transformer.transform, X, weight)
    return given(choice.basis, X, weight)


def columns(basis: Basis | None, X: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the intercept's column of ones and those of the basis; ValueError if it overflows.

    X, x
        In the original units, which is what a given basis sees, and standardised.
    """
    phi = x if basis is None else basis(X if isinstance(basis, Given) else x)
    if not (np.abs(phi) < 1e100).all():
        row = int(np.argmin((np.abs(phi) < 1e100).all(axis=1)))
        raise ValueError(
            "X must lie nearer to the training table: the basis overflows in row "
            f"{row} (rows count from 0)"
        )
    return np.hstack([np.ones((len(phi), 1)), phi])


def basis_to_stored(basis: Basis | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return header and arrays; TypeError for a function, which a file without code cannot hold."""
    if basis is None:
        return {"kind": "inputs"}, {}
    if isinstance(basis, Polynomial):
        arrays = {"powers": basis.powers, "basis_mean": basis.mean, "basis_std": basis.std}
        return {"kind": "polynomial"}, arrays
    if isinstance(basis, Radial):
        return {"kind": "radial", "width": basis.width}, {"centres": basis.centres}
    raise TypeError(
        "a model file holds no code, and this basis is a function or a transformer: apply it to X "
        "before fit, or use basis='polynomial' or 'radial'"
    )


def basis_from_stored(
    header: dict[str, Any], arrays: dict[str, np.ndarray], n_inputs: int
) -> Basis | None:
    """Rebuild what `basis_to_stored` gave; ValueError where it does not fit."""
    kind = header["kind"]
    if kind == "inputs":
        return None
    wide = arrays["powers" if kind == "polynomial" else "centres"]
    if wide.ndim != 2 or wide.shape[1] != n_inputs or not np.isfinite(wide).all():
        raise ValueError(f"the basis must be of {n_inputs} inputs, got an array {wide.shape}")
    if kind == "radial":
        check_positive("width", header["width"])
        return Radial(wide, float(header["width"]))
    if kind != "polynomial" or wide.min(initial=0) < 0:
        raise ValueError(f"the basis must be polynomial, radial or inputs, got {kind!r}")
    mean, std = arrays["basis_mean"], arrays["basis_std"]
    if not (mean.shape == std.shape == (len(wide),) and np.isfinite(mean).all()):
        raise ValueError("the basis must have a mean and a std for every column")
    if not ((std > 0.0) & np.isfinite(std)).all():
        raise ValueError("the columns of the basis must have a positive std")
    return Polynomial(wide, mean, std)


def _check_polynomial(n_inputs: int, degree: int) -> None:
    n_columns = 1.0
    for i in range(1, degree + 1):
        n_columns *= (n_inputs + i) / i
    if n_columns > _MOST_COLUMNS:
        raise ValueError(
            f"degree {degree} of {n_inputs} inputs makes {n_columns:.3g} columns, more than "
            f"{_MOST_COLUMNS}: lower degree, or give a function of rows as basis"
        )


def _centres(n_centres: int, x: np.ndarray, weight: np.ndarray | None, rng: Any) -> np.ndarray:
    """Quantiles of a single input, k-means of several; rows of weight 0 do not count."""
    seen = np.ones(len(x)) if weight is None else weight
    x, seen = x[seen > 0.0], seen[seen > 0.0]
    distinct = np.unique(x, axis=0)
    if len(distinct) <= n_centres:
        return distinct
    if x.shape[1] == 1:
        order = np.argsort(x[:, 0], kind="stable")
        share = (np.cumsum(seen[order]) - 0.5 * seen[order]) / seen.sum()
        levels = np.linspace(0.0, 1.0, n_centres)
        return np.unique(np.interp(levels, share, x[order, 0]))[:, None]
    rows = rng.permutation(len(x))[:_CLUSTERED_ROWS]
    found = KMeans(n_centres, n_init="auto", random_state=rng.randint(2**31))
    return np.asarray(found.fit(x[rows], sample_weight=seen[rows]).cluster_centers_)
