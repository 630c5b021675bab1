"""The compiled loops that evaluate one member at rows: moments of its outputs, and their moves.

How far outputs go with a deviation dw, db of the weights and biases of a layer, to first order,
with the expected activations z and the expected slopes g of the rectifiers that `forward` has left:

    sum_j B_j (sum_i z_i dw_ij + db_j)        B_(l-1) = g (w_l B_l), 1 in the last layer

summed over the layers. B is computed once, whatever the number of deviations. All blocks of a batch
go together, so that a deviation is read once for them. The arrays are those of
`kernel_network.py`; `aside` is an `Aside`.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any, NamedTuple

from bayesprop.simd.floats import log_add_exp
from bayesprop.simd.fours import plus_products, spread_four
from bayesprop.simd.lanes import called, compiled, inlined, load_floats, spread_at, store
from bayesprop.simd.references import reference_to
from bayesprop.simd.subnormals import flush_subnormals, restore
from bayesprop.tabular_default.kernel_adam import derive
from bayesprop.tabular_default.kernel_network import (
    BLOCK,
    forward,
    last_layer,
    layer_at,
    least,
)


class Aside(NamedTuple):
    """Properties of a member in addition to its moments.

    deviations
        One behind the other, n_deviations of n_weights; a deviation has the weights of a layer,
        input by input, its biases, then the next layer, as `held_out.slopes`.
    n_outputs
        Of the network.
    back
        Room for B of every block, output and hidden unit.
    moved
        Room for the moves of every block and output.
    far
        How far each deviation moves the outputs, (n, deviations, outputs), or no rows.
    z, gains
        Expected activations of all hidden units side by side, and the slopes of their rectifiers,
        (n, units), or no rows.
    """

    deviations: Any
    n_deviations: int
    n_weights: int
    n_outputs: int
    back: Any
    moved: Any
    far: Any
    z: Any
    gains: Any


@inlined
def _along(a, values, w, step, inputs, at, n):
    """Add to a the products of n inputs with every step-th value from w on."""
    odd = 0.0 * a
    for i in range(0, n - 1, 2):
        a = a + load_floats(inputs, at + BLOCK * i) * spread_at(values, w)
        odd = odd + load_floats(inputs, at + BLOCK * (i + 1)) * spread_at(values, w + step)
        w += 2 * step
    if n % 2 == 1:
        a = a + load_floats(inputs, at + BLOCK * (n - 1)) * spread_at(values, w)
    return a + odd


@called
def _send_back(work, aside, block, n_units):
    """Write B of one block, through which `forward` has just gone; n_units hidden units in all."""
    room, theta, back, n_last = work.room, work.theta, aside.back, work.places.n_mean_layers - 1
    n_outputs = layer_at(work.layers, n_last).n_out
    for output in range(n_outputs):
        at = (block * n_outputs + output + 1) * n_units * BLOCK
        for depth in range(n_last, 0, -1):
            layer, above = layer_at(work.layers, depth), at
            n_below, n_out = layer.n_units, layer.n_out
            at -= n_below * BLOCK
            for i in range(n_below):
                w, slope = layer.w_m + i * n_out, load_floats(room, layer.slopes + BLOCK * i)
                if depth == n_last:
                    total = 0.0 * slope + spread_at(theta, w + output)
                else:
                    total = _along(0.0 * slope, theta, w, 1, back, above, n_out)
                store(back, at + BLOCK * i, slope * total)


@inlined
def _four(work, aside, layer, at, j, block, up, step):
    """Move the outputs of a block by what four units of a hidden layer from j on give them.

    at
        Of the layer's own deviation.
    up, step
        Where B of the first of the four lies for the first output, and from output to output.
    """
    values, back, moved, n_out = aside.deviations, aside.back, aside.moved, layer.n_out
    w, biases = at + j, at + layer.n_in * n_out + j
    inputs = layer.in_m + block * layer.in_step
    sums = spread_four(values, biases, 1)
    for i in range(layer.n_in):
        z = load_floats(work.room, inputs + BLOCK * i)
        sums = plus_products(sums, z, spread_four(values, w, 1))
        w += n_out
    a, b, c, d = sums
    for output in range(aside.n_outputs):
        ab = a * load_floats(back, up) + b * load_floats(back, up + BLOCK)
        cd = c * load_floats(back, up + 2 * BLOCK) + d * load_floats(back, up + 3 * BLOCK)
        to = (block * aside.n_outputs + output) * BLOCK
        store(moved, to, load_floats(moved, to) + (ab + cd))
        up += step


@inlined
def _one(work, aside, layer, at, j, block, up, step):
    """Do so with one unit."""
    n_out, inputs = layer.n_out, layer.in_m + block * layer.in_step
    a = spread_at(aside.deviations, at + layer.n_in * n_out + j)
    a = _along(a, aside.deviations, at + j, n_out, work.room, inputs, layer.n_in)
    for output in range(aside.n_outputs):
        to = (block * aside.n_outputs + output) * BLOCK
        moved = load_floats(aside.moved, to) + a * load_floats(aside.back, up)
        store(aside.moved, to, moved)
        up += step


@called
def _deviate(work, aside, n_blocks, n_units, first, count):
    """Replace the variances of the outputs of a batch by the sums of their squared moves.

    n_units
        Of the mean network, through which `forward` and `_send_back` have sent the blocks.
    first, count
        Of the batch's rows.
    """
    room, moved, far, n_outputs = work.room, aside.moved, aside.far, aside.n_outputs
    n_last, step = work.places.n_mean_layers - 1, n_units * BLOCK
    last = layer_at(work.layers, n_last)
    for block in range(n_blocks):
        for k in range(0, n_outputs * BLOCK, BLOCK):
            variances = last.out_v + block * last.out_step
            store(room, variances + k, 0.0 * load_floats(work.theta, 0))
    for k in range(aside.n_deviations):
        behind = (k + 1) * aside.n_weights - (last.n_in + 1) * n_outputs
        for block in range(n_blocks):
            inputs = last.in_m + block * last.in_step
            for j in range(n_outputs):
                a = spread_at(aside.deviations, behind + last.n_in * n_outputs + j)
                a = _along(a, aside.deviations, behind + j, n_outputs, room, inputs, last.n_in)
                store(moved, (block * n_outputs + j) * BLOCK, a)
        at, unit = k * aside.n_weights, 0
        for depth in range(n_last):
            layer = layer_at(work.layers, depth)
            n_out = layer.n_out
            whole = n_out - n_out % 4
            for j in range(0, whole, 4):
                for block in range(n_blocks):
                    up = (block * n_outputs * n_units + unit + j) * BLOCK
                    _four(work, aside, layer, at, j, block, up, step)
            for j in range(whole, n_out):
                for block in range(n_blocks):
                    up = (block * n_outputs * n_units + unit + j) * BLOCK
                    _one(work, aside, layer, at, j, block, up, step)
            at += (layer.n_in + 1) * n_out
            unit += n_out
        for block in range(n_blocks):
            variances = last.out_v + block * last.out_step
            for j in range(n_outputs):
                move = load_floats(moved, (block * n_outputs + j) * BLOCK)
                square = load_floats(room, variances + BLOCK * j) + move * move
                store(room, variances + BLOCK * j, square)
        if far.shape[0] > 0:
            for r in range(count):
                for j in range(n_outputs):
                    far[first + r, k, j] = moved[(r // BLOCK * n_outputs + j) * BLOCK + r % BLOCK]


@called
def _look(work, aside, block, first, count):
    """Write what the hidden units of the mean network say of a block of rows."""
    room, unit = work.room, 0
    for depth in range(1, work.places.n_mean_layers):
        layer = layer_at(work.layers, depth)
        values = layer.in_m + block * layer.in_step
        for i in range(layer.n_units):
            for r in range(count):
                aside.z[first + r, unit] = room[values + BLOCK * i + r]
                aside.gains[first + r, unit] = room[layer.slopes + BLOCK * i + r]
            unit += 1


@inlined
def gather_inputs(work, x, order, start, size):
    """Copy some rows, sixteen lanes a block; what is left of the last block stays as it was.

    order
        Numbers of the rows; None: one after another.
    """
    room, layer = work.room, layer_at(work.layers, 0)
    n_in, x_at, x_step, q_at = x.shape[1], layer.in_m, layer.in_step, layer.in_q
    for r in range(size):
        row = start + r if order is None else order[start + r]
        at = x_at + r // BLOCK * x_step + r % BLOCK
        for i in range(n_in):
            room[at + BLOCK * i] = x[row, i]
    for block in range((size + BLOCK - 1) // BLOCK):
        for k in range(block * x_step, block * x_step + n_in * BLOCK, BLOCK):
            value = load_floats(room, x_at + k)
            store(room, q_at + k, value * value)


@called
def scatter(room, at, out, start, n):
    """Copy the numbers of n rows of one block."""
    for r in range(n):
        for j in range(out.shape[1]):
            out[start + r, j] = room[at + BLOCK * j + r]


@compiled
def evaluate(work, aside, x, size, m, v, l_m, l_v):
    """Write the moments of a member's outputs at every row, `size` rows of x at a time.

    aside
        What else is asked for; without deviations, variances are those of independent weights.
    m, v, l_m, l_v
        As in `NoisyOutput`, (n, o).
    """
    work, aside, before = reference_to(work), reference_to(aside), flush_subnormals()
    places, room, n_mean = work.places, work.room, work.places.n_mean_layers
    n_layers = work.layers.shape[0]
    mean, noise = layer_at(work.layers, n_mean - 1), last_layer(work)
    n_units = layer_at(work.layers, 1).n_units  # not 0, of which numba makes a program of its own
    for depth in range(2, n_mean):
        n_units += layer_at(work.layers, depth).n_units
    for depth in range(n_layers):
        derive(work, layer_at(work.layers, depth))
    for start in range(0, x.shape[0], size):
        n = least(size, x.shape[0] - start)
        n_blocks = (n + BLOCK - 1) // BLOCK
        gather_inputs(work, x, None, start, n)
        for block in range(n_blocks):
            forward(work, 0, n_mean, block)
            forward(work, n_mean, n_layers, block)
            first, count = start + BLOCK * block, least(BLOCK, n - BLOCK * block)
            if aside.z.shape[0] > 0:
                _look(work, aside, block, first, count)
            if aside.n_deviations > 0:
                _send_back(work, aside, block, n_units)
            to = block * noise.out_step
            for j in range(noise.n_out):
                at = noise.out_m + to + BLOCK * j
                around = load_floats(room, at) + spread_at(work.theta, places.log_noise + j)
                store(room, at, log_add_exp(around, spread_at(work.log_floor, j)))
            scatter(room, mean.out_m + block * mean.out_step, m, first, count)
            scatter(room, noise.out_m + to, l_m, first, count)
            scatter(room, noise.out_v + to, l_v, first, count)
        if aside.n_deviations > 0:
            _deviate(work, aside, n_blocks, n_units, start, n)
        for block in range(n_blocks):
            first, count = start + BLOCK * block, least(BLOCK, n - BLOCK * block)
            scatter(room, mean.out_v + block * mean.out_step, v, first, count)
    restore(before)
