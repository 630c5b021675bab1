"""The weight-prior factors of PBP and their refresh by expectation propagation.

Hernández-Lobato & Adams (2015), section 3.4 and supplement section 6.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from bayesprop.moments.pbp.factors import is_gamma, where
from bayesprop.moments.pbp.state import LARGEST_CAVITY_VAR, PBPInfo, PBPState
from bayesprop.numerics import gamma, gaussian
from bayesprop.numerics.gamma import Gamma
from bayesprop.numerics.gaussian import Gaussian


class _Site(NamedTuple):
    """One weight, and its prior factor in natural parameters."""

    w: Gaussian
    prec: Array
    prec_mean: Array
    shape: Array
    rate: Array


def _refresh_one(
    prior: Gamma, site: _Site, *, least_information: Array
) -> tuple[Gamma, tuple[_Site, Array, Array]]:
    """Remove one prior factor, match moments, put it back (supplement section 6, eq. 35-39)."""
    prec = 1.0 / site.w.v - site.prec
    prec_mean = site.w.m / site.w.v - site.prec_mean
    cavity = Gaussian(prec_mean / prec, 1.0 / prec)
    cavity_prior = Gamma(prior.shape - site.shape, prior.rate - site.rate)
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
    refreshed = _Site(
        new,
        1.0 / new.v - prec,
        new.m / new.v - prec_mean,
        new_prior.shape - cavity_prior.shape,
        new_prior.rate - cavity_prior.rate,
    )
    prior, site = where(valid & ~uninformed, (new_prior, refreshed), (prior, site))
    return prior, (site, ~valid & ~uninformed, uninformed)


@jax.jit
def refresh(state: PBPState, least_information: Array) -> tuple[PBPState, PBPInfo]:
    """Refresh weight by weight: layer, then unit, then input, lambda moving with every one.

    least_information
        What the data must say about a weight, as a share of its prior.
    """
    refresh_one = partial(_refresh_one, least_information=least_information)
    prior, info, layers = Gamma(state.prior_shape, state.prior_rate), PBPInfo(), []
    fields = (state.m, state.v, *(getattr(state, name) for name in _SITES))
    for m, v, *site in zip(*fields, strict=True):
        flat = jax.tree.map(lambda w: w.T.ravel(), _Site(Gaussian(m, v), *site))
        prior, (flat, kept, uninformed) = jax.lax.scan(refresh_one, prior, flat)
        info += PBPInfo(prior_kept=jnp.sum(kept), prior_uninformed=jnp.sum(uninformed))
        layers.append(jax.tree.map(lambda w, n=m.shape[1]: w.reshape(n, -1).T, flat))
    new = {
        name: tuple(getattr(site, name.removeprefix("site_")) for site in layers) for name in _SITES
    }
    m, v = (tuple(part) for part in zip(*(site.w for site in layers), strict=True))
    new |= {"prior_shape": prior.shape, "prior_rate": prior.rate}
    return state._replace(m=m, v=v, **new), info


_SITES = ("site_prec", "site_prec_mean", "site_shape", "site_rate")
