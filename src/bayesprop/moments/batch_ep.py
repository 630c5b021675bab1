"""Batch expectation propagation for a network of one hidden layer and Gaussian noise.

After Jylänki, Nummenmaa & Vehtari (2014), derived anew from what the paper on probabilistic
backpropagation says of it. Every datum keeps Gaussian sites on the input of every hidden unit, on
the output weights and on the log noise variance; every input weight one for its prior, whose scale
is unknown. Sites are taken out, matched to the moments of the tilted distribution
(`ep_tilted.py`) and put back, all at once, with damping, until the predictions stay.

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
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.moments import ep_tilted as tilted
from bayesprop.moments.ep_tilted import Joint, Natural
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.precision import in_float64

_N_HELD, _N_LET_GO = 10, 20
"""Sweeps in which the input weights are held at their random start, and then let go."""

_SWEEPS_AT_ONCE, _ROWS_AT_ONCE = 10, 128
_LEAST_DAMPING = 1e-3

T = TypeVar("T")


class Prior(NamedTuple):
    """What is assumed before the data, in standardised units.

    input_scale
        phi of input weights N(0, exp(phi)); a scalar Gaussian.
    output_variance
        Of every output weight, known.
    noise
        theta of noise N(0, exp(theta)); a scalar Gaussian.
    """

    input_scale: Gaussian
    output_variance: Float[Array, ""]
    noise: Gaussian


class Sites(NamedTuple):
    """Approximate factors in natural form; n rows, o outputs, k units, d inputs (a last 1 too).

    unit, output, noise
        Of every datum: on the input of every unit (n, o, k), on the output weights (n, o, k + 1,
        k + 1) and (n, o, k + 1), on theta (n, o).
    weight, scale
        Of the prior of every input weight, on itself and on phi; (k, d) each.
    """

    unit: Natural
    output: Natural
    noise: Natural
    weight: Natural
    scale: Natural


class Posterior(NamedTuple):
    """The approximation: independent over units and outputs, jointly Gaussian within each.

    w
        Input weights of every unit, (k, d) and (k, d, d); the last input is 1.
    v
        Weights of every output, (o, k + 1) and (o, k + 1, k + 1); the last unit is 1.
    noise
        theta, (o,).
    input_scale
        phi, a scalar, or (d,) with one for every input.
    """

    w: Joint
    v: Joint
    noise: Gaussian
    input_scale: Gaussian


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


def memory(n_rows: int, n_outputs: int, n_units: int) -> int:
    """Bytes of the sites, before and after a sweep."""
    return 2 * 8 * n_rows * n_outputs * ((n_units + 1) ** 2 + 3 * n_units + 4)


@in_float64
def init(
    key: PRNGKeyArray, prior: Prior, n_rows: int, n_inputs: int, n_units: int, n_outputs: int
) -> Sites:
    """Start without data, input weights around a draw from their prior: units alike stay alike.

    n_inputs
        Without the last 1.
    """
    d, k = n_inputs + 1, n_units
    precision = jnp.full((k, d), jnp.exp(-prior.input_scale.m))
    drawn = jax.random.normal(key, (k, d), jnp.float64) / jnp.sqrt(precision)

    def nothing(*shape: int) -> Natural:
        return Natural(jnp.zeros(shape), jnp.zeros(shape))

    data = (n_rows, n_outputs)
    output = Natural(jnp.zeros((*data, k + 1, k + 1)), jnp.zeros((*data, k + 1)))
    weight = Natural(precision, precision * drawn)
    return Sites(nothing(*data, k), output, nothing(*data), weight, nothing(k, d))


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
    say: Callable[[int, Sweeps], None] | None = None,
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
    say
        Called with the number of sweeps so far and what the last ones did.
    """
    x, y, weight = _with_one(x), jnp.asarray(y), jnp.asarray(weight)
    start, done = sites.weight, 0
    found: list[Sweeps] = []
    q = None
    while done < max_sweeps:
        number = done + np.arange(_SWEEPS_AT_ONCE)
        held = np.clip(1.0 - (number + 1 - _N_HELD) / _N_LET_GO, 0.0, 1.0)
        sites, q, sweeps = _sweeps(
            sites, prior, start, x, y, weight, held, damping, per_input=per_input
        )
        done += _SWEEPS_AT_ONCE
        found.append(sweeps)
        if say is not None:
            say(done, sweeps)
        if done > _N_HELD + _N_LET_GO and sweeps.change.max() < tol:
            break
    if q is None:
        raise ValueError(f"max_sweeps must be > 0, got {max_sweeps}")
    return q, jax.tree.map(lambda *parts: np.concatenate(parts), *found)


