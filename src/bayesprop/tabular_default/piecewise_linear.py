"""Two ways to give inputs to a network: as they are, and with piecewise-linear ramps beside them.

Ramps (Gorishniy, Rubachev & Babenko 2022) let a network of few steps follow what a column does
between its quantiles, and harm where a column only counts as a whole. Which is better is a matter
of the table, for rows left out to say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64, Int64

from bayesprop.numerics.machine import chunks

N_QUANTILES = 9
FEW_VALUES = 5
"""Up to so many different values a column has no ramps."""
MANY_INPUTS, MANY_ROWS = 256, 10_000
STRAIGHT = 5.0
"""Standard deviations from the mean up to which an input is taken as it is."""


def bounded(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Let standardised inputs beyond STRAIGHT grow as a logarithm only."""
    beyond = np.maximum(np.abs(x) - STRAIGHT, 0.0)
    return np.clip(x, -STRAIGHT, STRAIGHT) + np.sign(x) * np.log1p(beyond)


def has_ramps(n_rows: int, n_inputs: int) -> bool:
    """Whether a table of this size has ramps.

    One of more columns than rows has none: its rows do not pay for them. Nor has one of many of
    both, such as pictures: longer training is worth more than ramps, which cost eight times it.
    """
    return n_inputs <= n_rows and (n_inputs < MANY_INPUTS or n_rows < MANY_ROWS)


class Ramps(NamedTuple):
    """How networks are given inputs, and where the ramps of every column begin and end.

    unit
        What a column is divided by for networks, (d,).
    knots
        Nine quantiles, column after column, (q,): values that more than an eighth of the rows have,
        and equally spaced quantiles of the other rows.
    n_knots
        Of every column, (d,); 0 where it has no ramps.
    centres
        Means of the ramps over the training rows, (r,).
    """

    unit: Float64[np.ndarray, " d"]
    knots: Float64[np.ndarray, " q"]
    n_knots: Int64[np.ndarray, " d"]
    centres: Float64[np.ndarray, " r"]

    @classmethod
    def of(cls, x: Float[np.ndarray, "n d"], weight: Float[np.ndarray, " n"]) -> Ramps:
        """Put knots at quantiles of the rows, each counted by its weight."""
        is_ramped = has_ramps(*x.shape)
        columns = [_knots(column, weight) if is_ramped else np.zeros(0) for column in x.T]
        n_knots = np.array([len(knots) for knots in columns], np.int64)
        means = [
            np.average(_height(column[:, None], knots[:-1], knots[1:]), axis=0, weights=weight)
            for column, knots in zip(x.T, columns, strict=True)
            if len(knots)
        ]
        knots, centres = (np.concatenate([np.zeros(0), *parts]) for parts in (columns, means))
        return cls(np.ones(x.shape[1]), knots, n_knots, centres)

    def with_halves(self, x: Float[np.ndarray, "n d"], weight: Float[np.ndarray, " n"]) -> Ramps:
        """Divide columns of two values by half of their distance (Gelman 2008).

        A rare value is no larger than a frequent one then.
        """
        x = x[weight > 0.0]
        low, high = x.min(axis=0), x.max(axis=0)
        is_two = ((x == low) | (x == high)).all(axis=0) & (low < high)
        return self._replace(unit=np.where(is_two, 0.5 * (high - low), 1.0))

    @property
    def n_ramps(self) -> int:
        """Columns that they add."""
        return int(np.maximum(self.n_knots - 1, 0).sum())

    def plain(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return inputs in their units, bounded."""
        return bounded(x / self.unit.astype(x.dtype))

    def encode(self, x: Float[np.ndarray, "n d"]) -> Float32[np.ndarray, "n e"]:
        """Return inputs with their ramps, twice their height above the mean, behind them."""
        n_inputs = x.shape[1]
        beside = np.empty((len(x), n_inputs + self.n_ramps), np.float32)
        beside[:, :n_inputs] = self.plain(x)
        column = np.repeat(np.arange(n_inputs), np.maximum(self.n_knots - 1, 0))
        ends = np.cumsum(self.n_knots[self.n_knots > 0])
        above = np.delete(self.knots, np.r_[0, ends[:-1]][: len(ends)])
        below = np.delete(self.knots, ends - 1)
        for part in chunks(len(x), self.n_ramps):
            height = _height(x[part][:, column], below, above)
            beside[part, n_inputs:] = 2.0 * (height - self.centres)
        return beside

    def validate(self) -> None:
        """Raise ValueError unless the arrays fit together."""
        n_knots = self.n_knots
        if self.unit.shape != n_knots.shape or not (self.unit > 0.0).all():
            raise ValueError("unit must be positive, of every column")
        if (n_knots < 0).any() or (n_knots == 1).any():
            raise ValueError("n_knots must hold the knots, 0 or from 2 on, of every column")
        if self.knots.shape != (n_knots.sum(),) or self.centres.shape != (self.n_ramps,):
            raise ValueError("knots and centres must be as many as n_knots says")
        if not (np.abs(self.centres - 0.5) < 0.51).all():
            raise ValueError("centres must be 0 to 1, as means of shares are")
        columns = np.split(self.knots, np.cumsum(n_knots)[:-1])
        if any((np.diff(knots) <= 0.0).any() for knots in columns):
            raise ValueError("the knots of a column must rise")


def _height(
    x: Float[np.ndarray, "n _"], below: Float[np.ndarray, " r"], above: Float[np.ndarray, " r"]
) -> Float[np.ndarray, "n r"]:
    """How far up every ramp rows are, 0 to 1."""
    return np.clip((x - below) / (above - below), 0.0, 1.0)


def _knots(column: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"]) -> np.ndarray:
    column, weight = column[weight > 0.0], weight[weight > 0.0]
    values, place = np.unique(column, return_inverse=True)
    if len(values) <= FEW_VALUES:
        return np.zeros(0)
    is_common = np.bincount(place, weight) * (N_QUANTILES - 1) > weight.sum()
    if is_common.all():
        return values
    levels, other = np.linspace(0.0, 1.0, N_QUANTILES - is_common.sum()), ~is_common[place]
    knots = np.quantile(column[other], levels, weights=weight[other], method="inverted_cdf")
    return np.union1d(values[is_common], knots)
