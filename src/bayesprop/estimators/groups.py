"""Groups of rows, as a fit takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int
from sklearn.utils.validation import column_or_1d

from bayesprop.model.method import LeavesGroupsOut


def checked_groups(estimator: Any, groups: Any, n_rows: int) -> Int[np.ndarray, " n"]:
    """Return numbers of groups; ValueError unless one a row, for a method that they change."""
    if not issubclass(estimator.method_class, LeavesGroupsOut):
        raise ValueError(
            f"groups must be None for {type(estimator).__name__}, which leaves no rows out to judge"
            " itself: its fit does not change with them"
        )
    groups = column_or_1d(groups)
    if len(groups) != n_rows:
        raise ValueError(f"groups must hold one label a row, {n_rows}, got {len(groups)}")
    try:
        return np.unique(groups, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError("groups must hold labels of one kind: turn them all into text") from error
