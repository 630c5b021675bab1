"""Mean and variance of a nonlinearity of a Gaussian; one function a rule.

Every rule takes the mean m and variance v of the input and returns those of the output.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc
from jaxtyping import Array, Float

from bayesprop.numerics.gaussian import Gaussian

_TAIL_FROM = 5.0
_TAIL_DEPTH = 40
_SQRT_2PI = 2.5066282746310002


def identity(m: Float[Array, "..."], v: Float[Array, "..."]) -> Gaussian:
    """Return m and v."""
    return Gaussian(m, v)


def _tail_integrals(t: Float[Array, "..."]) -> tuple[Array, Array, Array]:
    """First three iterated integrals of the Gaussian density over [t, inf), for t >= 5.

    Q, E[(x - t)+] and E[(x - t)+²] / 2 by the continued fraction of their ratios,
    r_n = 1 / (t + (n + 1) r_{n+1}), in which all terms are positive: the closed forms lose
    t⁴ in relative accuracy.
    """
    density = jnp.exp(-0.5 * t * t) / _SQRT_2PI

    def step(i: Array, r: Array) -> Array:
        return 1.0 / (t + (_TAIL_DEPTH - i + 1.0) * r)

    r_3 = jax.lax.fori_loop(0, _TAIL_DEPTH - 2, step, 1.0 / t, unroll=True)
    r_2 = 1.0 / (t + 3.0 * r_3)
    r_1 = 1.0 / (t + 2.0 * r_2)
    r_0 = 1.0 / (t + r_1)
    upper = density * r_0
    return upper, upper * r_1, upper * r_1 * r_2


@jax.custom_jvp
def relu(m: Float[Array, "..."], v: Float[Array, "..."]) -> Gaussian:
    """Rectified linear unit (Hernández-Lobato & Adams 2015, eq. 15-16, without cancellation).

    With a = m / sqrt(v): mean = m Phi(a) + sqrt(v) phi(a),
    variance = v [Phi + a² Phi Q + a phi (Q - Phi) - phi²], Q = Phi(-a).
    """
    std = jnp.sqrt(v)
    a = m / std
    density = jnp.exp(-0.5 * a * a) / _SQRT_2PI
    lower, upper = 0.5 * erfc(-a / jnp.sqrt(2.0)), 0.5 * erfc(a / jnp.sqrt(2.0))
    mean = m * lower + std * density
    share = lower + a * a * lower * upper + a * density * (upper - lower) - density**2
    _, first, half_second = _tail_integrals(jnp.maximum(-a, _TAIL_FROM))
    in_tail = a < -_TAIL_FROM
    return Gaussian(
        jnp.where(in_tail, std * first, mean),
        v * jnp.where(in_tail, 2.0 * half_second - first**2, jnp.maximum(share, 0.0)),
    )


@relu.defjvp
def _relu_jvp(primals: tuple, tangents: tuple) -> tuple[Gaussian, Gaussian]:
    (m, v), (dm, dv) = primals, tangents
    std = jnp.sqrt(v)
    a = m / std
    density = jnp.exp(-0.5 * a * a) / _SQRT_2PI
    lower, upper = 0.5 * erfc(-a / jnp.sqrt(2.0)), 0.5 * erfc(a / jnp.sqrt(2.0))
    out = relu(m, v)
    d_mean = lower * dm + 0.5 * density / std * dv
    d_var = 2.0 * out.m * upper * dm + (lower - out.m * density / std) * dv
    return out, Gaussian(d_mean, d_var)


def leaky_relu(m: Float[Array, "..."], v: Float[Array, "..."], *, slope: float = 0.01) -> Gaussian:
    """max(x, slope x) = relu(x) - slope relu(-x); the two parts are never active together."""
    up, down = relu(m, v), relu(-m, v)
    return Gaussian(
        up.m - slope * down.m,
        up.v + slope**2 * down.v + 2.0 * slope * up.m * down.m,
    )


def erf(m: Float[Array, "..."], v: Float[Array, "..."]) -> Gaussian:
    """Gauss error function: mean erf(m / sqrt(1 + 2v)), second moment by Owen's T.

    E[erf(x)²] is the probability that two standard Gaussians of correlation 2v / (1 + 2v) agree
    in sign with their thresholds, 1 - 8 T(h, 1 / sqrt(1 + 4v)), h = m sqrt(2 / (1 + 2v)).
    """
    h = m * jnp.sqrt(2.0 / (1.0 + 2.0 * v))
    mean = jax.scipy.special.erf(h / jnp.sqrt(2.0))
    second = 1.0 - 8.0 * _owens_t(h, 1.0 / jnp.sqrt(1.0 + 4.0 * v))
    return Gaussian(mean, jnp.maximum(second - mean**2, 0.0))


def _owens_t(h: Float[Array, "..."], a: Float[Array, "..."]) -> Float[Array, "..."]:
    """T(h, a) for 0 <= a <= 1 by 20-point Gauss-Legendre quadrature of its definition."""
    nodes, weights = np.polynomial.legendre.leggauss(20)

    def integrand(x: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.exp(-0.5 * h * h * (1.0 + x * x)) / (1.0 + x * x)

    halves = 0.5 * (1.0 + nodes)
    terms = (w * integrand(a * half) for w, half in zip(weights, halves, strict=True))
    return 0.5 * a / (2.0 * jnp.pi) * sum(terms, start=jnp.zeros_like(a))
