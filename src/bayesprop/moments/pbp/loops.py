"""Forward and backward through the layers of the compiled engine, one datum at a time.

Hernández-Lobato & Adams (2015), eq. 13-17 and 6-7; supplement eq. 15-22. A layer whose inputs have
mean z and variance v_z computes, with s = 1/sqrt(number of inputs, bias included),

    m_a = s sum m z        v_a = s^2 sum (m^2 v_z + v (z^2 + v_z))

so that a weight into a unit with d log Z / d (m_a, v_a) = (g_m, g_v) has, for step = s g_m and
bend = 2 s^2 g_v,

    d log Z / d m = step z + bend v_z m        2 d log Z / d v = bend (z^2 + v_z)

The weights of all layers lie one after another, the bias last of the inputs: of a hidden layer as
(inputs, units), of the last as (outputs, inputs), so that loops run over neighbours. A hidden layer
computes `BLOCK` units at a time, and keeps of each block eight quantities, `BLOCK` numbers each.
It is filled up with units of which nothing is known or asked to a multiple of eight, so that loops
need no remainder.
"""

from __future__ import annotations

import math

from bayesprop.moments.pbp.fast_math import relu_moments
from bayesprop.moments.pbp.state import BLOCK, N_IN, N_OUT, N_QUANTITIES, UNITS, WEIGHTS, WIDTH
from bayesprop.numerics.compiled import inlined, summing

_AREA = N_QUANTITIES * BLOCK
# Where the quantities of a block are: moments of the units, slopes of mean and variance by those
# before the ReLU, and d log Z by the units' moments, in the end step and bend of the weights.
_Z_M, _Z_V, _DM_DM, _DM_DV, _DV_DM, _DV_DV, _G_M, _G_V = range(0, _AREA, BLOCK)
F_M, F_V, _SLOPE, _BEND = range(4)
"""Rows of `outputs`: moments of the outputs, d log Z by these."""
_MOST = 2**40 - 1
M, V = range(2)
"""Rows of `weights`."""

SMALLEST_VAR = 1e-100
"""A weight whose new variance is not above this keeps its old moments (section 3.5)."""
_LARGEST_SLOPE_SQUARED = 1e200


@inlined
def layer_of(layers, depth):
    """Return a row of `layers`, in a way that tells the compiler that nothing in it is negative.

    Else every innermost loop would ask whether its indices count from an array's end.
    """
    n_in, n_out = layers[depth, N_IN] & _MOST, layers[depth, N_OUT] & _MOST
    width, start = layers[depth, WIDTH] & _MOST, layers[depth, WEIGHTS] & _MOST
    return n_in, n_out, width, start, layers[depth, UNITS] & _MOST


@summing
def _activate(units, start, n):
    """Replace the pre-activations of a block by the ReLU's moments and slopes."""
    at = start & _MOST
    for i in range(min(n, BLOCK)):
        j = at + i
        relu = relu_moments(units[j + _Z_M], units[j + _Z_V])
        units[j + _Z_M], units[j + _Z_V] = relu.m, relu.v
        units[j + _DM_DM], units[j + _DM_DV] = relu.dm_dm, relu.dm_dv
        units[j + _DV_DM], units[j + _DV_DV] = relu.dv_dm, relu.dv_dv


@summing
def propagate(layers, weights, units, outputs, x, row):
    """Send x[row] through all layers (eq. 13-17)."""
    last = layers.shape[0] - 1
    for depth in range(last):
        n_in, _, width, start, before = layer_of(layers, depth)
        after = layers[depth + 1, UNITS] & _MOST
        scale = 1.0 / math.sqrt(n_in + 1.0)
        for first in range(0, width, BLOCK):
            n, at = min(BLOCK, width - first), after + first * N_QUANTITIES
            bias = start + n_in * width + first
            for j in range(n):
                units[at + j + _Z_M] = weights[M, bias + j]
                units[at + j + _Z_V] = weights[V, bias + j]
            for i in range(n_in):
                place = (start + i * width + first) & _MOST
                if depth == 0:  # certain inputs
                    z, square = x[row, i], x[row, i] * x[row, i]
                    for j in range(n):
                        units[at + j + _Z_M] += weights[M, place + j] * z
                        units[at + j + _Z_V] += weights[V, place + j] * square
                else:
                    unit = before + i // BLOCK * _AREA + i % BLOCK
                    z, v_z = units[unit + _Z_M], units[unit + _Z_V]
                    square = z * z + v_z
                    for j in range(n):
                        m = weights[M, place + j]
                        units[at + j + _Z_M] += m * z
                        units[at + j + _Z_V] += m * m * v_z + weights[V, place + j] * square
            for j in range(n):
                units[at + j + _Z_M] *= scale
                units[at + j + _Z_V] *= scale * scale
            _activate(units, at, n)
    n_in, n_out, _, at, before = layer_of(layers, last)
    scale = 1.0 / math.sqrt(n_in + 1.0)
    for k in range(n_out):
        m_a, v_a = weights[M, at + n_in], weights[V, at + n_in]
        if last == 0:
            for i in range(n_in):
                m_a += weights[M, at + i] * x[row, i]
                v_a += weights[V, at + i] * (x[row, i] * x[row, i])
        for first in range(0, n_in if last > 0 else 0, BLOCK):
            unit, place = before + first * N_QUANTITIES, (at + first) & _MOST
            for i in range(min(BLOCK, n_in - first)):
                m, v = weights[M, place + i], weights[V, place + i]
                z, v_z = units[unit + i + _Z_M], units[unit + i + _Z_V]
                m_a += m * z
                v_a += m * m * v_z + v * (z * z + v_z)
        outputs[F_M, k], outputs[F_V, k] = scale * m_a, scale * scale * v_a
        at += n_in + 1


