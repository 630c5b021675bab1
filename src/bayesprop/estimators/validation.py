"""Inputs and targets checked as scikit-learn checks them, in no time where they are plain."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data


def validated(estimator: Any, X: Any, *y: Any, **how: Any) -> Any:
    """Do what `validate_data` of scikit-learn does, NaN allowed, float64 in C order.

    ValueError names a column of text or dates.
    """
    if how.get("reset") is False and _is_plain(estimator, X, *y):
        return (X, *y) if y else X  # as they stand; the checks take longer than one row
    how = {"dtype": np.float64, "order": "C", "ensure_all_finite": "allow-nan"} | how
    try:
        if any(str(kind).lower().startswith("date") for kind in set(getattr(X, "dtypes", ()))):
            raise TypeError("dates would be taken for nanoseconds")
        return validate_data(estimator, X, *y, **how)
    except (TypeError, ValueError) as error:
        columns = X.columns if hasattr(X, "dtypes") and hasattr(X, "columns") else ()
        name = next((one for one in columns if not _are_numbers(X[one])), None)
        if name is None:
            raise
        raise ValueError(
            f"column {name!r} holds text, categories or dates, and an estimator takes numbers: "
            "bayesprop.fit(df, target=...) fits to such a table, and encodes it"
        ) from error


def _is_plain(estimator: Any, X: Any, *y: Any) -> bool:
    """Whether `validate_data` has nothing to change, to refuse or to warn of."""
    return (
        all(type(each) is np.ndarray and each.dtype == np.float64 for each in (X, *y))
        and X.ndim == 2
        and X.flags.c_contiguous
        and len(X) > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
        and not np.isinf(X).any()
        and all(each.shape == (len(X),) and np.isfinite(each).all() for each in y)
    )


def _are_numbers(column: Any) -> bool:
    values = np.asarray(column)
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return values.dtype.kind != "M"
