"""The network of batch EP: its prior, the sites, their product, and what it predicts."""

from __future__ import annotations

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop.moments.batch_ep import tilted
from bayesprop.numerics.gaussian import Gaussian, Joint, Natural, from_natural, joint, to_natural
from bayesprop.numerics.machine import in_float64


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
    from scipy.special import erf

    x = np.column_stack([x, np.ones(len(x))]) / np.sqrt(x.shape[1] + 1)
    w, v = (_drawn(rng, part, n) for part in (q.w, q.v))
    z = erf(np.einsum("nd,skd->snk", x, w))
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
        u = tilted.units(Gaussian(q.w.m @ x, jnp.einsum("d,kde,e->k", x, q.w.cov, x)))
        return jax.vmap(lambda v: tilted.output(u, v))(q.v)

    return jax.vmap(row)(x)


def noise_variance(q: Posterior) -> Float[Array, " o"]:
    """E[exp(theta)] of every output."""
    return jnp.exp(q.noise.m + 0.5 * q.noise.v)
