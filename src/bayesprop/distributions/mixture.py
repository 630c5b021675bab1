"""Equal shares of Gaussians: what draws of the weights, or members of an ensemble, predict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.distributions.prediction import BY_MEMBER
from bayesprop.distributions.predictive import IN_Y, IN_Y_SQUARED, LOG_2PI, Moments, SummedGaussians
from bayesprop.simd.gaussian_sums import Components

Draws = Float[np.ndarray, "s n"] | Float[np.ndarray, "s n o"]


@dataclass(frozen=True, repr=False)
class MixturePredictive(SummedGaussians):
    """Equal shares of N(means[s], noise_vars[s]), one a draw of the weights or a member s.

    Built by `of`. The variance of the means over s is the epistemic one.

    means, noise_vars
        In y and y²; (s, n) or (s, n, o).
    """

    means: Draws = field(metadata=BY_MEMBER | IN_Y)
    noise_vars: Draws = field(metadata=BY_MEMBER | IN_Y_SQUARED)

    @classmethod
    def of(cls, means: Draws, noise_vars: Draws) -> Self:
        """Build it from what every draw predicts."""
        noise_vars = np.broadcast_to(noise_vars, means.shape)
        mean = means.mean(axis=0)
        return cls(mean, means.var(axis=0), noise_vars.mean(axis=0), means, noise_vars)

    def of_some_members(self, n: int, turns: int) -> Self:
        """Keep n members of every row, others in the next of so many turns."""
        some = members_in_turns(n, turns, self.means)
        return self if some is None else self.of(some(self.means), some(self.noise_vars))

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        chosen = rng.integers(len(self.means), size=(n, *self.mean.shape))
        m = np.take_along_axis(self.means, chosen, axis=0)
        v = np.take_along_axis(self.noise_vars, chosen, axis=0)
        return m + np.sqrt(v) * rng.standard_normal(m.shape)

    @property
    def n_components(self) -> int:
        """One a draw of the weights or a member."""
        return len(self.means)

    def components(self, at: slice) -> Components:
        """Return equal shares."""
        m, var = (a.reshape(len(a), -1)[:, at].T for a in (self.means, self.noise_vars))
        return Components(np.full(m.shape, 1.0 / len(self.means)), m, np.sqrt(var))

    def _crps(self, y: Moments) -> Moments:
        """E|x - y| - E|x - x'| / 2 in closed form (Grimit et al. 2006); s² terms a row."""
        distance = _mean_abs(self.means - y, self.noise_vars).mean(axis=0)
        spread = np.zeros_like(distance)
        for m, v in zip(self.means, self.noise_vars, strict=True):
            spread += _mean_abs(self.means - m, self.noise_vars + v).mean(axis=0)
        return distance - 0.5 * spread / len(self.means)


def members_in_turns(n: int, turns: int, of: Draws) -> Callable[[Draws], Draws] | None:
    """Return a function that keeps n members of every row, evenly spaced, others in the next row.

    None where there are no more than n. After `turns` rows the same members come again, so that
    the completions of a row are predicted alike wherever the row stands.
    """
    k, n_rows = of.shape[:2]
    if k <= n:
        return None
    member = (np.arange(n)[:, None] * k // n + np.arange(n_rows) % turns) % k
    return lambda values: values[member, np.arange(n_rows)]


def _mean_abs(m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """E|x| of x ~ N(m, v)."""
    std = np.sqrt(v)
    z = m / std
    return m * (2.0 * special.ndtr(z) - 1.0) + 2.0 * std * np.exp(-0.5 * (LOG_2PI + z * z))
