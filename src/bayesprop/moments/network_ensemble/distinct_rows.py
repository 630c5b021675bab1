"""Rows of a table; the same table with the same inputs once; and what was measured there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

_LEAST_TOTAL = 1e-6  # weight of all rows: they no longer count, and float32 can divide by it


class Rows(NamedTuple):
    """Standardised rows, their weights of mean 1, and the sum of these before."""

    x: Float32[np.ndarray, "n d"]
    y: Float32[np.ndarray, "n o"]
    weight: Float32[np.ndarray, " n"]
    n_total: float

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
    """

    y: Float[np.ndarray, "r ..."]
    weight: Float[np.ndarray, " r"]
    at: Int[np.ndarray, " r"]
    n: int

    def column(self, o: int) -> Targets:
        """Take one output."""
        return self._replace(y=self.y[:, o])

    def sample(self, rng: np.random.Generator, most: int) -> Targets:
        """Take some of the measurements, at random, if they are more."""
        if len(self.at) <= most:
            return self
        return self.these(np.sort(rng.permutation(len(self.at))[:most]))

    def these(self, which: np.ndarray) -> Targets:
        """Take those of the measurements."""
        return self._replace(y=self.y[which], weight=self.weight[which], at=self.at[which])

    def sums(self, values: Float[np.ndarray, "r ..."]) -> Float[np.ndarray, "n ..."]:
        """Add up what belongs to the same inputs, as often as each counts."""
        columns = np.reshape(values, (len(self.at), -1)).T
        added = [np.bincount(self.at, self.weight * column, self.n) for column in columns]
        return np.reshape(np.stack(added, axis=1), (self.n, *values.shape[1:]))

    def scores(self, log_prob: Float[np.ndarray, " r"]) -> Float[np.ndarray, " n"]:
        """Log-likelihoods by inputs; their mean is that of the measurements, by weight."""
        return self.sums(log_prob) / (self.weight.sum() / self.n)

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
    """

    once: Rows
    table: Rows
    gone: Int[np.ndarray, " n"]

    @classmethod
    def of(cls, table: Rows) -> Distinct:
        """Put rows together whose inputs are equal to the last bit."""
        _, first, gone = np.unique(bits(table.x), return_index=True, return_inverse=True)
        order = np.argsort(first)
        gone, first = np.argsort(order)[gone], first[order]
        weight, y = table.weight.astype(np.float64), table.y[first].astype(np.float64)
        each = np.bincount(gone, weight)
        for o, column in enumerate(table.y.T):
            np.divide(np.bincount(gone, weight * column), each, out=y[:, o], where=each > 0.0)
        each = (each / each.mean()).astype(np.float32)
        once = Rows(table.x[first], y.astype(np.float32), each, table.n_total)
        return cls(once, table, gone)

    def targets(self, some: Int[np.ndarray, " n"]) -> Targets:
        """Measurements at some of the different inputs, of all outputs."""
        number = np.full(len(self.once.x), -1)
        number[some] = np.arange(len(some))
        at = number[self.gone]
        chosen = (at >= 0) & (self.table.weight > 0.0)
        y, weight = (part[chosen].astype(np.float64) for part in (self.table.y, self.table.weight))
        scale = self.table.n_total / self.table.weight.sum(dtype=np.float64)
        return Targets(y, scale * weight, at[chosen], len(some))
