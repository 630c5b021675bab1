"""Where a member lies in the arrays of its compiled loop."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

from bayesprop.numerics.machine import aligned_parts, round_up
from bayesprop.tabular_default.kernel_adam import BY_INPUT, BY_MATRIX, BY_OUTPUT, FIXED
from bayesprop.tabular_default.kernel_member import N_NUMBERS, N_SUMS, Places, Work
from bayesprop.tabular_default.kernel_network import BLOCK, Job, Layer
from bayesprop.tabular_default.settings import Priors

if TYPE_CHECKING:
    from bayesprop.tabular_default.networks import Member

Vector = Float32[np.ndarray, " p"]
NO_NORMALS = np.zeros(BLOCK, np.float32)


class Layout(NamedTuple):
    """Places and sizes; what they mean: `kernel_network` and `Work`.

    leaves
        Places in theta of a member's parameters, in the order of `flat`.
    """

    leaves: Int[np.ndarray, " p"]
    n_theta: int
    n_room: int
    ones: int
    layers: Int[np.ndarray, "l c"]
    spreads: Float[np.ndarray, " l"]
    jobs: Int[np.ndarray, "j 7"]
    places: Places

    def work(self, parameters: Vector, log_floor: Vector, normals: Vector = NO_NORMALS) -> Work:
        """Make the arrays of a member."""
        n, n_numbers = self.n_theta, N_NUMBERS * len(log_floor)
        sizes = n, n, n, n, 2 * n, n, self.n_room, BLOCK, n_numbers, normals.size
        *arrays, of_normals = aligned_parts(*sizes)
        of_normals[:] = normals
        work = Work(
            *arrays,
            log_floor=np.array(log_floor, np.float32),  # of one type, also from a file
            normals=of_normals,
            layers=self.layers,
            spreads=self.spreads,
            bias_pulls=np.zeros(len(self.layers)),
            jobs=self.jobs,
            places=self.places,
        )
        work.theta[self.leaves] = parameters
        work.room[self.ones : self.ones + BLOCK] = 1.0
        return work


class _Places:
    """Hands out places in an array that is still to be made."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, size: int) -> int:
        at, self.size = self.size, self.size + round_up(size, BLOCK)
        return at


def _step(n_units: int) -> int:
    """From block to block: sums are taken of sixteen units at a time."""
    return round_up(n_units, BLOCK) * BLOCK


def layout(member: Member, batch_size: int, priors: Priors) -> Layout:
    """Lay out a member for so many rows at a time."""
    n_thresholds = len(member.thresholds)
    return _layout(*member.sizes, n_thresholds, batch_size, priors, is_direct=member.is_direct)


@lru_cache(maxsize=16)
def _layout(
    mean_sizes: tuple[int, ...],
    noise_sizes: tuple[int, ...],
    n_thresholds: int,
    batch_size: int,
    priors: Priors,
    *,
    is_direct: bool,
) -> Layout:
    n_in, n_out, n_blocks = mean_sizes[0], mean_sizes[-1], -(-batch_size // BLOCK)
    theta, room = _Places(), _Places()
    leaves, layers, spreads = [], [], []

    def leaf(size: int) -> int:
        at = theta.take(size)
        leaves.append(at + np.arange(size))
        return at

    def rows(n_units: int, n_kinds: int) -> list[int]:
        return [room.take(_step(n_units) * n_blocks) for _ in range(n_kinds)]

    x, x_squared = rows(n_in, 2)
    for sizes, is_noise in ((mean_sizes, False), (noise_sizes, True)):
        for depth, (n_below, n_above) in enumerate(pairwise(sizes)):
            is_last, n_units = depth == len(sizes) - 2, n_below
            n_below += n_in if is_direct and is_last and not is_noise else 0
            n_weights = n_below * n_above
            parts = [leaf(size) for size in (n_weights, n_weights, n_above, n_above)]
            inputs = rows(n_below, 3) if depth else [x, x, x_squared]
            outputs, slopes = rows(n_above, 2), room.take(5 * _step(n_units))
            groups, spread = _prior(priors, is_noise=is_noise, depth=depth, is_last=is_last)
            numbers = [*parts, *inputs, _step(n_below), *outputs, _step(n_above), slopes, groups]
            of_widths = -1 if is_noise or is_last else rows(n_above, 1)[0]
            layers.append(Layer._make([n_below, n_above, n_units, *numbers, -1, of_widths]))
            spreads.append(spread)
    of_noise = [leaf(n_out if noise_sizes[1:] else 0) for _ in range(3)]
    thresholds, n_targets = leaf(n_thresholds), n_thresholds + 1 if n_thresholds else n_out
    for k, layer in enumerate(layers[: len(mean_sizes) - 2]):
        layers[k] = layer._replace(widths=leaf(layer.n_out))
    theta.take(4 * max(*mean_sizes, *noise_sizes) + BLOCK)  # looked at, never used
    ones = room.take(BLOCK)
    places = Places(
        len(mean_sizes) - 1,
        n_thresholds,
        *of_noise,
        thresholds=thresholds,
        y=room.take(n_targets * BLOCK * n_blocks),
        weight=room.take(BLOCK * n_blocks),
        sums=room.take(n_targets * BLOCK * N_SUMS),
        ends=room.take(3 * (n_thresholds + 1)),
    )
    jobs = [job for layer in layers for job in _jobs(layer, ones, theta.size)]
    return Layout(
        np.concatenate(leaves),
        theta.size,
        room.size + _step(BLOCK),
        ones,
        np.array(layers),
        np.array(spreads),
        np.array(jobs),
        places,
    )


def _prior(priors: Priors, *, is_noise: bool, depth: int, is_last: bool) -> tuple[int, float]:
    """Return the groups of a layer's weights, and their prior's number."""
    if is_noise:
        return FIXED, priors.last_noise if is_last else priors.noise
    return BY_OUTPUT if is_last else BY_INPUT if depth == 0 else BY_MATRIX, priors.mean


def _jobs(layer: Layer, ones: int, behind: int) -> list[Job]:
    """List what `products` has to do for the slopes of a layer."""
    inputs, outputs, one = (layer.in_step, layer.n_in), (layer.out_step, layer.n_out), (ones, 0, 1)
    m, v, q = ((at, *inputs) for at in (layer.in_m, layer.in_v, layer.in_q))
    of_m, of_v = ((at, *outputs) for at in (layer.out_m, layer.out_v))
    jobs = [
        Job(*m, *of_m, layer.w_m),
        Job(*q, *of_v, layer.w_s),
        Job(*of_m, *one, layer.b_m),
        Job(*of_v, *one, layer.b_s),
    ]
    if layer.widths >= 0:
        jobs.append(Job(layer.out_widths, *outputs, *one, layer.widths))
    is_first = layer.in_v == layer.in_m
    return jobs if is_first else [*jobs, Job(*v, *of_v, behind + layer.w_m)]
