"""Forward and backward through the layers of the compiled engine, eight units at a time.

Hernández-Lobato & Adams (2015), eq. 13-17 and 6-7; supplement eq. 15-22. A layer whose inputs have
mean z and variance v_z computes, with s = 1/sqrt(number of inputs, bias included),

    m_a = s sum m z        v_a = s^2 sum (m^2 v_z + v (z^2 + v_z))

so that a weight into a unit with d log Z / d (m_a, v_a) = (g_m, g_v) has, for step = s g_m and
bend = 2 s^2 g_v,

    d log Z / d m = step z + bend v_z m        2 d log Z / d v = bend (z^2 + v_z)
"""

from __future__ import annotations

import math

from bayesprop.moments.pbp.kernel_factors import next_cavity
from bayesprop.moments.pbp.kernel_workspace import (
    BLOCK,
    INPUTS,
    N_OUT,
    N_ROWS,
    PAIR,
    ROW_STEP,
    UNIT_STEP,
    WEIGHTS,
)
from bayesprop.simd.lanes import (
    count_false,
    everywhere,
    inlined,
    load8,
    load16,
    load32,
    prefetch,
    select,
    spread8,
    spread_at,
    store,
    total,
)
from bayesprop.simd.normals import relu_moments

SMALLEST_VAR = 1e-100
"""A weight whose new variance is not above this keeps its old moments (section 3.5)."""
_LARGEST_SLOPE_SQUARED = 1e200


@inlined
def n_blocks(units):
    """Blocks that hold so many units."""
    return (units + (BLOCK - 1)) // BLOCK


@inlined
def next_row(work, x, row):
    """Make x[row] the new inputs, and what was new the old; return the new ones' largest square."""
    reach = 1.0
    for i in range(x.shape[1]):
        value = x[row, i]
        square = value * value
        at = ROW_STEP * i
        work.rows[at] = work.rows[at + 1]
        work.rows[at + 1] = value
        work.rows[at + 2] = square
        reach = max(reach, square)
    bias = ROW_STEP * x.shape[1]
    work.rows[bias], work.rows[bias + 1], work.rows[bias + 2] = 1.0, 1.0, 1.0
    return reach


@inlined
def prefetch_row(x, row):
    """Begin to fetch x[row], which lies anywhere in memory."""
    prefetch(x, row * x.shape[1])
    prefetch(x, row * x.shape[1] + (x.shape[1] - 1))


@inlined
def absorb_and_propagate(work, factor, reach):
    """First layer: absorb the old inputs and send the new ones on, one load and store a weight.

    Inputs are certain, so the gradient of a unit's weights is a multiple of the inputs, and a bound
    on the unit's variances and on the inputs' squares (`reach`) tells beforehand that no variance
    will fall below half. Returns how many weights kept their moments.
    """
    start, end = work.layers[1, INPUTS], work.layers[1, INPUTS] + work.layers[0, N_OUT] + 1
    scale, size = work.scales[0], PAIR * work.layers[0, N_ROWS]
    undone = 0.0
    at = 0
    for group in range(start, end, UNIT_STEP):
        for unit in range(group, min(end, group + UNIT_STEP), BLOCK):
            grad_m, grad_v = pre_activation_gradient(work, unit)
            step = scale * grad_m
            curve = step * step - (2.0 * scale * scale) * grad_v
            bound = load8(work.v_bound, unit - start)
            most = bound * (reach * curve)
            if factor is None and everywhere(most < 0.5):
                m_a, v_a = _absorb_block_unguarded(work, at, size, step, curve)
                bound = select(most < 0.0, bound - bound * most, bound)
            else:
                m_a, v_a, bound, spared = _absorb_block(work, factor, at, size, step, curve)
                undone += spared
            store(work.v_bound, unit - start, bound)
            store(work.z_m, unit, scale * m_a)
            store(work.z_v, unit, scale * scale * v_a)
            at += size
        activate(work, group, end)
    return undone


@inlined
def _absorb_block_unguarded(work, at, size, step, curve):
    """Update eight units' weights, all in sight of the bound; return their next m_a and v_a."""
    m_a, v_a = spread8(0.0), spread8(0.0)
    row = 0
    for pair in range(at, at + size, PAIR):
        m, v = load8(work.weights, pair), load8(work.weights, pair + BLOCK)
        shift = v * spread_at(work.rows, row)
        m, v = m + shift * step, v - shift * shift * curve
        store(work.weights, pair, m)
        store(work.weights, pair + BLOCK, v)
        m_a = m_a + m * spread_at(work.rows, row + 1)
        v_a = v_a + v * spread_at(work.rows, row + 2)
        row += ROW_STEP
    return m_a, v_a


