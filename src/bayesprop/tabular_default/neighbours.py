"""Experts that look a row's 32 nearest rows up: search, lengths, and held-out predictions of all.

The distance is r² = sum_d (x_d - x'_d)² / l_d². Lengths l and a few other logarithms maximise the
likelihood of rows given their nearest (Vecchia 1988; Stein, Chi & Welty 2004), times log-normal
priors, by Adam on a few rows at a time, whose nearest are looked up at every step, as lengths
change. Whether an expert stays, rows decide that its lengths were fitted without. Rows near count
by k(r) = (1 + √3 r) exp(-√3 r), of Matérn 3/2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int

from bayesprop.numerics.machine import chunks, side_by_side
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.gaussian_process import KnownRows
from bayesprop.tabular_default.stack import is_no_more

N_NEAREST = 32

LEAST_ROWS, MOST_ROWS = 100, 100_000
"""Rows of a table that has such experts, and rows that these know, at most."""

MOST_HELD_OUT = 4000
"""Held-out rows that decide whether a density or logits stay, at most."""

FEW_ROWS, N_FOLDS = 1000, (5, 2)
"""Folds of fewer held-out rows, and of more."""

LEAST_GAIN = 0.01
"""Least gain of held-out rows; nats a row, or of logits a share of the loss."""

ROWS_OF_FIT, N_STEPS, N_ROWS, STEP_SIZE = 20_000, 200, (16, 64), 0.15
"""Of Adam: rows among which the nearest are looked up, at most; steps; rows in each, the fewer the
more columns; the first step of a logarithm, which falls by a cosine to nearly nothing."""

_MOST_VALUES, _ENOUGH_ROWS, _FEW_COLUMNS = 10**7, 10_000, 20  # of more columns a tree is no help
_ROWS_IN_CACHE, _SHARE_OF_BOUND = 64, 16
_LENGTH, _LENGTH_STD, _LONGER = 0.5, 1.5, 2.0  # prior of a length: times the root of d; of its log
_FIRST_LENGTH, _LENGTHS = 0.15, (-6.0, 9.0)  # times the root of d; bounds of logarithms
_DECAYS, _TINY, _LAST_STEP, _AVERAGED = (0.9, 0.97), 1e-8, 0.02, 0.15  # of the steps, the last
_NO_WEIGHT = np.float32(1e-9)
_LAST_BITS = 0xFF  # of a float32
_VALUES_A_STEP = 10**6
_ENOUGH_ERRORS = 2.0  # standard errors below the least gain at which a first fold ends the search


def most_rows(n_columns: int) -> int:
    """Return how many rows an expert knows, at most: a prediction reads a bounded table."""
    if n_columns <= _FEW_COLUMNS:
        return MOST_ROWS
    return min(MOST_ROWS, max(_ENOUGH_ROWS, _MOST_VALUES // n_columns))


def in_lengths(
    x: Float[np.ndarray, "*n d"], log_lengths: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "*n d"]:
    """Divide rows, as float32, by the lengths."""
    return np.divide(np.asarray(x, np.float32), np.exp(log_lengths), dtype=np.float64)


def nearest(
    known: Float[np.ndarray, "n d"], at: Float[np.ndarray, "m d"], k: int
) -> Int[np.ndarray, "m k"]:
    """Return the numbers of the k rows that are nearest to every other, in any order.

    Of many, the k-th least distance to some bounds that to all, and leaves few to be ordered. As
    float32 without its last bits, so that rows at one distance stay so in any company and unit.
    """
    number, square = np.empty((len(at), k), np.int64), np.einsum("nd,nd->n", known, known)
    n_first = len(known) // _SHARE_OF_BOUND
    for first in range(0, len(at), _ROWS_IN_CACHE):
        part = slice(first, first + _ROWS_IN_CACHE)
        product = (-2.0 * at[part]) @ known.T
        product += square
        product += np.square(at[part]).sum(axis=1)[:, None]
        distance = product.astype(np.float32)
        distance.view(np.int32)[...] &= ~_LAST_BITS
        if n_first <= k:
            number[part] = np.argpartition(distance, k - 1, axis=1)[:, :k]
            continue
        bounds = np.partition(distance[:, :n_first], k - 1, axis=1)[:, k - 1 : k]
        is_far = distance > bounds  # not so where it is no number
        for own, row, is_out in zip(number[part], distance, is_far, strict=True):
            few = np.flatnonzero(~is_out)
            own[:] = few[np.argpartition(row[few], k - 1)[:k]]
    return number


def nearest_others(
    rows: Rows, own: Int[np.ndarray, " r"], log_lengths: Float[np.ndarray, " d"]
) -> tuple[Int[np.ndarray, "r k"], Float[np.ndarray, "r k"]]:
    """Return the nearest of some of the rows, and weights: next to none in a row's own group."""
    places = in_lengths(rows.x, log_lengths)
    n = N_NEAREST + 1 if rows.group is None else 2 * N_NEAREST
    near = nearest(places, places[own], min(n, len(places)))
    group = np.arange(len(places)) if rows.group is None else rows.group
    return near, np.where(group[near] == group[own][:, None], _NO_WEIGHT, rows.weights[near])


