"""How far a mean network's outputs go with a deviation of all its weights, sixteen rows at a time.

To first order, and with the expected activations z and the expected slopes g of the rectifiers that
`forward` has left: a deviation dw of the weights w moves what layer l computes by

    da_l = sum dz w + sum z dw + db        dz = g da_(l-1), 0 in the first layer

All blocks of a batch go together, so that a deviation is read once for them. The arrays are those
of `kernel_noise_layers.py`, and

aside
    An `Aside`, see below.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from typing import Any, NamedTuple

from bayesprop.moments.kernel_noise_layers import (
    BLOCK,
    IN_M,
    IN_STEP,
    N_IN,
    N_OUT,
    N_UNITS,
    OUT_STEP,
    OUT_V,
    SLOPES,
    W_M,
)
from bayesprop.numerics.kernel_lanes import called, inlined, load_floats, spread_at, store


class Aside(NamedTuple):
    """What is told of a member besides its moments.

    deviations
        One behind the other, n_deviations of n_weights; a deviation has the weights of a layer,
        input by input, its biases, then the next layer, as `noise_network_deviations.slopes`.
    moved
        Room for the moves of two layers, of every block in its turn.
    slopes
        Room for the slopes of the rectifiers of all hidden units, of every block in its turn.
    far
        How far each deviation moves the outputs, (n, deviations, outputs), or no rows.
    z, gains
        Expected activations of all hidden units side by side, and the slopes of their rectifiers,
        (n, units), or no rows.
    """

    deviations: Any
    n_deviations: int
    n_weights: int
    moved: Any
    slopes: Any
    far: Any
    z: Any
    gains: Any


@called
def keep(room, layers, aside, block, n_units):
    """Copy the slopes of one block, n_units in all, which the next one would write over."""
    to = block * n_units * BLOCK
    for depth in range(1, layers.shape[0]):
        layer = layers[depth]
        for k in range(0, layer[N_UNITS] * BLOCK, BLOCK):
            store(aside.slopes, to, load_floats(room, layer[SLOPES] + k))
            to += BLOCK


@inlined
def _four(work, aside, layer, j, at, inputs, below, slopes, to):
    """Write how far four units of a layer from j on move, in one block.

    at
        Of the layer's own deviation.
    inputs, below
        Where the layer's inputs and their moves lie; below -1 in the first layer.
    slopes
        Where the slopes of the rectifiers above the layer lie, -1 in the last one.
    """
    room, theta, moved, values = work.room, work.theta, aside.moved, aside.deviations
    n_in, n_out, n_units = layer[N_IN], layer[N_OUT], layer[N_UNITS]
    w, biases, unit = at + j, at + n_in * n_out + j, BLOCK * j
    a, b = spread_at(values, biases), spread_at(values, biases + 1)
    c, d = spread_at(values, biases + 2), spread_at(values, biases + 3)
    for i in range(n_in):
        z = load_floats(room, inputs + BLOCK * i)
        a = a + z * spread_at(values, w)
        b = b + z * spread_at(values, w + 1)
        c = c + z * spread_at(values, w + 2)
        d = d + z * spread_at(values, w + 3)
        w += n_out
    if below >= 0:
        w = layer[W_M] + j
        for i in range(n_units):
            move = load_floats(moved, below + BLOCK * i)
            a = a + move * spread_at(theta, w)
            b = b + move * spread_at(theta, w + 1)
            c = c + move * spread_at(theta, w + 2)
            d = d + move * spread_at(theta, w + 3)
            w += n_out
    if slopes >= 0:
        at_unit = slopes + unit
        a = a * load_floats(aside.slopes, at_unit)
        b = b * load_floats(aside.slopes, at_unit + BLOCK)
        c = c * load_floats(aside.slopes, at_unit + 2 * BLOCK)
        d = d * load_floats(aside.slopes, at_unit + 3 * BLOCK)
    store(moved, to + unit, a)
    store(moved, to + unit + BLOCK, b)
    store(moved, to + unit + 2 * BLOCK, c)
    store(moved, to + unit + 3 * BLOCK, d)


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


@inlined
def _one(work, aside, layer, j, at, inputs, below, slopes, to):
    """Do so with one unit."""
    n_in, n_out = layer[N_IN], layer[N_OUT]
    a = spread_at(aside.deviations, at + n_in * n_out + j)
    a = _along(a, aside.deviations, at + j, n_out, work.room, inputs, n_in)
    if below >= 0:
        a = _along(a, work.theta, layer[W_M] + j, n_out, aside.moved, below, layer[N_UNITS])
    if slopes >= 0:
        a = a * load_floats(aside.slopes, slopes + BLOCK * j)
    store(aside.moved, to + BLOCK * j, a)


@called
def deviate(work, layers, aside, n_blocks, n_units, first, count):
    """Replace the variances of the outputs of a batch by the sums of their squared moves.

    layers
        Of the mean network, with n_units in all, through which `forward` has just sent the blocks,
        whose slopes are kept.
    first, count
        Of the batch's rows.
    """
    room, moved, far, last = work.room, aside.moved, aside.far, layers[layers.shape[0] - 1]
    half = moved.size // 2
    step = half // n_blocks // BLOCK * BLOCK
    for block in range(n_blocks):
        variances = last[OUT_V] + block * last[OUT_STEP]
        for j in range(last[N_OUT]):
            store(room, variances + BLOCK * j, 0.0 * load_floats(work.theta, 0))
    for k in range(aside.n_deviations):
        at, below, to, units = k * aside.n_weights, -1, 0, 0
        for depth in range(layers.shape[0]):
            layer, n_out = layers[depth], layers[depth][N_OUT]
            is_last = depth == layers.shape[0] - 1
            for quad in range(0, n_out, 4):
                j = min(quad, n_out - 4)
                for block in range(n_blocks):
                    inputs = layer[IN_M] + block * layer[IN_STEP]
                    of_inputs = below + block * step if below >= 0 else -1
                    slopes = -1 if is_last else (block * n_units + units) * BLOCK
                    goes_to = to + block * step
                    if n_out >= 4:
                        _four(work, aside, layer, j, at, inputs, of_inputs, slopes, goes_to)
                    else:
                        for unit in range(n_out):
                            _one(work, aside, layer, unit, at, inputs, of_inputs, slopes, goes_to)
            at += (layer[N_IN] + 1) * n_out
            units += n_out
            below, to = to, half - to
        for block in range(n_blocks):
            variances = last[OUT_V] + block * last[OUT_STEP]
            for j in range(last[N_OUT]):
                move = load_floats(moved, below + block * step + BLOCK * j)
                square = load_floats(room, variances + BLOCK * j) + move * move
                store(room, variances + BLOCK * j, square)
        if far.shape[0] > 0:
            for r in range(count):
                lane = below + r // BLOCK * step + r % BLOCK
                for j in range(last[N_OUT]):
                    far[first + r, k, j] = moved[lane + BLOCK * j]


@called
def look(room, layers, aside, block, first, count):
    """Write what the hidden units of the mean network say of a block of rows."""
    unit = 0
    for depth in range(1, layers.shape[0]):
        layer = layers[depth]
        values = layer[IN_M] + block * layer[IN_STEP]
        for i in range(layer[N_UNITS]):
            for r in range(count):
                aside.z[first + r, unit] = room[values + BLOCK * i + r]
                aside.gains[first + r, unit] = room[layer[SLOPES] + BLOCK * i + r]
            unit += 1
