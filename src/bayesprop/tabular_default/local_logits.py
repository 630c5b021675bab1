"""Logits of classes, moved by the labels of the nearest rows.

Let networks predict the classes of a row with probabilities p. Its logits move by f, which
maximises the local likelihood of the labels around it (Tibshirani & Hastie 1987), times a prior:

    sum_j w_j k(r_j) log p(y_j | logits of row j + f) - |f|² / (2 a²).

One step of Fisher's scoring from f = 0, with the diagonal of the curvature, is

    f_c = sum_j w_j k_j (1[y_j = c] - p_jc) / (1 / a² + sum_j w_j k_j h(p_jc)),

with h(p) = .9 p (1 - p) + .1 / 4: of p (1 - p) alone one label could move confident logits without
end. The p_j are those of networks trained without row j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64, Int, Int32

from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default.neighbours import (
    LEAST_GAIN,
    LEAST_ROWS,
    MOST_HELD_OUT,
    Likelihood,
    Neighbours,
    correlation,
    displaced,
    most_rows,
    slope,
)
from bayesprop.tabular_default.stack import LEAST_PROBA, log_loss

_CURVATURE_BOUND = 0.1


@dataclass(frozen=True, eq=False)
class LocalLogits(Neighbours):
    """The logits: classes (n,), int32; held-out probabilities of networks, float32; log a²."""

    OTHERS = ("log_var",)
    code: Int32[np.ndarray, " n"]
    proba: Float32[np.ndarray, "n c"]
    log_var: Float64[np.ndarray, ""]

    @classmethod
    def fit(
        cls, rng: np.random.Generator, rows: Rows, proba: Float[np.ndarray, "n c"]
    ) -> tuple[LocalLogits, Rows, Float[np.ndarray, "r c"]] | None:
        """Fit the logits to rows with codes of classes, and held-out probabilities there.

        Return them, held-out rows, and the probabilities there with them; None unless these rows
        gain by them.
        """
        if len(rows.y) < LEAST_ROWS:
            return None
        order = rng.permutation(len(rows.y))[: most_rows(rows.x.shape[1])]
        weight = rows.weights[order] / rows.weights[order].mean()
        rows, proba = rows.at(order)._replace(weight=weight), proba[order]
        if rows.group is not None and len(np.unique(rows.group)) == len(order):
            rows = rows._replace(group=None)

        def gains(own: np.ndarray, moved: np.ndarray) -> np.ndarray:
            before, after = (log_loss(p, rows.y[own]) for p in (proba[own], moved))
            return before - after - LEAST_GAIN * np.average(before, weights=weight[own])

        n = min(len(order), MOST_HELD_OUT)
        found = LogitsLikelihood(rows, proba=proba).fit_if_better(rng, n, gains)
        if found is None:
            return None
        *lengths, log_var = found[0]
        x, weight, proba = (np.asarray(a, np.float32) for a in (rows.x, weight, proba))
        numbers = np.array(lengths), rows.y.astype(np.int32), proba, np.array(log_var)
        return cls(x, weight, *numbers), rows.at(slice(n)), found[1]

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
            shift = known.shift(self.logarithms, at, near, self.weight[near])
            moved[part] = move(proba[part], shift.f)
        return moved


class Shift(NamedTuple):
    """Shifts of the logits of r rows, (r, c), and the curvatures by which these were divided.

    pulls, curvatures
        Terms of k rows in both, before their nearness, (r, k, c).
    square, places
        Squared distances of these, (r, k), and differences, in lengths, (r, k, d).
    """

    f: Float[np.ndarray, "r c"]
    curvature: Float[np.ndarray, "r c"]
    pulls: Float[np.ndarray, "r k c"]
    curvatures: Float[np.ndarray, "r k c"]
    square: Float[np.ndarray, "r k"]
    places: Float[np.ndarray, "r k d"]


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
    ) -> Shift:
        """Sum over k rows around each of r, whose inputs are x."""
        square, places = displaced(self.rows.x[near], x, logarithms[:-1])
        nearness, p = weight * correlation(square), self.proba[near].astype(np.float64)
        curvatures = (1.0 - _CURVATURE_BOUND) * p * (1.0 - p) + 0.25 * _CURVATURE_BOUND
        pulls = _less_one(p, self.rows.y[near])
        curvature = np.exp(-logarithms[-1]) + np.einsum("rk,rkc->rc", nearness, curvatures)
        f = -np.einsum("rk,rkc->rc", nearness, pulls) / curvature
        return Shift(f, curvature, pulls, curvatures, square, places)

    def loss(
        self, logarithms: np.ndarray, own: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " h"]]:
        """Return -log p of classes given k rows around each, and the gradient of their sum."""
        shift = self.shift(logarithms, self.rows.x[own], near, weight)
        code = self.rows.y[own]
        moved = move(self.proba[own], shift.f)
        share = _less_one(moved, code) / shift.curvature
        of_nearness = -np.einsum("rc,rkc->rk", share, shift.pulls)
        of_nearness -= np.einsum("rc,rkc->rk", share * shift.f, shift.curvatures)
        of_square = of_nearness * weight * slope(shift.square)
        of_lengths = np.einsum("rk,rkd->d", of_square, np.square(shift.places))
        of_var = np.exp(-logarithms[-1]) * np.sum(share * shift.f)
        return log_loss(moved, code), np.r_[of_lengths, of_var]

    def predict(
        self, logarithms: np.ndarray, own: np.ndarray, near: np.ndarray, weight: np.ndarray
    ) -> Float[np.ndarray, "r v"]:
        """Return the probabilities of classes."""
        return move(self.proba[own], self.shift(logarithms, self.rows.x[own], near, weight).f)
