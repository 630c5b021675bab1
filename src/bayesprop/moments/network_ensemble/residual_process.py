"""An infinitely wide network that learns what the finite ones leave.

With Gaussian hidden units and ever more of them, a Bayesian network becomes a Gaussian process, its
covariance a Gaussian of the distance (Neal 1996; Williams 1997, "Computing with infinite
networks"), here with a length of its own for every input,

    k(x, x') = a² exp(-sum_d (x_d - x'_d)² / (2 l_d²)),    e_i = g(x_i) + N(0, exp(c) s_i),

on the residuals e that the ensemble has at rows it has not seen (after Qiu, Meyerson &
Miikkulainen 2020, "Quantifying point-prediction uncertainty in neural networks via residual
estimation with an I/O kernel", who take those at rows it has). Lengths, a² and c maximise the
evidence, times a log-normal prior of the lengths, with a² no more than the mean of e². Of the
variance that the ensemble expects of a row, s_i is the root: the noise networks learnt theirs from
the same residuals, and where these are large, it may be for want of a better mean.

The mean is exact. The covariance is kept as a few functions whose products add up to it on average,
drawn by Matheron's rule from a prior of random cosines (Rahimi & Recht 2007; Wilson et al. 2020,
"Efficiently sampling functions from Gaussian process posteriors").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32
from scipy import linalg, optimize

from bayesprop.numerics.dense import inverse_triangle, orthogonal_columns
from bayesprop.numerics.machine import chunks

N_FUNCTIONS, N_COSINES = 48, 256
"""The relative standard error of a variance is sqrt(2 / number of functions)."""

MOST_ROWS, ROWS_OF_EVIDENCE = 2048, 1000
"""Rows that the process knows, and rows of which it learns its lengths, at most."""

NOISE_SHARE = 0.5
"""Power of the ensemble's variance that the variance of a residual goes with."""

PRIOR_LENGTH, PRIOR_STD = 8.0**-0.5, 1.0
"""Of every input, as a share of the root of their number, and of its logarithm."""

FEW_ROWS, N_FOLDS = 200, 5
"""Fewer rows would be judged too well by lengths that they chose: these are learnt in folds."""

_LEAST_NOISE = 1e-4  # of a²: what keeps sums of large numbers exact
_FURTHEST_LOG = 60.0  # smaller numbers are slow, and no longer seen
_N_STEPS, _HALF = 30, np.log(0.5)
_LENGTHS, _SCALES = (-3.0, 6.0), (-16.0, 8.0)  # bounds of the logarithms


class ResidualProcess(NamedTuple):
    """What the process knows of n rows of d columns, for every of o outputs; float32.

    rows
        Standardised, (n, d); none where no output has anything left to learn.
    log_lengths, log_var
        Of the inputs, (o, d), and log a², (o,).
    pulls
        How much a row draws the mean towards itself, (o, n): K pulls is the mean.
    frequencies, phases
        Of the cosines, standard normal, (c, d), and from 0 to 2 pi, (c,).
    functions
        Shares of the cosines and of the rows in the functions, (o, s, c + n).
    """

    rows: Float32[np.ndarray, "n d"]
    log_lengths: Float32[np.ndarray, "o d"]
    log_var: Float32[np.ndarray, " o"]
    pulls: Float32[np.ndarray, "o n"]
    frequencies: Float32[np.ndarray, "c d"]
    phases: Float32[np.ndarray, " c"]
    functions: Float32[np.ndarray, "o s c+n"]

    @classmethod
    def none(cls, n_inputs: int, n_outputs: int) -> ResidualProcess:
        """Know nothing, and say that nothing is left."""
        d, o = n_inputs, n_outputs
        shapes = ((0, d), (o, d), (o,), (o, 0), (0, d), (0,), (o, 0, 0))
        return cls(*(np.zeros(shape, np.float32) for shape in shapes))

    def check(self, n_inputs: int, n_outputs: int) -> None:
        """Raise ValueError unless the arrays belong to one process of so many columns."""
        n, c, s = len(self.rows), len(self.phases), np.shape(self.functions)[1:2]
        d, o = n_inputs, n_outputs
        shapes = ((n, d), (o, d), (o,), (o, n), (c, d), (c,), (o, *s, c + n))
        for name, part, shape in zip(self._fields, self, shapes, strict=True):
            if np.shape(part) != shape:
                raise ValueError(f"the residual process's {name} must have shape {shape}")
        if any((np.abs(part) > _FURTHEST_LOG).any() for part in (self.log_lengths, self.log_var)):
            raise ValueError("the residual process's logarithms must be numbers from -60 to 60")

    def moments(
        self, x: Float[np.ndarray, "m d"]
    ) -> tuple[Float[np.ndarray, "m o"], Float[np.ndarray, "m o"]]:
        """Mean and variance of what is left at every row."""
        m, v = np.zeros((2, len(x), len(self.log_var)))
        for o, part, basis in self._pieces(x):
            m[part, o] = basis[:, len(self.phases) :] @ self.pulls[o]
            v[part, o] = np.square(basis @ self.functions[o].T).sum(axis=1)
        return m, v

    def draw(
        self, rng: np.random.Generator, x: Float[np.ndarray, "m d"], n: int
    ) -> Float[np.ndarray, "s m o"]:
        """Draw n functions at all rows, whose moments are those of `moments`."""
        drawn = np.zeros((n, len(x), len(self.log_var)))
        weights = rng.standard_normal((n, self.functions.shape[1]))
        for o, part, basis in self._pieces(x):
            mean = basis[:, len(self.phases) :] @ self.pulls[o]
            drawn[:, part, o] = mean + (weights @ self.functions[o]) @ basis.T
        return drawn

    def _pieces(
        self, x: Float[np.ndarray, "m d"]
    ) -> Iterator[tuple[int, slice, Float[np.ndarray, "r c+n"]]]:
        """Give output, rows, and cosines beside covariances at those, (r, c + n), in pieces."""
        if not self.functions.shape[1]:
            return
        for o, log_lengths in enumerate(self.log_lengths):
            if not self.pulls[o].any():
                continue
            known, waves = self.rows / np.exp(log_lengths), len(self.phases)
            scale = np.float32(np.exp(0.5 * self.log_var[o]) * np.sqrt(2.0 / waves))
            for part in chunks(len(x), 16 * self.functions.shape[2]):
                at = np.asarray(x[part], np.float32) / np.exp(log_lengths)
                basis = np.empty((len(at), self.functions.shape[2]), np.float32)
                angles = at @ self.frequencies.T
                angles += self.phases
                np.multiply(scale, np.cos(angles, out=angles), out=basis[:, :waves])
                basis[:, waves:] = covariance(at, known, self.log_var[o])
                yield o, part, basis


