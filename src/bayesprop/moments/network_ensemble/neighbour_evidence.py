"""Lengths and variances of a nearest-neighbour process, and what it says of rows left out."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesprop.moments.network_ensemble import nearest_lengths, neighbour_process
from bayesprop.moments.network_ensemble.nearest_lengths import Others, around
from bayesprop.moments.network_ensemble.nearest_rows import (
    N_NEAREST,
    correlation,
    measured,
    slope,
    squares,
)
from bayesprop.moments.network_ensemble.neighbour_process import JITTER, Hyper
from bayesprop.moments.network_ensemble.process_evidence import Known
from bayesprop.numerics.machine import chunks

N_FOLDS = 2
"""Lengths that a row chose would judge it too well."""

_FIRST_SHARE, _VAR = 0.5, (-12.0, 5.0)  # of g²; bounds of the logarithms of such shares
_ROWS_OF_PRIOR = 1500.0  # as many as the prior speaks against
_LEAST_SQUARE = 1e-9


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
    known, speakers = nearest_lengths.some(rng, known, speaks)
    scale = np.log(max(float(np.mean(np.square(known.y))), _LEAST_SQUARE))
    first = scale + np.log(_FIRST_SHARE), scale + np.log1p(-_FIRST_SHARE)
    others = Others(np.array(first), scale + np.array(_VAR))

    def slopes(now: np.ndarray, near: Known, own: Known) -> np.ndarray:
        rows = Known(*(np.hstack(pair) for pair in zip(near[:3], own[:3], strict=True)))
        return negative_log_likelihood(now, rows)[1]

    learnt = nearest_lengths.learn(rng, known, speakers, others, slopes, _ROWS_OF_PRIOR)
    return Hyper.of(learnt)


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
        near = around(known, own[part], hyper.lengths)
        shares, v[part] = neighbour_process.kriging(near.x, known.x[own[part]], near.weight, hyper)
        m[part] = np.sum(shares * near.y, axis=1)
    return m, v
