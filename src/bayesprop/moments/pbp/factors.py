"""What the passes of probabilistic backpropagation share: factors, cavities and the undo rule."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bayesprop.moments.pbp.state import PBPState
from bayesprop.numerics.gamma import Gamma
from bayesprop.numerics.gaussian import Gaussian

_SMALLEST_VAR = 1e-100


class Datum(NamedTuple):
    """One row in standardised units, and the weight it counts with."""

    x: Float[Array, " d"]
    y: Float[Array, " o"]
    weight: Float[Array, ""]


def layers(m: tuple, v: tuple) -> tuple[Gaussian, ...]:
    """Pair the means and variances of every layer."""
    return tuple(Gaussian(*pair) for pair in zip(m, v, strict=True))


def count_false(flags: Any) -> Int[Array, ""]:
    """Count the flags that are down, over all layers."""
    return sum((jnp.sum(~flag) for flag in jax.tree.leaves(flags)), start=jnp.asarray(0))


def is_gamma(q: Gamma) -> Array:
    """Whether a mean and a finite expected variance exist."""
    finite = jnp.isfinite(q.shape) & jnp.isfinite(q.rate)
    return finite & (q.shape > 1.0) & (q.rate > 0.0)


def undo_invalid(
    old: tuple[Gaussian, ...], new: tuple[Gaussian, ...]
) -> tuple[tuple[Gaussian, ...], Array]:
    """Keep the previous mean and variance where the new variance is not positive (section 3.5)."""
    valid = tuple((w.v > _SMALLEST_VAR) & jnp.isfinite(w.v) & jnp.isfinite(w.m) for w in new)
    kept = tuple(
        Gaussian(jnp.where(ok, n.m, o.m), jnp.where(ok, n.v, o.v))
        for ok, o, n in zip(valid, old, new, strict=True)
    )
    return kept, count_false(valid)


class Natural(NamedTuple):
    """Natural parameters of the weights and of the noise: factors multiply by adding these."""

    prec: tuple[Array, ...]
    prec_mean: tuple[Array, ...]
    noise_shape: Array
    noise_rate: Array


def natural(weights: tuple[Gaussian, ...], noise: Gamma) -> Natural:
    """Return 1/v, m/v, and the noise Gamma as it is."""
    return Natural(tuple(1.0 / w.v for w in weights), tuple(w.m / w.v for w in weights), *noise)


def average_factor(state: PBPState) -> Natural:
    """Return the average likelihood factor of stochastic EP."""
    return Natural(state.lik_prec, state.lik_prec_mean, state.lik_noise_shape, state.lik_noise_rate)


def minus(a: Any, b: Any) -> Any:
    """Subtract leaf by leaf: in natural parameters, divide two distributions."""
    return jax.tree.map(jnp.subtract, a, b)


def cavity_of(state: PBPState, n_removed: Array) -> tuple[tuple[Gaussian, ...], Gamma, Array]:
    """Q without so many average likelihood factors; where that is improper, q itself.

    Stochastic EP (Li, Hernández-Lobato & Turner 2015, algorithm 1).
    """
    q = layers(state.m, state.v)
    noise = Gamma(state.noise_shape, state.noise_rate)
    rest = jax.tree.map(
        lambda whole, factor: whole - n_removed * factor,
        natural(q, noise),
        average_factor(state),
    )
    proper = tuple(prec > 0.0 for prec in rest.prec)
    weights = tuple(
        Gaussian(jnp.where(ok, pm / p, w.m), jnp.where(ok, 1.0 / p, w.v))
        for ok, p, pm, w in zip(proper, rest.prec, rest.prec_mean, q, strict=True)
    )
    rest_noise = Gamma(rest.noise_shape, rest.noise_rate)
    ok = is_gamma(rest_noise)
    noise = Gamma(*(jnp.where(ok, r, o) for r, o in zip(rest_noise, noise, strict=True)))
    return weights, noise, count_false(proper)


def with_q(state: PBPState, weights: tuple[Gaussian, ...], noise: Gamma) -> PBPState:
    """Replace the posterior of weights and noise."""
    return state._replace(
        m=tuple(w.m for w in weights),
        v=tuple(w.v for w in weights),
        noise_shape=noise.shape,
        noise_rate=noise.rate,
    )


def with_average_factor(state: PBPState, factor: Natural) -> PBPState:
    """Replace the average likelihood factor."""
    return state._replace(
        lik_prec=factor.prec,
        lik_prec_mean=factor.prec_mean,
        lik_noise_shape=factor.noise_shape,
        lik_noise_rate=factor.noise_rate,
    )
