"""Rewards that are linear in the context, each arm with weights and a noise of its own.

    y = w' x + noise,   w ~ N(0, noise_var / prior_prec),   noise_var ~ InverseGamma(shape, rate)

Murphy (2012), section 7.6.3; "LinFullPost" of Riquelme, Tucker & Snoek (2018). `linear.regression`
has the same posterior by QR, whose condition is not squared; here a row costs p² instead of p³.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import linalg

from bayesprop import codec
from bayesprop.bandits.arms import Arms, Belief, Choices, Draws, Rewards
from bayesprop.codec import Stored
from bayesprop.estimators.params import Positive, number

_REFRESH = 512
AboveOne = Annotated[float, number("a finite number > 1", lambda value: value > 1.0)]


class Statistics(NamedTuple):
    """Sums over the rows of an arm, the prior included, and the posterior that follows from them.

    gram, moment, square, n_rows
        P + X'X, X'y and y'y; how many rows there are.
    cov, mean
        Of the weights; `cov` over the noise variance: the inverse of `gram`.
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


def absorb(old: Statistics, x: Float[np.ndarray, "n p"], y: Float[np.ndarray, " n"]) -> Statistics:
    """Condition on rows; on one by Sherman & Morrison (1950), but factored anew now and then.

    ValueError if sums have left the finite numbers, or there is no posterior.
    """
    gram, square = old.gram + x.T @ x, old.square + y @ y
    if not np.isfinite(square + np.trace(gram)):
        raise ValueError(
            "contexts or rewards are too large for their squares to be added up: nothing was "
            "learnt; divide them by something"
        )
    moment, n_rows = old.moment + x.T @ y, old.n_rows + len(x)
    if len(x) > 1 or int(n_rows) % _REFRESH == 0:
        return Statistics(gram, moment, square, n_rows, *_solved(gram, moment))
    spread = old.cov @ x[0]
    gain = spread / (1.0 + x[0] @ spread)
    mean = old.mean + gain * (y[0] - x[0] @ old.mean)
    return Statistics(gram, moment, square, n_rows, old.cov - np.outer(gain, spread), mean)


