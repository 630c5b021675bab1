"""EP's estimate of the model evidence log p(y | X), the future work of the PBP paper.

The other estimate needs no code of its own: log Z summed over a first pass of assumed density
filtering is the log probability of every datum given those before it (the chain rule).
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesprop.moments.pbp.factors import (
    Datum,
    Natural,
    average_factor,
    layers,
    minus,
    natural,
)
from bayesprop.moments.pbp.state import PBPState
from bayesprop.moments.pbp.updates import absorb
from bayesprop.numerics import gamma, gaussian
from bayesprop.numerics.gamma import Gamma
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.precision import in_float64


def _log_partition(q: Natural) -> Float[Array, ""]:
    """Log normaliser of weights and noise; NaN where a precision is not positive."""
    weights = (
        jnp.sum(gaussian.log_partition(pm / p, 1.0 / p))
        for p, pm in zip(q.prec, q.prec_mean, strict=True)
    )
    noise = gamma.log_partition(Gamma(q.noise_shape, q.noise_rate))
    return sum(weights, start=jnp.sum(noise))


def _moments(q: Natural) -> tuple[tuple[Gaussian, ...], Gamma]:
    weights = (Gaussian(pm / p, 1.0 / p) for p, pm in zip(q.prec, q.prec_mean, strict=True))
    return tuple(weights), Gamma(q.noise_shape, q.noise_rate)


@partial(jax.jit, static_argnames=("activation",))
def _ep_log_evidence(state: PBPState, data: Datum, *, activation: str) -> Float[Array, ""]:
    q = natural(layers(state.m, state.v), Gamma(state.noise_shape, state.noise_rate))
    average = average_factor(state)
    prior = jax.tree.map(lambda a, f: a - len(data.x) * f, q, average)
    cavity = minus(q, average)
    weights, noise = _moments(cavity)

    def of_one(total: tuple[Natural, Array], datum: Datum) -> tuple[tuple[Natural, Array], None]:
        new = absorb(weights, noise, datum, activation=activation)
        tilted = natural(new.weights, new.noise)
        log_scale = new.log_z - _log_partition(tilted) + _log_partition(cavity)
        product = jax.tree.map(lambda p, t, c: p + t - c, total[0], tilted, cavity)
        return (product, total[1] + log_scale), None

    (product, log_scales), _ = jax.lax.scan(of_one, (prior, jnp.asarray(0.0)), data)
    return _log_partition(product) - _log_partition(prior) + log_scales


@in_float64
def ep_log_evidence(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    *,
    activation: str = "relu",
) -> float:
    """Log of int p0 prod_n s_n f_n, nats in standardised units, after stochastic EP on (x, y).

    Every factor f_n is matched to its likelihood under the cavity q / f, with log s_n = log Z_n -
    Phi(tilted_n) + Phi(cavity), Phi the log normaliser (Minka 2001, section 4). p0 is q without
    the data: the weight prior at its present precision, so that this is the evidence of the model
    with that precision. Exact for one weight; for more, as good as independence between weights
    is. NaN where a division leaves no distribution.
    """
    data = Datum(*(jnp.asarray(a) for a in (x, y, np.ones(len(x)))))
    state = jax.tree.map(jnp.asarray, state)
    return float(_ep_log_evidence(state, data, activation=activation))
