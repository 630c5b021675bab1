"""What the rows nearest to a row leave: a Gaussian process that knows every row of a large table.

A network learns what holds everywhere; what holds only here (a street, a week) it leaves (after
Qiu, Meyerson & Miikkulainen 2020, "Quantifying point-prediction uncertainty in neural networks via
residual estimation with an I/O kernel"). With g what an ensemble leaves of a target, measured in
the root of its own standard deviation there,

    g ~ GP(0, a² (1 + √3 r) exp(-√3 r))  (Matérn 3/2),    r² = sum_d (x_d - x'_d)² / l_d²,

and of g at a row only the N_NEAREST rows that are nearest by r are asked (Vecchia 1988, "Estimation
and model identification for continuous spatial processes"; Datta et al. 2016, "Hierarchical
nearest-neighbor Gaussian process models"): the price grows with the rows that are asked about, not
with the cube of those known. Lengths and variances maximise the likelihood of rows given these.

Where networks say that y has mean m and variance σ², g = (y - m) / σ^½ has mean m_g, and variance
v_g for want of nearer rows beside s of its own. What they say is then moved and stretched as a
whole, to mean m + σ^½ m_g and variance σ (v_g + s): it keeps its tails, which increments of a
function have as well. Of its noise the share v_g / (v_g + s) is what is not known of the function.
Where networks doubt the function more than at nearly all rows, σ is that of a row where they don't,
and their doubt is stretched with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int

from bayesprop.distributions.predictive import Predictive
from bayesprop.numerics import nearest_rows
from bayesprop.numerics.machine import chunks, side_by_side
from bayesprop.numerics.nearest_rows import (
    N_NEAREST,
    KeptRows,
    Known,
    Others,
    around,
    correlation,
    measured,
    slope,
    squares,
)
from bayesprop.tabular_default.components import Components

LEAST_GAIN = 0.01
"""In nats a row, for which a model keeps all of its rows and looks among them."""

SCALE_POWER = 0.25
"""Of the networks' variance, that what they leave is measured in: some of that variance is noise,
with which it should go, and some the want of a better mean, with which it should not."""

DOUBTFUL = 0.95
"""Share of the rows at which networks doubt the function less."""

JITTER = 1e-10
"""Of a²: rows at no distance that count without end leave a matrix that can be inverted."""

_IN_CACHE = 16  # times fewer rows than fit in memory
_N_FREQUENCIES, _LEAST_U = 512, 1e-9  # of a function that is drawn

N_FOLDS = 2
"""Lengths that a row chose would judge it too well."""

_FIRST_SHARE, _VAR = 0.5, (-12.0, 5.0)  # of g²; bounds of the logarithms of such shares
_ROWS_OF_PRIOR = 1500.0  # as many as the prior speaks against
_LEAST_SQUARE, _LEAST_VAR = 1e-9, 1e-12


class Hyper(NamedTuple):
    """Logarithms of the lengths (d,), of a² and of s, the variance around g of a row counted once.

    One array of these in that order is what is optimised.
    """

    lengths: Float[np.ndarray, " d"]
    var: float
    noise: float

    @classmethod
    def of(cls, logarithms: Float[np.ndarray, " h"]) -> Hyper:
        """Take them apart."""
        return cls(logarithms[:-2], float(logarithms[-2]), float(logarithms[-1]))


@dataclass(frozen=True, eq=False)
class NeighbourProcess(KeptRows):
    """Rows that it knows, what is left there, (n,), and how often each counts; float32.

    x
        The first columns of what its ensemble is given: without ramps.

    log_lengths, log_var, log_noise
        Of the lengths (d,), of a² and of s; float64.
    log_doubt
        Of the epistemic variance of the networks that few of these rows exceed; float64.
    """

    x: Float32[np.ndarray, "n d"]
    g: Float32[np.ndarray, " n"]
    weight: Float32[np.ndarray, " n"]
    log_lengths: Float64[np.ndarray, " d"]
    log_var: Float64[np.ndarray, ""]
    log_noise: Float64[np.ndarray, ""]
    log_doubt: Float64[np.ndarray, ""]

    @property
    def hyper(self) -> Hyper:
        """Lengths and variances."""
        return Hyper(self.log_lengths, float(self.log_var), float(self.log_noise))

    def moments(
        self, x: Float[np.ndarray, "m d"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Mean and variance of g."""
        m, v = np.empty((2, len(x)))
        for part, number, shares, left in self._asked(x):
            m[part], v[part] = np.sum(shares * self.g[number], axis=1), left
        return m, v

    def draw(
        self, rng: np.random.Generator, x: Float[np.ndarray, "m d"], n: int
    ) -> Float[np.ndarray, "s m"]:
        """Draw n functions at all rows, with the moments of `moments` at each.

        A function of the prior, of quasi-random frequencies (Rahimi & Recht 2007; Yang et al. 2014,
        "Quasi-Monte Carlo feature maps for shift-invariant kernels"), is corrected by what it gets
        wrong at the nearest rows (Wilson et al. 2020, "Efficiently sampling functions from Gaussian
        process posteriors").
        """
        from scipy import sparse, special
        from scipy.stats import qmc

        u = qmc.Sobol(self.x.shape[1] + 1, rng=rng).random(_N_FREQUENCIES)
        *u, tail = np.clip(u, _LEAST_U, 1.0 - _LEAST_U).T
        frequencies = special.ndtri(u) * np.sqrt(1.5 / special.gammaincinv(1.5, tail))
        steps = rng.standard_normal((2, _N_FREQUENCIES, n))
        steps *= np.sqrt(np.exp(self.log_var) / _N_FREQUENCIES)

        def of_prior(at: np.ndarray) -> Float[np.ndarray, "m s"]:
            f = np.empty((len(at), n))
            for part in chunks(len(at), 2 * _N_FREQUENCIES):
                some = at[part, : len(frequencies)]
                angles = measured(some, self.log_lengths) @ frequencies
                f[part] = np.cos(angles) @ steps[0] + np.sin(angles) @ steps[1]
            return f

        number, shares = np.empty((len(x), N_NEAREST), int), np.empty((len(x), N_NEAREST))
        for part, near, own, _ in self._asked(x):
            number[part], shares[part] = near, own
        asked, which = np.unique(number, return_inverse=True)
        noise_std = np.sqrt(np.exp(self.log_noise) / self.weight[asked])
        wrong = self.g[asked, None] - of_prior(self.x[asked])
        wrong -= noise_std[:, None] * rng.standard_normal(wrong.shape)
        ends = np.arange(0, number.size + 1, N_NEAREST)
        correct = sparse.csr_matrix((shares.ravel(), which.ravel(), ends))
        return (of_prior(x) + correct @ wrong).T

    def _asked(
        self, x: Float[np.ndarray, "m d"]
    ) -> Iterator[tuple[slice, Int[np.ndarray, "r k"], Float[np.ndarray, "r k"], np.ndarray]]:
        """Give rows, their nearest, the shares of these in the mean of g, and its variances."""
        n, d = N_NEAREST, self.x.shape[1]
        x = x[:, :d]
        for part in chunks(len(x), _IN_CACHE * n * max(n, d)):
            number = self.nearest(x[part])
            yield part, number, *kriging(self.x[number], x[part], self.weight[number], self.hyper)