def _solved(gram: np.ndarray, moment: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find covariance and mean by a Cholesky factor; ValueError where its pivots are rounding."""
    least = len(gram) * np.finfo(np.float64).eps * np.diag(gram)
    try:
        factor = linalg.cho_factor(gram)
        if (np.diag(factor[0]) ** 2 <= least).any():
            raise linalg.LinAlgError
    except linalg.LinAlgError as error:
        raise ValueError(
            "contexts are so large that the prior precision is lost by rounding: nothing was "
            "learnt; divide them by something"
        ) from error
    cov = linalg.cho_solve(factor, np.eye(len(gram)))
    return 0.5 * (cov + cov.T), linalg.cho_solve(factor, moment)


class StudentT(NamedTuple):
    """Of the function at a row for each of k arms, the noise variance integrated out."""

    mean: Float[np.ndarray, " k"]
    scale: Float[np.ndarray, " k"]
    dof: Float[np.ndarray, " k"]

    @property
    def belief(self) -> Belief:
        """Mean and variance, which the prior keeps finite."""
        return Belief(self.mean, np.square(self.scale) * self.dof / (self.dof - 2.0))

    def draw(self, rng: np.random.Generator, n_draws: int) -> Float[np.ndarray, "s k"]:
        """Draw the functions of arms that are independent."""
        shape = (n_draws, len(self.mean))
        gamma = rng.standard_gamma(0.5 * self.dof, shape) / (0.5 * self.dof)
        return self.mean + self.scale * rng.standard_normal(shape) / np.sqrt(gamma)


class Noise(NamedTuple):
    """Inverse-gamma distribution of a noise variance: its mean is rate / (shape - 1)."""

    shape: float
    rate: float


@dataclass
class Regressions:
    """Regressions by number, at their prior until they have rows.

    prior
        Statistics of no rows.
    learnt
        Those of regressions that have rows.
    """

    prior: Statistics
    learnt: dict[str, Statistics] = field(default_factory=dict)

    def __getitem__(self, number: int) -> Statistics:
        return self.learnt.get(str(number), self.prior)

    def check(self, n_columns: int, n: int) -> None:
        """Raise ValueError unless these are n regressions, at most, on so many columns."""
        known, sizes = set(map(str, range(n))), {len(one.mean) for one in self.learnt.values()}
        if not self.learnt.keys() <= known or sizes | {len(self.prior.mean)} != {n_columns}:
            raise ValueError(f"there must be a regression on {n_columns} columns for every arm")
        if any(one.n_rows < 0.0 for one in self.learnt.values()):
            raise ValueError("a regression cannot have fewer rows than none")

    def learn(
        self,
        numbers: Int[np.ndarray, " n"],
        x: Float[np.ndarray, "n p"],
        y: Float[np.ndarray, " n"],
    ) -> None:
        """Condition the regressions that rows belong to on them, on all or, by ValueError, none."""
        self.learnt |= {
            str(number): absorb(self[number], x[numbers == number], y[numbers == number])
            for number in sorted(set(numbers.tolist()))
        }

    def noise_of(self, number: int, noise: Noise) -> Noise:
        """Posterior of a regression's noise variance. Murphy (2012), eqs. 7.75, 7.76."""
        posterior = self[number]
        residual = max(0.0, float(posterior.square - posterior.mean @ posterior.moment))
        n_rows = float(posterior.n_rows)
        return Noise(noise.shape + 0.5 * n_rows, noise.rate + 0.5 * residual)

    def student_t(
        self, numbers: Int[np.ndarray, " k"], x: Float[np.ndarray, "k p"], noise: Noise
    ) -> StudentT:
        """Return the function of one regression at each row; `noise` is the prior of the noise."""
        mean, scale, dof = np.empty((3, len(numbers)))
        for place, arm in enumerate(numbers.tolist()):
            posterior, (shape, rate) = self[arm], self.noise_of(arm, noise)
            spread = max(0.0, float(x[place] @ posterior.cov @ x[place]))
            mean[place], dof[place] = x[place] @ posterior.mean, 2.0 * shape
            scale[place] = np.sqrt(rate / shape * spread)
        return StudentT(mean, scale, dof)


@dataclass(eq=False, kw_only=True)
class LinearRewards(Rewards):
    """Bayesian linear regression of each arm's rewards on the context, exact and streaming.

    With features of arms, one regression of all rewards on [1, context, features, and products of
    a number of the context with one of the arm]. The posteriors of arms are independent, and a draw
    of the function at one context needs no draw of the weights.

    Parameters
    ----------
    prior_prec : float
        Precision of the weights, times the noise variance.
    noise_shape, noise_rate : float
        Prior of the noise variance, InverseGamma: its mean is noise_rate / (noise_shape - 1), in
        rewards squared. A rate near the variance of rewards lets it explore from the start.
    """

    prior_prec: Positive = 1.0
    noise_shape: AboveOne = 2.0
    noise_rate: Positive = 1.0

    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Stand at the prior; no random number is needed."""
        del seed
        self.check()
        prior = start(_n_columns(n_features, arms), float(self.prior_prec))
        self._regressions = Regressions(prior)

    def learn(self, choices: Choices, rewards: Float[np.ndarray, " n"]) -> None:
        """Condition on rows, exactly: their order does not matter."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._regressions.learn(_owners(choices), _columns(choices), rewards)

    def believe(self, choices: Choices) -> Belief:
        """Mean and variance of a Student-t, the noise variance integrated out."""
        return self._student_t(choices).belief

    def draw(self, rng: np.random.Generator, choices: Choices, n_draws: int) -> Draws:
        """Draw noise variances, then functions at this context: as by drawn weights."""
        if choices.arms.features is None:
            return self._student_t(choices).draw(rng, n_draws)
        x, posterior = _columns(choices), self._regressions[0]
        shape, rate = self._regressions.noise_of(0, self._noise)
        std = np.sqrt(rate / rng.standard_gamma(shape, n_draws))
        normals = rng.standard_normal((n_draws, x.shape[1])) * std[:, None]
        root = np.linalg.cholesky(posterior.gram)
        moved = linalg.solve_triangular(root, normals.T, lower=True, trans=1)
        return (posterior.mean + moved.T) @ x.T

    @property
    def _noise(self) -> Noise:
        return Noise(self.noise_shape, self.noise_rate)

    def _student_t(self, choices: Choices) -> StudentT:
        return self._regressions.student_t(_owners(choices), _columns(choices), self._noise)

    def to_stored(self) -> Stored:
        """Return the regressions of all arms that have rows."""
        return codec.write(self._regressions, Regressions)

    def restore(self, stored: Stored, n_features: int, arms: Arms, seed: int) -> None:
        """Stand where `to_stored` was called."""
        del seed
        self.check()
        self._regressions = codec.read(Regressions, stored)
        self._regressions.check(_n_columns(n_features, arms), len(arms.names))


def _n_columns(n_features: int, arms: Arms) -> int:
    n_known = 0 if arms.features is None else arms.width
    return (1 + n_features) * (1 + n_known)


def _owners(choices: Choices) -> Int[np.ndarray, " n"]:
    """Return the regression that a row belongs to; with features, there is one."""
    numbers = choices.numbers
    return numbers if choices.arms.features is None else np.zeros(len(numbers), int)


def _columns(choices: Choices) -> Float[np.ndarray, "n p"]:
    x = choices.contexts
    ones = np.ones((len(x), 1))
    if choices.arms.features is None:
        return np.hstack([ones, x])
    known = choices.arms.features[choices.numbers]
    products = (x[:, :, None] * known[:, None, :]).reshape(len(x), -1)
    return np.hstack([ones, x, known, products])
