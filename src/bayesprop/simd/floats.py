"""Formulas of sixteen float32 at a time: exponential, logarithm, the moments of rectifiers.

To a few units in the last place, without branches. NaN goes in and comes out.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numpy.polynomial import Chebyshev, Polynomial
from scipy import special

from bayesprop.simd import hooks
from bayesprop.simd.lanes import (
    absolute,
    constant,
    emitted_by,
    inlined,
    places,
    polynomial,
    rsqrt_guess,
    scaled_by_power,
    select,
)

_LN_2_HIGH, _LN_2_LOW = 0.693359375, float(np.log(2.0) - 0.693359375)
_PER_LN_2 = float(1.0 / np.log(2.0))
_ROUND = 1.5 * 2.0**23  # added and taken away again: the nearest whole number
_LARGEST = 88.0
_PER_SQRT_2PI = float(1.0 / np.sqrt(2.0 * np.pi))
_FURTHEST = 6.0  # of which phi = 6e-9
_CENTRE = 3.0


def _fitted(function, low: float, high: float, degree: int) -> tuple[float, ...]:
    """Interpolate at Chebyshev nodes; coefficients of a polynomial, constant term first."""
    fit = Chebyshev.interpolate(function, degree, [low, high]).convert(kind=Polynomial)
    return tuple(float(c) for c in fit.coef)


def _mills(t: np.ndarray) -> np.ndarray:
    """(u + c) Q(u) exp(u² / 2) as a function of t = (u - c) / (u + c), -1 <= t < 1."""
    u = _CENTRE * (1.0 + t) / (1.0 - t)
    return 0.5 * (u + _CENTRE) * special.erfcx(u / np.sqrt(2.0))


_LAST_T = (_FURTHEST - _CENTRE) / (_FURTHEST + _CENTRE)
_exp_near_0 = polynomial(_fitted(np.exp, -0.35, 0.35, 6))
_log_near_1 = polynomial(
    _fitted(lambda x: (np.log1p(x) - x + 0.5 * x * x) / x**3, -0.293, 0.415, 9)
)
_mills_near_c = polynomial(_fitted(_mills, -1.0, _LAST_T, 9))


@emitted_by(lambda x: x(x))
def square_root(call, x):
    """Return sqrt(x), exactly rounded."""
    kind = ir.FunctionType(x.type, [x.type])
    name = f"llvm.sqrt.v{x.type.count}f32"
    return call.builder.call(hooks.intrinsic_function(call.builder, kind, name), [x])


_SQRT_HALF_BITS = int(np.float32(np.sqrt(0.5)).view(np.int32))


def _exponent(call, x):
    """Return the k, as an integer, for which x / 2^k is between sqrt(1/2) and sqrt(2)."""
    kind = call.kinds[0]
    shifted = call.builder.sub(call.bits(x), constant(kind, _SQRT_HALF_BITS))
    return call.builder.ashr(shifted, constant(kind, 23))


@emitted_by(lambda x: x(x))
def _power_of_two(call, x):
    """Return the k for which x / 2^k is between sqrt(1/2) and sqrt(2)."""
    return call.builder.sitofp(_exponent(call, x), x.type)


@emitted_by(lambda x: x(x))
def _near_1(call, x):
    """Return x / 2^k, between sqrt(1/2) and sqrt(2)."""
    exponent = call.builder.shl(_exponent(call, x), constant(call.kinds[0], 23))
    return call.floats(call.builder.sub(call.bits(x), exponent))


@inlined
def at_most(x, limit):
    """Return the lesser of two, NaN for a NaN x."""
    return select(x > limit, limit, x)


@inlined
def at_least(x, limit):
    """Return the greater of two, NaN for a NaN x."""
    return select(x < limit, limit, x)


@inlined
def exp(x):
    """e^x, x taken for -87 or 88 beyond them."""
    x = at_least(at_most(x, _LARGEST), -87.0)
    shifted = x * _PER_LN_2 + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LN_2_HIGH) - k * _LN_2_LOW
    return scaled_by_power(_exp_near_0(r), shifted)


@inlined
def log(x):
    """Natural logarithm of positive, normal numbers; what it makes of others is no logarithm."""
    k, f = _power_of_two(x), _near_1(x) - 1.0
    square = f * f
    tail = _log_near_1(f) * f * square - 0.5 * square
    return (k * _LN_2_LOW + tail) + f + k * _LN_2_HIGH


@inlined
def log1p(x):
    """log(1 + x) for x >= 0, to full relative accuracy."""
    w = x + 1.0
    return log(w) + (x - (w - 1.0)) / w


@inlined
def log_add_exp(a, b):
    """log(e^a + e^b)."""
    return select(a > b, a, b) + log1p(exp(0.0 - absolute(a - b)))


@inlined
def inverse_square_root(x):
    """1 / sqrt(x) of a positive x by three of Newton's steps, a third of a root and a division."""
    half, y = 0.5 * x, rsqrt_guess(x)
    y = y * (1.5 - half * y * y)
    y = y * (1.5 - half * y * y)
    return y * (1.5 - half * y * y)


