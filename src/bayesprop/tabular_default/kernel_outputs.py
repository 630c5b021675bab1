"""The compiled loops that evaluate one member at rows: moments of its outputs, and their moves.

How far the outputs of a layer go, before the rectifier, with deviations dw, db of all weights and
biases, to first order, with the expected activations z and the expected slopes g of the rectifiers:

    t_l = sum_i z_i dw_i + db + sum_i w_i g_i t_(l-1)

The arrays are those of `kernel_network.py`; `aside` is an `Aside`.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float32

from bayesprop.numerics.compiled import called, compiled
from bayesprop.numerics.float32_math import ZERO, log_add_exp
from bayesprop.numerics.subnormals import flush_subnormals, restore
from bayesprop.tabular_default.kernel_adam import derive
from bayesprop.tabular_default.kernel_network import (
    BIASES,
    BLOCK,
    IN,
    M_BY_M,
    MOST,
    N_IN,
    N_OUT,
    OUT,
    RECORD,
    ROWS,
    V_BY_M,
    WEIGHTS,
    WIDTHS,
    Z_M,
    Z_V,
    combine,
    forward,
    gather,
)

_MOVE = V_BY_M  # of a unit, once its slopes are not asked for


class Aside(NamedTuple):
    """Properties of a member in addition to its moments.

    deviations
        Of the means of the mean network's weights and biases in their order, one deviation behind
        the other.
    far
        How far each deviation moves the outputs, (n, deviations, outputs), or no rows.
    z, gains
        Expected activations of all hidden units side by side, and the slopes of their rectifiers,
        (n, units), or no rows.
    """

    deviations: Float32[np.ndarray, " d"]
    far: Float32[np.ndarray, "n s o"]
    z: Float32[np.ndarray, "n h"]
    gains: Float32[np.ndarray, "n h"]


@called
def _deviate(layers, theta, room, deviations, n_layers, n_means, to_outputs, far, start, count, n):
    """Replace the variances of the outputs of n rows by the sums of their squared moves.

    n_layers, n_means
        Of the mean network, through which `forward` has just sent these rows.
    """
    n, n_out = n & (MOST - BLOCK + 1), layers[n_layers - 1, N_OUT]
    for j in range(n_out):
        o = (to_outputs + j * RECORD + Z_V) & MOST
        for r in range(o, o + n):
            room[r] = ZERO
    for k in range(deviations.shape[0] // n_means):
        for depth in range(n_layers):
            n_in, n_up, w = layers[depth, N_IN], layers[depth, N_OUT], layers[depth, WEIGHTS]
            at, to, biases = layers[depth, IN], layers[depth, OUT], layers[depth, BIASES]
            for j in range(n_up if biases >= 0 else 0):
                o, deviation = (to + j * RECORD) & MOST, deviations[k * n_means + biases + j]
                for r in range(o, o + n):
                    room[r + _MOVE] = deviation
            own = k * n_means + w
            combine(room, to + _MOVE, room, at + Z_M, deviations, own, n_up, 1, n_in, n_up, n)
            if at > 0:
                combine(room, to + _MOVE, room, at + _MOVE, theta, w, n_up, 1, n_in, n_up, n)
            for j in range(n_up if layers[depth, WIDTHS] != 0 else 0):
                o = (to + j * RECORD) & MOST
                for r in range(o, o + n):
                    room[r + _MOVE] *= room[r + M_BY_M]
        for j in range(n_out):
            o = (to_outputs + j * RECORD) & MOST
            for r in range(o, o + n):
                room[r + Z_V] += room[r + _MOVE] * room[r + _MOVE]
            for r in range(count if far.shape[0] > 0 else 0):
                far[start + r, k, j] = room[o + _MOVE + r]


@compiled
def evaluate(work, aside, x, y, weight, order, m, v, l_m, l_v):
    """Write the moments of a member's outputs at every row.

    aside
        What else is asked for; without deviations, variances are those of independent weights.
    y, weight
        Of no columns and no rows.
    order
        Numbers of the rows, one after another.
    m, v, l_m, l_v
        As in `NoisyOutput`, (n, o).
    """
    before, room, layers, places = flush_subnormals(), work.room, work.layers, work.places
    n_means, n_of_mean, z, gains = work.sizes[0], work.sizes[1], aside.z, aside.gains
    derive(work.theta, work.derived, work.sizes)
    for start in range(0, x.shape[0], ROWS):
        count = x.shape[0] - start
        count = count if count < ROWS else ROWS
        n = count + (-count & (BLOCK - 1))
        gather(room, x, y, weight, order, start, count, n, places.targets)
        forward(layers, work.theta, work.derived, room, n_means, n)
        unit = 0
        for depth in range(places.n_layers if z.shape[0] > 0 else 0):
            for j in range(layers[depth, N_OUT] if layers[depth, WIDTHS] != 0 else 0):
                o = layers[depth, OUT] + j * RECORD
                for r in range(count):
                    z[start + r, unit] = room[o + Z_M + r]
                    gains[start + r, unit] = room[o + M_BY_M + r]
                unit += 1
        if aside.deviations.shape[0] > 0:
            _deviate(
                layers, work.theta, room, aside.deviations, places.n_layers, n_of_mean, places.mean,
                aside.far, start, count, n,
            )  # fmt: skip
        for j in range(m.shape[1]):
            mean, noise = places.mean + j * RECORD, places.noise + j * RECORD
            around, floor = work.theta[places.likelihood + j], work.log_floor[j]
            for r in range(count):
                m[start + r, j], v[start + r, j] = room[mean + Z_M + r], room[mean + Z_V + r]
                l_m[start + r, j] = log_add_exp(room[noise + Z_M + r] + around, floor)
                l_v[start + r, j] = room[noise + Z_V + r]
    restore(before)