@inlined
def _absorb_block(work, factor, at, size, step, curve):
    """Update eight units' weights one row of eight at a time.

    Returns the units' next m_a and v_a, the largest variance into each (infinite if the smallest
    is close to the undo rule), and how many weights could not become what they should.
    """
    m_a, v_a = spread8(0.0), spread8(0.0)
    largest, smallest = spread8(0.0), spread8(math.inf)
    undone = 0.0
    row = 0
    for pair in range(at, at + size, PAIR):
        m, v = load8(work.weights, pair), load8(work.weights, pair + BLOCK)
        shift = v * spread_at(work.rows, row)
        m_new, v_new = m + shift * step, v - shift * shift * curve
        m, v, spared = settle(work, factor, pair, m, v, m_new, v_new)
        undone += spared
        largest, smallest = select(v > largest, v, largest), select(v < smallest, v, smallest)
        m_a = m_a + m * spread_at(work.rows, row + 1)
        v_a = v_a + v * spread_at(work.rows, row + 2)
        row += ROW_STEP
    return m_a, v_a, select(smallest > 2.0 * SMALLEST_VAR, largest, math.inf), undone


@inlined
def settle(work, factor, at, m, v, m_new, v_new):
    """Write what eight weights become that have met a datum, undone where it would be invalid.

    By assumed density filtering, that is q. By stochastic EP (`factor`), the weights were the
    cavity, and become the next. Returns them, and how many could not become what they should.
    """
    good = v_new > SMALLEST_VAR
    spared = 0.0
    if not everywhere(good):
        m_new, v_new = select(good, m_new, m), select(good, v_new, v)
        spared = count_false(good)
    if factor is not None:
        m_new, v_new, improper = next_cavity(factor, at, m, v, m_new, v_new)
        spared += improper
    store(work.weights, at, m_new)
    store(work.weights, at + BLOCK, v_new)
    return m_new, v_new, spared


@inlined
def propagate_hidden(work, depth):
    """Send the units that feed an inner hidden layer through it (eq. 13-17)."""
    n_rows, at = work.layers[depth, N_ROWS], work.layers[depth, WEIGHTS]
    first, start = work.layers[depth, INPUTS], work.layers[depth + 1, INPUTS]
    end = start + work.layers[depth, N_OUT] + 1
    scale = work.scales[depth]
    for group in range(start, end, UNIT_STEP):
        for unit in range(group, min(end, group + UNIT_STEP), BLOCK):
            m_a, by_m, by_v = spread8(0.0), spread8(0.0), spread8(0.0)
            for i in range(first, first + n_rows):
                m, v = load8(work.weights, at), load8(work.weights, at + BLOCK)
                z, v_z = spread_at(work.z_m, i), spread_at(work.z_v, i)
                m_a = m_a + m * z
                by_m = by_m + m * m * v_z
                by_v = by_v + v * (z * z + v_z)
                at += PAIR
            store(work.z_m, unit, scale * m_a)
            store(work.z_v, unit, scale * scale * (by_m + by_v))
        activate(work, group, end)


@inlined
def activate(work, unit, end):
    """Replace the pre-activations of a group by the ReLU's moments and slopes."""
    if end - unit > UNIT_STEP // 2:
        _write_relu(work, unit, relu_moments(load32(work.z_m, unit), load32(work.z_v, unit)))
    else:
        _write_relu(work, unit, relu_moments(load16(work.z_m, unit), load16(work.z_v, unit)))


@inlined
def _write_relu(work, unit, relu):
    store(work.z_m, unit, relu.m)
    store(work.z_v, unit, relu.v)
    store(work.dm_dm, unit, relu.dm_dm)
    store(work.dm_dv, unit, relu.dm_dv)
    store(work.dv_dm, unit, relu.dv_dm)
    store(work.dv_dv, unit, relu.dv_dv)


@inlined
def pre_activation_gradient(work, unit):
    """Gradients by the pre-activations of a block, from those by its activations."""
    by_m, by_v = load8(work.grad_m, unit), load8(work.grad_v, unit)
    grad_m = by_m * load8(work.dm_dm, unit) + by_v * load8(work.dv_dm, unit)
    grad_v = by_m * load8(work.dm_dv, unit) + by_v * load8(work.dv_dv, unit)
    return grad_m, grad_v


