"""Compiled loops that train a ReLU network one datum at a time: backpropagation, and Graves' VI.

What `point_network` and `graves_vi` do with batches of one row, on squared error and on Gaussian
noise, where JAX's cost of a step is fifty times that of its arithmetic. In float32, whose rounding
is far below the noise of single rows. `online_descent.py` is the way in, and says what the
arguments are.

All layers lie in one vector, each (n_in + 1, n_out) row by row, the bias last. Inner loops run over
slices from 0, whose indices the compiler knows to be positive: others it does not vectorise.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.polynomial import Chebyshev, Polynomial

_jit: Any = njit  # whose type stubs know only a few of its options
_F, _I, _U = np.float32, np.int32, np.uint32

# Nothing that would let the compiler take numbers for finite: a fit that diverges must show it.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
_AS_WRITTEN, _IN_ANY_ORDER = {"contract"}, {"contract", "reassoc"}


def _compiled(function: Callable) -> Any:
    """Compile an entry point at its first call; keep the result on disk where a folder allows."""
    options = {"fastmath": _IN_ANY_ORDER, "no_cfunc_wrapper": True, **_OPTIONS}
    try:
        return _jit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder that it may write to
        return _jit(**options)(function)


def _inlined(function: Callable) -> Any:
    return _jit(forceinline=True, fastmath=_IN_ANY_ORDER, **_OPTIONS)(function)


def _formula(function: Callable) -> Any:
    return _jit(forceinline=True, fastmath=_AS_WRITTEN, **_OPTIONS)(function)


def _fitted(function: Callable, low: float, high: float, degree: int) -> tuple[np.float32, ...]:
    """Interpolate at Chebyshev nodes; coefficients of a polynomial, constant term first."""
    found = Chebyshev.interpolate(function, degree, [low, high]).convert(kind=Polynomial)
    return tuple(np.float32(c) for c in found.coef)


def _series(function: Callable, removed: Callable, power: int) -> Callable:
    """(f(x) - removed(x)) / x^power, whose value at 0 no node needs."""
    return lambda x: (function(x) - removed(x)) / x**power


_EXP = _fitted(_series(np.exp, lambda x: 1.0 + x, 2), -0.36, 0.36, 5)
_LOG = _fitted(_series(np.log1p, lambda x: x - 0.5 * x * x, 3), -0.293, 0.415, 9)
_SINE = _fitted(lambda u: np.sin(2 * np.pi * np.sqrt(u)) / np.sqrt(u), 0.0, 0.25, 6)
_COSINE = _fitted(lambda u: np.cos(2 * np.pi * np.sqrt(u)), 0.0, 0.25, 6)
_LN_2_HIGH, _LN_2_LOW = _F(0.693359375), _F(np.log(2.0) - 0.693359375)
_SQRT_HALF_BITS = int(np.float32(np.sqrt(0.5)).view(np.int32))


@intrinsic
def _bits(_typingctx, x):
    def generate(_context, builder, _signature, args):
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(x), generate


@intrinsic
def _float(_typingctx, bits):
    def generate(_context, builder, _signature, args):
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(bits), generate


@_formula
def exp32(x):
    """e^x, x taken for -87 or 87 beyond them, NaN for -87."""
    x = x if x > _F(-87.0) else _F(-87.0)
    x = x if x < _F(87.0) else _F(87.0)
    k = _I(_I(x * _F(1.44269504) + _F(1024.5)) - _I(1024))
    r = (x - _F(k) * _LN_2_HIGH) - _F(k) * _LN_2_LOW
    p = _EXP[5] * r + _EXP[4]
    p = p * r + _EXP[3]
    p = p * r + _EXP[2]
    p = p * r + _EXP[1]
    p = p * r + _EXP[0]
    return (p * r * r + r + _F(1.0)) * _float(_I((k + _I(127)) << _I(23)))


@_formula
def log32(x):
    """Natural logarithm of a positive, normal number."""
    shifted = _I(_bits(x) - _I(_SQRT_HALF_BITS))
    k = _I(shifted >> _I(23))
    f = _float(_I(_I(shifted & _I(0x7FFFFF)) + _I(_SQRT_HALF_BITS))) - _F(1.0)
    p = _LOG[9] * f + _LOG[8]
    p = p * f + _LOG[7]
    p = p * f + _LOG[6]
    p = p * f + _LOG[5]
    p = p * f + _LOG[4]
    p = p * f + _LOG[3]
    p = p * f + _LOG[2]
    p = p * f + _LOG[1]
    p = p * f + _LOG[0]
    square = f * f
    tail = p * f * square - _F(0.5) * square
    return (_F(k) * _LN_2_LOW + tail) + f + _F(k) * _LN_2_HIGH


@_formula
def _sextic(c, s):
    """Sum of c[k] s^k for k up to 6."""
    p = c[6] * s + c[5]
    p = p * s + c[4]
    p = p * s + c[3]
    p = p * s + c[2]
    p = p * s + c[1]
    return p * s + c[0]


@_formula
def _sine(u):
    """sin(2 pi u) for |u| <= 1/2."""
    return u * _sextic(_SINE, u * u)


@_formula
def _cosine(u):
    """cos(2 pi u) for |u| <= 1/2."""
    return _sextic(_COSINE, u * u)


@_formula
def _rounds(x, y, a, b, c, d):
    """Four rounds of Threefry-2x32; the words x and y in one, x the upper half."""
    for turn in (a, b, c, d):
        x = _U(x + y)
        y = _U(_U(_U(y << _U(turn)) | _U(y >> _U(32 - turn))) ^ x)
    return x, y


@_compiled
def fill_normals(key, step, out):
    """Write N(0, 1) to `out`, an even number: Threefry-2x32-13 and Box & Muller (1958).

    The counter is (pair, step); as `numerics.fast_normal`, which says why.
    """
    half = out.size // 2
    first, second = out[:half], out[half:]
    k0, k1 = _U(key[0]), _U(key[1])
    k2 = _U(_U(k0 ^ k1) ^ _U(0x1BD11BDA))
    late = _U(_U(step) + k1)
    for i in range(half):
        x, y = _rounds(_U(_U(i) + k0), late, 13, 15, 26, 6)
        x, y = _rounds(_U(x + k1), _U(_U(y + k2) + _U(1)), 17, 29, 16, 24)
        x, y = _rounds(_U(x + k2), _U(_U(y + k0) + _U(2)), 13, 15, 26, 6)
        x, y = _U(x + k0), _U(_U(y + k1) + _U(3))
        x = _U(x + y)
        y = _U(_U(_U(y << _U(17)) | _U(y >> _U(15))) ^ x)
        u = (_F(_I(x >> _U(9))) + _F(0.5)) * _F(2.0**-23)
        v = _F(_I(y >> _U(9))) * _F(2.0**-23) - _F(0.5)
        radius = np.sqrt(_F(-2.0) * log32(u))
        first[i] = radius * _cosine(v)
        second[i] = radius * _sine(v)


@_inlined
def _forward(w, sizes, scales, x, z):
    """Fill z, the inputs of all layers times the layers' scales, biases' among them; the output."""
    d = x.size
    for i in range(d):
        z[i] = scales[0] * x[i]
    z[d] = scales[0]
    last, at, w_at, f = sizes.size - 2, 0, 0, _F(0.0)
    for layer in range(last):
        n_in, n_out = sizes[layer] + 1, sizes[layer + 1]
        inputs, out = z[at : at + n_in], z[at + n_in : at + n_in + n_out]
        bias = w[w_at + (n_in - 1) * n_out : w_at + n_in * n_out]
        for j in range(n_out):
            out[j] = inputs[n_in - 1] * bias[j]
        for i in range(n_in - 1):
            row, value = w[w_at + i * n_out : w_at + (i + 1) * n_out], inputs[i]
            if value != _F(0.0):
                for j in range(n_out):
                    out[j] += value * row[j]
        scale = scales[layer + 1]
        for j in range(n_out):
            # A NaN stays one.
            out[j] = _F(0.0) if out[j] < _F(0.0) else scale * out[j]
        at += n_in
        z[at + n_out] = scale
        w_at += n_in * n_out
    n_in = sizes[last] + 1
    inputs, row = z[at : at + n_in], w[w_at : w_at + n_in]
    for i in range(n_in):
        f += inputs[i] * row[i]
    return f


@_inlined
def _slopes_of_inputs(row, slopes):
    """Slope of the loss in one unit's output."""
    total = _F(0.0)
    for j in range(row.size):
        total += row[j] * slopes[j]
    return total