class Fitted(NamedTuple):
    """Lengths, a² and noise of one output, and what it says of each row from all others.

    log_lengths, log_var, noise_var
        Logarithms of l (d,) and of a², and exp(c) s_i, (n,).
    m, v
        Mean and variance of g at every row, left out, (n,).
    root, pulls
        Lower Cholesky factor of K + N, and (K + N)^-1 e, (n,).
    """

    log_lengths: Float[np.ndarray, " d"]
    log_var: float
    noise_var: Float[np.ndarray, " n"]
    m: Float[np.ndarray, " n"]
    v: Float[np.ndarray, " n"]
    root: Float[np.ndarray, "n n"]
    pulls: Float[np.ndarray, " n"]


def covariance(
    a: Float[np.ndarray, "n d"], b: Float[np.ndarray, "m d"], log_var: float
) -> Float[np.ndarray, "n m"]:
    """Covariance k of rows measured in lengths."""
    away = a @ b.T
    away -= 0.5 * np.square(a).sum(axis=1)[:, None]
    away -= 0.5 * np.square(b).sum(axis=1)
    np.clip(away, -_FURTHEST_LOG, 0.0, out=away)
    away += log_var
    return np.exp(away, out=away)


def negative_log_evidence(
    logarithms: Float[np.ndarray, " d+2"],
    x: Float[np.ndarray, "n d"],
    e: Float[np.ndarray, " n"],
    log_s: Float[np.ndarray, " n"],
) -> tuple[float, Float[np.ndarray, " d+2"]]:
    """-log N(e | 0, K + N) without its constant, and its gradient.

    logarithms
        Of the lengths and of a², and c.
    log_s
        Of the variances of the noise up to exp(c).
    """
    log_var, c = logarithms[-2:]
    at, n = x / np.exp(logarithms[:-2]), len(x)
    k, noise = covariance(at, at, log_var), np.exp(c + log_s)
    total = k.copy()
    total[np.diag_indices(n)] += noise + _LEAST_NOISE * np.exp(log_var)
    root = linalg.cholesky(total, lower=True, overwrite_a=True, check_finite=False)
    pulls = linalg.cho_solve((root, True), e, check_finite=False)
    value = 0.5 * e @ pulls + np.log(np.diag(root)).sum()
    # Of A = ((K + N)^-1 - pulls pulls') * K, element by element, the row sums and at' A at.
    below = inverse_triangle(root)
    own = np.diag(below).copy()
    below *= k
    pulled = pulls[:, None] * at
    each = below.sum(axis=0) + below.sum(axis=1) - np.diag(below) - pulls * (k @ pulls)
    products = 2.0 * at * (below @ at) - np.diag(below)[:, None] * at**2 - pulled * (k @ pulled)
    of_lengths = each @ np.square(at) - products.sum(axis=0)
    of_noise = own - np.square(pulls)
    of_var = 0.5 * (each.sum() + _LEAST_NOISE * np.exp(log_var) * of_noise.sum())
    return value, np.r_[of_lengths, of_var, 0.5 * of_noise @ noise]


