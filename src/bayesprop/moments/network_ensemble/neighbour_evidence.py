"""Lengths and variances of a nearest-neighbour process, and what it says of rows left out.

They maximise the likelihood of rows given their nearest (Vecchia 1988; Stein, Chi & Welty 2004),
times log-normal priors of the lengths, by Adam on a few rows at a time, whose nearest are found
anew at every step, as lengths change.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesprop.moments.network_ensemble import neighbour_process
from bayesprop.moments.network_ensemble.neighbour_process import (
    JITTER,
    N_NEAREST,
    Hyper,
    correlation,
    squares,
)
from bayesprop.moments.network_ensemble.process_evidence import Known
from bayesprop.numerics.machine import chunks

ROWS_OF_EVIDENCE = 20_000
"""Rows among which the nearest are sought while lengths are learnt, at most."""

N_FOLDS = 2
"""Lengths that a row chose would judge it too well."""

N_STEPS, N_ROWS, STEP_SIZE = 200, (16, 64), 0.15
"""Of Adam; rows in each, the fewer the more columns; and the first step of a logarithm, which falls
by a cosine to nearly nothing."""

_LENGTH, _LENGTH_STD, _LONGER = 0.5, 1.5, 2.0  # of the prior: times the root of d; of logarithms
_FIRST_LENGTH, _FIRST_SHARE = 0.15, 0.5  # times the root of d; of the variance
_LENGTHS, _VAR = (-6.0, 9.0), (-12.0, 5.0)  # bounds of logarithms, the latter of shares of g²
_ROWS_OF_PRIOR = 1500.0  # as many as the prior speaks against
_DECAYS, _TINY, _LAST_STEP = (0.9, 0.97), 1e-8, 0.02
_AVERAGED = 0.15  # of the steps, the last
_LEAST_SQUARE = 1e-9
_SILENT = np.float32(1e-9)  # weight of a row that is not there
_VALUES = 10**6  # of what is looked at in a step, about


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
    slope = 3.0 * np.exp(hyper.var - np.sqrt(3.0 * square))  # minus twice that of k in the square
    noise = np.exp(hyper.noise) / rows.weight
    at = np.arange(noise.shape[1])
    total = k.copy()
    total[:, at, at] += noise + JITTER * np.exp(hyper.var)
    inverse = np.linalg.inv(total)
    pulls = np.einsum("rij,rj->ri", inverse, rows.y)
    # With the last column c of the inverse: the variance is 1 / c_k, the error pulls_k / c_k.
    column = inverse[:, :, -1]
    v = 1.0 / column[:, -1]
    value = 0.5 * np.sum(np.log(2.0 * np.pi * v) + pulls[:, -1] ** 2 * v)
    # The slope in the covariance of all, less that in the covariance of all but the last.
    before = pulls - column * (pulls[:, -1] * v)[:, None]
    slopes = 0.5 * (
        v[:, None, None] * column[:, :, None] * column[:, None]
        - pulls[:, :, None] * pulls[:, None]
        + before[:, :, None] * before[:, None]
    )
    places = neighbour_process.measured(rows.x - rows.x[:, -1:], hyper.lengths)
    of_pairs = slopes * slope
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
    order = rng.permutation(len(known.y))[:ROWS_OF_EVIDENCE]
    known = known.at(order)
    speakers = np.arange(len(order)) if speaks is None else np.flatnonzero(speaks[order])
    d, root = known.x.shape[1], 0.5 * np.log(known.x.shape[1])
    n_rows = int(np.clip(_VALUES // (N_NEAREST * d), *N_ROWS))
    scale = np.log(max(float(np.mean(np.square(known.y))), _LEAST_SQUARE))
    first = scale + np.log(_FIRST_SHARE), scale + np.log1p(-_FIRST_SHARE)
    now = np.array([*np.full(d, root + np.log(_FIRST_LENGTH)), *first])
    low, high = (np.array([*np.full(d, _LENGTHS[i]), *np.full(2, scale + _VAR[i])]) for i in (0, 1))
    middle, moments, tail = root + np.log(_LENGTH), np.zeros((2, d + 2)), []
    for step in range(N_STEPS):
        own = rng.choice(speakers, n_rows)
        pairs = zip(_around(known, own, now[:d])[:3], known.at(own[:, None])[:3], strict=True)
        rows = Known(*(np.hstack(pair) for pair in pairs))
        gradient = negative_log_likelihood(now, rows)[1] / n_rows
        away = now[:d] - middle
        std = _LENGTH_STD * np.where(away > 0.0, _LONGER, 1.0)
        gradient[:d] += away / std**2 / _ROWS_OF_PRIOR
        for decay, moment, value in zip(_DECAYS, moments, (gradient, gradient**2), strict=True):
            moment *= decay
            moment += (1.0 - decay) * value
        m, v = (moments[i] / (1.0 - _DECAYS[i] ** (step + 1)) for i in (0, 1))
        size = STEP_SIZE * (0.5 + 0.5 * np.cos(np.pi * step / N_STEPS) + _LAST_STEP)
        now = np.clip(now - size * m / (np.sqrt(v) + _TINY), low, high)
        if step >= (1.0 - _AVERAGED) * N_STEPS:
            tail.append(now)
    return Hyper.of(np.mean(tail, axis=0))


def _around(
    known: Known, own: Int[np.ndarray, " r"], log_lengths: Float[np.ndarray, " d"]
) -> Known:
    """Return the nearest of some of the rows, (r, k), of which their own group says nothing."""
    places = neighbour_process.measured(known.x, log_lengths)
    n = N_NEAREST + 1 if known.group is None else 2 * N_NEAREST
    near = neighbour_process.nearest(places, places[own], n)
    group = np.arange(len(known.y)) if known.group is None else known.group
    around, is_own = known.at(near), group[near] == group[own][:, None]
    return around._replace(weight=np.where(is_own, _SILENT, around.weight))


def in_folds(
    rng: np.random.Generator, known: Known, n_own: int
) -> tuple[Hyper, Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Look at the first rows by lengths and variances that were learnt from others.

    And return the means of their logarithms over N_FOLDS; then of these rows mean and variance of
    g, and s.
    """
    number = np.arange(len(known.y)) if known.group is None else known.group
    fold, each = number % N_FOLDS, []
    m, v, noise = np.empty((3, n_own))
    for f in range(N_FOLDS):
        own = np.flatnonzero(fold[:n_own] == f)
        hyper = learn_hyper(rng, known, fold != f)
        m[own], v[own] = moments_without(known, own, hyper)
        noise[own] = np.exp(hyper.noise)
        each.append(np.array([*hyper.lengths, hyper.var, hyper.noise]))
    return Hyper.of(np.mean(each, axis=0)), m, v, noise


def moments_without(
    known: Known, own: Int[np.ndarray, " r"], hyper: Hyper
) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
    """Mean and variance of g at some of the rows, of the others."""
    m, v = np.empty((2, len(own)))
    for part in chunks(len(own), 4 * N_NEAREST * max(N_NEAREST, known.x.shape[1])):
        around = _around(known, own[part], hyper.lengths)
        shares, v[part] = neighbour_process.kriging(
            around.x, known.x[own[part]], around.weight, hyper
        )
        m[part] = np.sum(shares * around.y, axis=1)
    return m, v
