"""Experts that look a row's 32 nearest rows up: search, lengths, and two heads.

The distance is r² = sum_d (x_d - x'_d)² / l_d². Lengths l and a few other logarithms maximise the
likelihood of rows given their nearest (Vecchia 1988; Stein, Chi & Welty 2004), times log-normal
priors, by Adam on a few rows at a time, whose nearest are looked up at every step, as lengths
change. Whether an expert stays, rows decide that its lengths were fitted without. Rows near count
by k(r) = (1 + √3 r) exp(-√3 r), of Matérn 3/2.

Kernel density, of numbers. A mixture of networks and processes is nearly one bell. Where targets
come in several heights, or come back exactly, the nearest rows say so. Let p(y) be the prediction,
with standard deviation σ. With w_j the weights of rows, the mixture is

    (p(y) + sum_j ω w_j k(r_j) N(y; y_j, (s σ)²)) / (1 + sum_j ω w_j k(r_j)),

the mean of a Dirichlet process with base p, where a near row counts as ω k observations (Ferguson
1973; Dunson, Pillai & Park 2007, "Bayesian density regression"). Twins, rows of the same inputs,
have an ω of their own; where rows have groups or come in time they are silent. No Gaussian is
narrower than half of the unit that targets are rounded to: nothing is gained by knowing that.

Local logits, of classes. Let networks predict the classes of a row with probabilities p. Its logits
move by f, which maximises the local likelihood of the labels around it (Tibshirani & Hastie 1987),
times a prior:

    sum_j w_j k(r_j) log p(y_j | logits of row j + f) - |f|² / (2 a²).

One step of Fisher's scoring from f = 0, with the diagonal of the curvature, is

    f_c = sum_j w_j k_j (1[y_j = c] - p_jc) / (1 / a² + sum_j w_j k_j h(p_jc)),

with h(p) = .9 p (1 - p) + .1 / 4: of p (1 - p) alone one label could move confident logits without
end. The p_j are those of networks trained without row j.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Int32

from bayesprop.numerics.machine import chunks, side_by_side
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.gaussian_process import KnownRows
from bayesprop.tabular_default.stack import LEAST_PROBA, is_no_more, log_loss

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

LEAST_SPREAD = 0.1
"""Least s of a density, to which the fitted one is added."""

_CURVATURE_BOUND = 0.1  # the share of h of local logits that does not depend on p
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


def bits(x: Float[np.ndarray, "n d"]) -> np.ndarray:
    """Return rows of float32 as one value each, (n,); the two zeros are one number."""
    x = np.ascontiguousarray(x, np.float32) + np.float32(0.0)
    return x.view(np.dtype((np.void, x.shape[1] * x.itemsize))).ravel()


def repeat(x: Float[np.ndarray, "n d"]) -> bool:
    """Whether ten rows, and 2 % of them, have the inputs of another."""
    _, number, count = np.unique(bits(x), return_inverse=True, return_counts=True)
    return bool(np.sum(count[number] > 1) >= max(10, 0.02 * len(x)))


def in_lengths(
    x: Float[np.ndarray, "*n d"], log_lengths: Float[np.ndarray, " d"]
) -> Float[np.ndarray, "*n d"]:
    """Divide rows, as float32, by the lengths."""
    return np.divide(np.asarray(x, np.float32), np.exp(log_lengths), dtype=np.float64)


def nearest(
    known: Float[np.ndarray, "n d"],
    at: Float[np.ndarray, "m d"],
    k: int,
    groups: tuple[Int[np.ndarray, " n"], Int[np.ndarray, " m"]] | None = None,
) -> Int[np.ndarray, "m k"]:
    """Return the numbers of the k rows that are nearest to every other, in any order.

    Rows of its own group come last: `groups` are those of `known` and of `at`. Of many rows, the
    k-th least distance to some bounds that to all, and leaves few to be ordered. Distances are
    float32 without their last bits, so that equal ones stay equal in any company and unit.
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
        if groups is not None:
            distance[groups[0] == groups[1][part, None]] = np.inf
        if n_first <= k:
            number[part] = np.argpartition(distance, k - 1, axis=1)[:, :k]
            continue
        bounds = np.partition(distance[:, :n_first], k - 1, axis=1)[:, k - 1 : k]
        for own, row, bound in zip(number[part], distance, bounds, strict=True):
            few = np.flatnonzero(~(row > bound))  # also what is no number
            own[:] = few[np.argpartition(row[few], k - 1)[:k]]
    return number


