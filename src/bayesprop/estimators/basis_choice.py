"""Which basis a linear model uses: by name or given, learnt from the first rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.cluster import KMeans

from bayesprop.linear.bases import Basis, given, polynomial, radial

_MOST_COLUMNS = 20_000
_CLUSTERED_ROWS = 10_000


def check_basis(name: str, value: Any) -> None:
    """Raise ValueError for a basis that there is not."""
    if value is None or value in ("polynomial", "radial"):
        return
    if not (callable(value) or hasattr(value, "transform")):
        raise ValueError(
            f"{name} must be None, 'polynomial', 'radial', a function of rows or a scikit-learn "
            f"transformer, got {value!r}"
        )


@dataclass(frozen=True)
class BasisLearner:
    """Learns the basis of a choice from rows, standardised unless it `is_given`."""

    basis: Any
    degree: int
    n_centres: int
    width: float | None

    @property
    def is_given(self) -> bool:
        """Whether it is a function or a transformer, which sees the original units."""
        return not (self.basis is None or isinstance(self.basis, str))

    def __call__(self, x: np.ndarray, weight: np.ndarray | None, rng: Any) -> Basis | None:
        """Learn from rows; None is the inputs themselves."""
        if self.basis is None:
            return None
        if self.basis == "polynomial":
            _check_polynomial(x.shape[1], self.degree)
            return polynomial(x, self.degree, weight)
        if self.basis == "radial":
            return radial(_centres(self.n_centres, x, weight, rng), self.width)
        if hasattr(self.basis, "transform"):
            transformer = cast(Any, clone(self.basis)).fit(x)
            return given(transformer.transform, x, weight)
        return given(self.basis, x, weight)


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
