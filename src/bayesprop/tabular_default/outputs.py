"""What members say of rows, by compiled loops: moments, activations, moves; of classes, shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32

from bayesprop.numerics.machine import n_cores
from bayesprop.simd.lanes import aligned_parts, round_up
from bayesprop.tabular_default.gaussian_network import Priors
from bayesprop.tabular_default.kernel_classes import evaluate_classes
from bayesprop.tabular_default.kernel_layout import layout
from bayesprop.tabular_default.kernel_network import BLOCK, PADDING
from bayesprop.tabular_default.kernel_outputs import Aside, evaluate
from bayesprop.tabular_default.member import LEAST_DOF, Member, flat, init_classes
from bayesprop.tabular_default.noisy_output import NoisyOutput, predictive
from bayesprop.tabular_default.settings import settings_for
from bayesprop.tabular_default.state import EnsembleState, init

_ROWS_AT_A_TIME, _ROWS_A_TASK = 128, 16_384  # a multiple of the rows in a block
_NOT_ASKED = np.empty((0, 0), np.float32)
_NO_MOVES = np.empty((0, 0, 0), np.float32)


def outputs(state: EnsembleState, x: Float[np.ndarray, "n d"]) -> NoisyOutput:
    """Moments of every member at every row; float64."""
    x = np.ascontiguousarray(x, np.float32)
    moments = np.empty((4, state.n_members, len(x), state.n_outputs))

    def some(member: int, first: int, bench: _Bench | None = None) -> None:
        rows = slice(first, first + _ROWS_A_TASK)
        bench = bench or _Bench(state, len(x[rows]))
        bench.evaluate(member, x[rows], moments[:, member, rows])

    tasks = list(product(range(state.n_members), range(0, len(x), _ROWS_A_TASK)))
    n_threads = min(len(tasks), n_cores())
    if n_threads <= 1 or len(x) < _ROWS_AT_A_TIME:  # to start another takes longer
        bench = _Bench(state, min(len(x), _ROWS_A_TASK))
        for task in tasks:
            some(*task, bench)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(some, *zip(*tasks, strict=True)))
    raw_dof = np.array([[member.raw_dof] for member in state.members], np.float64)
    dof = LEAST_DOF + np.logaddexp(0.0, raw_dof)
    return NoisyOutput.of(*moments, dof=dof, share=1.0 / state.n_members)


def activations(
    state: EnsembleState, x: Float[np.ndarray, "n d"], member: int
) -> tuple[Float32[np.ndarray, "n h"], Float32[np.ndarray, "n h"]]:
    """Return the expected activations of a mean network's hidden units, and their slopes.

    Slopes of the expected activations in the means of what comes in; layers side by side.
    """
    n_units = sum(state.members[member].sizes[0][1:-1])
    z, gains = (np.empty((len(x), n_units), np.float32) for _ in range(2))
    _Bench(state, len(x)).evaluate(member, x, z=z, gains=gains)
    return z, gains


def moves(
    state: EnsembleState, x: Float[np.ndarray, "n d"], member: int
) -> Float32[np.ndarray, "n s o"]:
    """How far each of a member's deviations moves the means of its outputs."""
    far = np.empty((len(x), state.deviations.shape[1], state.n_outputs), np.float32)
    _Bench(state, len(x)).evaluate(member, x, far=far)
    return far


def rehearse() -> None:
    """Predict by an ensemble, of no account, so that what does is compiled: see `simd.beside`."""
    y = np.array([[-1.0], [1.0]])
    state = init(0, 1, y, settings_for(len(y)))
    predicted = predictive(outputs(state, y), 0.0, state.log_floor)
    predicted.interval()
    predicted.pit(y)
    predicted.crps(y)


class Doubtful(NamedTuple):
    """Expected probabilities (n, c) and expected entropies (n,), nats, over a posterior."""

    proba: Float[np.ndarray, "n c"]
    entropy: Float[np.ndarray, " n"]


def class_outputs(
    members: Sequence[Member], x: Float[np.ndarray, "n e"], points: Float32[np.ndarray, "p c"]
) -> Iterator[Doubtful]:
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
        yield Doubtful(proba, entropy[:, 0])


def rehearse_classes() -> None:
    """Evaluate a network, of no account, so that what does is compiled: see `simd.beside`."""
    network = init_classes(np.random.default_rng(0), (1, 4, 2))
    list(class_outputs([network], np.zeros((1, 1)), np.zeros((1, 2), np.float32)))


class _Bench:
    """Arrays in which the members of an ensemble are evaluated one after another."""

    def __init__(self, state: EnsembleState, n_rows: int) -> None:
        one, n_outputs = state.members[0], state.n_outputs
        self.state, self.size = state, min(_ROWS_AT_A_TIME, round_up(n_rows, BLOCK))
        self.plan = layout(one, self.size, Priors())  # of which outputs do not depend
        self.work = self.plan.work(flat(one), state.log_floor)
        n_values, n_units = state.deviations[0].size, sum(one.sizes[0][1:-1])
        room = n_values + PADDING, n_units * n_outputs * self.size, n_outputs * self.size
        self.deviations, self.back, self.moved = aligned_parts(*room)

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
        self.work.theta[self.plan.leaves] = flat(self.state.members[member])
        n_outputs, (n, n_weights) = self.state.n_outputs, self.state.deviations.shape[1:]
        values, back, moved = self.deviations, self.back, self.moved
        values[: n * n_weights] = self.state.deviations[member].ravel()
        aside = Aside(values, n, n_weights, n_outputs, back, moved, far, z, gains)
        if moments is None:
            moments = np.empty((4, len(x), n_outputs))
        evaluate(self.work, aside, np.ascontiguousarray(x, np.float32), self.size, *moments)
