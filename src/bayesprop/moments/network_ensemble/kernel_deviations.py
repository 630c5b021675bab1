"""How far a mean network's outputs go with a deviation of all its weights, sixteen rows at a time.

To first order, with the expected activations z and the expected slopes g of the rectifiers that
`forward` has left: a deviation dw, db of the weights and biases of layer l moves an output by

    sum_j B_j (sum_i z_i dw_ij + db_j)        B_(l-1) = g (w_l B_l), 1 in the last layer

summed over the layers. B is computed once, whatever the number of deviations. All blocks of a batch
go together, so that a deviation is read once for them. The arrays are those of
`kernel_network.py`, and

aside
    An `Aside`, see below.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any, NamedTuple

from bayesprop.moments.network_ensemble.kernel_network import BLOCK, layer_at
from bayesprop.simd.fours import plus_products, spread_four
from bayesprop.simd.lanes import called, inlined, load_floats, spread_at, store


class Aside(NamedTuple):
    """What is told of a member besides its moments.

    deviations
        One behind the other, n_deviations of n_weights; a deviation has the weights of a layer,
        input by input, its biases, then the next layer, as `joint_covariance.slopes`.
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
def send_back(work, aside, block, n_units):
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
def deviate(work, aside, n_blocks, n_units, first, count):
    """Replace the variances of the outputs of a batch by the sums of their squared moves.

    n_units
        Of the mean network, through which `forward` and `send_back` have sent the blocks.
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
def look(work, aside, block, first, count):
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
