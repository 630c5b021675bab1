"""Whether rows are as an estimator takes them: without scikit-learn's checks, and by column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from bayesprop.estimators.shell import EstimatorBase


@runtime_checkable
class Frame(Protocol):
    """A table of pandas or Polars."""

    columns: Iterable[str]

    def __getitem__(self, name: str) -> ArrayLike: ...


def are_plain(estimator: EstimatorBase, X: ArrayLike, *y: ArrayLike) -> bool:
    """Whether `validate_data` has nothing to change, to refuse or to warn of."""
    return (
        isinstance(X, np.ndarray)
        and all(type(each) is np.ndarray and each.dtype == np.float64 for each in (X, *y))
        and X.ndim == 2
        and X.flags.c_contiguous
        and len(X) > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
        and not np.isinf(X).any()
        and all(np.shape(each) == (len(X),) and np.isfinite(each).all() for each in y)
    )


def are_numbers(column: ArrayLike) -> bool:
    """Whether a column holds numbers, or what reads as such."""
    values = np.asarray(column)
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return values.dtype.kind != "M"
