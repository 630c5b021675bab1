"""A Student-t distribution a row: what conjugate linear regression predicts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.model.predictive import Moments, Predictive


@dataclass(frozen=True)
class StudentTPredictive(Predictive):
    """Student-t of the given mean and variance.

    dof
        Degrees of freedom, > 2, of the shape of `mean`. The scale is std sqrt((dof - 2) / dof).
    """

    dof: Moments

    @property
    def scale(self) -> Moments:
        """Scale of the distribution, y; smaller than the standard deviation."""
        return self.std * np.sqrt((self.dof - 2.0) / self.dof)

    def rescaled(self, shift: np.ndarray | float, scale: np.ndarray | float) -> StudentTPredictive:
        """Predict shift + scale y instead of y; (o,) each, or numbers."""
        square = np.square(scale)
        return StudentTPredictive(
            self.mean * scale + shift,
            self.epistemic_var * square,
            self.noise_var * square,
            self.dof,
        )

    def log_prob(self, y: Moments) -> Moments:
        """Log density of each observation, nats, in the original units of y."""
        return self._log_density(self._standardised(y)) - np.log(self.scale)

    def cdf(self, y: Moments) -> Moments:
        """Probability of a value at or below each observation (the PIT), 0 to 1."""
        return special.stdtr(self.dof, self._standardised(y))

    def quantile(self, level: float) -> Moments:
        """Value that a new observation stays below with probability `level`."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        return self.mean + self.scale * special.stdtrit(self.dof, level)

    def crps(self, y: Moments) -> Moments:
        """CRPS in closed form (Jordan, Krüger & Lerch 2019, appendix A)."""
        z, dof = self._standardised(y), self.dof
        density = np.exp(self._log_density(z))
        log_ratio = special.betaln(0.5, dof - 0.5) - 2.0 * special.betaln(0.5, 0.5 * dof)
        spread = 2.0 * density * (dof + z * z) - 2.0 * np.sqrt(dof) * np.exp(log_ratio)
        return self.scale * (z * (2.0 * special.stdtr(dof, z) - 1.0) + spread / (dof - 1.0))

    def sample(self, rng: np.random.Generator, n: int) -> Float[np.ndarray, "s ..."]:
        """Draw n new observations for every row, independently over rows; (s, n[, o])."""
        return self.mean + self.scale * rng.standard_t(self.dof, (n, *np.shape(self.mean)))

    def _log_density(self, z: Moments) -> Moments:
        """Log density of the standard Student-t: -log(sqrt(dof) B(1/2, dof/2)) - ..."""
        constant = special.betaln(0.5, 0.5 * self.dof) + 0.5 * np.log(self.dof)
        return -constant - 0.5 * (self.dof + 1.0) * np.log1p(z * z / self.dof)

    def _standardised(self, y: Moments) -> Moments:
        y = np.asarray(y)
        if y.shape != np.shape(self.mean):
            raise ValueError(
                f"y must have the shape of the prediction, {np.shape(self.mean)}, got {y.shape}"
            )
        return (y - self.mean) / self.scale
