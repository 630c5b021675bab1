"""Bayesian linear regressions, one an arm, that learn from a row at once and say how sure they are.

    y = w' x + noise,   w ~ N(0, noise_var / prior_prec),   noise_var ~ InverseGamma(shape, rate)

Murphy (2012), section 7.6.3. `linear.regression` has the same posterior by QR, whose condition is
not squared; here a row costs p² instead of p³.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import linalg

from bayesprop.decisions.pool import finite
from bayesprop.estimators.params import check_positive

_REFRESH = 512


class Statistics(NamedTuple):
    """Sums over the rows of an arm, the prior included, and the posterior that follows from them.

    gram, moment, square, n_rows
        P + X'X, X'y and y'y; how many rows there are.
    cov
        Inverse of `gram`: of the weights, over the noise variance.
    mean
        Of the weights.
    """

    gram: Float[np.ndarray, "p p"]
    moment: Float[np.ndarray, " p"]
    square: Float[np.ndarray, ""]
    n_rows: Float[np.ndarray, ""]
    cov: Float[np.ndarray, "p p"]
    mean: Float[np.ndarray, " p"]


def start(n_columns: int, prior_prec: float) -> Statistics:
    """Return the statistics of no rows."""
    eye, zeros, zero = np.eye(n_columns), np.zeros(n_columns), np.zeros(())
    return Statistics(prior_prec * eye, zeros, zero, zero, eye / prior_prec, zeros)


def absorb(old: Statistics, x: Float[np.ndarray, " p"], y: float) -> Statistics:
    """Condition on a row, the inverse by Sherman & Morrison (1950); factored anew now and then."""
    new = _summed(old, np.outer(x, x), y * x, y * y, 1)
    if int(new.n_rows) % _REFRESH == 0:
        return _solved(new)
    spread = old.cov @ x
    gain = spread / (1.0 + x @ spread)
    return new._replace(
        cov=old.cov - np.outer(gain, spread), mean=old.mean + gain * (y - x @ old.mean)
    )


def absorb_all(
    old: Statistics, x: Float[np.ndarray, "n p"], y: Float[np.ndarray, " n"]
) -> Statistics:
    """Condition on many rows at once; ValueError if sums have left the finite numbers."""
    if len(x) == 1:
        return _finite(absorb(old, x[0], float(y[0])))
    return _solved(_summed(old, x.T @ x, x.T @ y, y @ y, len(x)))


def _summed(old: Statistics, gram: Any, moment: Any, square: Any, n_rows: int) -> Statistics:
    return old._replace(
        gram=old.gram + gram,
        moment=old.moment + moment,
        square=old.square + square,
        n_rows=old.n_rows + n_rows,
    )


def _finite(new: Statistics) -> Statistics:
    if not np.isfinite(new.square + np.trace(new.gram) + np.abs(new.mean).sum()):
        raise ValueError(
            "contexts or rewards are too large for their squares to be added up: nothing was "
            "learnt; divide them by something"
        )
    return new


def _solved(new: Statistics) -> Statistics:
    """Find the posterior from the sums, by a Cholesky factor; ValueError where there is none."""
    try:
        factor = linalg.cho_factor(_finite(new).gram)
    except linalg.LinAlgError as error:
        raise ValueError(
            "contexts are so large that the prior precision is lost by rounding: nothing was "
            "learnt; divide them by something"
        ) from error
    cov = linalg.cho_solve(factor, np.eye(len(new.gram)))
    return new._replace(cov=0.5 * (cov + cov.T), mean=linalg.cho_solve(factor, new.moment))


class Prior(NamedTuple):
    """Of every regression: precision times the noise variance, and the noise's inverse gamma."""

    prior_prec: float
    noise_shape: float
    noise_rate: float


class StudentT(NamedTuple):
    """Of the function at a row for each of k arms, the noise variance integrated out."""

    mean: Float[np.ndarray, " k"]
    scale: Float[np.ndarray, " k"]
    dof: Float[np.ndarray, " k"]

    @property
    def var(self) -> Float[np.ndarray, " k"]:
        """Variance, which the prior keeps finite."""
        return np.square(self.scale) * self.dof / (self.dof - 2.0)

    def draw(self, rng: np.random.Generator, n_draws: int) -> Float[np.ndarray, "s k"]:
        """Draw the functions of arms that are independent."""
        shape = (n_draws, len(self.mean))
        gamma = rng.standard_gamma(0.5 * self.dof, shape) / (0.5 * self.dof)
        return self.mean + self.scale * rng.standard_normal(shape) / np.sqrt(gamma)


class Regressions:
    """Regressions by number, at their prior until they have rows."""

    def __init__(self, n_columns: int, prior: Prior) -> None:
        for name, value in prior._asdict().items():
            check_positive(name, value)
        if prior.noise_shape <= 1.0:
            raise ValueError(f"noise_shape must be > 1, got {prior.noise_shape!r}")
        self.n_columns, self.prior = n_columns, prior
        self.learnt: dict[int, Statistics] = {}
        self._fresh = start(n_columns, float(prior.prior_prec))

    def __getitem__(self, number: int) -> Statistics:
        return self.learnt.get(number, self._fresh)

    def after(
        self,
        numbers: Int[np.ndarray, " n"],
        x: Float[np.ndarray, "n p"],
        y: Float[np.ndarray, " n"],
    ) -> dict[int, Statistics]:
        """Return what those that rows belong to would have learnt from them."""
        return {
            number: absorb_all(self[number], x[numbers == number], y[numbers == number])
            for number in sorted(set(numbers.tolist()))
        }

    def noise_of(self, number: int) -> tuple[float, float]:
        """Shape and rate of the noise variance's posterior. Murphy (2012), eqs. 7.75, 7.76."""
        posterior = self[number]
        residual = max(0.0, float(posterior.square - posterior.mean @ posterior.moment))
        return (
            self.prior.noise_shape + 0.5 * float(posterior.n_rows),
            self.prior.noise_rate + 0.5 * residual,
        )

    def student_t(self, numbers: Int[np.ndarray, " k"], x: Float[np.ndarray, "k p"]) -> StudentT:
        """Return the function of one regression at each row."""
        mean, scale, dof = np.empty((3, len(numbers)))
        for place, number in enumerate(numbers.tolist()):
            posterior, (shape, rate) = self[number], self.noise_of(number)
            spread = max(0.0, float(x[place] @ posterior.cov @ x[place]))
            mean[place], dof[place] = x[place] @ posterior.mean, 2.0 * shape
            scale[place] = np.sqrt(rate / shape * spread)
        return StudentT(mean, scale, dof)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Name all arrays of those that have rows."""
        return {
            f"{number}.{name}": np.asarray(part)
            for number, posterior in self.learnt.items()
            for name, part in posterior._asdict().items()
        }

    def restore(self, arrays: dict[str, np.ndarray], numbers: list[int], n_arms: int) -> None:
        """Take back what `to_arrays` gave; ValueError where it is something else."""
        if any(not 0 <= number < n_arms for number in numbers):
            raise ValueError("there is a regression for an unknown arm")
        for number in numbers:
            names = [f"{number}.{name}" for name in Statistics._fields]
            shapes = [part.shape for part in self._fresh]
            parts = [finite(name, arrays[name], s) for name, s in zip(names, shapes, strict=True)]
            self.learnt[number] = Statistics(*parts)
