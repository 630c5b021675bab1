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
        Number of every row's group, from 0, (n,); of several factors, such as patient and site,
        (n, f): those of one of the first are left out together. None: every row is one of its own.
    """

    x: Float[Any, "n d"]
    y: Shaped[Any, "n ..."]
    weight: Float[Any, " n"] = None
    group: Int[Any, "n ..."] = None

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
        return rows._replace(group=numbered(rows.group))

    @property
    def by_first_factor(self) -> Rows:
        """The rows with the groups of the first factor alone."""
        return self if np.ndim(self.group) < 2 else self._replace(group=self.group[:, 0])

    def at(self, rows: np.ndarray | slice) -> Rows:
        """Return chosen rows, by their places, a mask or a slice."""
        weight, group = (None if part is None else part[rows] for part in self[2:])
        return Rows(self.x[rows], self.y[rows], weight, group)


def numbered(labels: Shaped[np.ndarray, "n ..."]) -> Int[np.ndarray, "n ..."]:
    """Return the place of every label among those of its column, sorted."""
    if labels.ndim == 1:
        return np.unique(labels, return_inverse=True)[1]
    return np.stack([numbered(one) for one in labels.T], axis=1)


def codes_of(classes: np.ndarray, y: np.ndarray) -> Int[np.ndarray, "n ..."]:
    """Places of labels among sorted classes; ValueError names one that is not among them."""
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = classes[codes] != y
    if unknown.any():
        known = ", ".join(map(str, classes[:10]))
        wrong = y.ravel().tolist()[int(np.argmax(unknown))]
        raise ValueError(f"y must hold classes of the first fit ({known}), got {wrong!r}")
    return codes