@inlined
def set_output_gradient(outputs, k, slope, curve):
    """Hand the gradient of log Z by output k to the layers; curve: slope² - 2 d log Z / dv."""
    if not slope * slope < _LARGEST_SLOPE_SQUARED:
        slope = math.nan  # so that every weight is undone: nothing overflows to infinity
    outputs[_SLOPE, k], outputs[_BEND, k] = slope, 0.5 * (slope * slope - curve)


@inlined
def _moved(weights, place, m, v, m_new, v_new):
    """Write what a weight becomes, or leave it where that is invalid; return 1 if it was left."""
    good = v_new > SMALLEST_VAR
    weights[M, place] = m_new if good else m
    weights[V, place] = v_new if good else v
    left = 0 if good else 1
    return left


@inlined
def _absorbed(weights, place, step, bend, z, v_z):
    """Update a weight by eq. 6 and 7."""
    m, v = weights[M, place], weights[V, place]
    shift = v * (step * z + bend * m * v_z)
    v_new = v + v * v * (bend * (z * z + v_z)) - shift * shift
    return _moved(weights, place, m, v, m + shift, v_new)


@summing
def absorb(layers, weights, units, outputs, x, row):
    """Absorb the gradient of log Z by the outputs at x[row]; return how many weights were left."""
    last, undone = layers.shape[0] - 1, 0
    n_in, n_out, _, at, before = layer_of(layers, last)
    scale = 1.0 / math.sqrt(n_in + 1.0)
    for k in range(n_out):
        step, bend = scale * outputs[_SLOPE, k], 2.0 * scale * scale * outputs[_BEND, k]
        undone += _absorbed(weights, at + n_in, step, bend, 1.0, 0.0)
        if last == 0:
            for i in range(n_in):
                undone += _absorbed(weights, at + i, step, bend, x[row, i], 0.0)
        for first in range(0, n_in if last > 0 else 0, BLOCK):
            unit, place = before + first * N_QUANTITIES, (at + first) & _MOST
            for i in range(min(BLOCK, n_in - first)):
                m, v = weights[M, place + i], weights[V, place + i]
                z, v_z = units[unit + i + _Z_M], units[unit + i + _Z_V]
                g_m, g_v = units[unit + i + _G_M], units[unit + i + _G_V]
                g_m, g_v = g_m if k > 0 else 0.0, g_v if k > 0 else 0.0
                units[unit + i + _G_M] = g_m + m * step + z * (v * bend)
                units[unit + i + _G_V] = g_v + (0.5 * bend) * (m * m + v)
                undone += _absorbed(weights, place + i, step, bend, z, v_z)
        at += n_in + 1
    for depth in range(last - 1, -1, -1):
        n_in, _, width, start, before = layer_of(layers, depth)
        after = layers[depth + 1, UNITS] & _MOST
        scale = 1.0 / math.sqrt(n_in + 1.0)
        for first in range(0, width, BLOCK):
            n, at = min(BLOCK, width - first), after + first * N_QUANTITIES
            for j in range(n):
                unit = at + j
                by_m, by_v = units[unit + _G_M], units[unit + _G_V]
                grad_m = by_m * units[unit + _DM_DM] + by_v * units[unit + _DV_DM]
                grad_v = by_m * units[unit + _DM_DV] + by_v * units[unit + _DV_DV]
                units[unit + _G_M], units[unit + _G_V] = (
                    scale * grad_m,
                    2.0 * scale * scale * grad_v,
                )
            for i in range(n_in + 1):
                place = (start + i * width + first) & _MOST
                if depth == 0:
                    z = x[row, i] if i < n_in else 1.0
                    for j in range(n):
                        step, bend = units[at + j + _G_M], units[at + j + _G_V]
                        m, v = weights[M, place + j], weights[V, place + j]
                        shift = v * z
                        v_new = v + shift * shift * (bend - step * step)
                        undone += _moved(weights, place + j, m, v, m + shift * step, v_new)
                    continue
                unit = before + i // BLOCK * _AREA + i % BLOCK
                z, v_z = (units[unit + _Z_M], units[unit + _Z_V]) if i < n_in else (1.0, 0.0)
                by_m, by_v, by_mm = 0.0, 0.0, 0.0
                for j in range(n):
                    m, v = weights[M, place + j], weights[V, place + j]
                    step, bend = units[at + j + _G_M], units[at + j + _G_V]
                    undone += _absorbed(weights, place + j, step, bend, z, v_z)
                    by_m += m * step
                    by_v += v * bend
                    by_mm += m * m * bend
                if i < n_in:
                    g_m, g_v = (units[unit + _G_M], units[unit + _G_V]) if first > 0 else (0.0, 0.0)
                    units[unit + _G_M] = g_m + by_m + z * by_v
                    units[unit + _G_V] = g_v + 0.5 * (by_mm + by_v)
    return undone
