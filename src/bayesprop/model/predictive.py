"""A predictive distribution: what every method returns, in the units of the target.

Epistemic variance is what more data would remove, noise variance what it would not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Float
from scipy import special

Moments = Float[np.ndarray, "n"] | Float[np.ndarray, "n o"]
_LOG_2PI = float(np.log(2.0 * np.pi))


BY_MEMBER = {"row_axis": 1}
"""Metadata of a field of a predictive whose first axis runs over members, the second over rows."""


@dataclass(frozen=True)
class Predictive(ABC):
    """Mean and variance of every row, the variance in two parts; the base of all predictives.

    Every field is an array whose first axis runs over rows, or its second (`BY_MEMBER`).

    mean
        In y; (n,) or (n, o) for several outputs, and so are the others.
    epistemic_var, noise_var
        In y². Their sum is the variance of a new observation.
    """

    mean: Moments
    epistemic_var: Moments
    noise_var: Moments

    @property
    def var(self) -> Moments:
        """Variance of a new observation, y²."""
        return self.epistemic_var + self.noise_var

    @property
    def std(self) -> Moments:
        """Standard deviation of a new observation, y."""
        return np.sqrt(self.var)

    @property
    def epistemic_share(self) -> float:
        """Share of the predictive variance that is epistemic, averaged over rows; 0 to 1."""
        return float(np.mean(self.epistemic_var / self.var))

    @property
    def is_finite(self) -> Bool[np.ndarray, " n"]:
        """Whether a row has a finite mean and variances of at least zero."""
        parts = np.stack([self.epistemic_var, self.noise_var])
        good = np.all(np.isfinite(parts) & (parts >= 0.0), axis=0) & np.isfinite(self.mean)
        return np.all(good.reshape(len(self), -1), axis=1)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.mean)

    def __getitem__(self, rows: Any) -> Self:
        """Select rows (a slice, mask or index array)."""
        return self._map(lambda a, axis: a[(slice(None),) * axis + (rows,)])

    def target(self, k: int) -> Self:
        """Select one of several targets."""
        return self._map(lambda a, _: a[..., k])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Put the rows of several predictions of one kind one after another."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part._arrays() for part in parts), strict=True)
        axes = [one.metadata.get("row_axis", 0) for one in fields(cls)]
        return cls(*map(np.concatenate, columns, axes))

    def _arrays(self) -> list[np.ndarray]:
        return [getattr(self, one.name) for one in fields(self)]

    def _map(self, act: Callable[[np.ndarray, int], np.ndarray]) -> Self:
        axes = [one.metadata.get("row_axis", 0) for one in fields(self)]
        return type(self)(*map(act, self._arrays(), axes))

    @abstractmethod
    def rescaled(self, shift: np.ndarray | float, scale: np.ndarray | float) -> Predictive:
        """Predict shift + scale y instead of y; (o,) each, or numbers."""

    @abstractmethod
    def log_prob(self, y: Moments) -> Moments:
        """Log density of each observation, nats, in the original units of y."""

    @abstractmethod
    def cdf(self, y: Moments) -> Moments:
        """Probability of a value at or below each observation (the PIT), 0 to 1."""

    @abstractmethod
    def quantile(self, level: float) -> Moments:
        """Value that a new observation stays below with probability `level`."""

    @abstractmethod
    def crps(self, y: Moments) -> Moments:
        """Continuous ranked probability score of each observation, y; smaller is better."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""

    def interval(self, coverage: float = 0.9) -> Float[np.ndarray, "n ... 2"]:
        """Central interval that holds a new observation with probability `coverage`."""
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}")
        tail = (1.0 - coverage) / 2.0
        return np.stack([self.quantile(tail), self.quantile(1.0 - tail)], axis=-1)


@dataclass(frozen=True)
class GaussianPredictive(Predictive):
    """N(mean, epistemic_var + noise_var), the moment-matched predictive of eq. 12 (PBP 2015)."""

    def rescaled(self, shift: np.ndarray | float, scale: np.ndarray | float) -> GaussianPredictive:
        """Predict shift + scale y instead of y; (o,) each, or numbers."""
        square = np.square(scale)
        return GaussianPredictive(
            self.mean * scale + shift, self.epistemic_var * square, self.noise_var * square
        )

    def log_prob(self, y: Moments) -> Moments:
        """Log density of each observation, nats, in the original units of y."""
        z = self._standardised(y)
        return -0.5 * (_LOG_2PI + z * z) - np.log(self.std)

    def cdf(self, y: Moments) -> Moments:
        """Probability of a value at or below each observation (the PIT), 0 to 1."""
        return special.ndtr(self._standardised(y))

    def quantile(self, level: float) -> Moments:
        """Value that a new observation stays below with probability `level`."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        return self.mean + self.std * special.ndtri(level)

    def crps(self, y: Moments) -> Moments:
        """CRPS in closed form: std [z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)] (Gneiting 2005)."""
        z = self._standardised(y)
        density = np.exp(-0.5 * (_LOG_2PI + z * z))
        spread = z * (2.0 * special.ndtr(z) - 1.0) + 2.0 * density - 1.0 / np.sqrt(np.pi)
        return self.std * spread

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        return self.mean + self.std * rng.standard_normal((n, *np.shape(self.mean)))

    def _standardised(self, y: Moments) -> Moments:
        y = np.asarray(y)
        if y.shape != np.shape(self.mean):
            raise ValueError(
                f"y must have the shape of the prediction, {np.shape(self.mean)}, got {y.shape}"
            )
        return (y - self.mean) / self.std
