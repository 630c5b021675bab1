"""A kernel density of the nearest targets, mixed with a prediction of all else.

A mixture of networks and processes is nearly one bell. Where targets come in several heights, or
come back exactly, the nearest rows say so. Let p(y) be the prediction, with standard deviation σ.
With w_j the weights of rows, the mixture is

    (p(y) + sum_j ω w_j k(r_j) N(y; y_j, (s σ)²)) / (1 + sum_j ω w_j k(r_j)),

the mean of a Dirichlet process with base p, where a near row counts as ω k observations (Ferguson
1973; Dunson, Pillai & Park 2007, "Bayesian density regression"). No Gaussian is narrower than half
of the unit that targets are rounded to: nothing is gained by knowing that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64, Int

from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.duplicate_inputs import bits
from bayesprop.tabular_default.neighbours import (
    LEAST_GAIN,
    LEAST_ROWS,
    MOST_HELD_OUT,
    N_NEAREST,
    ROWS_OF_FIT,
    Likelihood,
    Neighbours,
    correlation,
    displaced,
    most_rows,
    slope,
)

LEAST_SPREAD = 0.1
"""Least s, to which the fitted one is added."""


class Gaussians(NamedTuple):
    """Gaussians that join a prediction: means, variances and shares, (k, n) or (k, n, o)."""

    y: np.ndarray
    var: np.ndarray
    share: np.ndarray


@dataclass(frozen=True, eq=False)
class KernelDensity(Neighbours):
    """The density: targets (n,), float32; log ω, and log of s less LEAST_SPREAD.

    least_std
        Of a Gaussian, as a share of the target's; float64.
    are_twins_silent
        1: rows of exactly the predicted inputs have no Gaussian, as none had in the fit: a row of
        the table is predicted as a new one is.
    """

    OTHERS = ("log_count", "log_spread")
    y: Float32[np.ndarray, " n"]
    log_count: Float64[np.ndarray, ""]
    log_spread: Float64[np.ndarray, ""]
    least_std: Float64[np.ndarray, ""]
    are_twins_silent: Float64[np.ndarray, ""]

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
        rows = rows.at(order)._replace(weight=rows.weights[order] / rows.weights[order].mean())
        is_alone = rows.group is None or len(np.unique(rows.group)) == len(order)
        rows = rows._replace(group=None) if is_alone else rows
        silent = not is_alone or len(np.unique(bits(rows.x))) == len(rows.x)
        n, least_std = len(held), 0.5 * rounding(rows.y)
        likelihood = DensityLikelihood(rows, log_p=log_p, std=std, least_std=least_std)
        found = likelihood.fit_if_better(rng, n, lambda _, gain: gain[:, 0] - LEAST_GAIN)
        if found is None:
            return None
        *lengths, log_count, log_spread = found[0]
        others = (log_count, log_spread, least_std, silent)
        numbers = (np.asarray(a, np.float64) for a in others)
        return cls(rows.x, rows.weights, np.array(lengths), rows.y, *numbers)

    def validate(self) -> None:
        """Raise ValueError where these are no targets."""
        super().validate()
        if self.least_std < 0.0:
            raise ValueError("the neighbours' least_std must be at least 0")
        if self.are_twins_silent not in (0.0, 1.0):
            raise ValueError("the neighbours' are_twins_silent must be 0 or 1")

    def gaussians(self, x: Float[np.ndarray, "m f"], std: Float[np.ndarray, " m"]) -> Gaussians:
        """Put Gaussians around the nearest targets; `std`: of the prediction that they join."""
        y, share = np.empty((2, N_NEAREST, len(x)))
        for part, at, number in self._pieces(x):
            square, _ = displaced(self.x[number], at, self.log_lengths)
            weight = self.weight[number] * (square > 0.0 if self.are_twins_silent else 1.0)
            count = np.exp(self.log_count) * weight * correlation(square)
            y[:, part] = self.y[number].T
            share[:, part] = (count / (1.0 + count.sum(axis=1, keepdims=True))).T
        width = np.maximum((LEAST_SPREAD + np.exp(self.log_spread)) * std, self.least_std)
        return Gaussians(y, np.broadcast_to(np.square(width), y.shape), share)


def gaussians(
    each: Sequence[KernelDensity | None],
    x: Float[np.ndarray, "n d"],
    std: Float[np.ndarray, "n o"],
) -> Gaussians:
    """Put Gaussians beside every output, of no share where it has no density."""
    parts = np.zeros((3, N_NEAREST, *std.shape))
    parts[1] = 1.0
    for o, density in enumerate(each):
        if density is not None:
            parts[..., o] = density.gaussians(x, std[:, o])
    return Gaussians(*parts)


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
    """

    FIRST, STDS, BOUNDS = (0.0, -1.0), (2.0, 1.0), ((-7.0, -7.0), (9.0, 3.0))
    log_p: Float[np.ndarray, " r"]
    std: Float[np.ndarray, " r"]
    least_std: float

    def chosen(self, is_rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Look up among the first rows of the rest."""
        counts = is_rest & (np.arange(len(is_rest)) < len(self.log_p))
        return np.flatnonzero(is_rest)[:ROWS_OF_FIT], counts

    def loss(
        self, logarithms: np.ndarray, own: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " h"]]:
        """Return -log p of targets given k rows around each, and the gradient of their sum."""
        x, y, log_p, std = self.rows.x, self.rows.y.astype(np.float64), self.log_p[own], self.std
        square, places = displaced(x[near], x[own], logarithms[:-2])
        nearness = np.exp(logarithms[-2]) * weight.astype(np.float64)
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
        return value, np.r_[of_lengths, np.sum(of_count * count), of_spread]

    def predict(
        self, logarithms: np.ndarray, own: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> Float[np.ndarray, "r v"]:
        """Return the gains in log p, nats."""
        return (-self.loss(logarithms, own, near, weight)[0] - self.log_p[own])[:, None]
