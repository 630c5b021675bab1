"""Where a member lies in the arrays of its compiled loop."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

from bayesprop.numerics.machine import aligned_parts
from bayesprop.tabular_default.kernel_network import RECORD
from bayesprop.tabular_default.settings import Priors

if TYPE_CHECKING:
    from bayesprop.tabular_default.networks import Member

Vector = Float32[np.ndarray, " p"]
NO_NORMALS = np.zeros(1, np.float32)


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
