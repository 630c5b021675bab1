"""Laplace's approximation as Matlab's toolbox trains it, with a diagonal in place of the Hessian.

Levenberg-Marquardt steps on beta |y - f|² + alpha |w|², alpha and beta chosen anew by MacKay's
fixed point after every step (Foresee & Hagan 1997, `trainbr`; MacKay 1992). Hernández-Lobato &
Adams (2015, section 5.3) assume its J'J to be diagonal. Of how the toolbox scales rows and starts
nothing is copied: rows are standardised, weights start at N(0, 1 / (inputs + 1)).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state

from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.model.task import Standardiser
from papers.published_pbp import standardiser

_START_MU, _LEAST_MU, _MOST_MU, _LOWER, _RAISE = 5e-3, 1e-20, 1e10, 0.1, 10.0
_LEAST_GRADIENT = 1e-7
"""Damping and end of the steps: the toolbox's defaults."""


class Curvature(NamedTuple):
    """J'J = basis' diag(values) basis, the basis's rows orthonormal; None: the unit vectors."""

    values: Float[np.ndarray, " k"]
    basis: Float[np.ndarray, "k p"] | None

    @classmethod
    def of(cls, slopes: Float[np.ndarray, "n p"], *, is_diagonal: bool) -> Curvature:
        """Add up the rows' squared slopes, all or the diagonal alone."""
        if is_diagonal:
            return cls(np.sum(slopes**2, axis=0), None)
        _, roots, basis = np.linalg.svd(slopes, full_matrices=False)
        return cls(roots**2, basis)

    def solve(self, beta: float, rest: float, g: Float[np.ndarray, "p ..."]) -> np.ndarray:
        """(beta J'J + rest)^-1 g; rest > 0."""
        if self.basis is None:
            return (g.T / (beta * self.values + rest)).T
        within = self.basis @ g
        outside = g - self.basis.T @ within
        return self.basis.T @ (within.T / (beta * self.values + rest)).T + outside / rest

    def n_determined(self, beta: float, alpha: float) -> float:
        """MacKay's gamma, weights that the data determine."""
        return float(np.sum(beta * self.values / (beta * self.values + alpha)))


class Precisions(NamedTuple):
    """Of half the noise, beta, and of half the prior, alpha: exp(-beta |y - f|² - alpha |w|²)."""

    beta: float
    alpha: float


class Mode(NamedTuple):
    """Weights, |y - f|² there, its gradient halved, and J'J."""

    w: Float[np.ndarray, " p"]
    misfit: float
    slope: Float[np.ndarray, " p"]
    curvature: Curvature


class Problem(NamedTuple):
    """Standardised rows, and the network that is to learn them."""

    x: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, " n"]
    n_hidden: int
    is_diagonal: bool

    def mode(self, w: Float[np.ndarray, " p"], n_epochs: int) -> tuple[Mode, Precisions]:
        """Step, and choose the precisions anew, until no step helps."""
        now, mu = self._at(w), _START_MU
        precisions = Precisions(1.0, len(w) / (2.0 * float(w @ w)))
        for _ in range(n_epochs):
            stepped, mu = self._step(now, precisions, mu)
            if stepped is None or not stepped.w @ stepped.w:
                break
            now, precisions = stepped, self._evidence(stepped, precisions)
        return now, precisions

    def _at(self, w: Float[np.ndarray, " p"]) -> Mode:
        f, slopes = linearise(w, self.x, self.n_hidden)
        off = f - self.y
        curvature = Curvature.of(slopes, is_diagonal=self.is_diagonal)
        return Mode(w, float(off @ off), off @ slopes, curvature)

    def _step(self, now: Mode, precisions: Precisions, mu: float) -> tuple[Mode | None, float]:
        """Step with the least damping, of this and ten times more and so on, that helps."""
        beta, alpha = precisions
        gradient = beta * now.slope + alpha * now.w
        if np.linalg.norm(gradient) < _LEAST_GRADIENT:
            return None, mu
        while mu <= _MOST_MU:
            moved = self._at(now.w - now.curvature.solve(beta, mu + alpha, gradient))
            if _loss(moved, precisions) < _loss(now, precisions):
                return moved, max(mu * _LOWER, _LEAST_MU)
            mu *= _RAISE
        return None, mu

    def _evidence(self, now: Mode, precisions: Precisions) -> Precisions:
        """MacKay's fixed point, once; a diagonal can claim more weights than there are rows."""
        gamma, n = now.curvature.n_determined(*precisions), len(self.y)
        beta = (n - gamma) / (2.0 * now.misfit) if gamma < n else 1.0
        return Precisions(beta, gamma / (2.0 * float(now.w @ now.w)))