def kriging(
    known: Float[np.ndarray, "r k d"],
    x: Float[np.ndarray, "r d"],
    weight: Float[np.ndarray, "r k"],
    hyper: Hyper,
) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, " r"]]:
    """Shares of k rows in the mean of g at another, and its variance (Cressie 1993, ch. 3)."""
    rows = np.concatenate([known, x[:, None]], axis=1)
    covariance = np.exp(hyper.var) * correlation(squares(rows, hyper.lengths))
    k = known.shape[1]
    at = np.arange(k)
    covariance[:, at, at] += np.exp(hyper.noise) / weight + JITTER * np.exp(hyper.var)
    shared = covariance[:, :k, k]
    shares = np.linalg.solve(covariance[:, :k, :k], shared[..., None])[..., 0]
    return shares, np.maximum(np.exp(hyper.var) - np.sum(shares * shared, axis=1), 0.0)


def negative_log_likelihood(
    logarithms: Float[np.ndarray, " h"], rows: Known
) -> tuple[float, Float[np.ndarray, " h"]]:
    """-log p(the last of k rows | the others), summed over r times as many, and its gradient.

    rows
        (r, k, d), (r, k), (r, k); y is g.
    """
    hyper, d = Hyper.of(logarithms), len(logarithms) - 2
    square = squares(rows.x, hyper.lengths)
    k = np.exp(hyper.var) * correlation(square)
    noise = np.exp(hyper.noise) / rows.weight
    at = np.arange(noise.shape[1])
    total = k.copy()
    total[:, at, at] += noise + JITTER * np.exp(hyper.var)
    ends = np.zeros((*rows.y.shape, 2))
    ends[:, -1, 0], ends[..., 1] = 1.0, rows.y
    # With the last column c of the inverse: the variance is 1 / c_k, the error pulls_k / c_k.
    column, pulls = np.moveaxis(np.linalg.solve(total, ends), 2, 0)
    v = 1.0 / column[:, -1]
    value = 0.5 * np.sum(np.log(2.0 * np.pi * v) + pulls[:, -1] ** 2 * v)
    # The slope in the covariance of all, less that in the covariance of all but the last.
    before = pulls - column * (pulls[:, -1] * v)[:, None]
    slopes = 0.5 * (
        v[:, None, None] * column[:, :, None] * column[:, None]
        - pulls[:, :, None] * pulls[:, None]
        + before[:, :, None] * before[:, None]
    )
    places = measured(rows.x - rows.x[:, -1:], hyper.lengths)
    of_pairs = slopes * np.exp(hyper.var) * slope(square)
    each = of_pairs.sum(axis=2)[..., None] * np.square(places)
    of_lengths = 2.0 * np.sum(each - places * (of_pairs @ places), axis=(0, 1))
    of_noise = np.sum(slopes[:, at, at] * noise)
    return float(value), np.r_[of_lengths, np.sum(slopes * k), of_noise].reshape(d + 2)


