"""Checks of the rows that estimators are given, as scikit-learn has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import numpy as np

from bayesprop.numerics.forks import check_not_forked

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from bayesprop.estimators.shell import EstimatorBase


@runtime_checkable
class _Frame(Protocol):
    """A table of pandas or Polars."""

    columns: Iterable[str]

    def __getitem__(self, name: str) -> ArrayLike: ...


def validated(
    estimator: EstimatorBase, *data: ArrayLike, reset: bool, **how: bool | int
) -> list[np.ndarray]:
    """Check X, or X and y, as `validate_data` of scikit-learn does: float64, NaN allowed.

    reset
        Whether the estimator learns the names and the number of columns.
    how
        What else `validate_data` takes.

    ValueError names a column of text or dates.
    """
    if not reset and _is_plain(estimator, *data):
        return [np.asarray(each) for each in data]  # the checks take longer than one row
    from sklearn.utils.validation import validate_data

    if any(type(each).__module__.startswith("polars") for each in data):
        check_not_forked("Polars")
    X, check = data[0], cast("Callable[..., Sequence[np.ndarray]]", validate_data)
    try:
        if any(str(kind).lower().startswith("date") for kind in set(getattr(X, "dtypes", ()))):
            raise TypeError("dates would be taken for nanoseconds")
        checked = check(
            estimator,
            *data,
            reset=reset,
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan",
            **how,
        )
    except (TypeError, ValueError) as error:
        columns = X.columns if isinstance(X, _Frame) else ()
        name = next((one for one in columns if not _are_numbers(cast(_Frame, X)[one])), None)
        if name is None:
            raise
        raise ValueError(
            f"column {name!r} holds text, categories or dates, and an estimator takes numbers: "
            "bayesprop.fit(df, target=...) fits to such a table, and encodes it"
        ) from error
    return [np.asarray(checked)] if len(data) == 1 else [*checked]


def _is_plain(estimator: EstimatorBase, X: ArrayLike, *y: ArrayLike) -> bool:
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


def _are_numbers(column: ArrayLike) -> bool:
    values = np.asarray(column)
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return values.dtype.kind != "M"
