"""EP's estimate of the model evidence log p(y | X), the future work of the PBP paper.

The other estimate needs no code of its own: log Z summed over a first pass of assumed density
filtering is the log probability of every datum given those before it (the chain rule).
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from bayesprop.moments.pbp.factors import (
    Factor,
    Gamma,
    Q,
    Rows,
    average_factor,
    factor_of,
    minus,
    q_of,
)
from bayesprop.moments.pbp.state import PBPState
from bayesprop.moments.pbp.updates import absorb
from bayesprop.numerics import gaussian
from bayesprop.numerics.gaussian import LOG_2PI
from bayesprop.numerics.machine import in_float64


def _q_of(factor: Factor) -> Q:
    return Q(tuple(gaussian.from_natural(w) for w in factor.weights), factor.noise)


def _log_partition(factor: Factor) -> Float[Array, ""]:
    """Log normaliser of weights and noise; NaN where a precision is not positive."""
    q = _q_of(factor)
    noise = jnp.sum(gamma_log_partition(q.noise))
    return sum((jnp.sum(gaussian_log_partition(*w)) for w in q.weights), start=noise)


def gaussian_log_partition(m: Float[Array, "..."], v: Float[Array, "..."]) -> Float[Array, "..."]:
    """Log normaliser of exp(w m/v - w²/2v), nats."""
    return 0.5 * (LOG_2PI + jnp.log(v) + m**2 / v)


def gamma_log_partition(q: Gamma) -> Float[Array, "..."]:
    """Log normaliser of x^(shape - 1) exp(-rate x), nats."""
    return gammaln(q.shape) - q.shape * jnp.log(q.rate)


@partial(jax.jit, static_argnames=("activation",))
def _ep_log_evidence(state: PBPState, data: Rows, *, activation: str) -> Float[Array, ""]:
    q, average = factor_of(q_of(state)), average_factor(state)
    prior = jax.tree.map(lambda a, f: a - len(data.x) * f, q, average)
    cavity = minus(q, average)

    def of_one(total: tuple[Factor, Array], datum: Rows) -> tuple[tuple[Factor, Array], None]:
        new, info = absorb(_q_of(cavity), datum, activation=activation, targets="numbers")
        tilted = factor_of(new)
        log_scale = info.log_z - _log_partition(tilted) + _log_partition(cavity)
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
    data = Rows(*(jnp.asarray(a) for a in (x, y, np.ones(len(x)))))
    state = jax.tree.map(jnp.asarray, state)
    return float(_ep_log_evidence(state, data, activation=activation))
