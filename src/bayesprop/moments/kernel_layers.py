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

from bayesprop.moments.kernel_lanes import (
    inlined,
    load8,
    load16,
    select,
    spread8,
    spread_at,
    store,
    total,
)
from bayesprop.moments.kernel_normal import relu_moments
from bayesprop.moments.kernel_workspace import BLOCK, INPUTS, N_OUT, N_ROWS, UNIT_STEP, WEIGHTS

SMALLEST_VAR = 1e-100
"""A weight whose new variance is not above this keeps its old moments (section 3.5)."""


@inlined
def n_blocks(units):  # noqa: ANN001, ANN201
    """Blocks that hold so many units."""
    return (units + (BLOCK - 1)) // BLOCK


@inlined
def absorb_and_propagate(work, old, new, square):  # noqa: ANN001, ANN201
    """First layer: absorb the last datum and send the next through, one load and store a weight.

    Inputs are certain, so the gradient of a unit's weights is a multiple of the inputs. The three
    numbers are where work.rows holds the old inputs, the new ones, and the squares of those.
    Returns how many weights kept their moments.
    """
    n_rows, unit = work.layers[0, N_ROWS], work.layers[1, INPUTS]
    scale = 1.0 / math.sqrt(n_rows)
    undone = spread8(0.0)
    at = 0
    for _ in range(n_blocks(work.layers[0, N_OUT] + 1)):
        step = scale * load8(work.grad_m, unit)
        curve = step * step - (2.0 * scale * scale) * load8(work.grad_v, unit)
        m_a, v_a = spread8(0.0), spread8(0.0)
        for i in range(n_rows):
            m, v = load8(work.m, at), load8(work.v, at)
            shift = v * spread_at(work.rows, old + i)
            v_new = v - shift * shift * curve
            good = v_new > SMALLEST_VAR
            m = select(good, m + shift * step, m)
            v = select(good, v_new, v)
            undone = select(good, undone, undone + 1.0)
            store(work.m, at, m)
            store(work.v, at, v)
            m_a = m_a + m * spread_at(work.rows, new + i)
            v_a = v_a + v * spread_at(work.rows, square + i)
            at += BLOCK
        store(work.z_m, unit, scale * m_a)
        store(work.z_v, unit, scale * scale * v_a)
        unit += BLOCK
    return total(undone)


@inlined
def propagate_hidden(work, depth):  # noqa: ANN001, ANN201
    """Write the moments of the pre-activations of an inner hidden layer (eq. 13-14)."""
    n_rows, at = work.layers[depth, N_ROWS], work.layers[depth, WEIGHTS]
    first, unit = work.layers[depth, INPUTS], work.layers[depth + 1, INPUTS]
    scale = 1.0 / math.sqrt(n_rows)
    for _ in range(n_blocks(work.layers[depth, N_OUT] + 1)):
        m_a, v_a = spread8(0.0), spread8(0.0)
        for i in range(first, first + n_rows):
            m, v = load8(work.m, at), load8(work.v, at)
            z, v_z = spread_at(work.z_m, i), spread_at(work.z_v, i)
            m_a = m_a + m * z
            v_a = v_a + (m * m) * v_z + v * (z * z + v_z)
            at += BLOCK
        store(work.z_m, unit, scale * m_a)
        store(work.z_v, unit, scale * scale * v_a)
        unit += BLOCK


@inlined
def activate(work, depth):  # noqa: ANN001, ANN201
    """Replace the pre-activations of a hidden layer by the ReLU's moments and slopes (eq. 15-17)."""
    first = work.layers[depth + 1, INPUTS]
    for unit in range(first, first + work.layers[depth, N_OUT] + 1, UNIT_STEP):
        relu = relu_moments(load16(work.z_m, unit), load16(work.z_v, unit))
        store(work.z_m, unit, relu.m)
        store(work.z_v, unit, relu.v)
        store(work.dm_dm, unit, relu.dm_dm)
        store(work.dm_dv, unit, relu.dm_dv)
        store(work.dv_dm, unit, relu.dv_dm)
        store(work.dv_dv, unit, relu.dv_dv)


@inlined
def propagate_outputs(work, depth):  # noqa: ANN001, ANN201
    """Write the moments of the network's outputs."""
    n_rows, at = work.layers[depth, N_ROWS], work.layers[depth, WEIGHTS]
    first = work.layers[depth, INPUTS]
    scale = 1.0 / math.sqrt(n_rows)
    for k in range(work.layers[depth, N_OUT]):
        m_a, v_a = spread8(0.0), spread8(0.0)
        for unit in range(first, first + n_rows, BLOCK):
            m, v = load8(work.m, at), load8(work.v, at)
            z, v_z = load8(work.z_m, unit), load8(work.z_v, unit)
            m_a = m_a + m * z
            v_a = v_a + (m * m) * v_z + v * (z * z + v_z)
            at += BLOCK
        work.f_m[k] = scale * total(m_a)
        work.f_v[k] = scale * scale * total(v_a)