@in_float64
def predict(q: Posterior, x: Float[np.ndarray, "n d"]) -> Gaussian:
    """Mean and variance of the network's outputs, (n, o) each, exact for this posterior."""
    return _outputs(q, _with_one(x))


def sample_functions(
    rng: np.random.RandomState, q: Posterior, x: Float[np.ndarray, "n d"], n: int
) -> Float[np.ndarray, "s n o"]:
    """Draw n networks from the posterior and return their outputs."""
    from scipy.special import erf

    x = np.column_stack([x, np.ones(len(x))]) / np.sqrt(x.shape[1] + 1)
    w, v = (_drawn(rng, part, n) for part in (q.w, q.v))
    z = erf(np.einsum("nd,skd->snk", x, w))
    z = np.concatenate([z, np.ones((*z.shape[:-1], 1))], axis=-1)
    return np.einsum("snk,sok->sno", z, v) / np.sqrt(z.shape[-1])


def _drawn(rng: np.random.RandomState, q: Joint, n: int) -> np.ndarray:
    m, half = np.asarray(q.m), np.linalg.cholesky(np.asarray(q.cov))
    return m + np.einsum("...jk,s...k->s...j", half, rng.standard_normal((n, *m.shape)))


def _with_one(x: np.ndarray) -> Array:
    """Append a 1 and divide by the root of the fan-in, as PBP's layers do."""
    return jnp.concatenate([jnp.asarray(x), jnp.ones((len(x), 1))], 1) / np.sqrt(x.shape[1] + 1)


