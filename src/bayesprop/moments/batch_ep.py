"""Batch expectation propagation for a network of one hidden layer and Gaussian noise.

After Jylänki, Nummenmaa & Vehtari (2014). Every datum keeps Gaussian sites on the input of every
hidden unit, on the output weights and on the log noise variance; every input weight one for its
prior, whose scale is unknown. Sites are taken out, matched to the moments of the tilted
distribution and put back, all at once, with damping, until the predictions stay.

The datum is y ~ N(f, exp(theta)), f = sum_k v_k g(a_k) / sqrt(K + 1) with g the error function, a
last unit that is always 1, a_k Gaussian and independent, v jointly Gaussian, theta Gaussian. What
is not Gaussian is integrated on nodes. The one approximation: f, given what is being updated, is
taken for Gaussian with its exact mean and variance (the paper rests on the same central limit). It
is exact where the hidden units are certain.

Sites of the data never have negative precisions: the mean is matched and the precision set to the
nearest that is allowed, so that no cavity is improper and weights without a use stay in their
prior; without this the scale of the input weights runs away on small tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import FURTHEST_INPUT, MOST_ROWS, Drawn, Learned
from bayesprop.model.progress import SILENT, Progress
from bayesprop.numerics.activation_moments import erf
from bayesprop.numerics.filling import padded
from bayesprop.numerics.gaussian import (
    Gaussian,
    Joint,
    Natural,
    from_natural,
    joint,
    log_pdf,
    natural_of_joint,
    site,
    to_natural,
)
from bayesprop.numerics.machine import in_float64, random_key
from bayesprop.numerics.rows import Rows

N_NOISE_NODES, N_UNIT_NODES, N_SCALE_NODES = 7, 24, 24
_REACH = 6.0
_N_HELD, _N_LET_GO = 10, 20
"""Sweeps in which the input weights are held at their random start, and then let go."""
N_START = _N_HELD + _N_LET_GO
"""Sweeps before the first that can be the last."""

_SWEEPS_AT_ONCE, _ROWS_AT_ONCE = 10, 128
_LEAST_DAMPING, _LEAST_ROWS = 1e-3, 16
_LARGEST_MEMORY = 4 << 30  # of the sites before and after a sweep, bytes


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
    output_variance: float
    noise: Gaussian

    @classmethod
    def of(
        cls, input_scale: tuple[float, float], output_variance: float, noise: tuple[float, float]
    ) -> Prior:
        """Build from means and standard deviations of phi and theta."""
        scalar = cast(Any, np.float64)
        phi, theta = (Gaussian(scalar(mean), scalar(std**2)) for mean, std in (input_scale, noise))
        return cls(phi, float(output_variance), theta)


class Sites(NamedTuple):
    """Approximate factors in natural form; n rows, o outputs, k units, d inputs (a last 1 too).

    data
        Of every datum: on the input of every unit (n, o, k), on the output weights (n, o, k + 1,
        k + 1) and (n, o, k + 1), on theta (n, o).
    weight, scale
        Of the prior of every input weight, on itself and on phi; (k, d) each.
    """

    data: tuple[Natural, Natural, Natural]
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


@in_float64
def init(
    key: PRNGKeyArray, prior: Prior, n_rows: int, n_inputs: int, n_units: int, n_outputs: int
) -> Sites:
    """Start without data, input weights around a draw from their prior: units alike stay alike.

    n_inputs
        Without the last 1.
    """
    d, k, rows = n_inputs + 1, n_units, (n_rows, n_outputs)
    precision = jnp.full((k, d), jnp.exp(-prior.input_scale.m))
    drawn = jax.random.normal(key, (k, d), jnp.float64) / jnp.sqrt(precision)

    def nothing(*shape: int) -> Natural:
        return Natural(*jnp.zeros((2, *shape)))

    output = Natural(jnp.zeros((*rows, k + 1, k + 1)), jnp.zeros((*rows, k + 1)))
    data = nothing(*rows, k), output, nothing(*rows)
    return Sites(data, Natural(precision, precision * drawn), nothing(k, d))


@in_float64
@jax.jit
def predict(q: Posterior, x: Float[np.ndarray, "n d"]) -> Gaussian:
    """Mean and variance of the network's outputs, (n, o) each, exact for this posterior."""
    return outputs(q, with_one(x))