def correlation(square: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Return the covariance of Matérn 3/2, of variance 1, at squared distances."""
    r = np.sqrt(3.0 * square)
    return (1.0 + r) * np.exp(-r)


def slope(square: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """Return minus twice the derivative of `correlation` in the squared distance."""
    return 3.0 * np.exp(-np.sqrt(3.0 * square))


def displaced(
    near: Float[np.ndarray, "r k d"], x: Float[np.ndarray, "r d"], log_lengths: np.ndarray
) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, "r k d"]]:
    """Return squared distances, and differences, in lengths."""
    places = in_lengths(near, log_lengths) - in_lengths(x, log_lengths)[:, None]
    return np.square(places).sum(axis=2), places


@dataclass(frozen=True, eq=False)
class Neighbours(KnownRows):
    """Rows that are looked up among, float32, and logarithms of lengths and others, float64.

    x
        The first columns of a network's inputs, without the piecewise-linear encoding.
    """

    OWNER, N_ROWS = "the neighbours'", (N_NEAREST + 1, MOST_ROWS)
    OTHERS: ClassVar[tuple[str, ...]]
    x: Float32[np.ndarray, "n d"]
    weight: Float32[np.ndarray, " n"]
    log_lengths: Float64[np.ndarray, " d"]

    @property
    def logarithms(self) -> Float[np.ndarray, " h"]:
        """Logarithms of the lengths, then the OTHERS."""
        return np.r_[self.log_lengths, *(getattr(self, name) for name in self.OTHERS)]

    @cached_property
    def _tree(self) -> Any:
        from scipy.spatial import KDTree

        return KDTree(in_lengths(self.x, self.log_lengths))

    def nearest(self, x: Float[np.ndarray, "m d"]) -> Int[np.ndarray, "m k"]:
        """Return the numbers of the N_NEAREST known rows that are nearest to others."""
        at = in_lengths(x, self.log_lengths)
        if at.shape[1] <= _FEW_COLUMNS:
            return self._tree.query(at, N_NEAREST)[1]
        return nearest(self._tree.data, at, N_NEAREST)

    def _pieces(
        self, x: Float[np.ndarray, "m f"]
    ) -> Iterator[tuple[slice, Float[np.ndarray, "r d"], Int[np.ndarray, "r k"]]]:
        """Give rows in pieces, their first d columns, and the nearest of each."""
        d = self.x.shape[1]
        for part in chunks(len(x), 16 * N_NEAREST * max(N_NEAREST, d)):
            yield part, x[part, :d], self.nearest(x[part, :d])


@dataclass(frozen=True)
class Likelihood(ABC):
    """Rows, and the likelihood of some of them given their nearest, which logarithms maximise."""

    rows: Rows
    FIRST: ClassVar[tuple[float, ...]]
    BOUNDS: ClassVar[tuple[tuple[float, ...], tuple[float, ...]]]
    STDS: ClassVar[tuple[float, ...]]
    """Of the logarithms beside the lengths: where they begin, bounds, and std of their prior."""
    ROWS_OF_PRIOR: ClassVar = (100.0, np.inf)
    """Least and most rows whose likelihood weighs as much as the prior; between, all that count."""
    scale: float = 0.0  # added to FIRST and BOUNDS

    @abstractmethod
    def loss(
        self,
        logarithms: Float[np.ndarray, " h"],
        own: Int[np.ndarray, " r"],
        near: Int[np.ndarray, "r k"],
        weight: Float[np.ndarray, "r k"],
    ) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " h"]]:
        """Return -log p of rows given k around each, and the gradient of their sum."""

    @abstractmethod
    def predict(
        self,
        logarithms: Float[np.ndarray, " h"],
        own: Int[np.ndarray, " r"],
        near: Int[np.ndarray, "r k"],
        weight: Float[np.ndarray, "r k"],
    ) -> Float[np.ndarray, "r v"]:
        """Return values of rows given k around each."""

    def chosen(self, is_rest: Bool[np.ndarray, " n"]) -> tuple[np.ndarray, np.ndarray]:
        """Return rows to look up among, and rows whose likelihood counts, when a fold is out."""
        return np.flatnonzero(is_rest), is_rest

    def fit(
        self, rng: np.random.Generator, is_rest: Bool[np.ndarray, " n"]
    ) -> Float[np.ndarray, " h"]:
        """Maximise the likelihood without a fold; return logarithms of lengths, then of others."""
        d, (among, counts) = self.rows.x.shape[1], self.chosen(is_rest)
        rows_of_prior = np.clip(counts[among].sum(), *self.ROWS_OF_PRIOR)
        order = rng.permutation(among)[: min(ROWS_OF_FIT, most_rows(d))]
        some, targets = self.rows.at(order), np.flatnonzero(counts[order])
        root, first = 0.5 * np.log(d), np.add(self.FIRST, self.scale)
        n_rows = int(np.clip(_VALUES_A_STEP // (N_NEAREST * d), *N_ROWS))
        now, middle = (np.r_[np.full(d, root + np.log(a)), first] for a in (_FIRST_LENGTH, _LENGTH))
        low, high = (
            np.r_[np.full(d, length), np.add(others, self.scale)]
            for length, others in zip(_LENGTHS, self.BOUNDS, strict=True)
        )
        moments, tail = np.zeros((2, len(now))), []
        for step in range(N_STEPS):
            own = rng.choice(targets, n_rows)
            near, weight = nearest_others(some, own, now[:d])
            gradient = self.loss(now, order[own], order[near], weight)[1] / n_rows
            away = now - middle
            std = np.r_[_LENGTH_STD * np.where(away[:d] > 0.0, _LONGER, 1.0), self.STDS]
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

    def predict_rows(
        self, logarithms: Float[np.ndarray, " h"], own: Int[np.ndarray, " r"]
    ) -> Float[np.ndarray, "r v"]:
        """Predict some of the rows, each from the others."""
        d, values = self.rows.x.shape[1], []
        for part in chunks(len(own), 8 * N_NEAREST * max(N_NEAREST, d)):
            near, weight = nearest_others(self.rows, own[part], logarithms[:d])
            values.append(self.predict(logarithms, own[part], near, weight))
        return np.concatenate(values)

    def held_out(
        self,
        rng: np.random.Generator,
        n_held: int,
        fold: Int[np.ndarray, " n"],
        gains: Callable[[Int[np.ndarray, " r"], np.ndarray], np.ndarray] | None = None,
    ) -> tuple[list[np.ndarray], Float[np.ndarray, "r v"]] | None:
        """Predict the first rows, each in logarithms that were fitted without its fold.

        Return the logarithms of every fold and the predictions; None where a fold is empty.

        gains
            From numbers and predictions of the first fold's rows to their gains, beyond the least;
            None is returned where they are surely too small.
        """
        outs = [np.flatnonzero(fold[:n_held] == f) for f in range(fold.max() + 1)]
        if len(outs) < 2 or not all(len(out) and len(out) < len(fold) for out in outs):
            return None

        def ask(rng: np.random.Generator, f: int) -> tuple[np.ndarray, np.ndarray]:
            logarithms = self.fit(rng, fold != f)
            return logarithms, self.predict_rows(logarithms, outs[f])

        streams, first = rng.spawn(len(outs)), []
        if gains is not None:
            first = [ask(streams[0], 0)]
            if is_no_more(gains(outs[0], first[0][1]), -_ENOUGH_ERRORS):
                return None
        rest = range(len(first), len(outs))
        each = first + side_by_side(ask, [streams[f] for f in rest], rest)
        logarithms, values = zip(*each, strict=True)
        return list(logarithms), np.concatenate(values)[np.argsort(np.concatenate(outs))]

    def fit_if_better(
        self,
        rng: np.random.Generator,
        n_held: int,
        gains: Callable[[Int[np.ndarray, " r"], np.ndarray], np.ndarray],
    ) -> tuple[Float[np.ndarray, " h"], Float[np.ndarray, "r v"]] | None:
        """Fit all rows, and predict the first held out; None unless these gain by weight."""

        def weighted(own: np.ndarray, values: np.ndarray) -> np.ndarray:
            return self.rows.weights[own] * gains(own, values)

        fold = deal_folds(self.rows, n_held, N_FOLDS[n_held >= FEW_ROWS])
        found = self.held_out(rng, n_held, fold, weighted)
        if found is None or is_no_more(weighted(np.arange(n_held), found[1]), 0.0):
            return None
        return self.fit(rng, np.ones(len(fold), bool)), found[1]


def deal_folds(rows: Rows, n_held: int, n_folds: int) -> Int[np.ndarray, " n"]:
    """Deal the groups of the first rows out to folds; -1: never left out."""
    group = np.arange(len(rows.x)) if rows.group is None else rows.group
    return np.where(np.isin(group, group[:n_held]), group % n_folds, -1)