def nearest_others(
    rows: Rows, own: Int[np.ndarray, " r"], log_lengths: Float[np.ndarray, " d"]
) -> tuple[Int[np.ndarray, "r k"], Float[np.ndarray, "r k"]]:
    """Return the nearest of some of the rows, and weights: next to none in a row's own group."""
    places = in_lengths(rows.x, log_lengths)
    group = np.arange(len(places)) if rows.group is None else rows.group
    near = nearest(places, places[own], min(N_NEAREST, len(places)), (group, group[own]))
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
    """Rows that are looked up among; inputs and weights float32.

    x
        The first columns of a network's inputs, without the piecewise-linear encoding.
    """

    OWNER, N_ROWS = "the neighbours'", (N_NEAREST + 1, MOST_ROWS)
    x: Float32[np.ndarray, "n d"]
    weight: Float32[np.ndarray, " n"]

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
        self, logarithms: np.ndarray, own: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " h"]]:
        """Return -log p of rows given k around each, (r, k), and the gradient of their sum."""

    @abstractmethod
    def predict(
        self, logarithms: np.ndarray, own: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> Float[np.ndarray, "r v"]:
        """Return values of rows given k around each, (r, k)."""

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


def known_rows(rows: Rows, order: Int[np.ndarray, " k"]) -> Rows:
    """Return some rows with weights of mean 1, and without groups where each is of its own."""
    rows = rows.at(order)
    is_alone = rows.group is None or len(np.unique(rows.group)) == len(order)
    weight = rows.weights / rows.weights.mean()
    return rows._replace(weight=weight, group=None if is_alone else rows.group)


@dataclass(frozen=True, eq=False)
class KernelDensity(Neighbours):
    """The density: targets (n,), float32; other logarithms: ω of twins, ω, and s less LEAST_SPREAD.

    least_std
        Of a Gaussian, as a share of the target's.
    are_twins_silent
        Whether twins, rows of exactly the predicted inputs, have no Gaussian, as none had in the
        fit: a row of the table is predicted as a new one is.
    """

    N_OTHERS = (3,)
    y: Float32[np.ndarray, " n"]
    least_std: float
    are_twins_silent: bool

    @classmethod
    def fit(
        cls,
        rng: np.random.Generator,
        rows: Rows,
        held: Int[np.ndarray, " r"],
        log_p: Float[np.ndarray, " r"],
        std: Float[np.ndarray, " r"],
    ) -> KernelDensity | None:
        """Fit a density of one output; None unless held-out rows gain by it.

        held, log_p, std
            Numbers of held-out rows; log density, nats, and standard deviation of all else there.
        """
        if len(held) < LEAST_ROWS:
            return None
        some = rng.permutation(len(held))[:MOST_HELD_OUT]
        held, log_p, std = held[some], log_p[some], std[some]
        rest = np.setdiff1d(np.flatnonzero(rows.weights), held)
        order = np.r_[held, rng.permutation(rest)][: most_rows(rows.x.shape[1])]
        rows = known_rows(rows, order)
        silent = rows.group is not None or len(np.unique(bits(rows.x))) == len(rows.x)
        n, least_std = len(held), 0.5 * rounding(rows.y)
        given = {"log_p": log_p, "std": std, "least_std": least_std, "are_twins_silent": silent}
        likelihood = DensityLikelihood(rows, **given)
        found = likelihood.fit_if_better(rng, n, lambda _, gain: gain[:, 0] - LEAST_GAIN)
        if found is None:
            return None
        return cls(rows.x, rows.weights, found[0], rows.y, least_std, silent)

    def validate(self) -> None:
        """Raise ValueError where these are no targets."""
        super().validate()
        if self.least_std < 0.0:
            raise ValueError("the neighbours' least_std must be at least 0")

    def gaussians(
        self, x: Float[np.ndarray, "m f"], std: Float[np.ndarray, " m"]
    ) -> tuple[Float[np.ndarray, "k m"], ...]:
        """Put Gaussians around the nearest targets: their means, variances and shares.

        std
            Of the prediction that they join.
        """
        y, share = np.empty((2, N_NEAREST, len(x)))
        for part, at, number in self._pieces(x):
            square, _ = displaced(self.x[number], at, self.log_lengths)
            of_twins = 0.0 if self.are_twins_silent else np.exp(self.logarithms[-3])
            of_pair = np.where(square > 0.0, np.exp(self.logarithms[-2]), of_twins)
            count = of_pair * self.weight[number] * correlation(square)
            y[:, part] = self.y[number].T
            share[:, part] = (count / (1.0 + count.sum(axis=1, keepdims=True))).T
        width = np.maximum((LEAST_SPREAD + np.exp(self.logarithms[-1])) * std, self.least_std)
        return y, np.broadcast_to(np.square(width), y.shape), share


def gaussians(
    each: Sequence[KernelDensity | None],
    x: Float[np.ndarray, "n d"],
    std: Float[np.ndarray, "n o"],
) -> Float[np.ndarray, "3 k n o"]:
    """Put Gaussians beside every output, of no share where it has no density."""
    parts = np.zeros((3, N_NEAREST, *std.shape))
    parts[1] = 1.0
    for o, density in enumerate(each):
        if density is not None:
            parts[..., o] = density.gaussians(x, std[:, o])
    return parts


def rounding(y: Float[np.ndarray, " n"]) -> float:
    """Return the median distance of a target to the next other value."""
    values, at = np.unique(y, return_inverse=True)
    if len(values) < 2:
        return 0.0
    steps = np.diff(values.astype(np.float64))
    return float(np.median(np.minimum(np.r_[steps, np.inf], np.r_[np.inf, steps])[at]))


@dataclass(frozen=True, kw_only=True)
class DensityLikelihood(Likelihood):
    """Of targets of the first rows under the density; predicts their gains in log p, (r, 1).

    log_p, std
        Of all else there, (r,); least_std is that of the narrowest Gaussian.
    are_twins_silent
        Whether no twin counts.
    """

    FIRST, STDS, BOUNDS = (0.0, 0.0, -1.0), (2.0, 2.0, 1.0), ((-7.0,) * 3, (9.0, 9.0, 3.0))
    log_p: Float[np.ndarray, " r"]
    std: Float[np.ndarray, " r"]
    least_std: float
    are_twins_silent: bool = True

    def chosen(self, is_rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Look up among the first rows of the rest."""
        counts = is_rest & (np.arange(len(is_rest)) < len(self.log_p))
        return np.flatnonzero(is_rest)[:ROWS_OF_FIT], counts

    def loss(
        self, logarithms: np.ndarray, own: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " h"]]:
        """Return -log p of targets given k rows around each, and the gradient of their sum."""
        x, y, log_p, std = self.rows.x, self.rows.y.astype(np.float64), self.log_p[own], self.std
        square, places = displaced(x[near], x[own], logarithms[:-3])
        is_twin = (square == 0.0) & (not self.are_twins_silent)
        of_pair = np.where(is_twin, np.exp(logarithms[-3]), np.exp(logarithms[-2]))
        nearness = of_pair * weight.astype(np.float64)
        count = nearness * correlation(square)
        added, total = np.exp(logarithms[-1]) * std[own], 1.0 + count.sum(axis=1)
        width = LEAST_SPREAD * std[own] + added
        is_free, width = width > self.least_std, np.maximum(width, self.least_std)
        z = (y[own, None] - y[near]) / width[:, None]
        log_near = -0.5 * (np.log(2.0 * np.pi) + np.square(z)) - np.log(width)[:, None]
        highest = np.maximum(log_p, log_near.max(axis=1))
        of_near = np.exp(log_near - highest[:, None])
        density = np.exp(log_p - highest) + np.sum(count * of_near, axis=1)
        of_count = 1.0 / total[:, None] - of_near / density[:, None]
        of_square = of_count * nearness * slope(square)
        of_lengths = np.einsum("rk,rkd->d", of_square, np.square(places))
        of_width = np.sum(count * of_near * (1.0 - np.square(z)), axis=1) / density / width
        of_spread = np.sum(of_width * added * is_free)
        value = np.log(total) - np.log(density) - highest
        of_twins, of_others = (np.sum(of_count * count * on) for on in (is_twin, ~is_twin))
        return value, np.r_[of_lengths, of_twins, of_others, of_spread]

    def predict(
        self, logarithms: np.ndarray, own: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> Float[np.ndarray, "r v"]:
        """Return the gains in log p, nats."""
        return (-self.loss(logarithms, own, near, weight)[0] - self.log_p[own])[:, None]


@dataclass(frozen=True, eq=False)
class LocalLogits(Neighbours):
    """The logits: classes (n,), int32; held-out probabilities of networks, float32; last log a²."""

    N_OTHERS = (1,)
    code: Int32[np.ndarray, " n"]
    proba: Float32[np.ndarray, "n c"]

    @classmethod
    def fit(
        cls, rng: np.random.Generator, rows: Rows, proba: Float[np.ndarray, "n c"]
    ) -> tuple[LocalLogits, Int[np.ndarray, " r"], Float[np.ndarray, "r c"]] | None:
        """Fit the logits to rows with codes of classes, and held-out probabilities there.

        Return them, the numbers of held-out rows, and the probabilities there with them; None
        unless these rows gain by them.
        """
        if len(rows.y) < LEAST_ROWS:
            return None
        order = rng.permutation(len(rows.y))[: most_rows(rows.x.shape[1])]
        rows, proba = known_rows(rows, order), proba[order]

        def gains(own: np.ndarray, moved: np.ndarray) -> np.ndarray:
            before, after = (log_loss(p, rows.y[own]) for p in (proba[own], moved))
            return before - after - LEAST_GAIN * np.average(before, weights=rows.weights[own])

        n = min(len(order), MOST_HELD_OUT)
        found = LogitsLikelihood(rows, proba=proba).fit_if_better(rng, n, gains)
        if found is None:
            return None
        x, weight, known = (np.asarray(a, np.float32) for a in (rows.x, rows.weights, proba))
        return cls(x, weight, found[0], rows.y.astype(np.int32), known), order[:n], found[1]

    def validate(self) -> None:
        """Raise ValueError where these are no labels."""
        super().validate()
        if (self.proba < 0.0).any() or (self.proba > 1.0).any():
            raise ValueError("the neighbours' proba must be 0 to 1")
        n_classes = self.proba.shape[1]
        if (self.code < 0).any() or (self.code >= n_classes).any():
            raise ValueError(f"the neighbours' code must be 0 to {n_classes - 1}")

    def moved(
        self, x: Float[np.ndarray, "m f"], proba: Float[np.ndarray, "m c"]
    ) -> Float[np.ndarray, "m c"]:
        """Move the probabilities of rows."""
        known = LogitsLikelihood(Rows(self.x, self.code, self.weight), proba=self.proba)
        moved = np.empty_like(proba)
        for part, at, near in self._pieces(x):
            f, *_ = known.shift(self.logarithms, at, near, self.weight[near])
            moved[part] = move(proba[part], f)
        return moved


def move(proba: Float[np.ndarray, "r c"], f: Float[np.ndarray, "r c"]) -> Float[np.ndarray, "r c"]:
    """Shift the logits of probabilities."""
    logits = np.log(np.maximum(proba, LEAST_PROBA)) + f
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _less_one(proba: Float[np.ndarray, "*r c"], code: Int[np.ndarray, "*r"]) -> np.ndarray:
    """Return the slopes of minus the log-likelihood in the logits."""
    return proba - (code[..., None] == np.arange(proba.shape[-1]))


@dataclass(frozen=True, kw_only=True)
class LogitsLikelihood(Likelihood):
    """Of the classes, y, under the local logits; predicts their probabilities, (r, c)."""

    FIRST, STDS, BOUNDS = (0.0,), (2.0,), ((-6.0,), (9.0,))
    proba: Float[np.ndarray, "n c"]

    def shift(
        self, logarithms: np.ndarray, x: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Sum over k rows around each of r, whose inputs are x.

        Return shifts of their logits, (r, c), and the curvatures by which these were divided; the
        terms of the rows in both, before their nearness, (r, k, c); squared distances, (r, k), and
        differences, in lengths, (r, k, d).
        """
        square, places = displaced(self.rows.x[near], x, logarithms[:-1])
        nearness, p = weight * correlation(square), self.proba[near].astype(np.float64)
        curvatures = (1.0 - _CURVATURE_BOUND) * p * (1.0 - p) + 0.25 * _CURVATURE_BOUND
        pulls = _less_one(p, self.rows.y[near])
        curvature = np.exp(-logarithms[-1]) + np.einsum("rk,rkc->rc", nearness, curvatures)
        f = -np.einsum("rk,rkc->rc", nearness, pulls) / curvature
        return f, curvature, pulls, curvatures, square, places

    def loss(
        self, logarithms: np.ndarray, own: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " h"]]:
        """Return -log p of classes given k rows around each, and the gradient of their sum."""
        shift = self.shift(logarithms, self.rows.x[own], near, weight)
        (f, curvature, pulls, curvatures, square, places), code = shift, self.rows.y[own]
        moved = move(self.proba[own], f)
        share = _less_one(moved, code) / curvature
        of_nearness = -np.einsum("rc,rkc->rk", share, pulls)
        of_nearness -= np.einsum("rc,rkc->rk", share * f, curvatures)
        of_square = of_nearness * weight * slope(square)
        of_lengths = np.einsum("rk,rkd->d", of_square, np.square(places))
        return log_loss(moved, code), np.r_[of_lengths, np.exp(-logarithms[-1]) * np.sum(share * f)]

    def predict(
        self, logarithms: np.ndarray, own: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> Float[np.ndarray, "r v"]:
        """Return the probabilities of classes."""
        return move(self.proba[own], self.shift(logarithms, self.rows.x[own], near, weight)[0])
