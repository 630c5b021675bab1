"""The rows that a report judges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from bayesprop.report.words import join, label, plural


@dataclass(frozen=True)
class Rows:
    """Rows of a table, encoded but not standardised, columns as the estimator was fitted.

    y
        The target of every row: a number, or for a classifier a label.
    row_ids
        What a person calls each row: a line number or a key.
    """

    X: Float[np.ndarray, "n d"]
    y: np.ndarray
    row_ids: list[str]


def judged_rows(train: Rows | None, test: Rows | None) -> tuple[Rows, str]:
    """Return the rows to judge and which kind they are; ValueError if there are none."""
    rows = train if test is None else test
    if rows is None:
        raise ValueError("a report needs rows to judge: give test, train or both, got neither")
    for name, given in (("train", train), ("test", test)):
        if given is not None:
            _check(name, given)
    kind = "training" if test is None else "table" if train is None else "held-out"
    return rows, kind


def of_known_classes(rows: Rows, classes: np.ndarray | None) -> tuple[Rows, tuple[str, ...]]:
    """Leave out rows of classes that training did not have, and say so.

    classes
        Those of a classifier; None for a regressor, which keeps all rows.
    """
    if classes is None:
        return rows, ()
    y = np.asarray(rows.y)
    known = np.isin(y, classes)
    if not np.any(known):
        names = join([label(name, 30) for name in classes[:10]])
        raise ValueError(
            f"no row is of a class that the model knows ({names}); the first is {label(y[0], 30)}"
        )
    kept = np.flatnonzero(known)
    judged = Rows(rows.X[kept], y[kept], [rows.row_ids[row] for row in kept])
    if len(kept) == len(y):
        return judged, ()
    unknown = join([label(name, 30) for name in np.unique(y[~known])[:10]])
    return judged, (
        f"{plural(len(y) - len(kept), 'row')} left out of every figure: training had no row of "
        f"their class ({unknown}), so the model cannot be right on them.",
    )


def _check(name: str, rows: Rows) -> None:
    if np.ndim(rows.y) != 1:
        raise ValueError(
            f"{name}.y must have shape (n,), got {np.shape(rows.y)}: report one output at a time"
        )
    if not (len(rows.y) == len(rows.X) == len(rows.row_ids) > 0):
        raise ValueError(
            f"{name} must have as many targets and row_ids as rows, and at least one; "
            f"got {len(rows.X)} rows, {len(rows.y)} targets, {len(rows.row_ids)} row_ids"
        )
