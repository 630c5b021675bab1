"""Rewards that are linear in the context, each arm with weights and a noise of its own.

    reward = w_a' [1, context] + noise,   w_a ~ N(0, noise_var / prior_prec),
    noise_var ~ InverseGamma(noise_shape, noise_rate)

Murphy (2012), section 7.6.3; "LinFullPost" of Riquelme, Tucker & Snoek (2018). The posteriors of
arms are independent, and a draw of the function at one context needs no draw of the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int
from scipy import linalg

from bayesprop.decisions.arms import Arms
from bayesprop.decisions.rewards import Belief, Rewards
from bayesprop.estimators.checks import check_positive

_REFRESH = 512


class Statistics(NamedTuple):
    """Sums over the rows of an arm, the prior included, and the posterior that follows from them.

    gram, moment, square, n_rows
        P + X'X, X'r and r'r; how many rows there are.
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
    eye, zero = np.eye(n_columns), np.zeros(())
    return Statistics(
        prior_prec * eye, np.zeros(n_columns), zero, zero, eye / prior_prec, np.zeros(n_columns)
    )


def absorb(old: Statistics, x: Float[np.ndarray, " p"], reward: float) -> Statistics:
    """Condition on a row, the inverse by Sherman & Morrison (1950); factored anew now and then."""
    new = old._replace(
        gram=old.gram + np.outer(x, x),
        moment=old.moment + reward * x,
        square=old.square + reward * reward,
        n_rows=old.n_rows + 1.0,
    )
    if int(new.n_rows) % _REFRESH == 0:
        return solved(new)
    spread = old.cov @ x
    gain = spread / (1.0 + x @ spread)
    return new._replace(
        cov=old.cov - np.outer(gain, spread), mean=old.mean + gain * (reward - x @ old.mean)
    )


def absorb_all(
    old: Statistics, x: Float[np.ndarray, "n p"], rewards: Float[np.ndarray, " n"]
) -> Statistics:
    """Condition on many rows at once."""
    return solved(
        old._replace(
            gram=old.gram + x.T @ x,
            moment=old.moment + x.T @ rewards,
            square=old.square + rewards @ rewards,
            n_rows=old.n_rows + len(x),
        )
    )


def finite_numbers(new: Statistics) -> Statistics:
    """Return what was given; ValueError if sums have left the finite numbers."""
    if not np.isfinite(new.square + np.trace(new.gram) + np.abs(new.mean).sum()):
        raise ValueError(
            "contexts or rewards are too large for their squares to be added up: nothing was "
            "learnt; divide them by something"
        )
    return new


def solved(new: Statistics) -> Statistics:
    """Find the posterior from the sums, by a Cholesky factor; ValueError where there is none."""
    try:
        factor = linalg.cho_factor(finite_numbers(new).gram)
    except linalg.LinAlgError as error:
        raise ValueError(
            "contexts are so large that the prior precision is lost by rounding: nothing was "
            "learnt; divide them by something"
        ) from error
    cov = linalg.cho_solve(factor, np.eye(len(new.gram)))
    return new._replace(cov=0.5 * (cov + cov.T), mean=linalg.cho_solve(factor, new.moment))


def checked(arrays: dict[str, np.ndarray], prefix: str, n_columns: int) -> Statistics:
    """Take statistics out of stored arrays; ValueError unless they are finite, of right shape."""
    found = Statistics(*(arrays[prefix + name] for name in Statistics._fields))
    square, row, one = (n_columns, n_columns), (n_columns,), ()
    shapes = Statistics(square, row, one, one, square, row)  # type: ignore[arg-type]
    for name, array, shape in zip(Statistics._fields, found, shapes, strict=True):
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"array {prefix}{name} must be finite, float64, of shape {shape}")
    return found


class Noise(NamedTuple):
    """Inverse-gamma posterior of the noise variance."""

    shape: float
    rate: float


def noise_of(found: Statistics, prior: Noise) -> Noise:
    """Posterior of the noise variance of an arm. Murphy (2012), eqs. 7.75, 7.76."""
    residual = max(0.0, float(found.square - found.mean @ found.moment))
    return Noise(prior.shape + 0.5 * float(found.n_rows), prior.rate + 0.5 * residual)


