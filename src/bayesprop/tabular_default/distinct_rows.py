"""Rows of a table; the same table with the same inputs once; and what was measured there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from bayesprop.model.method import Parts
from bayesprop.numerics.rows import Rows as TrainingRows
from bayesprop.tabular_default.stack import folds

_LEAST_TOTAL = 1e-6  # weight of all rows: they no longer count, and float32 can divide by it
ROWS_A_CELL, LEVELS_CROSSED = 2, 2
"""Of a table of cells: rows of the same inputs, and different inputs for a level of a column."""


class Beyond(NamedTuple):
    """A table larger than memory, of which some rows are a sample.

    groups
        Of the sample's rows, as the blocks of `parts` number them, (n,).
    inputs, targets
        From inputs and targets to what a network is given and learns.
    """

    parts: Parts
    groups: Int[np.ndarray, " n"]
    inputs: Callable[[np.ndarray], np.ndarray] = np.asarray
    targets: Callable[[np.ndarray], np.ndarray] = np.asarray

    def rows(self, block: TrainingRows) -> Rows:
        """Return a block, whose weights have mean 1 over the whole table."""
        weight = block.weights * (self.parts.n_rows / self.parts.total)
        columns = self.inputs(block.x), self.targets(block.y), weight
        columns = (np.ascontiguousarray(a, np.float32) for a in columns)
        return Rows(*columns, self.parts.total, self)


class Rows(NamedTuple):
    """Standardised rows, their weights of mean 1, and the sum of these before.

    beyond
        Where they are a sample: the table, whose weight is then `n_total`.
    """

    x: Float32[np.ndarray, "n d"]
    y: Float32[np.ndarray, "n o"]
    weight: Float32[np.ndarray, " n"]
    n_total: float
    beyond: Beyond | None = None

    @classmethod
    def of(
        cls,
        x: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, "n o"],
        weight: Float[np.ndarray, " n"] | None,
    ) -> Rows:
        """Take rows as the compiled loop does, which checks no bounds."""
        if np.ndim(x) != 2 or np.ndim(y) != 2 or len(x) != len(y) or not len(x):
            raise ValueError(f"x must be (n, d) and y (n, o), got {np.shape(x)} and {np.shape(y)}")
        weight = np.ones(len(x)) if weight is None else np.asarray(weight, np.float64)
        if weight.shape != (len(x),):
            raise ValueError(f"weight must hold {len(x)} numbers, got shape {weight.shape}")
        x, y, each = (np.ascontiguousarray(a, np.float32) for a in (x, y, weight / weight.mean()))
        return cls(x, y, each, max(float(weight.sum()), _LEAST_TOTAL))

    def of_parts(self, parts: Parts | None, *views: Callable[[np.ndarray], np.ndarray]) -> Rows:
        """Take them as the sample of a table, None: as all there is; `views` as in `Beyond`."""
        if parts is None:
            return self
        groups = np.arange(len(self.x)) if parts.sample.group is None else parts.sample.group
        return self._replace(n_total=parts.total, beyond=Beyond(parts, groups, *views))

    def given(self, inputs: Callable[[np.ndarray], np.ndarray]) -> Rows:
        """Give a network other inputs, which are made of these."""
        of_block = lambda x: inputs(np.asarray(x, np.float32))  # noqa: E731
        beyond = self.beyond and self.beyond._replace(inputs=of_block)
        return self._replace(x=np.ascontiguousarray(inputs(self.x), np.float32), beyond=beyond)

    @property
    def alone(self) -> Rows:
        """The sample as a table of its own."""
        if self.beyond is None:
            return self
        sample = self.beyond.parts.sample
        return self._replace(n_total=float(sample.weights.sum()), beyond=None)

    def only(self, kept: Bool[np.ndarray, " n"]) -> Rows:
        """Take some rows, each of which counts as often as before."""
        rows = self.counting(kept)
        return rows._replace(x=self.x[kept], y=self.y[kept], weight=rows.weight[kept])

    def counting(self, kept: Bool[np.ndarray, " n"]) -> Rows:
        """Weigh all rows as if there were some of them only: these have mean weight 1."""
        weight = self.weight.astype(np.float64)
        some = weight[kept]
        n_total = self.n_total * some.sum() / weight.sum()
        each = (weight / max(some.mean(), _LEAST_TOTAL)).astype(np.float32)
        return self._replace(weight=each, n_total=max(n_total, _LEAST_TOTAL))


class Groups(NamedTuple):
    """Rows that belong together, such as those of one patient: numbers from 0, (n,).

    fold
        Number of the member that is trained without the row, (n,).
    """

    number: Int[np.ndarray, " n"]
    fold: Int[np.ndarray, " n"]

    @classmethod
    def of(cls, number: Int[np.ndarray, " n"], n_folds: int, rng: np.random.Generator) -> Groups:
        """Leave every group out of one member, chosen at random."""
        alike = np.zeros(len(number), int)
        return cls(number, folds(number, alike, n_folds, rng))

    def at(self, rows: np.ndarray) -> Groups:
        """Take some rows."""
        return Groups(self.number[rows], self.fold[rows])


def bits(x: Float[np.ndarray, "n d"]) -> np.ndarray:
    """Return rows of float32 as one value each, (n,); the two zeros are one number."""
    x = np.ascontiguousarray(x, np.float32) + np.float32(0.0)
    return x.view(np.dtype((np.void, x.shape[1] * x.itemsize))).ravel()


class Targets(NamedTuple):
    """Measurements at n different inputs: none of weight 0, at any of these any number.

    y
        Of one output, (r,), or of all, (r, o).
    weight, at
        How often each counts, and the number of its inputs, (r,).
    group
        Of the inputs, from 0, (n,): what stands or falls together. None: each alone.
    """

    y: Float[np.ndarray, "r ..."]
    weight: Float[np.ndarray, " r"]
    at: Int[np.ndarray, " r"]
    n: int
    group: Int[np.ndarray, " n"] | None = None

    def column(self, o: int) -> Targets:
        """Take one output."""
        return self._replace(y=self.y[:, o])

    def these(self, which: np.ndarray) -> Targets:
        """Take those of the measurements."""
        return self._replace(y=self.y[which], weight=self.weight[which], at=self.at[which])

    def sums(self, values: Float[np.ndarray, "r ..."]) -> Float[np.ndarray, "n ..."]:
        """Add up what belongs to the same inputs, as often as each counts."""
        columns = np.reshape(values, (len(self.at), -1)).T
        added = [np.bincount(self.at, self.weight * column, self.n) for column in columns]
        return np.reshape(np.stack(added, axis=1), (self.n, *values.shape[1:]))

    def scores(self, log_prob: Float[np.ndarray, " r"]) -> Float[np.ndarray, " g"]:
        """Log-likelihoods by groups or inputs; their mean is that of measurements, by weight."""
        each = self.sums(log_prob) / self.weight.sum()
        if self.group is not None:
            each = np.bincount(np.unique(self.group, return_inverse=True)[1], each)
        return each * len(each)

    def means(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """How often the targets of every input count, and their mean, of one output; 0 of none."""
        count = self.sums(np.ones(len(self.at)))
        return count, _ratio(self.sums(self.y), count)

    def others(self) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
        """How often the other targets of the same inputs count, and their mean; 0 of none."""
        is_alone = np.bincount(self.at, minlength=self.n)[self.at] == 1
        count = self.sums(np.ones(len(self.at)))[self.at] - self.weight
        count[is_alone] = 0.0
        return count, _ratio(self.sums(self.y)[self.at] - self.weight * self.y, count)


def _ratio(total: np.ndarray, count: np.ndarray) -> np.ndarray:
    return np.divide(total, count, out=np.zeros_like(total), where=count > 0.0)


class Distinct(NamedTuple):
    """Rows of a table, those with the same inputs as one.

    once
        Every input once, in the table's order; its target the mean, its weight the sum.
    table
        The rows as they were.
    gone
        Where each of these has gone, (n,).
    groups
        Of every input of `once`, and the member that leaves it out; None where rows have none.
    """

    once: Rows
    table: Rows
    gone: Int[np.ndarray, " n"]
    groups: Groups | None = None

    @classmethod
    def of(cls, table: Rows, groups: Groups | None = None) -> Distinct:
        """Put rows together whose inputs are equal to the last bit, and their groups."""
        key = table.x if groups is None else np.column_stack([table.x, np.float32(groups.number)])
        _, first, gone = np.unique(bits(key), return_index=True, return_inverse=True)
        order = np.argsort(first)
        gone, first = np.argsort(order)[gone], first[order]
        weight, y = table.weight.astype(np.float64), table.y[first].astype(np.float64)
        each = np.bincount(gone, weight)
        for o, column in enumerate(table.y.T):
            np.divide(np.bincount(gone, weight * column), each, out=y[:, o], where=each > 0.0)
        each = (each / each.mean()).astype(np.float32)
        once = Rows(table.x[first], y.astype(np.float32), each, table.n_total)
        return cls(once, table, gone, None if groups is None else groups.at(first))

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
        """The same with every row on its own."""
        groups = None if self.groups is None else self.groups.at(self.gone)
        return Distinct(self.table, self.table, np.arange(len(self.gone)), groups)

    def targets(self, some: Int[np.ndarray, " n"]) -> Targets:
        """Measurements at some of the different inputs, of all outputs."""
        number = np.full(len(self.once.x), -1)
        number[some] = np.arange(len(some))
        at = number[self.gone]
        chosen = (at >= 0) & (self.table.weight > 0.0)
        y, weight = (part[chosen].astype(np.float64) for part in (self.table.y, self.table.weight))
        scale = self.table.n_total / self.table.weight.sum(dtype=np.float64)
        group = None if self.groups is None else self.groups.number[some]
        return Targets(y, scale * weight, at[chosen], len(some), group)
