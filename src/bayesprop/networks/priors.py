"""Priors of single weights: a log density, and where one exists the KL from a Gaussian.

`kl` is that of the whole array, summed. A prior without a closed KL is used by sampling:
log q(w) - log p(w) at draws of w.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from bayesprop.numerics import LOG_2PI
from bayesprop.numerics.gaussian import Gaussian, log_pdf
from bayesprop.numerics.softplus import softplus


def negative_entropy(log_v: Float[Array, "..."]) -> Float[Array, ""]:
    """E_q[log q] of independent Gaussians, summed (Roth & Pernkopf 2016, eq. 14)."""
    return -0.5 * jnp.sum(LOG_2PI + 1.0 + log_v)


@dataclass(frozen=True)
class Prior(ABC):
    """A density of one weight around zero."""

    @abstractmethod
    def log_prob(self, w: Float[Array, "..."]) -> Float[Array, "..."]:
        """Log density of every weight, nats."""

    def of_layer(self, depth: int) -> Self:
        """Return the prior of the weights of a layer, the first of them 0."""
        del depth
        return self


@dataclass(frozen=True)
class ClosedPrior(Prior):
    """A prior whose KL from a Gaussian has a closed form."""

    @abstractmethod
    def kl(self, q: Gaussian, log_v: Float[Array, "..."] | None = None) -> Float[Array, ""]:
        """KL(q || p), summed over the weights, nats.

        log_v
            Logarithm of q.v, where the caller has it: its slope is then no division by q.v.
        """


def log_prior(prior: Prior, weights: PyTree) -> Float[Array, ""]:
    """Log p(weights) of a pytree, one leaf a layer, summed, nats."""
    leaves = enumerate(jax.tree.leaves(weights))
    return jnp.sum(jnp.stack([jnp.sum(prior.of_layer(k).log_prob(w)) for k, w in leaves]))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NormalPrior(ClosedPrior):
    """w ~ N(0, weight_var), or of every layer its own; the methods are those of one layer."""

    weight_var: Float[Array, ""] | float | tuple[float, ...] = 1.0

    def of_layer(self, depth: int) -> NormalPrior:
        """Return the prior of one layer."""
        var = self.weight_var
        return NormalPrior(var[depth]) if isinstance(var, tuple) else self

    def log_prob(self, w: Float[Array, "..."]) -> Float[Array, "..."]:
        """Log N(w | 0, weight_var)."""
        return log_pdf(w, jnp.zeros_like(w), jnp.asarray(self.weight_var, w.dtype))

    def kl(self, q: Gaussian, log_v: Float[Array, "..."] | None = None) -> Float[Array, ""]:
        """In closed form (Roth & Pernkopf 2016, eq. 14-15), without its cancelling logarithms."""
        var = jnp.asarray(self.weight_var)
        ratio = q.v / var
        log_ratio = jnp.log(ratio) if log_v is None else log_v - jnp.log(var)
        return 0.5 * jnp.sum(ratio - 1.0 - log_ratio + q.m**2 / var)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LaplacePrior(ClosedPrior):
    """p(w) = exp(-|w| / scale) / (2 scale): `scale` is not a variance, which is 2 scale²."""

    scale: Float[Array, ""] | float = 1.0

    def log_prob(self, w: Float[Array, "..."]) -> Float[Array, "..."]:
        """-|w| / scale - log(2 scale)."""
        return -jnp.abs(w) / self.scale - jnp.log(2.0 * jnp.asarray(self.scale, w.dtype))

    def kl(self, q: Gaussian, log_v: Float[Array, "..."] | None = None) -> Float[Array, ""]:
        """In closed form: E|w| of a Gaussian (Roth & Pernkopf 2016, eq. 14 and 16)."""
        std = jnp.sqrt(q.v)
        a = q.m / std
        root = jnp.sqrt(jnp.asarray(2.0, q.m.dtype))
        mean_abs = std * jnp.sqrt(2.0 / jnp.pi) * jnp.exp(-0.5 * a * a)
        mean_abs = mean_abs + q.m * jax.scipy.special.erf(a / root)
        scale = jnp.asarray(self.scale, q.m.dtype)
        log_v = jnp.log(q.v) if log_v is None else log_v
        return negative_entropy(log_v) + jnp.sum(mean_abs / scale + jnp.log(2.0 * scale))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ScaleMixturePrior(Prior):
    """share N(0, wide_std²) + (1 - share) N(0, narrow_std²) (Blundell et al. 2015, eq. 7).

    The paper's grid: share in {1/4, 1/2, 3/4}, -log wide_std in {0, 1, 2}, -log narrow_std in
    {6, 7, 8}, natural logarithms.
    """

    share: Float[Array, ""] | float = 0.5
    wide_std: Float[Array, ""] | float = 1.0
    narrow_std: Float[Array, ""] | float = 0.0024787522

    def log_prob(self, w: Float[Array, "..."]) -> Float[Array, "..."]:
        """Log density: that of the wide part, and softplus(-log odds) for the narrow one.

        The sum of densities underflows beyond a few narrow_std; this does not, and its slope is
        one sigmoid.
        """
        wide, narrow, share = (
            jnp.asarray(x, w.dtype) for x in (self.wide_std, self.narrow_std, self.share)
        )
        sharper = 0.5 * (1.0 / narrow**2 - 1.0 / wide**2)
        log_odds = jnp.log(share) - jnp.log1p(-share) + jnp.log(narrow / wide) + sharper * w * w
        log_wide = jnp.log(share / wide) - 0.5 * (LOG_2PI + (w / wide) ** 2)
        return log_wide + softplus(-log_odds)
