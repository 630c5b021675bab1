"""Forward and backward through the layers of the compiled engine, one datum at a time.

Hernández-Lobato & Adams (2015), eq. 13-17 and 6-7; supplement eq. 15-22. A layer whose inputs have
mean z and variance v_z computes, with s = 1/sqrt(number of inputs, bias included),

    m_a = s sum m z        v_a = s^2 sum (m^2 v_z + v (z^2 + v_z))

so that a weight into a unit with d log Z / d (m_a, v_a) = (g_m, g_v) has, for step = s g_m and
bend = 2 s^2 g_v,

    d log Z / d m = step z + bend v_z m        2 d log Z / d v = bend (z^2 + v_z)

The weights of all layers lie one after another, the bias last of the inputs: of a hidden layer as
(inputs, units), of the last as (outputs, inputs), so that loops run over neighbours. A hidden layer
computes `BLOCK` units at a time, and keeps of each block nine quantities, `BLOCK` numbers each.
It is filled up with units of which nothing is known or asked to a multiple of eight, so that loops
need no remainder. The bias is an input of mean 1 and variance 0, and what is sent through the
layers is kept as the inputs of the first.
"""

from __future__ import annotations

import math

from bayesprop.moments.pbp.state import BLOCK, N_IN, N_OUT, N_QUANTITIES, UNITS, WEIGHTS, WIDTH
from bayesprop.numerics.compiled import called, disjoint, inlined, summing
from bayesprop.numerics.fast_math import relu_moments

_AREA = N_QUANTITIES * BLOCK
# Where the quantities of a block are: moments of the units, slopes of mean and variance by those
# before the ReLU, d log Z by the units' moments, in the end step and bend of the weights, and the
# variance before the ReLU, not scaled.
_Z_M, _Z_V, _DM_DM, _DM_DV, _DV_DM, _DV_DV, _G_M, _G_V, _VAR = range(0, _AREA, BLOCK)
_CURVE = _DM_DM  # in the end bend - step²
F_M, F_V, _SLOPE, _BEND = range(4)
"""Rows of `outputs`: moments of the outputs, d log Z by these."""
_MOST = 2**40 - 1
M, V = range(2)
"""Rows of `Packed.weights`."""

SMALLEST_VAR = 1e-100
"""A weight whose new variance is not above this keeps its old moments (section 3.5)."""
_LARGEST_SLOPE_SQUARED = 1e200
_MOST_LOST = 0.99  # share of a variance, beyond which each weight is looked at before it moves
_LEAST_VAR = 1e-90  # below which it is, too


@inlined
def layer_of(layers, depth):
    """Return a row of `layers`, in a way that tells the compiler that nothing in it is negative.

    Else every innermost loop would ask whether its indices count from an array's end.
    """
    n_in, n_out = layers[depth, N_IN] & _MOST, layers[depth, N_OUT] & _MOST
    width, start = layers[depth, WIDTH] & _MOST, layers[depth, WEIGHTS] & _MOST
    return n_in, n_out, width, start, layers[depth, UNITS] & _MOST


@summing
def _activate(units, start, n, scale):
    """Replace the sums of a block, yet to be scaled, by the ReLU's moments and slopes."""
    disjoint()
    at, square = start & _MOST, scale * scale
    for i in range(min(n, BLOCK)):
        j = at + i
        units[j + _VAR] = units[j + _Z_V]
        relu = relu_moments(scale * units[j + _Z_M], square * units[j + _Z_V])
        units[j + _Z_M], units[j + _Z_V] = relu.m, relu.v
        units[j + _DM_DM], units[j + _DM_DV] = relu.dm_dm, relu.dm_dv
        units[j + _DV_DM], units[j + _DV_DV] = relu.dv_dm, relu.dv_dv