@inlined
def absorb_outputs(work, depth):  # noqa: ANN001, ANN201
    """Update the last layer and write the gradients of the units that feed it.

    Expects d log Z / d (f_m, f_v) in work.grad_f_m and work.grad_f_v. Returns how many weights kept
    their moments.
    """
    n_rows, n_out = work.layers[depth, N_ROWS], work.layers[depth, N_OUT]
    first, start = work.layers[depth, INPUTS], work.layers[depth, WEIGHTS]
    stride = BLOCK * n_blocks(n_rows)
    scale = 1.0 / math.sqrt(n_rows)
    undone = spread8(0.0)
    for offset in range(0, n_rows, BLOCK):
        unit, at = first + offset, start + offset
        z, v_z = load8(work.z_m, unit), load8(work.z_v, unit)
        sum_m, sum_v, sum_mm = spread8(0.0), spread8(0.0), spread8(0.0)
        for k in range(n_out):
            m, v = load8(work.m, at), load8(work.v, at)
            step = scale * spread_at(work.grad_f_m, k)
            bend = (2.0 * scale * scale) * spread_at(work.grad_f_v, k)
            bend_m = bend * m
            sum_m = sum_m + m * step
            sum_v = sum_v + v * bend
            sum_mm = sum_mm + m * bend_m
            shift = v * (z * step + v_z * bend_m)
            v_new = v + v * v * (bend * (z * z + v_z)) - shift * shift
            good = v_new > SMALLEST_VAR
            store(work.m, at, select(good, m + shift, m))
            store(work.v, at, select(good, v_new, v))
            undone = select(good, undone, undone + 1.0)
            at += stride
        store(work.grad_m, unit, sum_m + z * sum_v)
        store(work.grad_v, unit, 0.5 * (sum_mm + sum_v))
    return total(undone)


@inlined
def absorb_hidden(work, depth):  # noqa: ANN001, ANN201
    """Update an inner hidden layer and write the gradients of the units that feed it.

    Returns how many weights kept their moments.
    """
    n_rows, start = work.layers[depth, N_ROWS], work.layers[depth, WEIGHTS]
    first, outputs = work.layers[depth, INPUTS], work.layers[depth + 1, INPUTS]
    blocks = n_blocks(work.layers[depth, N_OUT] + 1)
    scale = 1.0 / math.sqrt(n_rows)
    undone = spread8(0.0)
    for i in range(n_rows):
        z, v_z = spread_at(work.z_m, first + i), spread_at(work.z_v, first + i)
        sum_m, sum_v, sum_mm = spread8(0.0), spread8(0.0), spread8(0.0)
        at = start + i * BLOCK
        for unit in range(outputs, outputs + blocks * BLOCK, BLOCK):
            m, v = load8(work.m, at), load8(work.v, at)
            step = scale * load8(work.grad_m, unit)
            bend = (2.0 * scale * scale) * load8(work.grad_v, unit)
            bend_m = bend * m
            sum_m = sum_m + m * step
            sum_v = sum_v + v * bend
            sum_mm = sum_mm + m * bend_m
            shift = v * (z * step + v_z * bend_m)
            v_new = v + v * v * (bend * (z * z + v_z)) - shift * shift
            good = v_new > SMALLEST_VAR
            store(work.m, at, select(good, m + shift, m))
            store(work.v, at, select(good, v_new, v))
            undone = select(good, undone, undone + 1.0)
            at += n_rows * BLOCK
        by_v = total(sum_v)
        work.grad_m[first + i] = total(sum_m) + work.z_m[first + i] * by_v
        work.grad_v[first + i] = 0.5 * (total(sum_mm) + by_v)
    return total(undone)


@inlined
def chain_activation(work, depth):  # noqa: ANN001, ANN201
    """Turn the gradients of a hidden layer's activations into those of its pre-activations."""
    first = work.layers[depth, INPUTS]
    for unit in range(first, first + work.layers[depth, N_ROWS], BLOCK):
        by_m, by_v = load8(work.grad_m, unit), load8(work.grad_v, unit)
        grad_m = by_m * load8(work.dm_dm, unit) + by_v * load8(work.dv_dm, unit)
        grad_v = by_m * load8(work.dm_dv, unit) + by_v * load8(work.dv_dv, unit)
        store(work.grad_m, unit, grad_m)
        store(work.grad_v, unit, grad_v)