@dataclass(eq=False, kw_only=True)
class LinearRewards(Rewards):
    """Bayesian linear regression of each arm's rewards on the context, exact and streaming.

    With features of arms, one regression of all rewards on [1, context, features, and products of
    a number of the context with one of the arm].

    Parameters
    ----------
    prior_prec : float
        Precision of the weights, times the noise variance.
    noise_shape, noise_rate : float
        Prior of the noise variance, InverseGamma: its mean is noise_rate / (noise_shape - 1), in
        rewards squared. A rate near the variance of rewards lets it explore from the start.
    """

    prior_prec: float = 1.0
    noise_shape: float = 2.0
    noise_rate: float = 1.0

    def begin(self, n_features: int, arms: Arms, seed: int) -> None:
        """Stand at the prior; no random number is needed."""
        del seed
        for name in ("prior_prec", "noise_shape", "noise_rate"):
            check_positive(name, getattr(self, name))
        if self.noise_shape <= 1.0:
            raise ValueError(f"noise_shape must be > 1, got {self.noise_shape!r}")
        self._n_features, self._arms = n_features, {}
        self._prior: Statistics | None = None
        del arms

    def learn(
        self,
        contexts: Float[np.ndarray, "n d"],
        arms: Arms,
        numbers: Int[np.ndarray, " n"],
        rewards: Float[np.ndarray, " n"],
    ) -> None:
        """Condition on rows, exactly: their order does not matter."""
        learnt = {}
        with np.errstate(over="ignore", invalid="ignore"):
            x = self._columns(contexts, arms, numbers)
            owners = self._owners(arms, numbers)
            for owner in np.unique(owners).tolist():
                old, rows = self._statistics(owner, x.shape[1]), np.flatnonzero(owners == owner)
                learnt[owner] = finite_numbers(
                    absorb_all(old, x[rows], rewards[rows])
                    if len(rows) > 1
                    else absorb(old, x[rows[0]], float(rewards[rows[0]]))
                )
        self._arms |= learnt

    def believe(
        self, context: Float[np.ndarray, " d"], arms: Arms, numbers: Int[np.ndarray, " k"]
    ) -> Belief:
        """Mean and variance of a Student-t, the noise variance integrated out."""
        found, x = self._found(context, arms, numbers)
        mean, var = np.empty(len(numbers)), np.empty(len(numbers))
        for place, one in enumerate(found):
            noise = noise_of(one, Noise(self.noise_shape, self.noise_rate))
            mean[place] = x[place] @ one.mean
            spread = max(0.0, float(x[place] @ one.cov @ x[place]))
            var[place] = noise.rate / (noise.shape - 1.0) * spread
        return Belief(mean, var)

    def draw(
        self,
        rng: np.random.Generator,
        context: Float[np.ndarray, " d"],
        arms: Arms,
        numbers: Int[np.ndarray, " k"],
        n_draws: int,
    ) -> Float[np.ndarray, "s k"]:
        """Draw noise variances, then functions at this context: as by drawn weights."""
        found, x = self._found(context, arms, numbers)
        prior, out = Noise(self.noise_shape, self.noise_rate), np.empty((n_draws, len(numbers)))
        if arms.features is not None:
            noise = noise_of(found[0], prior)
            var = noise.rate / rng.standard_gamma(noise.shape, n_draws)
            root = np.linalg.cholesky(found[0].gram)
            normals = rng.standard_normal((n_draws, x.shape[1])) * np.sqrt(var)[:, None]
            moved = linalg.solve_triangular(root, normals.T, lower=True, trans=1)
            return (found[0].mean + moved.T) @ x.T
        for place, one in enumerate(found):
            noise = noise_of(one, prior)
            spread = max(0.0, float(x[place] @ one.cov @ x[place]))
            var = noise.rate / rng.standard_gamma(noise.shape, n_draws) * spread
            out[:, place] = x[place] @ one.mean + np.sqrt(var) * rng.standard_normal(n_draws)
        return out

    def to_stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the sums and posteriors of all arms that have rows."""
        arrays = {
            f"{owner}.{name}": np.asarray(part)
            for owner, found in self._arms.items()
            for name, part in found._asdict().items()
        }
        return {"settings": self.settings(), "arms": sorted(self._arms)}, arrays

    @classmethod
    def from_stored(
        cls, header: dict[str, Any], arrays: dict[str, np.ndarray], n_features: int, arms: Arms
    ) -> Self:
        """Rebuild what `to_stored` gave."""
        model = cls(**header["settings"])
        model.begin(n_features, arms, 0)
        owners = [int(owner) for owner in header["arms"]]
        if any(not 0 <= owner < len(arms.names) for owner in owners):
            raise ValueError("there is a regression for an unknown arm")
        n_columns = model._n_columns(arms)
        model._arms = {owner: checked(arrays, f"{owner}.", n_columns) for owner in owners}
        return model

    def _found(
        self, context: np.ndarray, arms: Arms, numbers: np.ndarray
    ) -> tuple[list[Statistics], np.ndarray]:
        contexts = np.broadcast_to(context, (len(numbers), len(context)))
        x = self._columns(contexts, arms, numbers)
        owners = self._owners(arms, numbers)
        return [self._statistics(int(owner), x.shape[1]) for owner in owners], x

    def _statistics(self, owner: int, n_columns: int) -> Statistics:
        if owner in self._arms:
            return self._arms[owner]
        if self._prior is None:
            self._prior = start(n_columns, float(self.prior_prec))
        return self._prior

    def _owners(self, arms: Arms, numbers: np.ndarray) -> np.ndarray:
        """Say whose regression a row belongs to."""
        return numbers if arms.features is None else np.zeros(len(numbers), int)

    def _n_columns(self, arms: Arms) -> int:
        return self._columns(np.zeros((1, self._n_features)), arms, np.zeros(1, int)).shape[1]

    def _columns(self, contexts: np.ndarray, arms: Arms, numbers: np.ndarray) -> np.ndarray:
        ones = np.ones((len(contexts), 1))
        if arms.features is None:
            return np.hstack([ones, contexts])
        known = arms.features[numbers]
        products = (contexts[:, :, None] * known[:, None, :]).reshape(len(contexts), -1)
        return np.hstack([ones, contexts, known, products])