def fit(
    rng: np.random.Generator,
    x: Float[np.ndarray, "n d"],
    e: Float[np.ndarray, " n"],
    noise_var: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    n_evidence: int = ROWS_OF_EVIDENCE,
) -> Fitted:
    """Maximise the evidence of some rows, and look at each row from all others.

    Of few rows, m and v are those by lengths, a² and c that were learnt without the row.

    noise_var
        That of the ensemble at every row.
    weight
        How often each row counts.
    n_evidence
        Rows whose evidence gives the lengths, a² and c, at most.

    Raises LinAlgError where the covariance of the rows is none in numbers.
    """
    log_s = NOISE_SHARE * np.log(noise_var)
    log_s -= log_s.mean()
    log_s -= np.log(weight)
    order = rng.permutation(len(x))
    some = order[:n_evidence]
    fitted = _condition(x, e, log_s, _most_probable(x[some], e[some], log_s[some]))
    if len(x) >= FEW_ROWS:
        return fitted
    m, v = np.empty((2, len(x)))
    for fold in range(N_FOLDS):
        others, seen = order[fold::N_FOLDS], np.delete(order, np.s_[fold::N_FOLDS])
        there = _condition(x, e, log_s, _most_probable(x[seen], e[seen], log_s[seen]))
        m[others], v[others] = there.m[others], there.v[others]
    return fitted._replace(m=m, v=v)


def _most_probable(
    x: Float[np.ndarray, "n d"], e: Float[np.ndarray, " n"], log_s: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " d+2"]:
    """Return the logarithms of lengths and a², and c, that the evidence and the prior make so."""
    d, most = x.shape[1], np.log(np.mean(np.square(e)) + np.exp(_SCALES[0]))
    start = np.full(d, np.log(PRIOR_LENGTH * np.sqrt(d)))
    has_prior = d <= len(x)  # of more columns than rows most say nothing: their lengths are free

    def loss(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = negative_log_evidence(logarithms, x, e, log_s)
        away = (logarithms[:d] - start) / PRIOR_STD
        slope[:d] += has_prior * away / PRIOR_STD
        return value + has_prior * 0.5 * float(away @ away), slope

    return optimize.minimize(
        loss,
        np.r_[start, most + _HALF, most + _HALF],
        jac=True,
        method="L-BFGS-B",
        bounds=[_LENGTHS] * d + [(_SCALES[0], most), _SCALES],
        options={"maxiter": _N_STEPS},
    ).x


def _condition(
    x: Float[np.ndarray, "n d"],
    e: Float[np.ndarray, " n"],
    log_s: Float[np.ndarray, " n"],
    logarithms: Float[np.ndarray, " d+2"],
) -> Fitted:
    """Look at each row from all others."""
    *log_lengths, log_var, c = logarithms
    at = x / np.exp(log_lengths)
    total = covariance(at, at, log_var)
    noise = np.exp(c + log_s) + _LEAST_NOISE * np.exp(log_var)
    total[np.diag_indices(len(x))] += noise
    root = linalg.cholesky(total, lower=True, overwrite_a=True, check_finite=False)
    pulls, own = linalg.cho_solve((root, True), e), np.diag(inverse_triangle(root))
    v = np.maximum(1.0 / own - noise, 0.0)
    return Fitted(np.array(log_lengths), log_var, noise, e - pulls / own, v, root, pulls)


def process(
    rng: np.random.Generator, x: Float[np.ndarray, "n d"], fitted: list[Fitted | None]
) -> ResidualProcess:
    """Put the outputs together; None: nothing is left of one."""
    if all(each is None for each in fitted):
        return ResidualProcess.none(x.shape[1], len(fitted))
    n, d = x.shape
    frequencies = rng.standard_normal((N_COSINES, d))
    phases = rng.uniform(0.0, 2.0 * np.pi, N_COSINES)
    nothing = ResidualProcess.none(d, len(fitted))
    pulls, functions = np.zeros((len(fitted), n)), []
    log_lengths, log_var = nothing.log_lengths.copy(), nothing.log_var.copy()
    for o, one in enumerate(fitted):
        if one is None:
            functions.append(np.zeros((N_FUNCTIONS, N_COSINES + n)))
            continue
        log_lengths[o], log_var[o], pulls[o] = one.log_lengths, one.log_var, one.pulls
        at = x / np.exp(one.log_lengths) @ frequencies.T + phases
        prior = np.exp(0.5 * one.log_var) * np.sqrt(2.0 / N_COSINES) * np.cos(at)
        of_cosines, of_rows = np.split(
            orthogonal_columns(rng, N_COSINES + n, N_FUNCTIONS), [N_COSINES]
        )
        seen = prior @ of_cosines + np.sqrt(one.noise_var)[:, None] * of_rows
        functions.append(np.vstack([of_cosines, -linalg.cho_solve((one.root, True), seen)]).T)
    parts = x, log_lengths, log_var, pulls, frequencies, phases, np.array(functions)
    return ResidualProcess(*(np.asarray(part, np.float32) for part in parts))