def sample_functions(
    rng: np.random.RandomState, q: Posterior, x: Float[np.ndarray, "n d"], n: int
) -> Float[np.ndarray, "s n o"]:
    """Draw n networks from the posterior and return their outputs."""
    from scipy import special

    x = np.column_stack([x, np.ones(len(x))]) / np.sqrt(x.shape[1] + 1)
    w, v = (
        m + np.einsum("...jk,s...k->s...j", half, rng.standard_normal((n, *m.shape)))
        for m, half in (
            (np.asarray(p.m), np.linalg.cholesky(np.asarray(p.cov))) for p in (q.w, q.v)
        )
    )
    z = special.erf(np.einsum("nd,skd->snk", x, w))
    z = np.concatenate([z, np.ones((*z.shape[:-1], 1))], axis=-1)
    return np.einsum("snk,sok->sno", z, v) / np.sqrt(z.shape[-1])


def with_one(x: np.ndarray) -> Array:
    """Append a 1 and divide by the root of the fan-in, as PBP's layers do."""
    return jnp.concatenate([jnp.asarray(x), jnp.ones((len(x), 1))], 1) / np.sqrt(x.shape[1] + 1)


def posterior_of(
    sites: Sites, prior: Prior, x: Array, weight: Array, *, per_input: bool
) -> Posterior:
    """Multiply all sites; an improper product shows as NaN."""
    unit, output, of_noise = sites.data
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
        lambda p, s: p + jnp.einsum("n,no->o", weight, s), to_natural(prior.noise), of_noise
    )
    axes = (0,) if per_input else (0, 1)
    scale = jax.tree.map(lambda p, s: p + s.sum(axes), to_natural(prior.input_scale), sites.scale)
    return Posterior(joint(w), joint(v), from_natural(noise), from_natural(scale))


def outputs(q: Posterior, x: Float[Array, "n d"]) -> Gaussian:
    """`predict` of inputs that `with_one` gave."""

    def row(x: Array) -> Gaussian:
        u = units(Gaussian(q.w.m @ x, jnp.einsum("d,kde,e->k", x, q.w.cov, x)))
        return jax.vmap(partial(output, u))(q.v)

    return jax.vmap(row)(x)


def observed(q: Posterior, x: Float[Array, "n d"]) -> Gaussian:
    """Add E[exp(theta)], the expected noise, to the variances of `outputs`."""
    f = outputs(q, x)
    return Gaussian(f.m, f.v + jnp.exp(q.noise.m + 0.5 * q.noise.v)[None])


class Nodes(NamedTuple):
    """Points of a scalar and the logarithms of their probabilities."""

    at: Float[Array, " q"]
    log_weight: Float[Array, " q"]