@_inlined
def _backward(w, sizes, scales, z, slope, slopes):
    """Fill `slopes`, of the loss in all units before their nonlinearity, laid out as z is."""
    last = sizes.size - 2
    at, w_at = z.size, w.size
    for layer in range(last, 0, -1):
        n_in, n_out = sizes[layer] + 1, sizes[layer + 1]
        w_at -= n_in * n_out
        after, at = at, at - n_in
        inputs, found = z[at : at + n_in], slopes[at : at + n_in]
        scale = scales[layer]
        if layer == last:
            row = w[w_at : w_at + n_in]
            for i in range(n_in - 1):
                found[i] = scale * slope * row[i] if inputs[i] > _F(0.0) else _F(0.0)
        else:
            above = slopes[after : after + n_out]
            for i in range(n_in - 1):
                if inputs[i] > _F(0.0):
                    row = w[w_at + i * n_out : w_at + (i + 1) * n_out]
                    found[i] = scale * _slopes_of_inputs(row, above)
                else:
                    found[i] = _F(0.0)


@_compiled
def predict_rows(w, sizes, scales, x, z, out):
    """Write the network's output at every row."""
    for t in range(x.shape[0]):
        out[t] = _forward(w, sizes, scales, x[t], z)


@_inlined
def _descend(w, velocity, value, slopes, step, momentum, decay):
    """Move the weights of one input, whose gradient is value times slopes."""
    for j in range(w.size):
        velocity[j] = momentum * velocity[j] - step * (value * slopes[j] + decay * w[j])
        w[j] += velocity[j]