def _loss(mode: Mode, precisions: Precisions) -> float:
    return precisions.beta * mode.misfit + precisions.alpha * float(mode.w @ mode.w)


@dataclass(eq=False, repr=False)
class ToolboxLaplace(RegressorMixin, BaseEstimator):
    """A network of one hidden layer of tanh units.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Units of the hidden layer; there is just one.
    is_diagonal : bool
        Whether all off the diagonal of J'J counts as zero: in the steps, in the evidence and in
        the predictive variance.
    n_epochs : int
        Most steps.
    random_state : int or RandomState
        Seeds the start.
    """

    hidden_layer_sizes: tuple[int, ...] = (10,)
    is_diagonal: bool = True
    n_epochs: int = 1000
    random_state: Any = None
    mode_: Mode = field(init=False)
    precisions_: Precisions = field(init=False)
    x_scaler_: Standardiser = field(init=False)
    y_scaler_: Standardiser = field(init=False)

    def fit(self, X: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]) -> Self:
        """Fit from scratch."""
        rng = check_random_state(self.random_state)
        self.x_scaler_, self.y_scaler_ = standardiser(X), standardiser(np.asarray(y)[:, None])
        x, y = self.x_scaler_.transform(X), self.y_scaler_.transform(np.asarray(y)[:, None])[:, 0]
        (n_hidden,) = self.hidden_layer_sizes
        shapes = (x.shape[1] + 1, n_hidden), (n_hidden + 1, 1)
        w = np.concatenate([(rng.standard_normal(s) / np.sqrt(s[0])).ravel() for s in shapes])
        problem = Problem(x, y, n_hidden, self.is_diagonal)
        self.mode_, self.precisions_ = problem.mode(w, self.n_epochs)
        return self

    def predict_dist(self, X: Float[np.ndarray, "m d"]) -> GaussianPredictive:
        """Predictive distribution of y at every row: epistemic and noise variance apart."""
        x, (beta, alpha) = self.x_scaler_.transform(X), self.precisions_
        f, slopes = linearise(self.mode_.w, x, *self.hidden_layer_sizes)
        spread = self.mode_.curvature.solve(beta, alpha, slopes.T)
        v = np.maximum(np.sum(slopes.T * spread, axis=0), 0.0) / 2.0
        standardised = GaussianPredictive(f, v, np.full_like(v, 1.0 / (2.0 * beta)))
        return standardised.rescaled(
            self.y_scaler_.inverse_mean(np.zeros(1))[0], self.y_scaler_.scale[0]
        )


def linearise(
    w: Float[np.ndarray, " p"], x: Float[np.ndarray, "n d"], n_hidden: int
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "n p"]]:
    """Return the network's outputs, and their derivatives by every weight; biases are last."""
    hidden, output = w[: -n_hidden - 1].reshape(-1, n_hidden), w[-n_hidden - 1 :]
    x = np.column_stack([x, np.ones(len(x))])
    h = np.tanh(x @ hidden)
    by_hidden = x[:, :, None] * ((1.0 - h**2) * output[:-1])[:, None, :]
    by_output = np.column_stack([h, np.ones(len(x))])
    return by_output @ output, np.column_stack([by_hidden.reshape(len(x), -1), by_output])