@inlined
def _bell(a):
    """phi(a), Phi(a) and Phi(-a)."""
    u = absolute(a)
    r = 1.0 / (u + _CENTRE)
    peak = select(u > _FURTHEST, 0.0 * r, exp(-0.5 * u * u))
    tail = peak * r * _mills_near_c(1.0 - (2.0 * _CENTRE) * r)
    upper = select(a > 0.0, tail, 1.0 - tail)
    return peak * _PER_SQRT_2PI, 1.0 - upper, upper


@inlined
def relu_moments(m, v):
    """Mean and variance of max(0, a), a ~ N(m, v), and their slopes: of the mean by m and v, ...

    ... then of the variance by m and v. As `numerics.activation_moments.relu_float32`, but what is
    further than six standard deviations from the kink does not feel it: numbers that shrink from
    layer to layer would fall below the normal ones, at which processors are a hundred times slower.
    """
    per_std = inverse_square_root(v)
    a = m * per_std
    density, lower, upper = _bell(a)
    mean = m * lower + v * per_std * density
    share = lower + a * a * lower * upper + a * density * (upper - lower) - density * density
    density = density * per_std
    by_v = lower - mean * density
    by_m = 2.0 * mean * upper
    return at_least(mean, 0.0), v * at_least(share, 0.0), lower, 0.5 * density, by_m, by_v


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
    per_std = inverse_square_root(spread)
    a = m * per_std
    density, lower, upper = _bell(a)
    mean = m * lower + spread * per_std * density
    share = lower + a * a * lower * upper + a * density * (upper - lower) - density * density
    of_line, of_bend = lower * lower, density * density
    rest = share - of_line - 0.5 * of_bend
    doubt = v * per_std * per_std
    square, cube = doubt * doubt, doubt * doubt * doubt
    var = v * of_line + 0.5 * v * doubt * of_bend + cube * spread * rest
    turn = a * lower * density
    rest_by_m = 2.0 * (mean * upper * per_std - lower * density) + a * of_bend
    by_m = (2.0 * doubt * lower * density - a * square * of_bend + cube * rest_by_m) * (
        spread * per_std
    )
    rest_by_spread = (
        lower - mean * density * per_std - of_line + turn - 0.5 * of_bend * (1.0 + a * a)
    )
    by_softness = 0.5 * square * of_bend * (a * a - 1.0) - doubt * turn
    by_softness = by_softness + cube * (rest_by_spread - 3.0 * rest)
    by_v = of_line + doubt * of_bend + 3.0 * square * rest + by_softness
    half = 0.5 * density * per_std
    return at_least(mean, 0.0), at_least(var, 0.0), lower, half, by_m, by_v, by_softness


def _shuffler(first: list[int], second: list[int]):
    """Make a function that adds two choices of the lanes of a and b, those of b from 16 on."""

    @emitted_by(lambda a, b: a(a, b))
    def added(call, a, b):
        builder = call.builder
        return builder.fadd(
            builder.shuffle_vector(a, b, places(first)),
            builder.shuffle_vector(a, b, places(second)),
        )

    return added


def _halves(size: int) -> tuple[list[int], list[int]]:
    """Even and odd runs of so many lanes: of a quarter register within each quarter."""
    if size >= 4:
        first = [lane for lane in range(32) if lane // size % 2 == 0]
    else:
        order = [at + quarter + k for quarter in (0, 4, 8, 12) for at in (0, 16) for k in range(4)]
        first = [lane for lane in order if lane // size % 2 == 0]
    return first, [lane + size for lane in first]


_fold8, _fold4, _fold2, _fold1 = (_shuffler(*_halves(size)) for size in (8, 4, 2, 1))


@inlined
def _folded_quarter(a, b, c, d):
    return _fold4(_fold8(a, b), _fold8(c, d))


@inlined
def totals(a, b, c, d):
    """Return the sum over the lanes of each of four times four, in the order of the arguments."""
    (a0, a1, a2, a3), (b0, b1, b2, b3), (c0, c1, c2, c3), (d0, d1, d2, d3) = a, b, c, d
    column_0, column_1 = _folded_quarter(a0, b0, c0, d0), _folded_quarter(a1, b1, c1, d1)
    column_2, column_3 = _folded_quarter(a2, b2, c2, d2), _folded_quarter(a3, b3, c3, d3)
    return _fold1(_fold2(column_0, column_1), _fold2(column_2, column_3))


@emitted_by(lambda array, at, step, x: types.void(array, at, step, x))
def store_quarters(call, array, at, step, x):
    """Write four lanes to array[at:], the next four to array[at + step:] and so on."""
    builder, nothing = call.builder, ir.Constant(x.type, ir.Undefined)
    for k in range(4):
        quarter = builder.shuffle_vector(x, nothing, places(range(4 * k, 4 * k + 4)))
        address = builder.bitcast(call.address(array, at), quarter.type.as_pointer())
        builder.store(quarter, address, align=4)
        at = builder.add(at, step)
    return call.context.get_dummy_value()
