"""The memory of the compiled engine: weights in blocks of eight units, the bias as one more unit.

A hidden layer is stored as [block of 8 units][input][unit in block]: the units of a block lie in
one register, and its weights are one contiguous stream. The last layer is stored as
[output][input], so that one output needs no padding. The input vector of a layer is its units, a
one for the bias, and whatever fills the last block.

That one is itself a unit of the layer below: always on, held at 1 by a weight too certain to move.
Units that only fill a block have such weights too, of mean 0, and come out as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.moments.pbp_state import PBPState

BLOCK = 8
UNIT_STEP = 16
"""Unit vectors are padded to this, the widest step of a kernel over them."""

FROZEN_VAR = 1e-99
"""Variance of the weights that fill a block: above the bound of the undo rule, below any use."""

# Columns of Workspace.layers: inputs with the bias, units or outputs, start of the weights, start
# of the input units.
N_ROWS, N_OUT, WEIGHTS, INPUTS = range(4)


class Workspace(NamedTuple):
    """Flat arrays, which the kernels change in place."""

    layers: Int[np.ndarray, "l 4"]
    order: Int[np.ndarray, " w"]  # where weights lie, by layer, then unit, then input
    m: Float[np.ndarray, " p"]
    v: Float[np.ndarray, " p"]
    z_m: Float[np.ndarray, " u"]
    z_v: Float[np.ndarray, " u"]
    dm_dm: Float[np.ndarray, " u"]
    dm_dv: Float[np.ndarray, " u"]
    dv_dm: Float[np.ndarray, " u"]
    dv_dv: Float[np.ndarray, " u"]
    grad_m: Float[np.ndarray, " u"]
    grad_v: Float[np.ndarray, " u"]
    rows: Float[np.ndarray, " r"]
    f_m: Float[np.ndarray, " o"]
    f_v: Float[np.ndarray, " o"]
    grad_f_m: Float[np.ndarray, " o"]
    grad_f_v: Float[np.ndarray, " o"]
    noise_shape: Float[np.ndarray, " o"]
    noise_rate: Float[np.ndarray, " o"]


class Sites(NamedTuple):
    """The prior factors in the order in which they are refreshed, and q(lambda)."""

    shape: Float[np.ndarray, " w"]
    rate: Float[np.ndarray, " w"]
    prec: Float[np.ndarray, " w"]
    prec_mean: Float[np.ndarray, " w"]
    prior: Float[np.ndarray, " 2"]


def _padded(n: int, step: int) -> int:
    return -(-n // step) * step


def aligned(size: int) -> Float[np.ndarray, " size"]:
    """Return zeros that start at a cache line: a register that spans two costs twice."""
    buffer = np.zeros(size + 8)
    start = -(buffer.ctypes.data // 8) % 8
    return buffer[start : start + size]


def _plan(sizes: Sequence[int]) -> tuple[Int[np.ndarray, "l 4"], int, int]:
    """Return the layer table, and how many weights and units there are with their padding."""
    rows, n_weights, n_units = [], 0, 0
    for depth, (n_in, n_out) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        rows.append((n_in + 1, n_out, n_weights, n_units))
        last = depth == len(sizes) - 2
        n_weights += (
            n_out * _padded(n_in + 1, BLOCK) if last else (n_in + 1) * _padded(n_out + 1, BLOCK)
        )
        n_units += _padded(n_in + 1, UNIT_STEP)
    return np.array(rows, dtype=np.int64), n_weights, n_units


def _places(layer: Int[np.ndarray, " 4"], *, last: bool, n_out: int) -> Int[np.ndarray, "o i"]:
    """Return where the weight from input i to unit o lies."""
    n_rows, start = int(layer[N_ROWS]), int(layer[WEIGHTS])
    unit, row = np.arange(n_out)[:, None], np.arange(n_rows)
    if last:
        return start + unit * _padded(n_rows, BLOCK) + row
    return start + (unit // BLOCK * n_rows + row) * BLOCK + unit % BLOCK


def pack(state: PBPState) -> Workspace:
    """Copy what a pass over the data needs."""
    layers, n_weights, n_units = _plan(state.layer_sizes)
    n_outputs = state.layer_sizes[-1]
    order, m, v = [], aligned(n_weights), aligned(n_weights)
    v[:] = FROZEN_VAR
    for depth, layer in enumerate(layers):
        last = depth == len(layers) - 1
        places = _places(layer, last=last, n_out=int(layer[N_OUT]))
        order.append(places.ravel())
        m[places], v[places] = state.m[depth].T, state.v[depth].T
        if not last:
            bias_unit = _places(layer, last=False, n_out=int(layer[N_OUT]) + 1)[-1]
            m[bias_unit[-1]] = np.sqrt(layer[N_ROWS])
    return Workspace(
        layers,
        np.concatenate(order),
        m,
        v,
        *(aligned(n_units) for _ in range(8)),
        aligned(3 * _padded(int(layers[0, N_ROWS]), UNIT_STEP)),
        *(np.zeros(n_outputs) for _ in range(4)),
        np.array(state.noise_shape, dtype=np.float64),
        np.array(state.noise_rate, dtype=np.float64),
    )


def flatten(layers: Sequence[np.ndarray]) -> Float[np.ndarray, " w"]:
    """Return the weights of all layers by layer, unit, input: the order of the paper."""
    return np.concatenate([layer.T.ravel() for layer in layers]).astype(np.float64, copy=False)


def unflatten(
    flat: Float[np.ndarray, " w"], like: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """Undo `flatten`."""
    ends = np.cumsum([layer.size for layer in like])[:-1]
    return tuple(
        np.ascontiguousarray(part.reshape(layer.shape[::-1]).T)
        for part, layer in zip(np.split(flat, ends), like, strict=True)
    )


def pack_sites(state: PBPState) -> Sites:
    """Copy what a refresh of the prior factors needs."""
    return Sites(
        flatten(state.site_shape),
        flatten(state.site_rate),
        flatten(state.site_prec),
        flatten(state.site_prec_mean),
        np.array([state.prior_shape, state.prior_rate], dtype=np.float64),
    )


def unpack(work: Workspace, state: PBPState) -> PBPState:
    """Return the state with the weights and the noise of the workspace."""
    return state._replace(
        m=unflatten(work.m[work.order], state.m),
        v=unflatten(work.v[work.order], state.v),
        noise_shape=work.noise_shape.copy(),
        noise_rate=work.noise_rate.copy(),
    )


def unpack_sites(sites: Sites, state: PBPState) -> PBPState:
    """Return the state with the prior factors of the workspace."""
    return state._replace(
        site_shape=unflatten(sites.shape, state.m),
        site_rate=unflatten(sites.rate, state.m),
        site_prec=unflatten(sites.prec, state.m),
        site_prec_mean=unflatten(sites.prec_mean, state.m),
        prior_shape=np.asarray(sites.prior[0]),
        prior_rate=np.asarray(sites.prior[1]),
    )
