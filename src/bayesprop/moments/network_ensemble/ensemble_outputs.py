"""What the members say of rows, by compiled loops, in threads: moments, activations, moves."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

from bayesprop.moments.network_ensemble.ensemble_settings import settings_for
from bayesprop.moments.network_ensemble.ensemble_state import EnsembleState, init
from bayesprop.moments.network_ensemble.kernel_deviations import Aside
from bayesprop.moments.network_ensemble.kernel_layout import layout
from bayesprop.moments.network_ensemble.kernel_member import Work
from bayesprop.moments.network_ensemble.kernel_network import BLOCK, PADDING
from bayesprop.moments.network_ensemble.kernel_outputs import evaluate
from bayesprop.moments.network_ensemble.member import LEAST_DOF, flat
from bayesprop.moments.network_ensemble.noisy_output import NoisyOutput, predictive
from bayesprop.moments.network_ensemble.weight_priors import Priors
from bayesprop.numerics.machine import n_cores
from bayesprop.simd.lanes import aligned_parts, round_up

_ROWS_AT_A_TIME, _ROWS_A_TASK = 128, 16_384  # a multiple of the rows in a block
_NOT_ASKED = np.empty((0, 0), np.float32)
_NO_MOVES = np.empty((0, 0, 0), np.float32)


def outputs(state: EnsembleState, x: Float[np.ndarray, "n d"]) -> NoisyOutput:
    """Moments of every member at every row; float64."""
    x = np.ascontiguousarray(x, np.float32)
    moments = np.empty((4, state.n_members, len(x), state.n_outputs))

    def some(member: int, first: int, bench: _Bench | None = None) -> None:
        rows = slice(first, first + _ROWS_A_TASK)
        _evaluate(state, member, x[rows], moments[:, member, rows], bench=bench)

    tasks = list(product(range(state.n_members), range(0, len(x), _ROWS_A_TASK)))
    n_threads = min(len(tasks), n_cores())
    if n_threads <= 1 or len(x) < _ROWS_AT_A_TIME:  # to start another takes longer
        bench = _Bench.of(state, min(len(x), _ROWS_A_TASK))
        for task in tasks:
            some(*task, bench)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(some, *zip(*tasks, strict=True)))
    raw_dof = np.array([[member.raw_dof] for member in state.members], np.float64)
    share = np.full(raw_dof.shape, 1.0 / state.n_members)
    return NoisyOutput(*moments, dof=LEAST_DOF + np.logaddexp(0.0, raw_dof), share=share)


def activations(
    state: EnsembleState, x: Float[np.ndarray, "n d"], member: int
) -> tuple[Float32[np.ndarray, "n h"], Float32[np.ndarray, "n h"]]:
    """Return the expected activations of a mean network's hidden units, and their slopes.

    Slopes of the expected activations in the means of what comes in; layers side by side.
    """
    n_units = sum(state.members[member].sizes[0][1:-1])
    z, gains = (np.empty((len(x), n_units), np.float32) for _ in range(2))
    _evaluate(state, member, x, z=z, gains=gains)
    return z, gains


def moves(
    state: EnsembleState, x: Float[np.ndarray, "n d"], member: int
) -> Float32[np.ndarray, "n s o"]:
    """How far each of a member's deviations moves the means of its outputs."""
    far = np.empty((len(x), state.deviations.shape[1], state.n_outputs), np.float32)
    _evaluate(state, member, x, far=far)
    return far


def rehearse() -> None:
    """Predict by an ensemble, of no account, so that what does is compiled: see `simd.beside`."""
    y = np.array([[-1.0], [1.0]])
    state = init(0, 1, y, settings_for(len(y)))
    predicted = predictive(outputs(state, y), 0.0, state.log_floor)
    predicted.interval()
    predicted.pit(y)
    predicted.crps(y)


class _Bench(NamedTuple):
    """Arrays in which the members of an ensemble are evaluated one after another.

    size
        Rows at a time.
    work
        Of a member; the parameters of another go to the places `leaves` of theta.
    deviations, back, moved
        As in `Aside`.
    """

    size: int
    work: Work
    leaves: Int[np.ndarray, " p"]
    deviations: Float32[np.ndarray, " v"]
    back: Float32[np.ndarray, " b"]
    moved: Float32[np.ndarray, " m"]

    @classmethod
    def of(cls, state: EnsembleState, n_rows: int) -> _Bench:
        """Make room for so many rows."""
        one, n_outputs = state.members[0], state.n_outputs
        size = min(_ROWS_AT_A_TIME, round_up(n_rows, BLOCK))
        plan = layout(one, size, Priors())  # of which outputs do not depend
        n_values, n_units = state.deviations[0].size, sum(one.sizes[0][1:-1])
        sizes = n_values + PADDING, n_units * n_outputs * size, n_outputs * size
        work = plan.work(flat(one), state.log_floor)
        return cls(size, work, plan.leaves, *aligned_parts(*sizes))


def _evaluate(
    state: EnsembleState,
    member: int,
    x: Float[np.ndarray, "n d"],
    moments: Float[np.ndarray, "4 n o"] | None = None,
    *,
    far: np.ndarray = _NO_MOVES,
    z: np.ndarray = _NOT_ASKED,
    gains: np.ndarray = _NOT_ASKED,
    bench: _Bench | None = None,
) -> None:
    """Write what is asked for of one member."""
    n_outputs = state.n_outputs
    bench = bench or _Bench.of(state, len(x))
    size, work, leaves, values, back, moved = bench
    work.theta[leaves] = flat(state.members[member])
    n_deviations, n_weights = state.deviations.shape[1:]
    values[: n_deviations * n_weights] = state.deviations[member].ravel()
    aside = Aside(values, n_deviations, n_weights, n_outputs, back, moved, far, z, gains)
    if moments is None:
        moments = np.empty((4, len(x), n_outputs))
    evaluate(work, aside, np.ascontiguousarray(x, np.float32), size, *moments)
