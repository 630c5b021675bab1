"""p(y | f): one object a likelihood, three integrals of it against a Gaussian f.

`log_prob` is all a new likelihood must give; the integrals come by quadrature, and a subclass
overrides them where a closed form exists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesprop.numerics import gamma, quadrature
from bayesprop.numerics.gamma import Gamma
from bayesprop.numerics.gaussian import log_pdf


@dataclass(frozen=True)
class Likelihood(ABC):
    """A likelihood of scalar y given scalar f; log-concave in f for the quadrature to hold."""

    @abstractmethod
    def log_prob(self, f: Float[Array, "..."], y: Float[Array, ""]) -> Float[Array, "..."]:
        """Log p(y | f), nats."""

    def expected_log_prob(
        self, m: Float[Array, ""], v: Float[Array, ""], y: Float[Array, ""]
    ) -> Float[Array, ""]:
        """E[log p(y | f)] for f ~ N(m, v)."""
        return quadrature.expectation(lambda f: self.log_prob(f, y), m, v)

    def log_z(
        self, m: Float[Array, ""], v: Float[Array, ""], y: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Log E[p(y | f)] for f ~ N(m, v)."""
        return quadrature.log_expectation_exp(lambda f: self.log_prob(f, y), m, v)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FixedNoise(Likelihood):
    """y = f + e, e ~ N(0, noise_var); noise_var in y²."""

    noise_var: Float[Array, ""]

    def log_prob(self, f: Float[Array, "..."], y: Float[Array, ""]) -> Float[Array, "..."]:
        """Log N(y | f, noise_var)."""
        return log_pdf(y, f, self.noise_var)

    def expected_log_prob(
        self, m: Float[Array, ""], v: Float[Array, ""], y: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Log N(y | m, noise_var) - v / (2 noise_var)."""
        return log_pdf(y, m, self.noise_var) - 0.5 * v / self.noise_var

    def log_z(
        self, m: Float[Array, ""], v: Float[Array, ""], y: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Log N(y | m, v + noise_var)."""
        return log_pdf(y, m, v + self.noise_var)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GammaPrecisionNoise(Likelihood):
    """y = f + e, e ~ N(0, 1/gamma), gamma ~ Gam(shape, rate): Student-t noise once integrated."""

    precision: Gamma

    def log_prob(self, f: Float[Array, "..."], y: Float[Array, ""]) -> Float[Array, "..."]:
        """Log Student-t with 2 shape degrees of freedom and scale² rate / shape."""
        shape, rate = self.precision
        lgamma = jax.scipy.special.gammaln
        norm = lgamma(shape + 0.5) - lgamma(shape) - 0.5 * jnp.log(2.0 * jnp.pi * rate)
        return norm - (shape + 0.5) * jnp.log1p((y - f) ** 2 / (2.0 * rate))

    def log_z(
        self, m: Float[Array, ""], v: Float[Array, ""], y: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Log N(y | m, v + rate / (shape - 1)), the Student-t replaced by a Gaussian.

        Hernández-Lobato & Adams (2015), eq. 12: an approximation, good once shape is large.
        """
        return log_pdf(y, m, v + gamma.expected_variance(self.precision))

    def update(self, m: Float[Array, ""], v: Float[Array, ""], y: Float[Array, ""]) -> Gamma:
        """q(gamma) after the datum (Hernández-Lobato & Adams 2015, eq. 9-10)."""
        return gamma.match_moments(self.precision, v, y - m)
