"""Batch expectation propagation for a network of one hidden layer and Gaussian noise.

After Jylänki, Nummenmaa & Vehtari (2014), derived anew from what the paper on probabilistic
backpropagation says of it. Every datum keeps Gaussian sites on the input of every hidden unit, on
the output weights and on the log noise variance; every input weight one for its prior, whose scale
is unknown. Sites are taken out, matched to the moments of the tilted distribution and put back, all
at once, with damping, until the predictions stay.

Sites of the data never have negative precisions: the mean is matched and the precision set to the
nearest that is allowed, so that no cavity is improper and weights without a use stay in their
prior; without this the scale of the input weights runs away on small tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bayesprop.model.progress import SILENT, Progress
from bayesprop.moments.batch_ep import sites as ep
from bayesprop.moments.batch_ep.sites import Posterior, Prior, Sites
from bayesprop.numerics.gaussian import (
    Gaussian,
    Natural,
    from_natural,
    joint,
    natural_of_joint,
    site,
    to_natural,
)
from bayesprop.numerics.machine import in_float64

_N_HELD, _N_LET_GO = 10, 20
"""Sweeps in which the input weights are held at their random start, and then let go."""
N_START = _N_HELD + _N_LET_GO
"""Sweeps before the first that can be the last."""

_SWEEPS_AT_ONCE, _ROWS_AT_ONCE = 10, 128
_LEAST_DAMPING = 1e-3

T = TypeVar("T")


class Sweeps(NamedTuple):
    """What some sweeps did, an entry each.

    change
        Largest change of a predictive mean or standard deviation, in standard deviations.
    log_z
        Mean over data of log p(y | the other data), nats in standardised units.
    skipped
        Sites whose update had no proper cavity or result.
    damping
        After halving; 0 where no step was proper.
    """

    change: Float[Array, " s"]
    log_z: Float[Array, " s"]
    skipped: Float[Array, " s"]
    damping: Float[Array, " s"]


@in_float64
def fit(
    sites: Sites,
    prior: Prior,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    weight: Float[np.ndarray, " n"],
    *,
    damping: float = 0.5,
    tol: float = 1e-3,
    max_sweeps: int = 300,
    per_input: bool = False,
    progress: Progress = SILENT,
) -> tuple[Posterior, Sweeps]:
    """Sweep until predictions change by less than `tol` of their standard deviation.

    x, y
        Standardised, without a last 1.
    weight
        Copies of every row; a row of weight 0 is not there.
    damping
        Share of the way to its match that a site goes in a sweep.
    per_input
        A scale for every input, its relevance, not one for all.
    max_sweeps
        At least 1, rounded up to tens.
    """
    rows = ep.with_one(x), jnp.asarray(y), jnp.asarray(weight)
    start, done, history = sites.weight, 0, []
    while True:
        number = done + np.arange(_SWEEPS_AT_ONCE)
        held = np.clip(1.0 - (number + 1 - _N_HELD) / _N_LET_GO, 0.0, 1.0)
        sites, q, sweeps = _sweeps(sites, prior, start, *rows, held, damping, per_input=per_input)
        history.append(sweeps)
        done += _SWEEPS_AT_ONCE
        log_z, change = float(sweeps.log_z[-1]), float(sweeps.change[-1])
        figures = f"log Z {log_z:.4f} a row  change {change:.2g} std"
        progress.report(min(done, max_sweeps), max_sweeps, f"sweep {done}", figures)
        is_settled = done > N_START and sweeps.change.max() < tol
        if is_settled or done >= max_sweeps or progress.is_cut(done, max_sweeps, "sweeps"):
            return q, jax.tree.map(lambda *parts: np.concatenate(parts), *history)


@partial(jax.jit, static_argnames="per_input")
def _sweeps(
    sites: Sites,
    prior: Prior,
    start: Natural,
    x: Array,
    y: Array,
    weight: Array,
    held: Float[Array, " s"],
    damping: Array,
    *,
    per_input: bool,
) -> tuple[Sites, Posterior, Sweeps]:
    """Sweep as often as `held` says how far the input weights are held at their start."""

    def whole(sites: Sites) -> Posterior:
        return ep.posterior_of(sites, prior, x, weight, per_input=per_input)

    def sweep(carry: tuple[Sites, Posterior], held: Array) -> tuple[tuple, Sweeps]:
        sites, q = carry
        new, log_z, skipped = _data_sites(sites, q, x, y, weight)
        weight_site, scale_site, skipped_prior = _prior_sites(sites, q)
        let_go = Natural(start.precision, held * start.shift)
        new = new._replace(
            weight=_where(held > 0.0, let_go, weight_site),
            scale=_where(held > 0.0, sites.scale, scale_site),
        )
        sites, moved, share = _step(whole, sites, q, new, damping)
        before, after = _predictive(q, x), _predictive(moved, x)
        change = jnp.maximum(jnp.abs(after.m - before.m), jnp.abs(after.v**0.5 - before.v**0.5))
        did = Sweeps(
            jnp.max(jnp.where(weight[:, None] > 0.0, change / after.v**0.5, 0.0)),
            jnp.sum(weight[:, None] * log_z) / jnp.sum(weight),
            jnp.sum(jnp.where(weight[:, None] > 0.0, skipped, 0)) + skipped_prior,
            share,
        )
        return (sites, moved), did

    (sites, q), did = jax.lax.scan(sweep, (sites, whole(sites)), held)
    return sites, q, did


def _step(
    whole: Callable[[Sites], Posterior], sites: Sites, q: Posterior, new: Sites, damping: Array
) -> tuple[Sites, Posterior, Array]:
    """Go `damping` of the way to the new sites; half as far while the product is improper."""

    def at(share: Array) -> tuple[Array, Sites, Posterior, Array]:
        blended = jax.tree.map(lambda a, b: a + share * (b - a), sites, new)
        product = whole(blended)
        finite = jnp.array([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(product)])
        positive = (product.noise.v > 0.0).all() & (product.input_scale.v > 0.0).all()
        return share, blended, product, finite.all() & positive

    share, blended, product, is_proper = jax.lax.while_loop(
        lambda tried: ~tried[3] & (tried[0] > _LEAST_DAMPING),
        lambda tried: at(0.5 * tried[0]),
        at(jnp.asarray(damping)),
    )
    return (
        _where(is_proper, blended, sites),
        _where(is_proper, product, q),
        jnp.where(is_proper, share, 0.0),
    )


def _data_sites(
    sites: Sites, q: Posterior, x: Array, y: Array, weight: Array
) -> tuple[Sites, Array, Array]:
    """Match the sites of every datum; with log Z (n, o) and what was skipped (n, o)."""
    v, noise = natural_of_joint(q.v), to_natural(q.noise)

    def row(
        x: Array, y: Array, weight: Array, unit: Natural, output: Natural, of_noise: Natural
    ) -> tuple:
        a = Gaussian(q.w.m @ x, jnp.einsum("d,kde,e->k", x, q.w.cov, x))
        match = partial(_match, to_natural(a), jnp.minimum(weight, 1.0))
        return jax.vmap(match)(y, v, noise, unit, output, of_noise)

    of_data = (x, y, weight, sites.unit, sites.output, sites.noise)
    unit, output, of_noise, log_z, skipped = jax.lax.map(
        lambda datum: row(*datum), of_data, batch_size=min(_ROWS_AT_ONCE, len(x))
    )
    return sites._replace(unit=unit, output=output, noise=of_noise), log_z, skipped


def _match(
    a: Natural,
    copies: Array,
    y: Array,
    v: Natural,
    noise: Natural,
    unit_site: Natural,
    output_site: Natural,
    noise_site: Natural,
) -> tuple[Natural, Natural, Natural, Array, Array]:
    """Take the sites of one datum and output out, and match them anew."""

    def without(whole: Natural, site: Natural) -> Natural:
        return jax.tree.map(lambda p, s: p - copies * s, whole, site)

    a_rest, v_rest, noise_rest = (
        without(a, unit_site), without(v, output_site), without(noise, noise_site)
    )  # fmt: skip
    a_cavity, v_cavity, noise_cavity = from_natural(a_rest), joint(v_rest), from_natural(noise_rest)
    nodes = ep.gauss_hermite(noise_cavity, ep.N_NOISE_NODES)
    u = ep.units(a_cavity)
    f = ep.output(u, v_cavity)
    log_z = ep.log_evidence(y, f, nodes)
    new_unit = site(ep.unit_moments(y, a_cavity, v_cavity, nodes), a_rest, least=0.0)
    new_output = ep.output_weight_site(y, u, v_cavity, nodes)
    new_noise = site(ep.noise_moments(y, f, noise_cavity), noise_rest)
    is_proper = (a_rest.precision > 0.0).all() & (noise_rest.precision > 0.0)
    for leaf in jax.tree.leaves((v_cavity, new_unit, new_output, new_noise, log_z)):
        is_proper &= jnp.isfinite(leaf).all()
    return (
        _where(is_proper, new_unit, unit_site),
        _where(is_proper, new_output, output_site),
        _where(is_proper, new_noise, noise_site),
        jnp.where(is_proper, log_z, 0.0),
        ~is_proper,
    )


def _prior_sites(sites: Sites, q: Posterior) -> tuple[Natural, Natural, Array]:
    """Match the prior of every input weight; with the number that had no proper cavity."""
    marginal = Gaussian(q.w.m, jnp.diagonal(q.w.cov, axis1=1, axis2=2))
    w = jax.tree.map(jnp.subtract, to_natural(marginal), sites.weight)
    # Where the data say nothing, this is zero but for rounding.
    w = w._replace(precision=jnp.maximum(w.precision, 0.0))
    scale = jax.tree.map(
        lambda p, s: jnp.broadcast_to(p, s.shape) - s, to_natural(q.input_scale), sites.scale
    )
    of_scale, of_w = jax.vmap(jax.vmap(ep.scale_and_weight))(w, from_natural(scale))
    new_w, new_scale = site(of_w, w), site(of_scale, scale)
    is_proper = scale.precision > 0.0
    for leaf in (*new_w, *new_scale):
        is_proper &= jnp.isfinite(leaf)
    return (
        _where(is_proper, new_w, sites.weight),
        _where(is_proper, new_scale, sites.scale),
        jnp.sum(~is_proper),
    )


def _predictive(q: Posterior, x: Array) -> Gaussian:
    f = ep.outputs(q, x)
    return Gaussian(f.m, f.v + ep.noise_variance(q)[None])


def _where(condition: Array, yes: T, no: T) -> T:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
