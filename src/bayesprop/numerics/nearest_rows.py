"""Rows of a table that are nearest to others, and the lengths of its inputs in which they are.

Lengths maximise the likelihood of rows given their nearest (Vecchia 1988; Stein, Chi & Welty 2004),
times log-normal priors, by Adam on a few rows at a time, whose nearest are found anew at every
step, as lengths change.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from inspect import get_annotations
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

N_NEAREST = 32
"""Rows that are asked of one."""

LEAST_ROWS, MOST_ROWS = 100, 100_000
"""Among which the nearest are sought: of fewer nobody is near."""

_MOST_VALUES, _ENOUGH_ROWS = 10**7, 10_000  # of those where columns are many: all are looked at

FEW_ROWS, N_FOLDS = 1000, (5, 2)
"""Rows are judged in lengths that were learnt without them; of fewer rows, each without fewer."""

MOST_JUDGES = 4000
"""Rows left out that say whether neighbours help, at most."""

MOST_LOGARITHM = 60.0
"""Of lengths and variances in a file."""

_LARGEST = 1e15  # of what a file may hold, whose square is still a number in float32
_FEW = 20  # columns, of which a tree leaves out most of the rows
_AT_A_TIME = 64  # rows whose distances stay in the cache
_BOUND_BY = 16  # one row in so many

ROWS_OF_EVIDENCE = 20_000
"""Rows among which the nearest are sought while lengths are learnt, at most."""

N_STEPS, N_ROWS, STEP_SIZE = 200, (16, 64), 0.15
"""Of Adam; rows in each, the fewer the more columns; and the first step of a logarithm, which falls
by a cosine to nearly nothing."""

_LENGTH, _LENGTH_STD, _LONGER = 0.5, 1.5, 2.0  # of the prior: times the root of d; of logarithms
_FIRST_LENGTH, _LENGTHS = 0.15, (-6.0, 9.0)  # times the root of d; bounds of logarithms
_DECAYS, _TINY, _LAST_STEP = (0.9, 0.97), 1e-8, 0.02
_AVERAGED = 0.15  # of the steps, the last
_SILENT = np.float32(1e-9)  # weight of a row that is not there
_VALUES = 10**6  # of what is looked at in a step, about


class Known(NamedTuple):
    """Rows of standardised inputs, what was measured there, and how often each counts.

    group
        Numbers of what is left out together, (n,); None: each row alone.
    """

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    group: Int[np.ndarray, " n"] | None = None

    def at(self, rows: np.ndarray) -> Known:
        """Take some rows."""
        x, y, weight, group = self
        return Known(x[rows], y[rows], weight[rows], None if group is None else group[rows])


class KeptRows:
    """Rows that are asked: the base of dataclasses all of whose fields are arrays.

    Which they all have are x, weight and log_lengths.
    """

    OWNER: ClassVar = "the neighbours'"
    N_ROWS: ClassVar = (N_NEAREST + 1, MOST_ROWS)
    x: Float[np.ndarray, "n d"]
    weight: Float[np.ndarray, " n"]
    log_lengths: Float[np.ndarray, " d"]

    def validate(self) -> None:
        """Raise ValueError where numbers are too large, or rows too few or too many."""
        for name in get_annotations(type(self)):
            most = MOST_LOGARITHM if name.startswith("log_") else _LARGEST
            if not (np.abs(getattr(self, name)) < most).all():
                raise ValueError(f"{self.OWNER} {name} must be below {most:g}")
        (least, most), n = self.N_ROWS, len(self.weight)
        if not least <= n <= most:
            raise ValueError(f"{self.OWNER} rows must be {least} to {most}, got {n}")
        if (self.weight <= 0.0).any():
            raise ValueError(f"{self.OWNER} weight must be > 0")

    def __reduce__(self) -> tuple:
        """Leave out what can be computed again."""
        return type(self), tuple(getattr(self, name) for name in get_annotations(type(self)))

    @cached_property
    def _places(self) -> Any:
        from scipy.spatial import KDTree

        return KDTree(measured(self.x, self.log_lengths))

    def nearest(self, x: Float[np.ndarray, "m d"]) -> Int[np.ndarray, "m k"]:
        """Return the numbers of the N_NEAREST rows that are nearest to others."""
        at = measured(x, self.log_lengths)
        if at.shape[1] <= _FEW:
            return self._places.query(at, N_NEAREST)[1]
        return nearest(self._places.data, at, N_NEAREST)


class Fold(NamedTuple):
    """Places of rows that a fold leaves out, all of which judge, and of all that it does not."""

    out: Int[np.ndarray, " r"]
    rest: Int[np.ndarray, " k"]


def folds_of(known: Known, n_judges: int) -> list[Fold]:
    """Leave the first rows out by turns, those of a group together; none where a fold is empty."""
    n_folds = N_FOLDS[n_judges >= FEW_ROWS]
    group = np.arange(len(known.x)) if known.group is None else known.group
    fold = np.where(np.isin(group, group[:n_judges]), group % n_folds, -1)  # -1: never left out
    numbers = range(n_folds)
    each = [Fold(np.flatnonzero(fold[:n_judges] == f), np.flatnonzero(fold != f)) for f in numbers]
    return each if all(len(one.out) and len(one.rest) for one in each) else []


def most_rows(n_columns: int) -> int:
    """Return how many rows are known, at most: a prediction looks at no more than some values."""
    if n_columns <= _FEW:
        return MOST_ROWS
    return min(MOST_ROWS, max(_ENOUGH_ROWS, _MOST_VALUES // n_columns))


def measured(
    x: Float[np.ndarray, "*n d"], log_lengths: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "*n d"]:
    """Measure rows, as float32, in lengths."""
    return np.divide(np.asarray(x, np.float32), np.exp(log_lengths), dtype=np.float64)


def nearest(
    known: Float[np.ndarray, "n d"], at: Float[np.ndarray, "m d"], k: int
) -> Int[np.ndarray, "m k"]:
    """Return the numbers of the k rows that are nearest to every other, in any order.

    Of many, the k-th least distance to some bounds that to all, and leaves few to be ordered. As
    float32, so that rows as far as each other stay so in any company.
    """
    number, square = np.empty((len(at), k), np.int64), np.einsum("nd,nd->n", known, known)
    n_first = len(known) // _BOUND_BY
    for first in range(0, len(at), _AT_A_TIME):
        part = slice(first, first + _AT_A_TIME)
        product = (-2.0 * at[part]) @ known.T
        product += square
        product += np.square(at[part]).sum(axis=1)[:, None]
        distance = product.astype(np.float32)
        if n_first <= k:
            number[part] = np.argpartition(distance, k - 1, axis=1)[:, :k]
            continue
        bounds = np.partition(distance[:, :n_first], k - 1, axis=1)[:, k - 1 : k]
        is_far = distance > bounds  # not so where it is no number
        for own, row, is_out in zip(number[part], distance, is_far, strict=True):
            few = np.flatnonzero(~is_out)
            own[:] = few[np.argpartition(row[few], k - 1)[:k]]
    return number


def squares(
    rows: Float[np.ndarray, "r k d"], log_lengths: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "r k k"]:
    """Squared distances between k rows, for r times as many."""
    at = measured(rows - rows[:, -1:], log_lengths)
    square = np.square(at).sum(axis=2)
    return np.maximum(square[:, :, None] + square[:, None] - 2.0 * at @ at.swapaxes(1, 2), 0.0)


def correlation(square: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Return the covariance of Matérn 3/2, of variance 1, of squared distances."""
    r = np.sqrt(3.0 * square)
    return (1.0 + r) * np.exp(-r)