@inlined
def propagate_outputs(work, depth):
    """Write the moments of the network's outputs."""
    n_rows, at = work.layers[depth, N_ROWS], work.layers[depth, WEIGHTS]
    first, scale = work.layers[depth, INPUTS], work.scales[depth]
    for k in range(work.layers[depth, N_OUT]):
        m_a, by_m, by_v = spread8(0.0), spread8(0.0), spread8(0.0)
        for unit in range(first, first + n_rows, BLOCK):
            m, v = load8(work.weights, at), load8(work.weights, at + BLOCK)
            z, v_z = load8(work.z_m, unit), load8(work.z_v, unit)
            m_a = m_a + m * z
            by_m = by_m + m * m * v_z
            by_v = by_v + v * (z * z + v_z)
            at += PAIR
        work.f_m[k] = scale * total(m_a)
        work.f_v[k] = scale * scale * total(by_m + by_v)


@inlined
def set_output_gradient(work, k, slope, curve):
    """Hand the gradient of log Z by output k to the layers; curve: slope² - 2 d log Z / dv."""
    if not slope * slope < _LARGEST_SLOPE_SQUARED:
        slope = math.nan  # so that every weight is undone: nothing overflows to infinity
    work.grad_f_m[k], work.grad_f_v[k] = slope, 0.5 * (slope * slope - curve)


@inlined
def absorb_weights(work, factor, at, step, bend, z, v_z):
    """Update eight weights by eq. 6 and 7; return them as they were, and how many were undone."""
    m, v = load8(work.weights, at), load8(work.weights, at + BLOCK)
    shift = v * (step * z + bend * m * v_z)
    v_new = v + v * v * (bend * (z * z + v_z)) - shift * shift
    _, _, spared = settle(work, factor, at, m, v, m + shift, v_new)
    return m, v, spared


@inlined
def absorb_outputs(work, factor, depth):
    """Update the last layer, and write the gradients by the units that feed it.

    Returns how many weights kept their moments.
    """
    n_rows, at = work.layers[depth, N_ROWS], work.layers[depth, WEIGHTS]
    first, scale = work.layers[depth, INPUTS], work.scales[depth]
    undone = 0.0
    for unit in range(first, first + n_rows, BLOCK):
        store(work.grad_m, unit, spread8(0.0))
        store(work.grad_v, unit, spread8(0.0))
    for k in range(work.layers[depth, N_OUT]):
        step = spread8(scale * work.grad_f_m[k])
        bend = spread8(2.0 * scale * scale * work.grad_f_v[k])
        for unit in range(first, first + n_rows, BLOCK):
            z, v_z = load8(work.z_m, unit), load8(work.z_v, unit)
            m, v, spared = absorb_weights(work, factor, at, step, bend, z, v_z)
            undone += spared
            grad_m, grad_v = load8(work.grad_m, unit), load8(work.grad_v, unit)
            store(work.grad_m, unit, grad_m + m * step + z * (v * bend))
            store(work.grad_v, unit, grad_v + (0.5 * bend) * (m * m + v))
            at += PAIR
    return undone


@inlined
def absorb_hidden(work, factor, depth):
    """Update an inner hidden layer, and write the gradients by the units that feed it.

    Returns how many weights kept their moments.
    """
    n_rows, start = work.layers[depth, N_ROWS], work.layers[depth, WEIGHTS]
    first, outputs = work.layers[depth, INPUTS], work.layers[depth + 1, INPUTS]
    end = outputs + BLOCK * n_blocks(work.layers[depth, N_OUT] + 1)
    scale = work.scales[depth]
    for unit in range(outputs, end, BLOCK):
        grad_m, grad_v = pre_activation_gradient(work, unit)
        store(work.grad_m, unit, scale * grad_m)
        store(work.grad_v, unit, 2.0 * scale * scale * grad_v)
    undone = 0.0
    for i in range(n_rows):
        z, v_z = spread_at(work.z_m, first + i), spread_at(work.z_v, first + i)
        by_m, by_v, by_mm = spread8(0.0), spread8(0.0), spread8(0.0)
        at = start + i * PAIR
        for unit in range(outputs, end, BLOCK):
            step, bend = load8(work.grad_m, unit), load8(work.grad_v, unit)
            m, v, spared = absorb_weights(work, factor, at, step, bend, z, v_z)
            undone += spared
            by_m = by_m + m * step
            by_v = by_v + v * bend
            by_mm = by_mm + m * m * bend
            at += n_rows * PAIR
        work.grad_m[first + i] = total(by_m + z * by_v)
        work.grad_v[first + i] = 0.5 * total(by_mm + by_v)
    return undone


@inlined
def propagate(work, x, row):
    """Send x[row] through all layers, absorbing nothing."""
    last = work.layers.shape[0] - 1
    for i in range(x.shape[1]):
        work.z_m[i] = x[row, i]
    work.z_m[x.shape[1]] = 1.0
    for depth in range(last):
        propagate_hidden(work, depth)
    propagate_outputs(work, last)
