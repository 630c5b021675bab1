"""Targets of probabilistic backpropagation that are not numbers with Gaussian noise.

The future work of Hernández-Lobato & Adams (2015): only log Z of the outputs N(m, v) changes, and
equations 6 and 7 take its gradient as they take the Gaussian's.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bayesprop.model.likelihoods import MultinomialProbit, Poisson, Probit
from bayesprop.model.networks import mlp_propagate
from bayesprop.moments.pbp.factors import Rows
from bayesprop.numerics.gaussian import Gaussian

LogZ = Callable[[Float[Array, " o"], Float[Array, " o"], Float[Array, " q"]], Float[Array, ""]]
"""log Z, nats, of the means and variances of the outputs and one row of y."""


def class_log_z(
    m: Float[Array, " o"], v: Float[Array, " o"], y: Float[Array, " 1"]
) -> Float[Array, ""]:
    """Probit: one output says a sign, several say by the largest which class it is."""
    if m.shape[0] == 1:
        return Probit().log_z(m[0], v[0], y[0])
    return MultinomialProbit().log_z(m, v, y[0].astype(int))


def count_log_z(
    m: Float[Array, " o"], v: Float[Array, " o"], y: Float[Array, " o"]
) -> Float[Array, ""]:
    """Poisson counts with mean exp(output), one an output."""
    return jnp.sum(jax.vmap(Poisson().log_z)(m, v, y))


LOG_Z: dict[str, LogZ | None] = {
    "numbers": None,
    "classes": class_log_z,
    "counts": count_log_z,
}


def log_z_of(targets: str | LogZ) -> LogZ | None:
    """Return log Z of a kind of target, or the function itself; None for numbers with noise."""
    if not isinstance(targets, str):
        return targets
    if targets not in LOG_Z:
        raise ValueError(f"targets must be one of {', '.join(LOG_Z)}, or a function; {targets!r}")
    return LOG_Z[targets]


def _tempered(f: Gaussian, grad: Gaussian, weight: Array) -> tuple[Gaussian, Array]:
    """Gradient for the power `weight` of a factor, and the share of the variance it removes.

    With slope g and curve c = g² - 2 d log Z / dv, the Gaussian factor that moves N(m, v) as log Z
    does has precision c / (1 - v c) and precision-mean (g + m c) / (1 - v c). Both times w, it
    moves N(m, v) by g and c times w / (1 + (w - 1) v c). For Gaussian noise that is exactly the
    noise variance divided by w. One output is treated as if the others had no part in it.
    """
    curve = grad.m**2 - 2.0 * grad.v
    removed = f.v * curve
    factor = weight / (1.0 + (weight - 1.0) * removed)
    slope = factor * grad.m
    return Gaussian(slope, 0.5 * (slope**2 - factor * curve)), removed


def target_gradient(
    m: tuple, v: tuple, datum: Rows, log_z: LogZ, *, activation: str
) -> tuple[tuple[tuple, tuple], Array, Array]:
    """Gradient of log Z by the means and variances of all weights; log Z; share removed."""

    def propagate(m: tuple, v: tuple) -> Gaussian:
        return Gaussian(*mlp_propagate(m, v, datum.x, activation_name=activation))

    f, pull_back = jax.vjp(propagate, m, v)
    value, grad = jax.value_and_grad(log_z, argnums=(0, 1))(f.m, f.v, datum.y)
    tempered, removed = _tempered(f, Gaussian(*grad), datum.weight)
    return pull_back(tempered), datum.weight * value, jnp.mean(removed)