@inlined
def _place(before, i):
    """Return where the quantities of input i of a layer begin."""
    return (before + i // BLOCK * _AREA + i % BLOCK) & _MOST


@inlined
def _set_input(units, before, i, z):
    """Make an input certain."""
    at = _place(before, i)
    units[at + _Z_M], units[at + _Z_V] = z, 0.0
    units[at + _DM_DM], units[at + _DM_DV] = 0.0, 0.0
    units[at + _DV_DM], units[at + _DV_DV] = 0.0, 0.0


@summing
def propagate(layers, mean, var, units, outputs, x, row):
    """Send x[row] through all layers (eq. 13-17)."""
    disjoint()
    last = layers.shape[0] - 1
    for i in range(layers[0, N_IN]):
        units[_place(0, i)] = x[row, i]
    for depth in range(last + 1):
        n_in, _, width, start, before = layer_of(layers, depth)
        _set_input(units, before, n_in, 1.0)
        if depth == last:
            break
        _set_input(units, before, n_in + 1, 0.0)
        after = layers[depth + 1, UNITS] & _MOST
        for first in range(0, width, BLOCK):
            n, at = min(BLOCK, width - first), after + first * N_QUANTITIES
            for j in range(n):
                units[at + j + _Z_M], units[at + j + _Z_V] = 0.0, 0.0
            for i in range(0, n_in + 1, 2):
                a, b = _place(before, i), _place(before, i + 1)
                place_a = (start + i * width + first) & _MOST
                place_b = (place_a + width) & _MOST
                z_a, z_b, v_a, v_b = (
                    units[a + _Z_M],
                    units[b + _Z_M],
                    units[a + _Z_V],
                    units[b + _Z_V],
                )
                square_a, square_b = z_a * z_a + v_a, z_b * z_b + v_b
                for j in range(n):
                    m_a, m_b = mean[place_a + j], mean[place_b + j]
                    by_v = var[place_a + j] * square_a + var[place_b + j] * square_b
                    if depth > 0:  # else the inputs are certain
                        by_v += m_a * m_a * v_a + m_b * m_b * v_b
                    units[at + j + _Z_M] += m_a * z_a + m_b * z_b
                    units[at + j + _Z_V] += by_v
            _activate(units, at, n, 1.0 / math.sqrt(n_in + 1.0))
    n_in, n_out, _, at, before = layer_of(layers, last)
    scale = 1.0 / math.sqrt(n_in + 1.0)
    for k in range(n_out):
        m_a, v_a = 0.0, 0.0
        for first in range(0, n_in + 1, BLOCK):
            unit, place = before + first * N_QUANTITIES, (at + first) & _MOST
            for i in range(min(BLOCK, n_in + 1 - first)):
                m, v = mean[place + i], var[place + i]
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
def _moved(mean, var, place, m, v, m_new, v_new):
    """Write what a weight becomes, or leave it where that is invalid; return 1 if it was left.

    A function of its own, since the compiler would store only some numbers of a register where it
    sees that the others are in place, and to read what was stored like that takes long.
    """
    good = v_new > SMALLEST_VAR
    mean[place] = m_new if good else m
    var[place] = v_new if good else v
    left = 0 if good else 1
    return left


@inlined
def _absorbed(mean, var, place, step, bend, z, v_z):
    """Update a weight by eq. 6 and 7."""
    m, v = mean[place], var[place]
    shift = v * (step * z + bend * m * v_z)
    v_new = v + v * v * (bend * (z * z + v_z)) - shift * shift
    return _moved(mean, var, place, m, v, m + shift, v_new)


@called
def count_tiny(var):
    """Return how many variances are so small that `absorb` must look at each."""
    tiny = 0
    for w in range(var.size):
        tiny += 0 if var[w] > _LEAST_VAR else 1
    return tiny


@summing
def absorb(layers, mean, var, units, outputs, tiny):
    """Absorb the gradient of log Z by the outputs; return how many weights were left.

    In the first layer v_new = v (1 + curve v z²), curve = bend - step², and v z² is one term of the
    sum that is the unit's variance. So where curve times that sum is above -0.99, all weights of
    the unit stay valid: their loop need not ask. With `tiny` variances it asks in any case.
    """
    disjoint()
    last, undone = layers.shape[0] - 1, 0
    n_in, n_out, _, at, before = layer_of(layers, last)
    scale = 1.0 / math.sqrt(n_in + 1.0)
    for k in range(n_out):
        step, bend = scale * outputs[_SLOPE, k], 2.0 * scale * scale * outputs[_BEND, k]
        for first in range(0, n_in + 1, BLOCK):
            unit, place = before + first * N_QUANTITIES, (at + first) & _MOST
            for i in range(min(BLOCK, n_in + 1 - first)):
                m, v = mean[place + i], var[place + i]
                z, v_z = units[unit + i + _Z_M], units[unit + i + _Z_V]
                g_m, g_v = units[unit + i + _G_M], units[unit + i + _G_V]
                g_m, g_v = g_m if k > 0 else 0.0, g_v if k > 0 else 0.0
                units[unit + i + _G_M] = g_m + m * step + z * (v * bend)
                units[unit + i + _G_V] = g_v + (0.5 * bend) * (m * m + v)
                undone += _absorbed(mean, var, place + i, step, bend, z, v_z)
        at += n_in + 1
    for depth in range(last - 1, -1, -1):
        n_in, _, width, start, before = layer_of(layers, depth)
        after = layers[depth + 1, UNITS] & _MOST
        scale = 1.0 / math.sqrt(n_in + 1.0)
        for first in range(0, width, BLOCK):
            n, at, risky = min(BLOCK, width - first), after + first * N_QUANTITIES, tiny
            for j in range(n):
                unit = at + j
                by_m, by_v = units[unit + _G_M], units[unit + _G_V]
                grad_m = by_m * units[unit + _DM_DM] + by_v * units[unit + _DV_DM]
                grad_v = by_m * units[unit + _DM_DV] + by_v * units[unit + _DV_DV]
                step, bend = scale * grad_m, 2.0 * scale * scale * grad_v
                units[unit + _G_M], units[unit + _G_V] = step, bend
                curve = bend - step * step
                units[unit + _CURVE] = curve
                risky += 0 if curve * units[unit + _VAR] > -_MOST_LOST else 1
            for i in range(n_in + 1):
                place, unit = (start + i * width + first) & _MOST, _place(before, i)
                z, v_z = units[unit + _Z_M], units[unit + _Z_V]
                if depth == 0 and risky == 0:
                    for j in range(n):
                        shift = var[place + j] * z
                        mean[place + j] += shift * units[at + j + _G_M]
                        var[place + j] += shift * shift * units[at + j + _CURVE]
                    continue
                by_m, by_v, by_mm = 0.0, 0.0, 0.0
                for j in range(n):
                    m, v = mean[place + j], var[place + j]
                    step, bend = units[at + j + _G_M], units[at + j + _G_V]
                    undone += _absorbed(mean, var, place + j, step, bend, z, v_z)
                    by_m += m * step
                    by_v += v * bend
                    by_mm += m * m * bend
                g_m, g_v = (units[unit + _G_M], units[unit + _G_V]) if first > 0 else (0.0, 0.0)
                units[unit + _G_M] = g_m + by_m + z * by_v
                units[unit + _G_V] = g_v + 0.5 * (by_mm + by_v)
    return undone