def slope(square: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Return minus twice the derivative of `correlation` in the squared distance."""
    return 3.0 * np.exp(-np.sqrt(3.0 * square))


class Others(NamedTuple):
    """What is learnt beside the lengths: logarithms where they begin, (e,), and their bounds.

    std
        Of their normal prior, around where they begin.
    """

    first: Float[np.ndarray, " e"]
    bounds: Float[np.ndarray, " 2"] | Float[np.ndarray, "2 e"]
    std: Float[np.ndarray, " e"] | float = np.inf


Slopes = Callable[[np.ndarray, Known, Known], np.ndarray]
"""From logarithms, rows around others, (r, k), and these, (r, 1), to the gradient in the former of
minus the log-likelihood of the latter, summed."""


def some_of(
    rng: np.random.Generator, known: Known, speaks: Bool[np.ndarray, " n"] | None = None
) -> tuple[Known, Int[np.ndarray, " r"]]:
    """Draw some of the rows, and the places of those that speak among them."""
    n_most = min(ROWS_OF_EVIDENCE, most_rows(known.x.shape[1]))
    order = rng.permutation(len(known.y))[:n_most]
    speakers = np.arange(len(order)) if speaks is None else np.flatnonzero(speaks[order])
    return known.at(order), speakers


def learn_lengths(
    rng: np.random.Generator,
    known: Known,
    speakers: Int[np.ndarray, " r"],
    others: Others,
    slopes: Slopes,
    rows_of_prior: float,
) -> Float[np.ndarray, " h"]:
    """Maximise the likelihood of those that speak; return logarithms of lengths, then of others.

    rows_of_prior
        Rows whose likelihood weighs as much as the prior.
    """
    d, root = known.x.shape[1], 0.5 * np.log(known.x.shape[1])
    n_rows = int(np.clip(_VALUES // (N_NEAREST * d), *N_ROWS))
    now = np.r_[np.full(d, root + np.log(_FIRST_LENGTH)), others.first]
    alike = np.ones(len(others.first))
    low, high = (np.r_[np.full(d, _LENGTHS[i]), others.bounds[i] * alike] for i in (0, 1))
    middle = np.r_[np.full(d, root + np.log(_LENGTH)), others.first]
    moments, tail = np.zeros((2, len(now))), []
    for step in range(N_STEPS):
        own = rng.choice(speakers, n_rows)
        gradient = slopes(now, around(known, own, now[:d]), known.at(own[:, None])) / n_rows
        away = now - middle
        std = np.r_[_LENGTH_STD * np.where(away[:d] > 0.0, _LONGER, 1.0), others.std * alike]
        gradient += away / std**2 / rows_of_prior
        for decay, moment, value in zip(_DECAYS, moments, (gradient, gradient**2), strict=True):
            moment *= decay
            moment += (1.0 - decay) * value
        m, v = (moments[i] / (1.0 - _DECAYS[i] ** (step + 1)) for i in (0, 1))
        size = STEP_SIZE * (0.5 + 0.5 * np.cos(np.pi * step / N_STEPS) + _LAST_STEP)
        now = np.clip(now - size * m / (np.sqrt(v) + _TINY), low, high)
        if step >= (1.0 - _AVERAGED) * N_STEPS:
            tail.append(now)
    return np.mean(tail, axis=0)


def around(known: Known, own: Int[np.ndarray, " r"], log_lengths: Float[np.ndarray, " d"]) -> Known:
    """Return the nearest of some of the rows, (r, k), of which their own group says nothing."""
    places = measured(known.x, log_lengths)
    n = N_NEAREST + 1 if known.group is None else 2 * N_NEAREST
    near = nearest(places, places[own], min(n, len(places)))
    group = np.arange(len(known.y)) if known.group is None else known.group
    rows, is_own = known.at(near), group[near] == group[own][:, None]
    return rows._replace(weight=np.where(is_own, _SILENT, rows.weight))
