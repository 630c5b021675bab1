"""The network of batch EP: its prior, the sites, their product, and what it predicts.

And what sites are matched to: the tilted distributions of one datum, everything else at cavity.
The datum is y ~ N(f, exp(theta)), f = sum_k v_k g(a_k) / sqrt(K + 1) with g the error function, a
last unit that is always 1, a_k Gaussian and independent, v jointly Gaussian, theta Gaussian. What
is not Gaussian is integrated on nodes. The one approximation: f, given what is being updated, is
taken for Gaussian with its exact mean and variance (Jylänki, Nummenmaa & Vehtari 2014 rest on the
same central limit). It is exact where the hidden units are certain.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.numerics.activation_moments import erf
from bayesprop.numerics.gaussian import (
    Gaussian,
    Joint,
    Natural,
    from_natural,
    joint,
    log_pdf,
    to_natural,
)
from bayesprop.numerics.machine import in_float64

N_NOISE_NODES = 7
N_UNIT_NODES = 24
N_SCALE_NODES = 24
_REACH = 6.0


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

        def gaussian_of(mean: float, std: float) -> Gaussian:
            return Gaussian(*(cast(Array, np.float64(part)) for part in (mean, std**2)))

        return cls(gaussian_of(*input_scale), float(output_variance), gaussian_of(*noise))


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
    w, v = (_drawn(rng, part, n) for part in (q.w, q.v))
    z = special.erf(np.einsum("nd,skd->snk", x, w))
    z = np.concatenate([z, np.ones((*z.shape[:-1], 1))], axis=-1)
    return np.einsum("snk,sok->sno", z, v) / np.sqrt(z.shape[-1])


def _drawn(rng: np.random.RandomState, q: Joint, n: int) -> np.ndarray:
    m, half = np.asarray(q.m), np.linalg.cholesky(np.asarray(q.cov))
    return m + np.einsum("...jk,s...k->s...j", half, rng.standard_normal((n, *m.shape)))


def with_one(x: np.ndarray) -> Array:
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
        lambda p, s: p + jnp.einsum("n,no->o", weight, s), to_natural(prior.noise), sites.noise
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


def noise_variance(q: Posterior) -> Float[Array, " o"]:
    """E[exp(theta)] of every output."""
    return jnp.exp(q.noise.m + 0.5 * q.noise.v)


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
    one, zero = jnp.ones(1, a.m.dtype), jnp.zeros(1, a.m.dtype)
    return Gaussian(jnp.append(z.m, one) / jnp.sqrt(n), jnp.append(z.v, zero) / n)


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
        least = (0.5 * spacing) ** 2
        around = Gaussian(coarse.m, jnp.maximum(coarse.v, least))
        return at(evenly_spaced(a, around), u, v, toward)

    def at(nodes: Nodes, u: Gaussian, v: Gaussian, toward: Array) -> Gaussian:
        change = jax.scipy.special.erf(nodes.at) / jnp.sqrt(n) - u.m
        of_unit = u.v * (v.v + v.m**2)
        var = f.v - of_unit + 2.0 * change * toward + change**2 * v.v
        given = Gaussian(f.m + v.m * change, var)
        log_factor = jax.vmap(lambda m, s: log_evidence(y, Gaussian(m, s), noise))(*given)
        return moments_on(nodes, log_factor)[1]

    output_weights = Gaussian(v.m[:-1], jnp.diag(v.cov)[:-1])
    return jax.vmap(one)(
        Gaussian(*a), Gaussian(u.m[:-1], u.v[:-1]), output_weights, (v.cov @ u.m)[:-1]
    )


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
