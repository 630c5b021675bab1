"""A Gaussian process on the residuals of networks, given the nearest rows alone.

A network learns what holds everywhere; the process adds what holds in one place (after Qiu,
Meyerson & Miikkulainen 2020, "Quantifying point-prediction uncertainty in neural networks via
residual estimation with an I/O kernel"). Let networks predict y with mean m and variance σ². Then

    g = (y - m) / σ^½ ~ GP(0, a² k(r)),

of which a row's prediction sees the nearest rows alone (Vecchia 1988, "Estimation and model
identification for continuous spatial processes"; Datta et al. 2016, "Hierarchical nearest-neighbor
Gaussian process models"): its cost grows with the rows predicted, not with the cube of those known.
With mean m_g and variance v_g of g, and noise variance s, the networks' mixture is moved and
stretched to mean m + σ^½ m_g and variance σ (v_g + s), of whose noise the share v_g / (v_g + s) is
epistemic; it keeps its tails. Where the epistemic variance of the networks exceeds that at nearly
all rows, σ is that of such a row, and the excess is stretched with the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32

from bayesprop.distributions.predictive import Predictive
from bayesprop.numerics.machine import chunks
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.neighbours import (
    N_FOLDS,
    N_NEAREST,
    Likelihood,
    Neighbours,
    correlation,
    deal_folds,
    in_lengths,
    slope,
)
from bayesprop.tabular_default.stack import Components

SCALE_POWER = 0.25
"""Power of the networks' variance in whose unit residuals are measured: that of noise alone would
be 1/2, that of a wrong mean 0."""

DOUBTFUL = 0.95
"""Quantile over rows of the networks' epistemic variance beyond which it isn't in the unit."""

_JITTER = 1e-10  # of a²
_N_FREQUENCIES, _LEAST_U = 512, 1e-9
_LEAST_SQUARE, _LEAST_VAR = 1e-9, 1e-12


@dataclass(frozen=True, eq=False)
class ResidualProcess(Neighbours):
    """The residual process: g (n,), float32; its other logarithms are of a² and s.

    log_doubt
        Log of the networks' epistemic variance beyond which it isn't part of the unit of g.
    """

    N_OTHERS = (2,)
    g: Float32[np.ndarray, " n"]
    log_doubt: float

    @classmethod
    def fit(
        cls, rng: np.random.Generator, rows: Rows, predicted: Predictive, n_held: int
    ) -> tuple[ResidualProcess, Local] | None:
        """Fit what held-out predictions leave of y, and predict the first rows, each held out."""
        doubt = max(float(np.quantile(predicted.epistemic_var, DOUBTFUL)), _LEAST_VAR)
        g = ((rows.y.astype(np.float32) - predicted.mean) / unit(predicted, doubt)).astype(
            np.float32
        )
        rows = rows._replace(y=g, weight=rows.weights.astype(np.float32))
        likelihood = ResidualLikelihood.of(rows)
        fold = deal_folds(rows, len(g), N_FOLDS[-1])
        found = likelihood.held_out(rng, n_held, fold)
        if found is None:
            return None
        process = cls(rows.x, rows.weights, np.mean(found[0], axis=0), g, float(np.log(doubt)))
        m, v, noise = found[1].T
        return process, Local(m, v, noise, doubt)

    def moments(
        self, x: Float[np.ndarray, "m d"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Mean and variance of g."""
        m, v = np.empty((2, len(x)))
        for part, number, shares, left in self._kriged(x):
            m[part], v[part] = np.sum(shares * self.g[number], axis=1), left
        return m, v

    def draw(
        self, rng: np.random.Generator, x: Float[np.ndarray, "m d"], n: int
    ) -> Float[np.ndarray, "s m"]:
        """Draw n functions at all rows, with the moments of `moments` at each.

        A function of the prior, of quasi-random frequencies (Rahimi & Recht 2007; Yang et al. 2014,
        "Quasi-Monte Carlo feature maps for shift-invariant kernels"), is corrected by its errors
        at the nearest rows (Wilson et al. 2020, "Efficiently sampling functions from Gaussian
        process posteriors").
        """
        from scipy import sparse, special
        from scipy.stats import qmc

        u = qmc.Sobol(self.x.shape[1] + 1, rng=rng).random(_N_FREQUENCIES)
        *u, tail = np.clip(u, _LEAST_U, 1.0 - _LEAST_U).T
        frequencies = special.ndtri(u) * np.sqrt(1.5 / special.gammaincinv(1.5, tail))
        steps = rng.standard_normal((2, _N_FREQUENCIES, n))
        steps *= np.sqrt(np.exp(self.logarithms[-2]) / _N_FREQUENCIES)

        def draw_prior(at: np.ndarray) -> Float[np.ndarray, "m s"]:
            f = np.empty((len(at), n))
            for part in chunks(len(at), 2 * _N_FREQUENCIES):
                some = at[part, : len(frequencies)]
                angles = in_lengths(some, self.log_lengths) @ frequencies
                f[part] = np.cos(angles) @ steps[0] + np.sin(angles) @ steps[1]
            return f

        number, shares = np.empty((len(x), N_NEAREST), int), np.empty((len(x), N_NEAREST))
        for part, near, own, _ in self._kriged(x):
            number[part], shares[part] = near, own
        known, which = np.unique(number, return_inverse=True)
        noise_std = np.sqrt(np.exp(self.logarithms[-1]) / self.weight[known])
        error = self.g[known, None] - draw_prior(self.x[known])
        error -= noise_std[:, None] * rng.standard_normal(error.shape)
        ends = np.arange(0, number.size + 1, N_NEAREST)
        correct = sparse.csr_matrix((shares.ravel(), which.ravel(), ends))
        return (draw_prior(x) + correct @ error).T

    def _kriged(
        self, x: Float[np.ndarray, "m f"]
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
        """Give rows, their nearest, the shares of these in the mean of g, and its variances."""
        for part, at, number in self._pieces(x):
            known, weight = self.x[number], self.weight[number]
            yield part, number, *kriging(self.logarithms, known, at, weight)


def kriging(
    logarithms: Float[np.ndarray, " h"],
    known: Float[np.ndarray, "r k d"],
    x: Float[np.ndarray, "r d"],
    weight: Float[np.ndarray, "r k"],
) -> tuple[Float[np.ndarray, "r k"], Float[np.ndarray, " r"]]:
    """Shares of k rows in the mean of g at another, and its variance (Cressie 1993, ch. 3)."""
    var, noise = np.exp(logarithms[-2:])
    square, _ = _squares(np.concatenate([known, x[:, None]], axis=1), logarithms[:-2])
    covariance = var * correlation(square)
    k = known.shape[1]
    at = np.arange(k)
    covariance[:, at, at] += noise / weight + _JITTER * var
    shared = covariance[:, :k, k]
    shares = np.linalg.solve(covariance[:, :k, :k], shared[..., None])[..., 0]
    return shares, np.maximum(var - np.sum(shares * shared, axis=1), 0.0)


def _squares(
    rows: Float[np.ndarray, "r k d"], log_lengths: Float[np.ndarray, " d"]
) -> tuple[Float[np.ndarray, "r k k"], Float[np.ndarray, "r k d"]]:
    """Squared distances between k rows, and their differences from the last, in lengths."""
    at = in_lengths(rows - rows[:, -1:], log_lengths)
    square = np.square(at).sum(axis=2)
    between = square[:, :, None] + square[:, None] - 2.0 * at @ at.swapaxes(1, 2)
    return np.maximum(between, 0.0), at


class ResidualLikelihood(Likelihood):
    """Of g given its nearest; y of the rows is g. Predicts its mean and variance, and s."""

    FIRST, STDS = (np.log(0.5), np.log(0.5)), (np.inf, np.inf)
    BOUNDS = ((-12.0, -12.0), (5.0, 5.0))
    ROWS_OF_PRIOR = (1500.0, 1500.0)

    @classmethod
    def of(cls, rows: Rows) -> ResidualLikelihood:
        """Take rows, whose mean g² is the unit of variances."""
        return cls(rows, np.log(max(float(np.mean(np.square(rows.y))), _LEAST_SQUARE)))

    def chosen(self, is_rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Look up among all rows: those of the fold have no likelihood."""
        return np.arange(len(is_rest)), is_rest

    def loss(
        self, logarithms: np.ndarray, own: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " h"]]:
        """Return -log p of g at rows given k around each, and the gradient of their sum."""
        number = np.column_stack([near, own])
        square, places = _squares(self.rows.x[number], logarithms[:-2])
        var, s = np.exp(logarithms[-2:])
        k, noise = var * correlation(square), s / np.column_stack([weight, self.rows.weights[own]])
        at = np.arange(noise.shape[1])
        total = k.copy()
        total[:, at, at] += noise + _JITTER * var
        ends = np.zeros((*number.shape, 2))
        ends[:, -1, 0], ends[..., 1] = 1.0, self.rows.y[number]
        # With the last column c of the inverse: the variance is 1 / c_k, the error pulls_k / c_k.
        column, pulls = np.moveaxis(np.linalg.solve(total, ends), 2, 0)
        v = 1.0 / column[:, -1]
        value = 0.5 * (np.log(2.0 * np.pi * v) + pulls[:, -1] ** 2 * v)
        # The slope in the covariance of all, less that in the covariance of all but the last.
        before = pulls - column * (pulls[:, -1] * v)[:, None]
        slopes = 0.5 * (
            v[:, None, None] * column[:, :, None] * column[:, None]
            - pulls[:, :, None] * pulls[:, None]
            + before[:, :, None] * before[:, None]
        )
        of_pairs = slopes * var * slope(square)
        each = of_pairs.sum(axis=2)[..., None] * np.square(places)
        of_lengths = 2.0 * np.sum(each - places * (of_pairs @ places), axis=(0, 1))
        of_noise = np.sum(slopes[:, at, at] * noise)
        return value, np.r_[of_lengths, np.sum(slopes * k), of_noise]

    def predict(
        self, logarithms: np.ndarray, own: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> Float[np.ndarray, "r v"]:
        """Return mean and variance of g, and s."""
        shares, v = kriging(logarithms, self.rows.x[near], self.rows.x[own], weight)
        m = np.sum(shares * self.rows.y[near], axis=1)
        return np.column_stack([m, v, np.full(len(own), np.exp(logarithms[-1]))])


class Local(NamedTuple):
    """Mean and variance of g at some rows, (n,), and s, (n,).

    doubt
        Epistemic variance of the networks beyond which it isn't part of the unit.
    """

    m: Float[np.ndarray, " n"]
    v: Float[np.ndarray, " n"]
    noise: Float[np.ndarray, " n"]
    doubt: float

    @classmethod
    def of(cls, process: ResidualProcess, x: Float[np.ndarray, "n d"]) -> Local:
        """Predict g from the nearest rows."""
        noise = np.full(len(x), np.exp(process.logarithms[-1]))
        return cls(*process.moments(x), noise, float(np.exp(process.log_doubt)))

    @property
    def unknown(self) -> Float[np.ndarray, " n"]:
        """The epistemic share of the variance."""
        return self.v / (self.v + self.noise)

    def log_ratio(self, predicted: Predictive) -> Float[np.ndarray, " n"]:
        """Return the log of what the networks' variance is multiplied by."""
        scale = unit(predicted, self.doubt)
        var = np.maximum(scale**2 * (self.v + self.noise), _LEAST_VAR)
        return np.log(var) - np.log(scale) / SCALE_POWER

    def moved(
        self, predicted: Predictive, values: Float[np.ndarray, "*k n"]
    ) -> Float[np.ndarray, "*k n"]:
        """Move and stretch values of the function around the networks' mean."""
        stretched = np.exp(0.5 * self.log_ratio(predicted)) * (values - predicted.mean)
        return predicted.mean + unit(predicted, self.doubt) * self.m + stretched


def unit(predicted: Predictive, doubt: float) -> Float[np.ndarray, " n"]:
    """Return the unit of g, which includes the epistemic variance up to a limit."""
    var = predicted.noise_var + np.minimum(predicted.epistemic_var, doubt)
    return np.maximum(var, _LEAST_VAR) ** SCALE_POWER


def changed(members: Components, local: Local) -> Components:
    """Move and stretch the members' mixture of one output; their noise keeps its floor."""
    predicted = members.predictive()
    log_ratio = local.log_ratio(predicted)
    return members.with_noise(log_ratio)._replace(
        m=local.moved(predicted, members.m),
        v=np.exp(log_ratio) * members.v,
        unknown=np.broadcast_to(local.unknown, members.m.shape),
    )
