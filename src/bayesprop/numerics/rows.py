"""Rows of data: inputs, targets, weights and groups, in the units of their owner."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped


class Rows(NamedTuple):
    """Rows to learn from, of NumPy or of JAX; below the shell they are standardised.

    x
        Inputs, (n, d).
    y
        Targets (n, o), or codes of classes (n,) or, of several labels, (n, o).
    weight
        Weight of every row's log-likelihood, (n,); None: one each.
    group
        Number of every row's group, from 0, (n,); None: every row is a group of its own.
    """

    x: Float[Any, "n d"]
    y: Shaped[Any, "n ..."]
    weight: Float[Any, " n"] = None
    group: Int[Any, " n"] = None

    @property
    def weights(self) -> Float[np.ndarray, " n"]:
        """Weight of every row, ones where none were given."""
        return np.ones(len(self.x)) if self.weight is None else self.weight

    @property
    def counted(self) -> Rows:
        """The rows of positive weight, their groups numbered anew."""
        if self.weight is None:
            return self
        rows = self.at(self.weight > 0.0)
        if rows.group is None:
            return rows
        return rows._replace(group=np.unique(rows.group, return_inverse=True)[1])

    def at(self, rows: np.ndarray | slice) -> Rows:
        """Return chosen rows, by their places, a mask or a slice."""
        weight, group = (None if part is None else part[rows] for part in self[2:])
        return Rows(self.x[rows], self.y[rows], weight, group)


def codes_of(classes: np.ndarray, y: np.ndarray) -> Int[np.ndarray, "n ..."]:
    """Places of labels among sorted classes; ValueError names one that is not among them."""
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = classes[codes] != y
    if unknown.any():
        known = ", ".join(map(str, classes[:10]))
        wrong = y.ravel().tolist()[int(np.argmax(unknown))]
        raise ValueError(f"y must hold classes of the first fit ({known}), got {wrong!r}")
    return codes