@_compiled
def point_epoch(w, velocity, sizes, scales, x, y, order, rates, z, slopes):
    """Descend (y - f)² / 2 + weight decay, row by row; return the sum of squared errors."""
    step, momentum, decay = rates[0], rates[1], rates[2]
    last = sizes.size - 2
    total = 0.0
    for t in range(order.size):
        row = order[t]
        slope = _forward(w, sizes, scales, x[row], z) - y[row]
        total += np.float64(slope) * np.float64(slope)
        _backward(w, sizes, scales, z, slope, slopes)
        at, w_at = 0, 0
        for layer in range(last):
            n_in, n_out = sizes[layer] + 1, sizes[layer + 1]
            inputs = z[at : at + n_in]
            at += n_in
            above = slopes[at : at + n_out]
            for i in range(n_in):
                begin = w_at + i * n_out
                part = slice(begin, begin + n_out)
                _descend(w[part], velocity[part], inputs[i], above, step, momentum, decay)
            w_at += n_in * n_out
        _descend(w[w_at:], velocity[w_at:], slope, z[at:], step, momentum, decay)
    return total


@_formula
def softplus32(e):
    """log(1 + e) for e > 0, the exponential of what the softplus is of."""
    near_zero = e * (_F(1.0) - e * (_F(0.5) - e * _F(1.0 / 3.0)))
    return near_zero if e < _F(0.01) else log32(_F(1.0) + e)


@_inlined
def _draw(m, rho, normals, std, sigmoid, w, prior):
    """Draw the weights w; write the prior that is nearest to q, its mean and variance.

    Several loops over few arrays: of many, the compiler cannot check that they do not overlap.
    """
    of_m, of_squares, of_variances = _F(0.0), _F(0.0), _F(0.0)
    for i in range(rho.size):
        e = exp32(rho[i])
        value = softplus32(e)
        std[i] = value
        sigmoid[i] = e / (_F(1.0) + e)
        of_variances += value * value
    for i in range(m.size):
        of_m += m[i]
        of_squares += m[i] * m[i]
        w[i] = m[i] + std[i] * normals[i]
    count = _F(m.size)
    mean = of_m / count
    prior[0] = mean
    prior[1] = (of_squares + of_variances) / count - mean * mean


@_inlined
def _fill_gradient(sizes, z, slope, slopes, out):
    """Write the gradient of the loss in all weights."""
    last, at, w_at = sizes.size - 2, 0, 0
    for layer in range(last):
        n_in, n_out = sizes[layer] + 1, sizes[layer + 1]
        inputs = z[at : at + n_in]
        at += n_in
        above = slopes[at : at + n_out]
        for i in range(n_in):
            row, value = out[w_at + i * n_out : w_at + (i + 1) * n_out], inputs[i]
            for j in range(n_out):
                row[j] = value * above[j]
        w_at += n_in * n_out
    inputs, row = z[at:], out[w_at:]
    for i in range(inputs.size):
        row[i] = slope * inputs[i]


@_inlined
def _descend_in_q(m, rho, velocity_m, velocity_rho, std, sigmoid, g, prior, share, step, momentum):
    """Move the posterior; `sigmoid` is lost."""
    pull, prior_mean = share / prior[1], prior[0]
    for i in range(g.size):
        slope = g[i]
        of_std = slope * slope * std[i] + pull * std[i] - share / std[i]
        sigmoid[i] = step * sigmoid[i] * of_std
    for i in range(rho.size):
        moved = momentum * velocity_rho[i] - sigmoid[i]
        velocity_rho[i] = moved
        rho[i] += moved
    for i in range(m.size):
        moved = momentum * velocity_m[i] - step * (g[i] + pull * (m[i] - prior_mean))
        velocity_m[i] = moved
        m[i] += moved


@_compiled
def graves_epoch(
    m, rho, velocity_m, velocity_rho, noise, sizes, scales, x, y, order, rates, key, first_step,
    z, slopes, normals, std, sigmoid, w, g, prior
):  # fmt: skip
    """Descend Graves' bound row by row; return the sum of -log p(y | w), nats.

    noise
        Log of the noise variance, and its velocity.
    first_step
        How many steps have been taken: no two draw the same weights.
    """
    step, momentum = rates[0], rates[1]
    share = _F(1.0) / _F(order.size)
    total = 0.0
    for t in range(order.size):
        row = order[t]
        fill_normals(key, first_step + t, normals)
        _draw(m, rho, normals, std, sigmoid, w, prior)
        error = _forward(w, sizes, scales, x[row], z) - y[row]
        slope = exp32(-noise[0]) * error
        total += 0.5 * (np.log(2.0 * np.pi) + noise[0] + np.float64(slope) * np.float64(error))
        _backward(w, sizes, scales, z, slope, slopes)
        _fill_gradient(sizes, z, slope, slopes, g)
        _descend_in_q(
            m, rho, velocity_m, velocity_rho, std, sigmoid, g, prior, share, step, momentum
        )
        noise[1] = momentum * noise[1] - step * _F(0.5) * (_F(1.0) - slope * error)
        noise[0] += noise[1]
    return total
