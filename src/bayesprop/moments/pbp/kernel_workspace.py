"""The memory of the compiled engine: weights in blocks of eight units, the bias as one more unit.

A hidden layer is stored as [block of 8 units][input][mean, variance][unit in block]: a block fills
one register, and its weights are one contiguous stream. The last layer is stored as
[output][block of 8 inputs][mean, variance][input in block], so that one output needs no padding.

The input vector of a layer is its units, a one for the bias, and whatever fills the last block.
That one is itself a unit of the layer below: always on, held at 1 by a weight too certain to move.
Units that only fill a block have such weights too, of mean 0, and come out as 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.moments.pbp.state import PBPState
from bayesprop.numerics.machine import aligned_zeros, round_up

BLOCK = 8
PAIR = 2 * BLOCK
"""From one block of means to the next; the variances of a block follow its means."""

UNIT_STEP = 32
"""Units that go through the ReLU together; unit vectors are padded to a multiple of this."""

ROW_STEP = 4
"""An input's old value, its new value and the square of that, and nothing, in Workspace.rows."""

FROZEN_VAR = 1e-99
"""Variance of the weights that fill a block: above the bound of the undo rule, below any use."""

# Columns of Workspace.layers: inputs with the bias, units or outputs, and where the layer's weights
# and the units that feed it begin.
N_ROWS, N_OUT, WEIGHTS, INPUTS = range(4)

# Entries of AverageFactor.rule: average factors that q lacked when a datum came, the share of a new
# factor in the average, and average factors that q will lack when the next datum comes.
REMOVED, SHARE, NEXT_REMOVED = range(3)

_SITES = ("site_shape", "site_rate", "site_prec", "site_prec_mean")


class Workspace(NamedTuple):
    """Flat arrays, which the kernels change in place."""

    layers: Int[np.ndarray, "l 4"]
    scales: Float[np.ndarray, " l"]  # 1 / sqrt(inputs with the bias)
    weights: Float[np.ndarray, " p"]
    z_m: Float[np.ndarray, " u"]
    z_v: Float[np.ndarray, " u"]
    dm_dm: Float[np.ndarray, " u"]
    dm_dv: Float[np.ndarray, " u"]
    dv_dm: Float[np.ndarray, " u"]
    dv_dv: Float[np.ndarray, " u"]
    grad_m: Float[np.ndarray, " u"]  # of log Z by the moments of the units
    grad_v: Float[np.ndarray, " u"]
    v_bound: Float[np.ndarray, " u"]  # over the weights into each unit of the first hidden layer
    rows: Float[np.ndarray, " r"]
    f_m: Float[np.ndarray, " o"]
    f_v: Float[np.ndarray, " o"]
    grad_f_m: Float[np.ndarray, " o"]
    grad_f_v: Float[np.ndarray, " o"]
    noise_shape: Float[np.ndarray, " o"]
    noise_rate: Float[np.ndarray, " o"]


class Sites(NamedTuple):
    """The prior factors in the order in which they are refreshed, and q(lambda)."""

    places: Int[np.ndarray, " w"]  # of the means in Workspace.weights
    start_var: Float[np.ndarray, " w"]  # of the random means, 0 where none are drawn
    shape: Float[np.ndarray, " w"]  # these four in the order of _SITES
    rate: Float[np.ndarray, " w"]
    prec: Float[np.ndarray, " w"]
    prec_mean: Float[np.ndarray, " w"]
    prior: Float[np.ndarray, " 2"]  # shape, rate


class AverageFactor(NamedTuple):
    """Stochastic EP's average factor, and how to apply it.

    The natural parameters of the weights, m/v and 1/v, lie as moments do in Workspace.weights.
    """

    average: Float[np.ndarray, " p"]
    noise_average: Float[np.ndarray, "2 o"]  # of shape and rate
    rule: Float[np.ndarray, "3"]


class _Plan(NamedTuple):
    """Where everything lies, for one choice of layer sizes."""

    layers: Int[np.ndarray, "l 4"]
    scales: Float[np.ndarray, " l"]
    places: Int[np.ndarray, " w"]  # by layer, then unit, then input: the order of the paper
    start_var: Float[np.ndarray, " w"]
    blank: Float[np.ndarray, " p"]  # weights before the model's own are put in place


