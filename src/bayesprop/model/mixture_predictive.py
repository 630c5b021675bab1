"""A mixture of Gaussians a row: what draws of the weights, or an ensemble, predict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.model.predictive import BY_MEMBER, Moments, Predictive

_LOG_2PI = float(np.log(2.0 * np.pi))
_BISECTIONS = 60

Draws = Float[np.ndarray, "s n"] | Float[np.ndarray, "s n o"]


def bisect(
    cdf: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray, level: float
) -> np.ndarray:
    """Solve cdf(y) = level for every element, the solutions lying between low and high."""
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        below = cdf(middle) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


@dataclass(frozen=True)
class MixturePredictive(Predictive):
    """Equal shares of N(means[s], noise_vars[s]), one a draw s; built by `of`.

    means, noise_vars
        In y and y²; (s, n) or (s, n, o). The variance of the means over s is the epistemic one.
    """

    means: Draws = field(metadata=BY_MEMBER)
    noise_vars: Draws = field(metadata=BY_MEMBER)

    @classmethod
    def of(cls, means: Draws, noise_vars: Draws) -> MixturePredictive:
        """Build it from what every draw predicts."""
        noise_vars = np.broadcast_to(noise_vars, means.shape)
        mean = means.mean(axis=0)
        return cls(mean, means.var(axis=0), noise_vars.mean(axis=0), means, noise_vars)

    def rescaled(self, shift: np.ndarray | float, scale: np.ndarray | float) -> MixturePredictive:
        """Predict shift + scale y instead of y; both (o,), or numbers."""
        return type(self).of(self.means * scale + shift, self.noise_vars * np.square(scale))

    def log_prob(self, y: Moments) -> Moments:
        """Log of the mean density of each observation, nats."""
        z, std = self._standardised(y)
        log_density = -0.5 * (_LOG_2PI + z * z) - np.log(std)
        return special.logsumexp(log_density, axis=0) - np.log(len(self.means))

    def cdf(self, y: Moments) -> Moments:
        """Probability of a value at or below each observation (the PIT), 0 to 1."""
        return special.ndtr(self._standardised(y)[0]).mean(axis=0)

    def quantile(self, level: float) -> Moments:
        """Value that a new observation stays below with probability `level`, by bisection."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        edges = self.means + np.sqrt(self.noise_vars) * special.ndtri(level)
        return bisect(self.cdf, edges.min(axis=0), edges.max(axis=0), level)

    def crps(self, y: Moments) -> Moments:
        """E|x - y| - E|x - x'| / 2 in closed form (Grimit et al. 2006); s² terms a row."""
        self._standardised(y)
        distance = _mean_abs(self.means - y, self.noise_vars).mean(axis=0)
        spread = np.zeros_like(distance)
        for m, v in zip(self.means, self.noise_vars, strict=True):
            spread += _mean_abs(self.means - m, self.noise_vars + v).mean(axis=0)
        return distance - 0.5 * spread / len(self.means)

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        chosen = rng.integers(len(self.means), size=(n, *self.mean.shape))
        m = np.take_along_axis(self.means, chosen, axis=0)
        v = np.take_along_axis(self.noise_vars, chosen, axis=0)
        return m + np.sqrt(v) * rng.standard_normal(m.shape)

    def _standardised(self, y: Moments) -> tuple[np.ndarray, np.ndarray]:
        y = np.asarray(y)
        if y.shape != np.shape(self.mean):
            raise ValueError(
                f"y must have the shape of the prediction, {np.shape(self.mean)}, got {y.shape}"
            )
        std = np.sqrt(self.noise_vars)
        return (y - self.means) / std, std


def _mean_abs(m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """E|x| of x ~ N(m, v)."""
    std = np.sqrt(v)
    z = m / std
    return m * (2.0 * special.ndtr(z) - 1.0) + 2.0 * std * np.exp(-0.5 * (_LOG_2PI + z * z))
