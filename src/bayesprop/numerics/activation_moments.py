"""Mean and variance of a nonlinearity of a Gaussian; one function a rule.

Every rule takes the mean m and variance v of the input and returns those of the output.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erfc
from jaxtyping import Array, Float
from scipy import special

from bayesprop.numerics.gaussian import Gaussian

_TAIL_FROM = 5.0
_TAIL_DEPTH = 40
_SQRT_2PI = 2.5066282746310002
_FURTHEST = 12.0  # phi(12) = 2e-32 is still a normal float32
_CENTRE = 3.0
# Inputs that are certain, as those of a unit that lost all its weights, divide by no zero.
_LEAST_STD_64, _LEAST_VAR_32 = 1e-100, 1e-30


def relu(m: Float[Array, "..."], v: Float[Array, "..."]) -> Gaussian:
    """Rectified linear unit: `relu_float64`, or `relu_float32` where m and v are float32."""
    is_double = jnp.result_type(m, v) == jnp.float64
    return relu_float64(m, v) if is_double else relu_float32(m, v)


def _tail_integrals(t: Float[Array, "..."]) -> tuple[Array, Array]:
    """Return E[(x - t)+] and E[(x - t)+²] / 2 of a standard Gaussian x, for t >= 5.

    Iterated integrals of the density over [t, inf), by the continued fraction of their ratios,
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
    return upper * r_1, upper * r_1 * r_2


@jax.custom_jvp
def relu_float64(m: Float[Array, "..."], v: Float[Array, "..."]) -> Gaussian:
    """Moments of max(0, a), a ~ N(m, v), accurate relative to the result, far into the tail.

    Hernández-Lobato & Adams (2015), eq. 15-16, without cancellation.

    With a = m / sqrt(v): mean = m Phi(a) + sqrt(v) phi(a),
    variance = v [Phi + a² Phi Q + a phi (Q - Phi) - phi²], Q = Phi(-a).
    """
    std = jnp.sqrt(v)
    a = m / jnp.maximum(std, _LEAST_STD_64)
    bell = _exact_bell(a)
    mean, share = m * bell.lower + std * bell.density, _relu_share(a, bell)
    first, half_second = _tail_integrals(jnp.maximum(-a, _TAIL_FROM))
    in_tail = a < -_TAIL_FROM
    return Gaussian(
        jnp.where(in_tail, std * first, mean),
        v * jnp.where(in_tail, 2.0 * half_second - first**2, jnp.maximum(share, 0.0)),
    )


@relu_float64.defjvp
def _relu_float64_jvp(primals: tuple, tangents: tuple) -> tuple[Gaussian, Gaussian]:
    m, v = primals
    std = jnp.maximum(jnp.sqrt(v), _LEAST_STD_64)
    out, bell = relu_float64(m, v), _exact_bell(m / std)
    return out, _relu_tangent(out.m, bell, bell.density / std, *tangents)


@jax.custom_jvp
def relu_float32(m: Float[Array, "..."], v: Float[Array, "..."]) -> Gaussian:
    """Moments of max(0, a), a ~ N(m, v), to float32's accuracy relative to v.

    Fast enough for a training step, which needs no more of the lower tail: one exponential, and no
    branch.
    """
    return _quick_relu(m, v)[0]


def _quick_relu(m: Array, v: Array) -> tuple[Gaussian, Callable[[Array, Array], Gaussian]]:
    """Return the moments, and how they change with those of the input."""
    # sqrt(1 / v): XLA turns m / sqrt(v) into a reciprocal square root that it cannot vectorise.
    per_std = jnp.sqrt(1.0 / jnp.maximum(v, _LEAST_VAR_32))
    a = m * per_std
    bell = _quick_bell(a)
    mean = m * bell.lower + v * per_std * bell.density
    moments = Gaussian(jnp.maximum(mean, 0.0), v * jnp.maximum(_relu_share(a, bell), 0.0))
    return moments, partial(_relu_tangent, mean, bell, bell.density * per_std)


@relu_float32.defjvp
def _relu_float32_jvp(primals: tuple, tangents: tuple) -> tuple[Gaussian, Gaussian]:
    out, tangent = _quick_relu(*primals)
    return out, tangent(*tangents)


def _relu_tangent(mean: Array, bell: _Bell, peak: Array, dm: Array, dv: Array) -> Gaussian:
    """Change of mean and variance; peak is the density of the input at the kink."""
    d_mean = bell.lower * dm + 0.5 * peak * dv
    return Gaussian(d_mean, 2.0 * mean * bell.upper * dm + (bell.lower - mean * peak) * dv)


def _mills_polynomial(degree: int) -> tuple[float, ...]:
    """Fit (1 + u) Q(u) exp(u² / 2), u >= 0, by a polynomial in (u - c) / (u + c), c = 3."""
    t = np.cos(np.pi * (np.arange(400) + 0.5) / 400.0)
    u = _CENTRE * (1.0 + t) / (1.0 - t)
    values = 0.5 * (1.0 + u) * special.erfcx(u / np.sqrt(2.0))
    fitted = np.polynomial.chebyshev.chebfit(t, values, degree)
    return tuple(float(c) for c in np.polynomial.chebyshev.cheb2poly(fitted))


_MILLS = _mills_polynomial(9)


class _Bell(NamedTuple):
    density: Array
    lower: Array
    upper: Array


def _relu_share(a: Float[Array, "..."], bell: _Bell) -> Float[Array, "..."]:
    """Variance of max(0, a + e), e ~ N(0, 1)."""
    density, lower, upper = bell
    return lower + a * a * lower * upper + a * density * (upper - lower) - density * density


def _exact_bell(a: Float[Array, "..."]) -> _Bell:
    root_2 = jnp.sqrt(2.0)
    density = jnp.exp(-0.5 * a * a) / _SQRT_2PI
    return _Bell(density, 0.5 * erfc(-a / root_2), 0.5 * erfc(a / root_2))


def _quick_bell(a: Float[Array, "..."]) -> _Bell:
    """Compute phi(a), Phi(a), Q(a) from one exponential: erfc costs four times as much."""
    u = jnp.minimum(jnp.abs(a), _FURTHEST)
    t = (u - _CENTRE) / (u + _CENTRE)
    ratio = jnp.full_like(t, _MILLS[-1])
    for coefficient in _MILLS[-2::-1]:
        ratio = ratio * t + coefficient
    peak = jnp.exp(-0.5 * u * u)
    tail = peak * ratio / (1.0 + u)
    upper = jnp.where(a > 0.0, tail, 1.0 - tail)
    return _Bell(peak / _SQRT_2PI, 1.0 - upper, upper)


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


def sign(m: Float[Array, "..."], v: Float[Array, "..."]) -> Gaussian:
    """Sign, 1 or -1: mean 2 Phi(m / sqrt(v)) - 1, variance 1 - mean², without cancellation."""
    z = m / jnp.sqrt(2.0 * v)
    return Gaussian(jax.scipy.special.erf(z), erfc(z) * erfc(-z))