def _places(n_rows: int, n_out: int, *, last: bool) -> Int[np.ndarray, "o i"]:
    """Return where the mean of the weight from input i to unit o lies, within its layer."""
    unit, row = np.arange(n_out)[:, None], np.arange(n_rows)
    if last:
        return unit * 2 * round_up(n_rows, BLOCK) + row // BLOCK * PAIR + row % BLOCK
    return (unit // BLOCK * n_rows + row) * PAIR + unit % BLOCK


@lru_cache(maxsize=64)
def _plan(sizes: tuple[int, ...]) -> _Plan:
    layers, places, start_var, n_weights, n_units = [], [], [], 0, 0
    ones = []  # where the weights are that hold the bias units at 1
    for depth, (n_in, n_out) in enumerate(pairwise(sizes), start=2):
        last, n_rows = depth == len(sizes), n_in + 1
        layers.append((n_rows, n_out, n_weights, n_units))
        where = n_weights + _places(n_rows, n_out + (not last), last=last)
        places.append(where[:n_out].ravel())
        start_var.append(np.full(n_out * n_rows, 1.0 / n_rows if len(sizes) > 2 else 0.0))
        ones.extend(where[n_out:, -1])
        n_weights += 2 * (
            n_out * round_up(n_rows, BLOCK) if last else n_rows * round_up(n_out + 1, BLOCK)
        )
        n_units += round_up(n_rows, UNIT_STEP)
    blank = np.zeros(n_weights)
    blank.reshape(-1, 2, BLOCK)[:, 1] = FROZEN_VAR
    blank[ones] = np.sqrt([n_rows for n_rows, *_ in layers[:-1]])
    table, flat = np.array(layers), np.concatenate(places)
    scales = 1.0 / np.sqrt(table[:, N_ROWS])
    arrays = table, scales, flat, np.concatenate(start_var), blank
    for array in arrays:
        array.setflags(write=False)  # threads share them
    return _Plan(*arrays)


class Packed(NamedTuple):
    """A state in the layout of the kernels; no average factor under assumed density filtering."""

    work: Workspace
    sites: Sites
    average: AverageFactor | None


def work_of(state: PBPState) -> Workspace:
    """Lay copies of the weights and of the noise's Gammas beside scratch memory."""
    return _work_of(state, *_flatten(state.m, state.v))


def _work_of(state: PBPState, m: Float[np.ndarray, " w"], v: Float[np.ndarray, " w"]) -> Workspace:
    plan = _plan(state.layer_sizes)
    layers = plan.layers
    last_rows, n_out, _, inputs = layers[-1].tolist()
    n_units, n_weights = inputs + round_up(last_rows, UNIT_STEP), len(plan.blank)
    units, rows = n_weights + 9 * n_units, ROW_STEP * int(layers[0, N_ROWS])
    room = aligned_zeros(units + rows + 6 * n_out)  # each part fills cache lines but for the last
    weights, outputs = room[:n_weights], room[units + rows :].reshape(6, n_out)
    weights[:] = plan.blank
    weights[plan.places] = m
    weights[plan.places + BLOCK] = v
    outputs[4], outputs[5] = state.noise_shape, state.noise_rate
    arrays = [
        layers,
        plan.scales,
        weights,
        *room[n_weights:units].reshape(9, n_units),
        room[units : units + rows],
        *outputs,
    ]
    return Workspace(*arrays)


def pack(state: PBPState, *, with_average: bool = False) -> Packed:
    """Copy a state into the layout of the kernels."""
    m, v, *flat = _flatten(state.m, state.v, *(getattr(state, name) for name in _SITES))
    prior = np.array([state.prior_shape, state.prior_rate], dtype=np.float64)
    plan = _plan(state.layer_sizes)
    sites = Sites._make((plan.places, plan.start_var, *flat, prior))
    return Packed(_work_of(state, m, v), sites, _pack_average(state) if with_average else None)


def _pack_average(state: PBPState) -> AverageFactor:
    plan = _plan(state.layer_sizes)
    average = aligned_zeros(len(plan.blank))
    natural = _flatten(state.lik_prec_mean, state.lik_prec)
    average[plan.places], average[plan.places + BLOCK] = natural
    noise_average = np.stack([state.lik_noise_shape, state.lik_noise_rate]).astype(np.float64)
    return AverageFactor(average, noise_average, np.zeros(3))


def unpack(packed: Packed, state: PBPState) -> PBPState:
    """Return the state with what was packed, as it is now, in the place of its own."""
    work, sites, average = packed
    places = sites.places
    names = ["m", "v", *_SITES]
    flat = [work.weights[places], work.weights[places + BLOCK], *sites[2:-1]]
    vectors = {"noise_shape": work.noise_shape, "noise_rate": work.noise_rate}
    if average is not None:
        names += ["lik_prec_mean", "lik_prec"]
        flat += [average.average[places], average.average[places + BLOCK]]
        vectors["lik_noise_shape"], vectors["lik_noise_rate"] = average.noise_average
    prior = {"prior_shape": sites.prior[0], "prior_rate": sites.prior[1]}
    return state._replace(
        **dict(zip(names, _unflatten(flat, state.m), strict=True)),
        **{name: vector.copy() for name, vector in vectors.items()},
        **{name: np.asarray(number) for name, number in prior.items()},
    )


def _flatten(*parts: Sequence[np.ndarray]) -> Float[np.ndarray, "k w"]:
    """Copy the layers of k quantities into a row each."""
    every = [layer.T.ravel() for layers in parts for layer in layers]
    return np.concatenate(every, dtype=np.float64).reshape(len(parts), -1)


def _unflatten(
    flat: Sequence[Float[np.ndarray, " w"]], like: Sequence[np.ndarray]
) -> Iterator[tuple[np.ndarray, ...]]:
    """Undo `_flatten`: layers of a copy, as `like` has them, of one quantity after another."""
    every, layers, end = np.concatenate(flat).reshape(len(flat), -1), [], 0
    for layer in like:
        start, end = end, end + layer.size
        shape = len(flat), *layer.shape[::-1]
        layers.append(every[:, start:end].reshape(shape).transpose(0, 2, 1))
    return zip(*layers, strict=True)


def read_only(table: np.ndarray) -> np.ndarray:
    """Return a read-only view: code for arrays that may be written to would be compiled apart."""
    view = table.view()
    view.setflags(write=False)
    return view
