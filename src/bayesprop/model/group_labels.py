"""Labels of groups: one a row, of every factor, such as patient and site; compared as text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Shaped
from numpy.typing import ArrayLike

from bayesprop.codec import Labels, label_text, label_texts


def checked_labels(groups: ArrayLike, n_rows: int) -> list[Shaped[np.ndarray, " n"]]:
    """Return the labels of every factor as numbers, truth values or text, as a file holds them.

    ValueError unless every row has one of each, of one kind.
    """
    factors = _columns(groups, n_rows)
    for labels in factors:
        is_absent = label_texts(labels) == ""
        if is_absent.any():
            row = int(np.argmax(is_absent))
            raise ValueError(
                f"groups must hold a label in every row, got {labels.tolist()[row]!r} in row {row}:"
                " give each single row a name of its own"
            )
        try:
            np.unique(labels)
        except TypeError as error:
            raise ValueError(
                "groups must hold labels of one kind: turn them all into text"
            ) from error
    return [one if one.dtype.kind in "biuf" else label_texts(one) for one in factors]


def numbers_among(
    names: Sequence[Labels], groups: ArrayLike, n_rows: int
) -> Int[np.ndarray, "n f"]:
    """Return the places of labels among the names of every factor, -1 for a new one."""
    factors = _columns(groups, n_rows)
    if len(factors) != len(names):
        raise ValueError(
            f"groups must have the columns of the fit, {len(names)}, got {len(factors)}"
        )
    numbers = np.empty((n_rows, len(factors)), np.int64)
    for f, (labels, known) in enumerate(zip(factors, names, strict=True)):
        places = {text: k for k, text in enumerate(label_texts(known).tolist())}
        numbers[:, f] = [places.get(text, -1) for text in map(label_text, labels)]
    return numbers


def _columns(groups: ArrayLike, n_rows: int) -> list[np.ndarray]:
    """Return the labels of every factor; ValueError unless there is one a row."""
    labels = np.asarray(groups)
    shape = np.atleast_1d(labels).shape
    if shape[0] != n_rows or len(shape) > 2 or not labels.size:
        got = shape[0] if len(shape) == 1 else f"the shape {shape}"
        raise ValueError(
            f"groups must hold one label a row, {n_rows}, or a column of labels for every factor, "
            f"({n_rows}, f); got {got}"
        )
    return [*labels.reshape(n_rows, -1).T]