def gauss_hermite(q: Gaussian, n_nodes: int) -> Nodes:
    """Nodes of a Gaussian, exact for polynomials of degree 2 n_nodes - 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    log_weight = np.log(weights) - 0.5 * np.log(2.0 * np.pi)
    return Nodes(q.m + jnp.sqrt(q.v) * nodes, jnp.asarray(log_weight))


def evenly_spaced(q: Gaussian, around: Gaussian) -> Nodes:
    """Trapezoid nodes over six standard deviations `around` a place, with the weights of N(q)."""
    at = around.m + jnp.sqrt(around.v) * np.linspace(-_REACH, _REACH, N_UNIT_NODES)
    return Nodes(at, -0.5 * (at - q.m) ** 2 / q.v)


def moments_on(nodes: Nodes, log_factor: Float[Array, " q"]) -> tuple[Array, Gaussian]:
    """Log Z, mean and variance of a distribution on nodes times a factor."""
    log_p = nodes.log_weight + log_factor
    log_z = jax.scipy.special.logsumexp(log_p)
    p = jnp.exp(log_p - log_z)
    mean = jnp.sum(p * nodes.at)
    return log_z, Gaussian(mean, jnp.sum(p * (nodes.at - mean) ** 2))


def units(a: Gaussian) -> Gaussian:
    """Return what reaches the output: erf(a) and a last 1, over sqrt(K + 1)."""
    z = erf(a.m, a.v)
    n = a.m.shape[0] + 1
    return Gaussian(jnp.append(z.m, 1.0) / jnp.sqrt(n), jnp.append(z.v, 0.0) / n)


def output(u: Gaussian, v: Joint) -> Gaussian:
    """Mean and variance of v . u for independent u; exact."""
    spread = jnp.sum(u.v * (jnp.diag(v.cov) + v.m**2))
    return Gaussian(v.m @ u.m, u.m @ v.cov @ u.m + spread)


def log_evidence(y: Array, f: Gaussian, noise: Nodes) -> Float[Array, ""]:
    """Log of the integral of N(y; f, exp(theta)) over f and theta, nats."""
    log_p = log_pdf(y, f.m, f.v + jnp.exp(noise.at))
    return jax.scipy.special.logsumexp(noise.log_weight + log_p)


def noise_moments(y: Array, f: Gaussian, noise: Gaussian) -> Gaussian:
    """Tilted mean and variance of theta, the log noise variance."""
    nodes = gauss_hermite(noise, N_SCALE_NODES)
    return moments_on(nodes, log_pdf(y, f.m, f.v + jnp.exp(nodes.at)))[1]


def unit_moments(y: Array, a: Gaussian, v: Joint, noise: Nodes) -> Gaussian:
    """Tilted means and variances of every a_k, (K,): one-dimensional quadrature for each.

    Twice: over the cavity, and then over what was found, for factors much sharper than the cavity.
    """
    u = units(a)
    f = output(u, v)
    n = u.m.shape[0]

    def one(a: Gaussian, u: Gaussian, v: Gaussian, toward: Array) -> Gaussian:
        coarse = at(evenly_spaced(a, a), u, v, toward)
        spacing = 2.0 * _REACH / (N_UNIT_NODES - 1) * jnp.sqrt(a.v)
        around = Gaussian(coarse.m, jnp.maximum(coarse.v, (0.5 * spacing) ** 2))
        return at(evenly_spaced(a, around), u, v, toward)

    def at(nodes: Nodes, u: Gaussian, v: Gaussian, toward: Array) -> Gaussian:
        change = jax.scipy.special.erf(nodes.at) / jnp.sqrt(n) - u.m
        of_unit = u.v * (v.v + v.m**2)
        var = f.v - of_unit + 2.0 * change * toward + change**2 * v.v
        given = Gaussian(f.m + v.m * change, var)
        log_factor = jax.vmap(lambda m, s: log_evidence(y, Gaussian(m, s), noise))(*given)
        return moments_on(nodes, log_factor)[1]

    output_weights = Gaussian(v.m[:-1], jnp.diag(v.cov)[:-1])
    return jax.vmap(one)(a, Gaussian(u.m[:-1], u.v[:-1]), output_weights, (v.cov @ u.m)[:-1])


def output_weight_site(y: Array, u: Gaussian, v: Joint, noise: Nodes) -> Natural:
    """Site of the output weights: what multiplies the cavity N(v) into the tilted moments.

    From the derivatives of log Z by mean and covariance, of which it is a function through the
    moments of f alone. With M = (d log Z / dm)(.)^T - 2 d log Z / dC the tilted covariance is
    C - C M C, so that the site's precision is M (I - C M)^-1.
    """
    by_m, by_v = jax.grad(lambda f: log_evidence(y, f, noise))(output(u, v))
    slope = by_m * u.m + 2.0 * by_v * u.v * v.m
    m = jnp.outer(slope, slope) - 2.0 * by_v * (jnp.outer(u.m, u.m) + jnp.diag(u.v))
    precision = jnp.linalg.solve((jnp.eye(len(slope)) - v.cov @ m).T, m).T
    values, vectors = jnp.linalg.eigh(0.5 * (precision + precision.T))
    precision = (vectors * jnp.maximum(values, 0.0)[None]) @ vectors.T
    return Natural(precision, precision @ (v.m + v.cov @ slope) + slope)


def scale_and_weight(w: Natural, scale: Gaussian) -> tuple[Gaussian, Gaussian]:
    """Tilted moments of the prior factor N(w; 0, exp(phi)): of phi and of w.

    The cavity of w in natural form, for it may know nothing (precision 0).
    """
    nodes = gauss_hermite(scale, N_SCALE_NODES)
    precision = w.precision + jnp.exp(-nodes.at)
    mean = w.shift / precision
    log_z = 0.5 * (mean * w.shift - jnp.log1p(w.precision * jnp.exp(nodes.at)))
    _, of_scale = moments_on(nodes, log_z)
    p = jax.nn.softmax(nodes.log_weight + log_z)
    m = jnp.sum(p * mean)
    return of_scale, Gaussian(m, jnp.sum(p * (1.0 / precision + (mean - m) ** 2)))


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


@partial(jax.jit, static_argnames="per_input")
def _sweeps(
    sites: Sites,
    prior: Prior,
    start: Natural,
    rows: tuple[Array, Array, Array],
    held: Float[Array, " s"],
    damping: Array,
    *,
    per_input: bool,
) -> tuple[Sites, Posterior, Sweeps]:
    """Sweep as often as `held` says how far the input weights are held at their start."""
    x, _, weight = rows

    def whole(sites: Sites) -> Posterior:
        return posterior_of(sites, prior, x, weight, per_input=per_input)

    def sweep(carry: tuple[Sites, Posterior], held: Array) -> tuple[tuple, Sweeps]:
        sites, q = carry
        data, log_z, skipped = _data_sites(sites, q, rows)
        of_prior, skipped_prior = _prior_sites(sites, q)
        let_go = Natural(start.precision, held * start.shift)
        new = Sites(data, *_where(held > 0.0, (let_go, sites.scale), of_prior))
        sites, moved, share = _step(whole, sites, q, new, damping)
        before, after = observed(q, x), observed(moved, x)
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
        positive = (product.noise.v > 0.0).all() & (product.input_scale.v > 0.0).all()
        return share, blended, product, _is_finite(product) & positive

    share, blended, product, is_proper = jax.lax.while_loop(
        lambda tried: ~tried[3] & (tried[0] > _LEAST_DAMPING),
        lambda tried: at(0.5 * tried[0]),
        at(jnp.asarray(damping)),
    )
    sites, q = _where(is_proper, (blended, product), (sites, q))
    return sites, q, jnp.where(is_proper, share, 0.0)


def _data_sites(
    sites: Sites, q: Posterior, rows: tuple[Array, Array, Array]
) -> tuple[tuple[Natural, Natural, Natural], Array, Array]:
    """Match the sites of every datum; with log Z (n, o) and what was skipped (n, o)."""
    v, noise = natural_of_joint(q.v), to_natural(q.noise)

    def row(x: Array, y: Array, weight: Array, data: tuple) -> tuple:
        a = to_natural(Gaussian(q.w.m @ x, jnp.einsum("d,kde,e->k", x, q.w.cov, x)))
        match = partial(_match, jnp.minimum(weight, 1.0), a)
        return jax.vmap(match)(y, v, noise, data)

    at_once = min(_ROWS_AT_ONCE, len(rows[0]))
    return jax.lax.map(lambda datum: row(*datum), (*rows, sites.data), batch_size=at_once)


def _match(
    copies: Array,
    a: Natural,
    y: Array,
    v: Natural,
    noise: Natural,
    old: tuple[Natural, Natural, Natural],
) -> tuple[tuple[Natural, Natural, Natural], Array, Array]:
    """Take the sites of one datum and output out, and match them anew."""
    rest = jax.tree.map(lambda whole, site: whole - copies * site, (a, v, noise), old)
    unit, weights, theta = from_natural(rest[0]), joint(rest[1]), from_natural(rest[2])
    nodes, u = gauss_hermite(theta, N_NOISE_NODES), units(unit)
    f = output(u, weights)
    log_z = log_evidence(y, f, nodes)
    new = (
        site(unit_moments(y, unit, weights, nodes), rest[0], least=0.0),
        output_weight_site(y, u, weights, nodes),
        site(noise_moments(y, f, theta), rest[2]),
    )
    is_proper = (rest[0].precision > 0.0).all() & (rest[2].precision > 0.0)
    is_proper &= _is_finite((weights, new, log_z))
    return _where(is_proper, new, old), jnp.where(is_proper, log_z, 0.0), ~is_proper


def _prior_sites(sites: Sites, q: Posterior) -> tuple[tuple[Natural, Natural], Array]:
    """Match the prior of every input weight; with the number that had no proper cavity."""
    marginal = Gaussian(q.w.m, jnp.diagonal(q.w.cov, axis1=1, axis2=2))
    w = jax.tree.map(jnp.subtract, to_natural(marginal), sites.weight)
    # Where the data say nothing, this is zero but for rounding.
    w = w._replace(precision=jnp.maximum(w.precision, 0.0))
    scale = jax.tree.map(
        lambda p, s: jnp.broadcast_to(p, s.shape) - s, to_natural(q.input_scale), sites.scale
    )
    of_scale, of_w = jax.vmap(jax.vmap(scale_and_weight))(w, from_natural(scale))
    new_w, new_scale = site(of_w, w), site(of_scale, scale)
    is_proper = scale.precision > 0.0
    for leaf in (*new_w, *new_scale):
        is_proper &= jnp.isfinite(leaf)
    matched = _where(is_proper, (new_w, new_scale), (sites.weight, sites.scale))
    return matched, jnp.sum(~is_proper)


def _is_finite(tree: PyTree) -> Array:
    return jnp.array([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()


def _where(condition: Array, yes: PyTree, no: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


@dataclass(frozen=True)
class BatchEPNetwork:
    """A network of one hidden layer.

    sizes
        Inputs, hidden units, outputs.
    n_epochs
        Most sweeps, rounded up to tens.
    damping
        Share of the way to its match that a site goes in a sweep.
    tol
        Largest change of a prediction, in its standard deviations, at which sweeps end.
    per_input
        A prior scale for every input, its relevance, not one for all.
    """

    sizes: tuple[int, int, int]
    prior: Prior
    n_epochs: int
    damping: float
    tol: float
    n_starts: int
    per_input: bool

    rows_at_once = MOST_ROWS
    furthest_input = FURTHEST_INPUT

    def fit(self, rows: Rows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Learn from every start; ValueError where the sites would not fit into memory."""
        n_rows, (_, n_units, n_outputs) = len(rows.x), self.sizes
        needed = 2 * 8 * n_rows * n_outputs * ((n_units + 1) ** 2 + 3 * n_units + 4)
        if needed > _LARGEST_MEMORY:
            raise ValueError(
                f"the sites of {n_rows} rows and {n_units} units need "
                f"{needed / 2**30:.1f} GiB, more than {_LARGEST_MEMORY >> 30}: take fewer units "
                "or rows, or PBPRegressor, which keeps none"
            )
        started = time.perf_counter()
        x, y, weight = (padded(part, _LEAST_ROWS) for part in (*rows[:2], rows.weights[:, None]))
        fits, n = [], self.n_starts
        for k in range(n):
            start = init(random_key(rng.randint(2**31)), self.prior, len(x), *self.sizes)
            within = progress.part(k / n, (k + 1) / n, f"start {k + 1} of {n}" if n > 1 else "")
            fits.append(self.sweep(start, x, y, weight[:, 0], within))
            if progress.is_cut(k + 1, n, "starts"):
                break
        q, sweeps = max(fits, key=lambda fit: fit[1].log_z[-1])
        report = self._report(sweeps, n_rows, time.perf_counter() - started)
        return Learned(jax.tree.map(np.asarray, q), report, report.n_epochs)

    @in_float64
    def sweep(
        self,
        sites: Sites,
        x: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, "n o"],
        weight: Float[np.ndarray, " n"],
        progress: Progress = SILENT,
    ) -> tuple[Posterior, Sweeps]:
        """Sweep over the sites of standardised rows, x without a last 1, until they settle.

        weight
            Copies of every row; a row of weight 0 is not there.
        """
        rows = with_one(x), jnp.asarray(y), jnp.asarray(weight)
        start, done, history, most = sites.weight, 0, [], self.n_epochs
        rule = {"per_input": self.per_input}
        while True:
            number = done + np.arange(_SWEEPS_AT_ONCE)
            held = np.clip(1.0 - (number + 1 - _N_HELD) / _N_LET_GO, 0.0, 1.0)
            sites, q, sweeps = _sweeps(sites, self.prior, start, rows, held, self.damping, **rule)
            history.append(sweeps)
            done += _SWEEPS_AT_ONCE
            log_z, change = float(sweeps.log_z[-1]), float(sweeps.change[-1])
            figures = f"log Z {log_z:.4f} a row  change {change:.2g} std"
            progress.report(min(done, most), most, f"sweep {done}", figures)
            is_settled = done > N_START and sweeps.change.max() < self.tol
            if is_settled or done >= most or progress.is_cut(done, most, "sweeps"):
                return q, jax.tree.map(lambda *parts: np.concatenate(parts), *history)

    def _report(self, sweeps: Sweeps, n_rows: int, seconds: float) -> FitReport:
        n_sweeps, change = len(sweeps.change), sweeps.change[-1]
        n_updates, n_skipped = n_sweeps * n_rows * self.sizes[-1], int(sweeps.skipped.sum())
        is_settled, advice = change < self.tol and n_sweeps > N_START, []
        if not is_settled:
            advice.append(
                f"predictions still change by {change:.2g} of their standard deviation a sweep "
                f"(tol {self.tol:g}) after {n_sweeps}: raise n_epochs, or lower damping"
            )
        if n_skipped > 0.01 * n_updates:
            advice.append(
                f"{n_skipped / n_updates:.0%} of the site updates had no proper cavity and were "
                "skipped: look for extreme values or weights in the table"
            )
        return FitReport(
            n_rows=n_rows,
            n_epochs=n_sweeps,
            seconds=seconds,
            n_updates=n_updates,
            guards={
                "sites_skipped": n_skipped,
                "sweeps_shortened": int((sweeps.damping < self.damping).sum()),
                "not_converged": int(not is_settled),
            },
            trace={"mean_log_z": sweeps.log_z.tolist(), "change": sweeps.change.tolist()},
            warnings=advice,
            step="sweep",
        )

    def predict(self, state: Posterior, x: Float[np.ndarray, "n d"]) -> GaussianPredictive:
        """Mean and variance of the outputs, exact for this posterior, and the mean noise."""
        m, v = (np.asarray(part)[: len(x)] for part in predict(state, padded(x)))
        return GaussianPredictive(m, v, np.broadcast_to(_noise_var(state), m.shape))

    def draw(
        self, state: Posterior, x: Float[np.ndarray, "n d"], rng: np.random.RandomState, n: int
    ) -> Drawn:
        """Draw n networks from the posterior."""
        return Drawn.of(sample_functions(rng, state, x, n), _noise_var(state), rng)

    @property
    def state_kind(self) -> Posterior:
        """A state of the shapes of this network."""
        start = partial(init, random_key(0), self.prior, 1, *self.sizes)
        rows: Any = np.zeros((1, self.sizes[0] + 1)), np.zeros(1)
        how = {"per_input": self.per_input}
        with jax.enable_x64(True):
            return jax.eval_shape(lambda: posterior_of(start(), self.prior, *rows, **how))


def _noise_var(q: Posterior) -> Float[np.ndarray, " o"]:
    return np.exp(q.noise.m + 0.5 * q.noise.v)
