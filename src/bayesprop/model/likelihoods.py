"""p(y | f): one object a likelihood, and its integral against a Gaussian f.

`log_prob` is all a new likelihood must give; the integral comes by quadrature, and a subclass
overrides it where a closed form exists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayesprop.numerics import gamma, quadrature
from bayesprop.numerics.gamma import Gamma
from bayesprop.numerics.gaussian import log_cdf, log_pdf


@dataclass(frozen=True)
class Likelihood(ABC):
    """A likelihood of scalar y given scalar f; log-concave in f for the quadrature to hold."""

    @abstractmethod
    def log_prob(self, f: Float[Array, "..."], y: Float[Array, ""]) -> Float[Array, "..."]:
        """Log p(y | f), nats."""

    def log_z(
        self, m: Float[Array, ""], v: Float[Array, ""], y: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Log E[p(y | f)] for f ~ N(m, v)."""
        return quadrature.log_expectation_exp(lambda f: self.log_prob(f, y), m, v)


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


@dataclass(frozen=True)
class Probit(Likelihood):
    """y is the sign of f + e, e ~ N(0, 1): 1 or -1."""

    def log_prob(self, f: Float[Array, "..."], y: Float[Array, ""]) -> Float[Array, "..."]:
        """Log Phi(y f)."""
        return log_cdf(y * f)

    def log_z(
        self, m: Float[Array, ""], v: Float[Array, ""], y: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Log Phi(y m / sqrt(1 + v)) (Minka 2001, eq. 3.63)."""
        return log_cdf(y * m / jnp.sqrt(1.0 + v))


@dataclass(frozen=True)
class Poisson(Likelihood):
    """y counts events of mean exp(f)."""

    def log_prob(self, f: Float[Array, "..."], y: Float[Array, ""]) -> Float[Array, "..."]:
        """Log of exp(y f - exp(f)) / y!."""
        return y * f - jnp.exp(f) - jax.scipy.special.gammaln(y + 1.0)

    def log_z(
        self, m: Float[Array, ""], v: Float[Array, ""], y: Float[Array, ""]
    ) -> Float[Array, ""]:
        """Quadrature around the mode m + v y - w, where w + log w = m + v y + log v.

        Newton's method from m would take a step a unit of f, since exp(f) outgrows its parabola.
        """
        at_most = m + v * y
        target = at_most + jnp.log(v)

        def step(_: Int[Array, ""], log_w: Array) -> Array:
            w = jnp.exp(log_w)
            return log_w - (w + log_w - target) / (w + 1.0)

        start = jnp.where(target > 1.0, jnp.log(jnp.maximum(target, 1.0)), target)
        mode = at_most - jnp.exp(jax.lax.fori_loop(0, 8, step, start))
        return quadrature.log_expectation_exp(
            lambda f: self.log_prob(f, y), m, v, n_newton=3, start=jax.lax.stop_gradient(mode)
        )


@dataclass(frozen=True)
class MultinomialProbit:
    """y is the number of the largest of f + e, e ~ N(0, 1) (Girolami & Rogers 2006).

    n_nodes
        Points of the quadrature; 256 serve where no output is ten times as uncertain as another.
    """

    n_nodes: int = 256

    def log_z(
        self, m: Float[Array, " k"], v: Float[Array, " k"], y: Int[Array, ""]
    ) -> Float[Array, ""]:
        """Log of the integral of N(u; m_y, 1 + v_y) prod_{j != y} Phi((u - m_j) / sqrt(1 + v_j)).

        A sum over equal steps around the mode, which Newton's method finds from the left without
        overshooting, because the slope is convex and falls.
        """
        others = jnp.arange(m.shape[0]) != y
        std = jnp.sqrt(1.0 + v)

        def log_joint(u: Float[Array, ""]) -> Float[Array, ""]:
            below = log_cdf((u - m) / std)
            return log_pdf(u, m[y], std[y] ** 2) + jnp.sum(jnp.where(others, below, 0.0))

        slope, curvature = jax.grad(log_joint), jax.grad(jax.grad(log_joint))
        mode = jax.lax.fori_loop(0, 20, lambda _, u: u - slope(u) / curvature(u), m[y])
        reach = jnp.linspace(-7.5, 7.5, self.n_nodes)
        u = jax.lax.stop_gradient(mode + reach * std[y])
        log_step = jnp.log(jax.lax.stop_gradient(15.0 / (self.n_nodes - 1.0) * std[y]))
        return jax.scipy.special.logsumexp(jax.vmap(log_joint)(u)) + log_step
