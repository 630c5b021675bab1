"""The weight-prior factors of PBP and their refresh by expectation propagation.

Hernández-Lobato & Adams (2015), section 3.4 and supplement section 6.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bayesprop.moments.pbp.factors import is_gamma
from bayesprop.moments.pbp.state import LARGEST_CAVITY_VAR, PBPInfo, PBPState
from bayesprop.numerics import gamma, gaussian
from bayesprop.numerics.gamma import Gamma
from bayesprop.numerics.gaussian import Gaussian


class _PriorFactor(NamedTuple):
    """One weight and its prior factor, in natural parameters where it is a factor."""

    w: Gaussian
    prec: Array
    prec_mean: Array
    shape: Array
    rate: Array


def _refresh_one(
    prior: Gamma, factor: _PriorFactor, *, least_information: Array
) -> tuple[Gamma, tuple[_PriorFactor, Array, Array]]:
    """Remove one prior factor, match moments, put it back (supplement section 6, eq. 35-39)."""
    w = factor.w
    prec = 1.0 / w.v - factor.prec
    prec_mean = w.m / w.v - factor.prec_mean
    cavity = Gaussian(prec_mean / prec, 1.0 / prec)
    cavity_prior = Gamma(prior.shape - factor.shape, prior.rate - factor.rate)
    proper = (cavity_prior.rate > 0.0) & (cavity_prior.shape > 1.0)
    valid = proper & (cavity.v > 0.0) & (cavity.v < LARGEST_CAVITY_VAR)
    site_var = gamma.expected_variance(cavity_prior)
    uninformed = proper & (jnp.abs(prec) * site_var < least_information)
    marginal_var = cavity.v + site_var
    dlogz_dm = -cavity.m / marginal_var
    dlogz_dv = 0.5 * (dlogz_dm**2 - 1.0 / marginal_var)
    new = gaussian.match_moments(cavity, dlogz_dm, dlogz_dv)
    new_prior = gamma.match_moments(cavity_prior, cavity.v, cavity.m)
    finite = jnp.isfinite(new.m) & jnp.isfinite(new.v)
    valid &= finite & (new.v > 0.0) & is_gamma(new_prior)
    refreshed = _PriorFactor(
        new,
        1.0 / new.v - prec,
        new.m / new.v - prec_mean,
        new_prior.shape - cavity_prior.shape,
        new_prior.rate - cavity_prior.rate,
    )
    moves = valid & ~uninformed
    prior, factor = jax.tree.map(
        lambda a, b: jnp.where(moves, a, b), (new_prior, refreshed), (prior, factor)
    )
    return prior, (factor, ~valid & ~uninformed, uninformed)


@jax.jit
def refresh(state: PBPState, least_information: Array) -> tuple[PBPState, PBPInfo]:
    """Refresh weight by weight: layer, then unit, then input, lambda moving with every one.

    least_information
        What the data must say about a weight, as a share of its prior.
    """

    def flat(layers: tuple) -> Array:
        return jnp.concatenate([w.T.ravel() for w in layers])

    def unflat(vector: Array) -> tuple:
        ends = np.cumsum([w.size for w in state.m])[:-1]
        parts = jnp.split(vector, ends)
        return tuple(p.reshape(w.shape[::-1]).T for p, w in zip(parts, state.m, strict=True))

    factors = _PriorFactor(
        Gaussian(flat(state.m), flat(state.v)),
        flat(state.site_prec),
        flat(state.site_prec_mean),
        flat(state.site_shape),
        flat(state.site_rate),
    )
    prior = Gamma(state.prior_shape, state.prior_rate)
    refresh_one = partial(_refresh_one, least_information=least_information)
    prior, (new, kept, uninformed) = jax.lax.scan(refresh_one, prior, factors)
    state = state._replace(
        m=unflat(new.w.m),
        v=unflat(new.w.v),
        site_prec=unflat(new.prec),
        site_prec_mean=unflat(new.prec_mean),
        site_shape=unflat(new.shape),
        site_rate=unflat(new.rate),
        prior_shape=prior.shape,
        prior_rate=prior.rate,
    )
    return state, PBPInfo(prior_kept=jnp.sum(kept), prior_uninformed=jnp.sum(uninformed))
