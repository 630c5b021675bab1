"""What members say of rows, by compiled loops: moments, activations, moves; of classes, shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
from jaxtyping import Float, Float32

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.numerics.machine import aligned_parts, n_cores, round_up
from bayesprop.tabular_default.components import Components
from bayesprop.tabular_default.kernel_classes import evaluate_classes
from bayesprop.tabular_default.kernel_layout import layout
from bayesprop.tabular_default.kernel_network import BLOCK, PADDING
from bayesprop.tabular_default.kernel_outputs import Aside, evaluate
from bayesprop.tabular_default.networks import (
    LEAST_DOF,
    Member,
    Networks,
    flat,
    init_member,
    init_networks,
)
from bayesprop.tabular_default.settings import Priors, settings_for

_ROWS_AT_A_TIME, _ROWS_A_TASK = 128, 16_384  # a multiple of the rows in a block
_NOT_ASKED = np.empty((0, 0), np.float32)
_NO_MOVES = np.empty((0, 0, 0), np.float32)


def outputs(networks: Networks, x: Float[np.ndarray, "n d"]) -> Components:
    """Moments of every member at every row; float64."""
    x = np.ascontiguousarray(x, np.float32)
    moments = np.empty((4, networks.n_members, len(x), networks.n_outputs))

    def some(member: int, first: int, bench: _Bench | None = None) -> None:
        rows = slice(first, first + _ROWS_A_TASK)
        bench = bench or _Bench(networks, len(x[rows]))
        bench.evaluate(member, x[rows], moments[:, member, rows])

    tasks = list(product(range(networks.n_members), range(0, len(x), _ROWS_A_TASK)))
    n_threads = min(len(tasks), n_cores())
    if n_threads <= 1 or len(x) < _ROWS_AT_A_TIME:  # to start another takes longer
        bench = _Bench(networks, min(len(x), _ROWS_A_TASK))
        for task in tasks:
            some(*task, bench)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(some, *zip(*tasks, strict=True)))
    raw_dof = np.array([[member.raw_dof] for member in networks.members], np.float64)
    dof = LEAST_DOF + np.logaddexp(0.0, raw_dof)
    share = 1.0 / networks.n_members
    return Components.of(*moments, dof=dof, share=share, floor=networks.log_floor)


def activations(
    networks: Networks, x: Float[np.ndarray, "n d"], member: int
) -> tuple[Float32[np.ndarray, "n h"], Float32[np.ndarray, "n h"]]:
    """Return the expected activations of a mean network's hidden units, and their slopes.

    Slopes of the expected activations in the means of what comes in; layers side by side.
    """
    n_units = sum(networks.members[member].sizes[0][1:-1])
    z, gains = (np.empty((len(x), n_units), np.float32) for _ in range(2))
    _Bench(networks, len(x)).evaluate(member, x, z=z, gains=gains)
    return z, gains


def moves(
    networks: Networks, x: Float[np.ndarray, "n d"], member: int
) -> Float32[np.ndarray, "n s o"]:
    """How far each of a member's factors moves the means of its outputs."""
    far = np.empty((len(x), networks.factors.shape[1], networks.n_outputs), np.float32)
    _Bench(networks, len(x)).evaluate(member, x, far=far)
    return far


def rehearse() -> None:
    """Predict by an ensemble, of no account, so that what does is compiled: see `simd.beside`."""
    y = np.array([[-1.0], [1.0]])
    networks = init_networks(0, 1, y, settings_for(len(y)))
    predicted = outputs(networks, y).predictive()
    predicted.interval()
    predicted.pit(y)
    predicted.crps(y)


def class_outputs(
    members: Sequence[Member], x: Float[np.ndarray, "n e"], points: Float32[np.ndarray, "p c"]
) -> Iterator[ClassPredictive]:
    """Predict by each of some networks of the same sizes; rows are given as they are given them."""
    n_pairs, n_classes = points.shape
    size = min(_ROWS_AT_A_TIME, round_up(max(len(x), 1), BLOCK))
    plan = layout(members[0], size, Priors())  # of which outputs do not depend
    work = plan.work(flat(members[0]), np.zeros(n_classes, np.float32), points.ravel())
    x = np.ascontiguousarray(x, np.float32)
    for member in members:
        work.theta[plan.leaves] = flat(member)
        proba, entropy = np.empty((len(x), n_classes)), np.empty((len(x), 1))
        evaluate_classes(work, x, size, n_pairs, proba, entropy)
        yield ClassPredictive.of_codes(proba, entropy[:, 0])


def rehearse_classes() -> None:
    """Evaluate a network, of no account, so that what does is compiled: see `simd.beside`."""
    network = init_member(np.random.default_rng(0), (1, 4, 2))
    list(class_outputs([network], np.zeros((1, 1)), np.zeros((1, 2), np.float32)))


class _Bench:
    """Arrays in which the members of an ensemble are evaluated one after another."""

    def __init__(self, networks: Networks, n_rows: int) -> None:
        one, n_outputs = networks.members[0], networks.n_outputs
        self.networks, self.size = networks, min(_ROWS_AT_A_TIME, round_up(n_rows, BLOCK))
        self.plan = layout(one, self.size, Priors())  # of which outputs do not depend
        self.work = self.plan.work(flat(one), networks.log_floor)
        n_values, n_units = networks.factors[0].size, sum(one.sizes[0][1:-1])
        room = n_values + PADDING, n_units * n_outputs * self.size, n_outputs * self.size
        self.factors, self.back, self.moved = aligned_parts(*room)

    def evaluate(
        self,
        member: int,
        x: Float[np.ndarray, "n d"],
        moments: Float[np.ndarray, "4 n o"] | None = None,
        *,
        far: np.ndarray = _NO_MOVES,
        z: np.ndarray = _NOT_ASKED,
        gains: np.ndarray = _NOT_ASKED,
    ) -> None:
        """Write what is asked for of one member."""
        self.work.theta[self.plan.leaves] = flat(self.networks.members[member])
        n_outputs, (n, n_weights) = self.networks.n_outputs, self.networks.factors.shape[1:]
        values, back, moved = self.factors, self.back, self.moved
        values[: n * n_weights] = self.networks.factors[member].ravel()
        aside = Aside(values, n, n_weights, n_outputs, back, moved, far, z, gains)
        if moments is None:
            moments = np.empty((4, len(x), n_outputs))
        evaluate(self.work, aside, np.ascontiguousarray(x, np.float32), self.size, *moments)
