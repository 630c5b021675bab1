"""Rows of a table, and the same table with every different input once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.numerics.rows import Rows

ROWS_A_CELL, LEVELS_CROSSED = 2, 2
"""Of a table of cells: rows of the same inputs, and different inputs for a level of a column."""


def bits(x: Float[np.ndarray, "n d"]) -> np.ndarray:
    """Return rows of float32 as one value each, (n,); the two zeros are one number."""
    x = np.ascontiguousarray(x, np.float32) + np.float32(0.0)
    return x.view(np.dtype((np.void, x.shape[1] * x.itemsize))).ravel()


class Distinct(NamedTuple):
    """Rows of a table, those with the same inputs as one.

    once
        Every input once, in the table's order; its target the mean, its weight the sum.
    table
        The rows as they were: inputs float32, targets (n, o), weights of mean 1; groups None where
        rows have none.
    number
        Of the input of every row of `table`, (n,).
    unit
        What a weight of `table` is multiplied by to count rows.
    fold
        The member that leaves an input out, (m,); None where rows have no groups.
    """

    once: Rows
    table: Rows
    number: Int[np.ndarray, " n"]
    unit: float = 1.0
    fold: Int[np.ndarray, " m"] | None = None

    @classmethod
    def of(
        cls, table: Rows, unit: float = 1.0, fold: Int[np.ndarray, " n"] | None = None
    ) -> Distinct:
        """Put rows together whose inputs are equal to the last bit, and their groups."""
        group = table.group
        key = table.x if group is None else np.column_stack([table.x, np.float32(group)])
        _, first, number = np.unique(bits(key), return_index=True, return_inverse=True)
        order = np.argsort(first)
        number, first = np.argsort(order)[number], first[order]
        weight, y = table.weight.astype(np.float64), table.y[first].astype(np.float64)
        each = np.bincount(number, weight)
        for o, column in enumerate(table.y.T):
            np.divide(np.bincount(number, weight * column), each, out=y[:, o], where=each > 0.0)
        once = Rows(table.x[first], y, each, None if group is None else group[first])
        return cls(once, table, number, unit, None if fold is None else fold[first])

    @property
    def has_cells(self) -> bool:
        """Whether a few levels of every column are crossed, and new rows will be of these cells.

        As against rows of groups, such as patients, whose inputs no other group has.
        """
        n_inputs, columns = len(self.once.x), self.once.x.T
        return ROWS_A_CELL * n_inputs <= len(self.table.x) and all(
            LEVELS_CROSSED * len(np.unique(column)) <= n_inputs for column in columns
        )

    @property
    def one_by_one(self) -> Distinct:
        """The same table with every row as an input of its own."""
        fold = None if self.fold is None else self.fold[self.number]
        return Distinct(self.table, self.table, np.arange(len(self.number)), self.unit, fold)

    def given(self, encode: Callable[[np.ndarray], np.ndarray]) -> Distinct:
        """Return the same rows with encoded inputs."""
        once, table = (part._replace(x=encode(part.x)) for part in (self.once, self.table))
        return self._replace(once=once, table=table)

    def measured(
        self, some: Int[np.ndarray, " r"]
    ) -> tuple[Rows, Int[np.ndarray, " m"], Int[np.ndarray, " m"]]:
        """Return the rows at some of the different inputs, and which of `some` theirs is, (m,).

        Their groups are those that are left out together: of the table, or rows of an input. And
        their numbers in the table. Rows of weight 0 are left away.
        """
        place = np.full(len(self.once.x), -1)
        place[some] = np.arange(len(some))
        at = place[self.number]
        rows = np.flatnonzero((at >= 0) & (self.table.weight > 0.0))
        at, group = at[rows], self.once.group
        y, weight = (part[rows].astype(np.float64) for part in (self.table.y, self.table.weight))
        unit = at if group is None else group[some][at]
        return Rows(self.table.x[rows], y, self.unit * weight, unit), at, rows


def sums(
    number: Int[np.ndarray, " r"], values: Float[np.ndarray, "r o"], n: int
) -> Float[np.ndarray, "n o"]:
    """Add up the values of every number from 0 to n - 1."""
    return np.stack([np.bincount(number, column, n) for column in values.T], axis=1)
