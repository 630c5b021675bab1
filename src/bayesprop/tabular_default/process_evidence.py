"""Hyper-parameters of a Gaussian process by its evidence, and what it says of rows left out.

Lengths, a², s, b² and u maximise the evidence, times log-normal priors of the lengths and of a² and
b² where these are large (Rasmussen & Williams 2006, chapter 5); which covariance it is, rows left
out decide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg

from bayesprop.numerics.dense import inverse_triangle
from bayesprop.numerics.nearest_rows import Known
from bayesprop.tabular_default.gaussian_process import (
    JITTER,
    LINEAR_JITTER,
    GaussianProcess,
    correlation_and_slope,
    one_and,
    square_of,
)

ROWS_OF_EVIDENCE = 1000
"""Rows of which a process learns its lengths, at most."""

FEW_ROWS, N_FOLDS = 300, 5
"""Fewer rows would be judged too well by lengths that they chose: these are learnt in folds."""

LONGER = 2.0
"""Times the standard deviation of the logarithm of a length, where it is longer than expected: some
inputs say nothing."""

_LENGTH_STD = 1.5  # of the logarithm; the middle of the prior is the root of the number of columns
_LENGTHS, _VAR, _MOST_LOG_NOISE = (-3.0, 9.0), (-10.0, 10.0), 1.0  # of logarithms, y² being 1
_LARGE = 5.0  # log a² and log b² from which they have a prior, of this standard deviation, too
_N_FIRST, _N_STEPS, _N_MORE_STEPS = 256, 60, 20  # rows that choose the covariance; steps there
_HALF = -0.7  # log of the shares of a², s and b² (1 + d) where a search begins
_LEAST_STEP = 1e-6  # of the evidence: a search that gains less ends
_LEAST_WEIGHT, _LEAST_SQUARE = 1e-9, 1e-9


class Limits(NamedTuple):
    """Of the logarithm of s the least, and rows whose evidence gives the hyper-parameters."""

    least_log_noise: float
    n_evidence: int


class Fitted(NamedTuple):
    """A process; mean, variance and log density of every target by one that did not know it."""

    process: GaussianProcess
    m: Float[np.ndarray, " n"]
    v: Float[np.ndarray, " n"]
    log_density: Float[np.ndarray, " n"]


def negative_log_evidence(
    logarithms: Float[np.ndarray, " h"], known: Known, *, is_rough: bool
) -> tuple[float, Float[np.ndarray, " h"]]:
    """-log N(y | 0, K + N) without its constant, and its gradient.

    logarithms
        Of the lengths, of a², of s and of b², and where rows have groups of u.
    """
    (x, y, weight, group), d = known, known.x.shape[1]
    log_var, log_noise, log_linear, *log_group = logarithms[d:]
    at, noise = x / np.exp(logarithms[:d]), np.exp(log_noise) / weight
    total, k = correlation_and_slope(square_of(at, at), is_rough=is_rough)
    total, k = np.exp(log_var) * total, np.exp(log_var) * k
    linear = np.exp(0.5 * log_linear) * one_and(x)
    own = np.square(linear).sum(axis=1)
    total += linear @ linear.T
    total[np.diag_indices(len(x))] += noise + JITTER * np.exp(log_var) + LINEAR_JITTER * own
    is_same = None if group is None else np.equal.outer(group, group)
    if is_same is not None:
        total += np.exp(log_group[0]) * is_same
    root = linalg.cholesky(total, lower=True, overwrite_a=True, check_finite=False)
    pulls = linalg.cho_solve((root, True), y, check_finite=False)
    value = 0.5 * y @ pulls + np.log(np.diag(root)).sum()
    # Of A = ((K + N)^-1 - pulls pulls') * slopes, element by element, row sums and at' A at.
    below = inverse_triangle(root)
    of_noise = np.diag(below) - np.square(pulls)
    solved = linalg.solve_triangular(root, linear, lower=True, check_finite=False)
    of_linear = np.square(solved).sum() - np.square(pulls @ linear).sum()
    of_linear += LINEAR_JITTER * of_noise @ own
    of_group, explained = [], of_linear
    if is_same is not None:
        of_blocks = 2.0 * np.sum(below, where=is_same & np.tri(len(x), dtype=bool))
        in_blocks = of_blocks - np.diag(below).sum() - pulls @ (is_same @ pulls)
        in_blocks *= np.exp(log_group[0])
        of_group, explained = [0.5 * in_blocks], of_linear + in_blocks
    below *= k
    pulled = pulls[:, None] * at
    each = below.sum(axis=0) + below.sum(axis=1) - np.diag(below) - pulls * (k @ pulls)
    products = 2.0 * at * (below @ at) - np.diag(below)[:, None] * at**2 - pulled * (k @ pulled)
    of_lengths = each @ np.square(at) - products.sum(axis=0)
    of_var = len(x) - y @ pulls - of_noise @ noise - explained
    of_others = 0.5 * np.array([of_var, of_noise @ noise, of_linear])
    return value, np.r_[of_lengths, of_others, of_group]


def fit(rng: np.random.Generator, known: Known, limits: Limits) -> Fitted:
    """Maximise the evidence of some rows, and look at each row from all others.

    Of few rows, the latter by hyper-parameters that were learnt without the row.
    """
    known = known._replace(weight=np.maximum(known.weight, _LEAST_WEIGHT))
    order = rng.permutation(len(known.y))
    few = known.at(order[: min(_N_FIRST, limits.n_evidence)])
    begun = [_most_probable(few, limits, is_rough) for is_rough in (False, True)]
    if len(order) < FEW_ROWS:
        each = [_in_folds(known, order, limits, one) for one in begun]
        return max(each, key=lambda one: float(known.weight @ one.log_density))
    best = max(begun, key=lambda one: float(few.weight @ _looked_at(few, one).log_density))
    if len(few.y) < min(len(order), limits.n_evidence):
        some = known.at(order[: limits.n_evidence])
        best = _most_probable(some, limits, best.is_rough, best)
    return _looked_at(known, best)


class _Hyper(NamedTuple):
    logarithms: Float[np.ndarray, " h"]
    is_rough: bool


def _process(known: Known, hyper: _Hyper) -> GaussianProcess:
    log_lengths, others = np.split(hyper.logarithms, [known.x.shape[1]])
    log_var, log_noise, log_linear, *log_group = others
    group = np.arange(len(known.y)) if known.group is None else known.group
    group_var = np.exp(log_group[0]) if log_group else 0.0
    linear_var = np.exp(log_linear)
    numbers = (log_lengths, log_var, log_noise, hyper.is_rough, group, group_var, linear_var)
    return GaussianProcess(*known[:3], *(np.asarray(number, np.float64) for number in numbers))


def _looked_at(known: Known, hyper: _Hyper) -> Fitted:
    """Look at each row from all others."""
    process = _process(known, hyper)
    m, v = process.left_out()
    return Fitted(process, m, v, process.log_density(known.y, m, v))


def _in_folds(known: Known, order: np.ndarray, limits: Limits, hyper: _Hyper) -> Fitted:
    """Look at each row by hyper-parameters that were learnt without it."""
    m, v, log_density = np.empty((3, len(order)))
    place = np.arange(len(order)) if known.group is None else known.group[order]
    for fold in range(N_FOLDS):
        is_out = place % N_FOLDS == fold
        out, rest = order[is_out], order[~is_out]
        if not len(out):
            continue
        learnt = _most_probable(known.at(rest), limits, hyper.is_rough)
        there = _looked_at(known, learnt)
        m[out], v[out], log_density[out] = there.m[out], there.v[out], there.log_density[out]
    return Fitted(_process(known, hyper), m, v, log_density)


def _most_probable(
    known: Known, limits: Limits, is_rough: bool, start: _Hyper | None = None
) -> _Hyper:
    """Return the logarithms of lengths, a², s, b² and u that evidence and priors make so."""
    from scipy import optimize

    d, scale = known.x.shape[1], np.log(max(np.mean(np.square(known.y)), _LEAST_SQUARE))
    middle = np.full(d, 0.5 * np.log(d))
    of_variances = [d, d + 2]
    has_prior = d <= len(known.x)  # of more columns than rows most say nothing: lengths are free

    def loss(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = negative_log_evidence(logarithms, known, is_rough=is_rough)
        away = has_prior * (logarithms[:d] - middle)
        std = _LENGTH_STD * np.where(away > 0.0, LONGER, 1.0)
        large = np.maximum(logarithms[of_variances] - scale - _LARGE, 0.0) / _LARGE
        gradient[:d] += away / std**2
        gradient[of_variances] += large / _LARGE
        priors = np.square(away / std).sum() + np.square(large).sum()
        return value + 0.5 * float(priors), gradient

    most_log_noise = max(scale, limits.least_log_noise) + _MOST_LOG_NOISE
    of_var, of_noise = (scale + _VAR[0], scale + _VAR[1]), (limits.least_log_noise, most_log_noise)
    bounds = [_LENGTHS] * d + [of_var, of_noise, of_var]
    beginning = [*middle, scale + _HALF, scale + _HALF, scale + _HALF - np.log(1 + d)]
    if known.group is not None:
        bounds, beginning = [*bounds, of_var], [*beginning, scale + _HALF]
    best = optimize.minimize(
        loss,
        beginning if start is None else start.logarithms,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={
            "maxiter": _N_STEPS if start is None else _N_MORE_STEPS,
            "ftol": _LEAST_STEP,
        },
    )
    return _Hyper(best.x, is_rough)