def learn_hyper(
    rng: np.random.Generator, known: Known, speaks: Bool[np.ndarray, " n"] | None = None
) -> Hyper:
    """Maximise the likelihood of rows given their nearest.

    speaks
        Rows whose likelihood it is; None: all. All may be among the nearest.
    """
    known, speakers = nearest_rows.some_of(rng, known, speaks)
    scale = np.log(max(float(np.mean(np.square(known.y))), _LEAST_SQUARE))
    first = scale + np.log(_FIRST_SHARE), scale + np.log1p(-_FIRST_SHARE)
    others = Others(np.array(first), scale + np.array(_VAR))

    def slopes(now: np.ndarray, near: Known, own: Known) -> np.ndarray:
        rows = Known(*(np.hstack(pair) for pair in zip(near[:3], own[:3], strict=True)))
        return negative_log_likelihood(now, rows)[1]

    learnt = nearest_rows.learn_lengths(rng, known, speakers, others, slopes, _ROWS_OF_PRIOR)
    return Hyper.of(learnt)


def in_folds(
    rng: np.random.Generator, known: Known, n_own: int
) -> tuple[Hyper, Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Look at the first rows by lengths and variances that were learnt from others.

    And return the means of their logarithms over N_FOLDS; then of these rows mean and variance of
    g, and s.
    """
    number = np.arange(len(known.y)) if known.group is None else known.group
    fold = number % N_FOLDS
    m, v, noise = np.empty((3, n_own))

    def learn(rng: np.random.Generator, f: int) -> Float[np.ndarray, " h"]:
        own = np.flatnonzero(fold[:n_own] == f)
        hyper = learn_hyper(rng, known, fold != f)
        m[own], v[own] = moments_without(known, own, hyper)
        noise[own] = np.exp(hyper.noise)
        return np.array([*hyper.lengths, hyper.var, hyper.noise])

    each = side_by_side(learn, rng.spawn(N_FOLDS), range(N_FOLDS))
    return Hyper.of(np.mean(each, axis=0)), m, v, noise


def moments_without(
    known: Known, own: Int[np.ndarray, " r"], hyper: Hyper
) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
    """Mean and variance of g at some of the rows, of the others."""
    m, v = np.empty((2, len(own)))
    for part in chunks(len(own), 4 * N_NEAREST * max(N_NEAREST, known.x.shape[1])):
        near = around(known, own[part], hyper.lengths)
        shares, v[part] = kriging(near.x, known.x[own[part]], near.weight, hyper)
        m[part] = np.sum(shares * near.y, axis=1)
    return m, v


class Local(NamedTuple):
    """Mean and variance of g at some rows, (n,), and s, (n,).

    doubt
        Epistemic variance of the networks that few rows of the table exceed.
    """

    m: Float[np.ndarray, " n"]
    v: Float[np.ndarray, " n"]
    noise: Float[np.ndarray, " n"]
    doubt: float

    @classmethod
    def of(cls, process: NeighbourProcess, x: Float[np.ndarray, "n d"]) -> Local:
        """Ask the nearest rows."""
        noise = np.full(len(x), np.exp(process.log_noise))
        return cls(*process.moments(x), noise, float(np.exp(process.log_doubt)))

    @property
    def unknown(self) -> Float[np.ndarray, " n"]:
        """The share of the variance that is not known of the function."""
        return self.v / (self.v + self.noise)


def learn(
    rng: np.random.Generator, known: Known, predicted: Predictive, n_own: int
) -> tuple[NeighbourProcess, Local]:
    """Learn what predictions leave of targets, and say it of the first rows, each of the others."""
    doubt = max(float(np.quantile(predicted.epistemic_var, DOUBTFUL)), _LEAST_VAR)
    g = (known.y - predicted.mean) / unit(predicted, doubt)
    known = known._replace(y=g.astype(np.float32))
    hyper, m, v, noise = in_folds(rng, known, n_own)
    numbers = (np.asarray(part, np.float64) for part in (*hyper, np.log(doubt)))
    return NeighbourProcess(*known[:3], *numbers), Local(m, v, noise, doubt)


def changed(members: Components, local: Local) -> Components:
    """Move and stretch what the members say of one output; their noise keeps its floor."""
    predicted = members.predictive()
    log_ratio = stretch(predicted, local)
    stretched = np.exp(0.5 * log_ratio) * (members.m - predicted.mean)
    return members.with_noise_factor(log_ratio)._replace(
        m=predicted.mean + unit(predicted, local.doubt) * local.m + stretched,
        v=np.exp(log_ratio) * members.v,
        unknown=np.broadcast_to(local.unknown, members.m.shape),
    )


def with_neighbours(members: Components, each: Sequence[Local | None]) -> Components:
    """Say what members say with their neighbours, of all outputs."""
    if not any(each):
        return members
    columns = [members.column(o) for o in range(len(each))]
    pairs = zip(columns, each, strict=True)
    after = [one if local is None else changed(one, local) for one, local in pairs]
    return Components(*(np.stack(parts, axis=-1) for parts in zip(*after, strict=True)))


class Drawn(NamedTuple):
    """Functions, (s, n), and what is to be done with the noise of members, (n,).

    log_ratio
        Of what its variance above the floor is multiplied by.
    own_std
        Share of its standard deviation that is noise.
    """

    functions: Float[np.ndarray, "s n"]
    log_ratio: Float[np.ndarray, " n"]
    own_std: Float[np.ndarray, " n"]


def moved_draws(
    rng: np.random.Generator,
    process: NeighbourProcess,
    x: Float[np.ndarray, "n d"],
    members: Components,
    log_noise_ratio: float,
    functions: Float[np.ndarray, "s n"],
) -> Drawn:
    """Move and stretch functions drawn from members, as `changed` does what these say on average.

    They are of the ensemble whose `log_noise_ratio` that is, at x.
    """
    local, predicted = Local.of(process, x), members.predictive()
    after = changed(members, local)
    after = after._replace(unknown=np.zeros_like(after.m))
    noise_var = after.predictive(log_noise_ratio).noise_var
    away = process.draw(rng, x, len(functions)) - local.m
    away *= np.sqrt(noise_var / (local.v + local.noise))
    log_ratio = stretch(predicted, local)
    functions = np.exp(0.5 * log_ratio) * (functions - predicted.mean) + away
    functions += predicted.mean + unit(predicted, local.doubt) * local.m
    return Drawn(functions, log_ratio, np.sqrt(1.0 - local.unknown))


def stretch(predicted: Predictive, local: Local) -> Float[np.ndarray, " n"]:
    """Return the log of what the variance is multiplied by."""
    scale = unit(predicted, local.doubt)
    var = np.maximum(scale**2 * (local.v + local.noise), _LEAST_VAR)
    return np.log(var) - np.log(scale) / SCALE_POWER


def unit(predicted: Predictive, doubt: float) -> Float[np.ndarray, " n"]:
    """Return what g is measured in where no more than so much is doubted of the function."""
    var = predicted.noise_var + np.minimum(predicted.epistemic_var, doubt)
    return np.maximum(var, _LEAST_VAR) ** SCALE_POWER
