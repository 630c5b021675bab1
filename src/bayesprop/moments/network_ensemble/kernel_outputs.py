"""The compiled loops that evaluate one member: moments of its outputs at rows.

The arrays are those of `kernel_network.py`.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from bayesprop.moments.network_ensemble.kernel_adam import derive
from bayesprop.moments.network_ensemble.kernel_deviations import deviate, look, send_back
from bayesprop.moments.network_ensemble.kernel_network import (
    BLOCK,
    forward,
    last_layer,
    layer_at,
    least,
)
from bayesprop.simd.floats import log_add_exp
from bayesprop.simd.lanes import called, compiled, inlined, load_floats, spread_at, store
from bayesprop.simd.references import reference_to
from bayesprop.simd.subnormals import flush_subnormals, restore


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
                look(work, aside, block, first, count)
            if aside.n_deviations > 0:
                send_back(work, aside, block, n_units)
            to = block * noise.out_step
            for j in range(noise.n_out):
                at = noise.out_m + to + BLOCK * j
                around = load_floats(room, at) + spread_at(work.theta, places.log_noise + j)
                store(room, at, log_add_exp(around, spread_at(work.log_floor, j)))
            scatter(room, mean.out_m + block * mean.out_step, m, first, count)
            scatter(room, noise.out_m + to, l_m, first, count)
            scatter(room, noise.out_v + to, l_v, first, count)
        if aside.n_deviations > 0:
            deviate(work, aside, n_blocks, n_units, start, n)
        for block in range(n_blocks):
            first, count = start + BLOCK * block, least(BLOCK, n - BLOCK * block)
            scatter(room, mean.out_v + block * mean.out_step, v, first, count)
    restore(before)
