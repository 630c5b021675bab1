"""Gauss-Hermite quadrature: expectations under a Gaussian, plain and centred on the mode."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Integrand = Callable[[Float[Array, "..."]], Float[Array, "..."]]


def _nodes(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    return nodes, weights / np.sqrt(2.0 * np.pi)


def expectation(
    f: Integrand, m: Float[Array, ""], v: Float[Array, ""], *, n_nodes: int = 32
) -> Float[Array, ""]:
    """E[f(x)] for x ~ N(m, v); exact for polynomials of degree 2 n_nodes - 1."""
    nodes, weights = _nodes(n_nodes)
    return jnp.sum(jnp.asarray(weights) * f(m + jnp.sqrt(v) * jnp.asarray(nodes)))


def log_expectation_exp(
    log_f: Integrand,
    m: Float[Array, ""],
    v: Float[Array, ""],
    *,
    n_nodes: int = 32,
    n_newton: int = 20,
    start: Float[Array, ""] | None = None,
) -> Float[Array, ""]:
    """Compute log E[exp(log_f(x))] for x ~ N(m, v), nodes centred on the integrand's mode.

    `log_f` must be concave. Newton's method looks for the mode from `start`, or from m. Nodes
    around N(m, v) itself are 8.5 nats wrong for a sharp factor (noise variance 0.01 against v = 4);
    around the mode, with the curvature there, they are not.
    """

    def log_joint(x: Float[Array, "..."]) -> Float[Array, "..."]:
        return log_f(x) - 0.5 * (x - m) ** 2 / v - 0.5 * jnp.log(2.0 * jnp.pi * v)

    slope, curvature = jax.grad(log_joint), jax.grad(jax.grad(log_joint))
    first = m if start is None else start
    mode = jax.lax.fori_loop(0, n_newton, lambda _, x: x - slope(x) / curvature(x), first)
    width = jnp.sqrt(-1.0 / curvature(mode))
    nodes, weights = _nodes(n_nodes)
    x = mode + width * jnp.asarray(nodes)
    log_terms = jax.vmap(log_joint)(x) + 0.5 * jnp.asarray(nodes) ** 2
    scaled = log_terms + jnp.log(jnp.asarray(weights)) + 0.5 * jnp.log(2.0 * jnp.pi)
    return jax.scipy.special.logsumexp(scaled) + jnp.log(width)
