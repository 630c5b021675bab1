"""Where a member lies in the arrays of its compiled loops, and the loops that evaluate it at rows.

Those return the moments of its outputs, and their moves: how far the outputs of a layer go, before
the rectifier, with deviations dw, db of all weights and biases, to first order, with the expected
activations z and the expected slopes g of the rectifiers:

    t_l = sum_i z_i dw_i + db + sum_i w_i g_i t_(l-1)

The arrays are those of `kernel_network.py`; `aside` is an `Aside`.
"""
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

from bayesprop.numerics.compiled import called, compiled, flush_subnormals, restore
from bayesprop.numerics.float32_math import ZERO, log_add_exp
from bayesprop.numerics.machine import aligned_parts
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
from bayesprop.tabular_default.settings import Priors

if TYPE_CHECKING:
    from bayesprop.tabular_default.networks import Member


Vector = Float32[np.ndarray, " p"]
NO_NORMALS = np.zeros(1, np.float32)
# pyright: reportArgumentType=false, reportCallIssue=false


_MOVE = V_BY_M  # of a unit, once its slopes are not asked for


class Work(NamedTuple):
    """All that a member needs between calls and within a step.

    theta, derived, gradient, room, layers
        See `kernel_network.py`.
    slope, square
        What Adam remembers of the slopes and their squares.
    pull, groups, modes, sizes
        See `kernel_adam.py`.
    few
        Room for what a batch says of its rows, and three numbers of every class.
    log_floor, normals
        Log of the least noise variance of every output; draws of classes.
    places
        See `Places`.
    """

    theta: Vector
    slope: Vector
    square: Vector
    derived: Vector
    gradient: Vector
    pull: Vector
    room: Vector
    few: Vector
    log_floor: Vector
    normals: Vector
    layers: Int[np.ndarray, "l 7"]
    groups: Int[np.ndarray, "g 6"]
    modes: Float[np.ndarray, " g"]
    sizes: Int[np.ndarray, " 3"]
    places: Places


class Places(NamedTuple):
    """Records of the two networks' outputs and of the targets; the likelihood's place in theta.

    likelihood
        Of numbers log noise variances, those that the mean network sees, and raw degrees of
        freedom, of all outputs each. Of ordered classes thresholds, see `kernel_classes.py`.
    n_thresholds, n_layers
        Of them, and of the mean network's rows of `layers`.
    """

    mean: int
    noise: int
    targets: int
    likelihood: int
    n_thresholds: int
    n_layers: int


class Layout(NamedTuple):
    """Places and sizes.

    leaves
        Places in theta of a member's parameters, in the order of `flat`.
    """

    leaves: Int[np.ndarray, " p"]
    n_records: int
    n_targets: int
    layers: Int[np.ndarray, "l 7"]
    groups: Int[np.ndarray, "g 6"]
    modes: Float[np.ndarray, " g"]
    sizes: Int[np.ndarray, " 3"]
    places: Places

    def work(self, parameters: Vector, log_floor: Vector, normals: Vector = NO_NORMALS) -> Work:
        """Make the arrays of a member."""
        n, n_means = len(self.leaves), int(self.sizes[0])
        n_few = RECORD + 3 * self.n_targets
        sizes = n, n, n, n, n + n_means, n_means, self.n_records * RECORD, n_few, normals.size
        *arrays, of_normals = aligned_parts(*sizes)
        of_normals[:] = normals
        work = Work(
            *arrays,
            log_floor=np.array(log_floor, np.float32),  # of one type, also from a file
            normals=of_normals,
            layers=self.layers,
            groups=self.groups,
            modes=self.modes,
            sizes=self.sizes,
            places=self.places,
        )
        work.theta[self.leaves] = parameters
        return work


def layout(member: Member, priors: Priors) -> Layout:
    """Lay out a member."""
    return _layout(*member.sizes, len(member.thresholds), priors, is_direct=member.is_direct)


@lru_cache(maxsize=16)
def _layout(
    mean_sizes: tuple[int, ...],
    noise_sizes: tuple[int, ...],
    n_thresholds: int,
    priors: Priors,
    *,
    is_direct: bool,
) -> Layout:
    n_x, n_records, at = mean_sizes[0], mean_sizes[0], 0
    layers, groups, modes, parts, outputs, n_of_mean = [], [], [], [], [], 0
    n_layers = 0

    def share(first: int, shape: tuple[int, ...], mode: float, *, is_given: bool = False) -> None:
        """Give groups of weights, which lie as rows of a table, or its columns, a prior each."""
        groups.append([first, *shape, is_given])
        modes.append(mode)

    for sizes, is_noise in ((mean_sizes, False), (noise_sizes, True)):
        source = 0
        for depth, (n_units, n_out) in enumerate(pairwise(sizes)):
            is_last, is_first = depth == len(sizes) - 2, depth == 0
            n_direct = n_x if is_last and is_direct and not is_noise else 0
            n_in = n_units + n_direct
            biases, goal = at + n_in * n_out, n_records * RECORD
            n_records += n_out
            width = 0 if is_last else -1 if is_noise else 1
            layers.append([n_units, n_out, at, biases, source, goal, width])
            if n_direct:
                layers.append([n_x, n_out, at + n_units * n_out, -1, 0, goal, 0])
            if is_noise:
                var = (priors.last_noise if is_last else priors.noise) / n_in
                share(at, (1, 0, n_in * n_out, 1), var, is_given=True)
            elif is_last:
                for first, n in ((at, n_units), (at + n_units * n_out, n_direct)):
                    if n:
                        share(first, (n_out, 1, n, n_out), priors.mean / n)
            else:
                n_groups = n_in if is_first else 1
                share(at, (n_groups, n_out, n_in * n_out // n_groups, 1), priors.mean / n_in)
            share(biases, (1, 0, n_out, 1), 1.0, is_given=is_noise)
            parts.append((at, biases, biases + n_out))
            at, source = biases + n_out, goal
        outputs.append(source)
        n_of_mean, n_layers = n_of_mean or at, n_layers or len(layers)
    n_widths, n_out = sum(mean_sizes[1:-1]), mean_sizes[-1]
    next_width = 2 * at
    for layer in layers:
        if layer[-1] > 0:
            layer[-1], next_width = next_width, next_width + layer[1]
    likelihood = 2 * at + n_widths
    n_of_likelihood = 3 * n_out if noise_sizes[1:] else n_thresholds
    leaves = [np.arange(first, end) + k for a, b, c in parts
              for first, end in ((a, b), (b, c)) for k in (0, at)]  # fmt: skip
    leaves += [likelihood + np.arange(n_of_likelihood), 2 * at + np.arange(n_widths)]
    n_targets = n_thresholds + 1 if n_thresholds else n_out
    places = n_records * RECORD, likelihood, n_thresholds, n_layers
    return Layout(
        np.concatenate(leaves),
        n_records + n_targets,
        n_targets,
        np.array(layers),
        np.array(groups, np.int64),
        np.array(modes),
        np.array([at, n_of_mean, n_widths]),
        Places._make([*outputs, *places]),
    )


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