def posterior_of(
    sites: Sites, prior: Prior, x: Array, weight: Array, *, per_input: bool
) -> Posterior:
    """Multiply all sites; an improper product shows as NaN."""
    unit, output = sites.unit, sites.output
    tau = jnp.einsum("n,nok->kn", weight, unit.precision)
    nu = jnp.einsum("n,nok->kn", weight, unit.shift)
    w = Natural(
        jnp.einsum("kn,nd,ne->kde", tau, x, x) + jax.vmap(jnp.diag)(sites.weight.precision),
        nu @ x + sites.weight.shift,
    )
    v = Natural(
        jnp.einsum("n,nojk->ojk", weight, output.precision)
        + jnp.eye(output.shift.shape[-1])[None] / prior.output_variance,
        jnp.einsum("n,noj->oj", weight, output.shift),
    )
    noise = jax.tree.map(
        lambda p, s: p + jnp.einsum("n,no->o", weight, s), _natural(prior.noise), sites.noise
    )
    axes = (0,) if per_input else (0, 1)
    scale = jax.tree.map(lambda p, s: p + s.sum(axes), _natural(prior.input_scale), sites.scale)
    return Posterior(_joint(w), _joint(v), _gaussian(noise), _gaussian(scale))


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
        return posterior_of(sites, prior, x, weight, per_input=per_input)

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
        lambda found: ~found[3] & (found[0] > _LEAST_DAMPING),
        lambda found: at(0.5 * found[0]),
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
    v, noise = _natural_joint(q.v), _natural(q.noise)

    def row(
        x: Array, y: Array, weight: Array, unit: Natural, output: Natural, site: Natural
    ) -> tuple:
        a = Gaussian(q.w.m @ x, jnp.einsum("d,kde,e->k", x, q.w.cov, x))
        match = partial(_match, _natural(a), jnp.minimum(weight, 1.0))
        return jax.vmap(match)(y, v, noise, unit, output, site)

    of_data = (x, y, weight, sites.unit, sites.output, sites.noise)
    unit, output, site, log_z, skipped = jax.lax.map(
        lambda datum: row(*datum), of_data, batch_size=min(_ROWS_AT_ONCE, len(x))
    )
    return sites._replace(unit=unit, output=output, noise=site), log_z, skipped


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
    a_cavity, v_cavity, noise_cavity = _gaussian(a_rest), _joint(v_rest), _gaussian(noise_rest)
    nodes = tilted.gauss_hermite(noise_cavity, tilted.N_NOISE_NODES)
    u = tilted.units(a_cavity)
    f = tilted.output(u, v_cavity)
    log_z = tilted.log_evidence(y, f, nodes)
    new_unit = _site(tilted.unit_moments(y, a_cavity, v_cavity, nodes), a_rest, least=0.0)
    new_output = tilted.output_weight_site(y, u, v_cavity, nodes)
    new_noise = _site(tilted.noise_moments(y, f, noise_cavity), noise_rest)
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
    w = jax.tree.map(jnp.subtract, _natural(marginal), sites.weight)
    # Where the data say nothing, this is zero but for rounding.
    w = w._replace(precision=jnp.maximum(w.precision, 0.0))
    scale = jax.tree.map(
        lambda p, s: jnp.broadcast_to(p, s.shape) - s, _natural(q.input_scale), sites.scale
    )
    of_scale, of_w = jax.vmap(jax.vmap(tilted.scale_and_weight))(w, _gaussian(scale))
    new_w, new_scale = _site(of_w, w), _site(of_scale, scale)
    is_proper = scale.precision > 0.0
    for leaf in (*new_w, *new_scale):
        is_proper &= jnp.isfinite(leaf)
    return (
        _where(is_proper, new_w, sites.weight),
        _where(is_proper, new_scale, sites.scale),
        jnp.sum(~is_proper),
    )


def _outputs(q: Posterior, x: Array) -> Gaussian:
    def row(x: Array) -> Gaussian:
        u = tilted.units(Gaussian(q.w.m @ x, jnp.einsum("d,kde,e->k", x, q.w.cov, x)))
        return jax.vmap(lambda v: tilted.output(u, v))(q.v)

    return jax.vmap(row)(x)


def _predictive(q: Posterior, x: Array) -> Gaussian:
    f = _outputs(q, x)
    return Gaussian(f.m, f.v + noise_variance(q)[None])


def noise_variance(q: Posterior) -> Float[Array, " o"]:
    """E[exp(theta)] of every output."""
    return jnp.exp(q.noise.m + 0.5 * q.noise.v)


def _site(match: Gaussian, rest: Natural, least: float = -jnp.inf) -> Natural:
    """Return what multiplies the cavity into a mean and, where that is allowed, a variance."""
    precision = jnp.maximum(1.0 / match.v - rest.precision, least)
    return Natural(precision, match.m * (rest.precision + precision) - rest.shift)


def _where(condition: Array, yes: T, no: T) -> T:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _natural(q: Gaussian) -> Natural:
    return Natural(1.0 / q.v, q.m / q.v)


def _gaussian(q: Natural) -> Gaussian:
    return Gaussian(q.shift / q.precision, 1.0 / q.precision)


def _natural_joint(q: Joint) -> Natural:
    precision = jnp.linalg.inv(q.cov)
    return Natural(precision, jnp.einsum("...jk,...k->...j", precision, q.m))


def _joint(q: Natural) -> Joint:
    """Invert by Cholesky: NaN where the precision is not positive definite."""
    half = jnp.linalg.cholesky(q.precision)
    eye = jnp.broadcast_to(jnp.eye(half.shape[-1]), half.shape)
    root = jax.lax.linalg.triangular_solve(half, eye, left_side=True, lower=True)
    cov = jnp.swapaxes(root, -1, -2) @ root
    return Joint(jnp.einsum("...jk,...k->...j", cov, q.shift), cov)
