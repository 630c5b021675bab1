"""Formulas of float32 numbers, for compiled loops: exponential, logarithm, moments of rectifiers.

To a few units in the last place, without branches. NaN goes in and comes out. All constants are
float32: one float64 among them would make float64 of all that follows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import types
from numpy.polynomial import Chebyshev, Polynomial
from scipy import special

from bayesprop.numerics.compiled import Numba, inlined, intrinsic

_single = np.float32

ZERO, HALF, ONE, TWO = (_single(c) for c in (0.0, 0.5, 1.0, 2.0))
_THREE, _SIX, _ONE_AND_HALF = (_single(c) for c in (3.0, 6.0, 1.5))
_LN_2_HIGH, _LN_2_LOW = _single(0.693359375), _single(np.log(2.0) - 0.693359375)
_PER_LN_2, _PER_SQRT_2PI = _single(1.0 / np.log(2.0)), _single(1.0 / np.sqrt(2.0 * np.pi))
_ROUND = _single(1.5 * 2.0**23)  # added and taken away again: the nearest whole number
_LARGEST, _LEAST = _single(88.0), _single(-87.0)
_FURTHEST = _single(6.0)  # standard deviations, of which phi = 6e-9
_CENTRE = 3.0
_SQRT_HALF_BITS, _ROOT_BITS = np.int32(_single(np.sqrt(0.5)).view(np.int32)), np.int32(0x5F3759DF)
_FRACTION = np.int32(23)  # bits


def _fitted(function: Callable, low: float, high: float, degree: int) -> tuple[np.float32, ...]:
    """Interpolate at Chebyshev nodes; coefficients of a polynomial, the highest power first."""
    fit = Chebyshev.interpolate(function, degree, [low, high]).convert(kind=Polynomial)
    return tuple(_single(c) for c in fit.coef[::-1])


def _mills(t: np.ndarray) -> np.ndarray:
    """(u + c) Q(u) exp(u² / 2) as a function of t = (u - c) / (u + c), -1 <= t < 1."""
    u = _CENTRE * (1.0 + t) / (1.0 - t)
    return 0.5 * (u + _CENTRE) * special.erfcx(u / np.sqrt(2.0))


_LAST_T = float((_FURTHEST - _CENTRE) / (_FURTHEST + _CENTRE))
_EXP_NEAR_0 = _fitted(np.exp, -0.35, 0.35, 6)
_LOG_NEAR_1 = _fitted(lambda x: (np.log1p(x) - x + 0.5 * x * x) / x**3, -0.293, 0.415, 9)
_MILLS_NEAR_C = _fitted(_mills, -1.0, _LAST_T, 9)


@intrinsic
def _bits(_context: Numba, _x: Numba) -> Numba:
    """Return the bits of a float32 as an int32."""
    return types.int32(types.float32), lambda _c, b, _s, given: b.bitcast(given[0], ir.IntType(32))


@intrinsic
def _number(_context: Numba, _bits: Numba) -> Numba:
    """Undo `_bits`."""
    return types.float32(types.int32), lambda _c, b, _s, given: b.bitcast(given[0], ir.FloatType())


@inlined
def exp(x):
    """e^x, x taken for -87 or 88 beyond them."""
    x = _LARGEST if x > _LARGEST else x
    x = _LEAST if x < _LEAST else x
    shifted = x * _PER_LN_2 + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN_2_HIGH) - k * _LN_2_LOW
    value = ZERO
    for c in _EXP_NEAR_0:
        value = value * r + c
    return _number(np.int32(_bits(value) + (_bits(shifted) << _FRACTION)))


@inlined
def log(x):
    """Natural logarithm of positive, normal numbers; what it makes of others is no logarithm."""
    bits = _bits(x)
    exponent = np.int32(np.int32(bits - _SQRT_HALF_BITS) >> _FRACTION)
    k, f = _single(exponent), _number(np.int32(bits - (exponent << _FRACTION))) - ONE
    square, value = f * f, ZERO
    for c in _LOG_NEAR_1:
        value = value * f + c
    return (k * _LN_2_LOW + (value * f * square - HALF * square)) + f + k * _LN_2_HIGH


@inlined
def log1p(x):
    """log(1 + x) for x >= 0, to full relative accuracy."""
    w = x + ONE
    return log(w) + (x - (w - ONE)) / w


@inlined
def log_add_exp(a, b):
    """log(e^a + e^b)."""
    return (a if a > b else b) + log1p(exp(-abs(a - b)))


@inlined
def _bell(m, v):
    """One over the standard deviation, a = m / std, phi(a), Phi(a) and Phi(-a).

    The root by three of Newton's steps, a third of a root and a division.
    """
    half, y = HALF * v, _number(np.int32(_ROOT_BITS - (_bits(v) >> np.int32(1))))
    y = y * (_ONE_AND_HALF - half * y * y)
    y = y * (_ONE_AND_HALF - half * y * y)
    y = y * (_ONE_AND_HALF - half * y * y)
    a = m * y
    u = abs(a)
    r = ONE / (u + _THREE)
    peak = exp(-HALF * u * u)
    peak = ZERO * r if u > _FURTHEST else peak
    t, value = ONE - _SIX * r, ZERO
    for c in _MILLS_NEAR_C:
        value = value * t + c
    tail = peak * r * value
    upper = tail if a > ZERO else ONE - tail
    return y, a, peak * _PER_SQRT_2PI, ONE - upper, upper


@inlined
def relu_moments(m, v):
    """Mean and variance of max(0, a), a ~ N(m, v), and their slopes: of the mean by m and v, ...

    ... then of the variance by m and v. As `numerics.activation_moments.relu_float32`, but what is
    further than six standard deviations from the kink does not feel it: numbers that shrink from
    layer to layer would fall below the normal ones, at which processors are a hundred times slower.
    """
    per_std, a, density, lower, upper = _bell(m, v)
    mean = m * lower + v * per_std * density
    share = lower + a * a * lower * upper + a * density * (upper - lower) - density * density
    density = density * per_std
    by_m, by_v = TWO * mean * upper, lower - mean * density
    mean, share = ZERO if mean < ZERO else mean, ZERO if share < ZERO else share
    return mean, v * share, lower, HALF * density, by_m, by_v


@inlined
def soft_relu_moments(m, v, softness):
    """Do that for g(a) = E[max(0, a + sqrt(softness) e)], e ~ N(0, 1): a rectifier's round kink.

    The mean is exact, that of a rectifier at N(m, r²), r² = v + softness. The variance is the sum
    over k >= 1 of v^k E[g^(k)]² / k! (Hermite's expansion): with a = m / r and d = v / r² its first
    two terms are r² d Phi² and r² d² phi² / 2, and d³ times the rest at d = 1, where the sum is the
    rectifier's variance, stands for those beyond. Exact for softness 0 and to the second order in
    v; else too large by .003 v at most. Last comes the slope of the variance by the softness; that
    of the mean is the one by v.

    softness
        Square of the kink's width, >= 0, in the units of v.
    """
    spread = v + softness
    per_std, a, density, lower, upper = _bell(m, spread)
    mean = m * lower + spread * per_std * density
    share = lower + a * a * lower * upper + a * density * (upper - lower) - density * density
    of_line, of_bend = lower * lower, density * density
    rest = share - of_line - HALF * of_bend
    doubt = v * per_std * per_std
    square, cube = doubt * doubt, doubt * doubt * doubt
    var = v * of_line + HALF * v * doubt * of_bend + cube * spread * rest
    turn = a * lower * density
    rest_by_m = TWO * (mean * upper * per_std - lower * density) + a * of_bend
    by_m = (TWO * doubt * lower * density - a * square * of_bend + cube * rest_by_m) * (
        spread * per_std
    )
    rest_by_spread = (
        lower - mean * density * per_std - of_line + turn - HALF * of_bend * (ONE + a * a)
    )
    by_softness = HALF * square * of_bend * (a * a - ONE) - doubt * turn
    by_softness = by_softness + cube * (rest_by_spread - _THREE * rest)
    by_v = of_line + doubt * of_bend + _THREE * square * rest + by_softness
    mean, var = ZERO if mean < ZERO else mean, ZERO if var < ZERO else var
    return mean, var, lower, HALF * density * per_std, by_m, by_v, by_softness
