"""Training and prediction of the noise-network recipe by compiled loops, in threads.

The arithmetic is that of `member_loss` and `member_output` (member.py), in
kernel_*.py. What comes out depends neither on the number of threads nor on where training
stops and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from threading import Event
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Float32, Int

from bayesprop.moments.network_ensemble.ensemble_state import (
    EnsembleSettings,
    EnsembleState,
)
from bayesprop.moments.network_ensemble.kernel_deviations import Aside
from bayesprop.moments.network_ensemble.kernel_layout import Layout, Vector, layout
from bayesprop.moments.network_ensemble.kernel_member import Rules, advance
from bayesprop.moments.network_ensemble.kernel_network import PADDING
from bayesprop.moments.network_ensemble.kernel_outputs import evaluate
from bayesprop.moments.network_ensemble.member import LEAST_DOF, TILT_LIMIT, NoisyOutput
from bayesprop.moments.network_ensemble.weight_priors import (
    LOG_WIDTH,
    SHAPE,
    WIDTH_PRECISION,
    Priors,
)
from bayesprop.numerics.cores import n_cores
from bayesprop.simd.aligned import aligned_zeros

_ORDERED_AT_A_TIME = 100_000  # row numbers: starting a generator takes as long as 2000 of them
_ROWS_AT_A_TIME, _ROWS_A_TASK = 128, 16_384  # a multiple of the rows in a block
_STEPS_AT_A_TIME = 500  # between looks at whether to stop
_N_PROGRESS = 10  # reports of each member


_LEAST_TOTAL = 1e-6  # weight of all rows: they no longer count, and float32 can divide by it


class Progress(NamedTuple):
    """How far a member has come, and its mean losses since the last report, nats a row.

    Members are counted from 0, and may come in any order.
    """

    member: int
    n_members: int
    step: int
    n_steps: int
    loss: float
    data_loss: float


class Rows(NamedTuple):
    """Standardised rows, their weights of mean 1, and the sum of these before."""

    x: Float32[np.ndarray, "n d"]
    y: Float32[np.ndarray, "n o"]
    weight: Float32[np.ndarray, " n"]
    n_total: float

    @classmethod
    def of(
        cls,
        x: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, "n o"],
        weight: Float[np.ndarray, " n"] | None,
    ) -> Rows:
        """Take rows as the compiled loop does, which checks no bounds."""
        if np.ndim(x) != 2 or np.ndim(y) != 2 or len(x) != len(y) or not len(x):
            raise ValueError(f"x must be (n, d) and y (n, o), got {np.shape(x)} and {np.shape(y)}")
        weight = np.ones(len(x)) if weight is None else np.asarray(weight, np.float64)
        if weight.shape != (len(x),):
            raise ValueError(f"weight must hold {len(x)} numbers, got shape {weight.shape}")
        x, y, each = (np.ascontiguousarray(a, np.float32) for a in (x, y, weight / weight.mean()))
        return cls(x, y, each, max(float(weight.sum()), _LEAST_TOTAL))


class Batches(NamedTuple):
    """How many there are in an epoch, and rows in each."""

    number: int
    size: int

    @classmethod
    def of(cls, n_rows: int, batch_size: int) -> Batches:
        """Come as close to that size as leaves out fewer rows than there are batches."""
        number = max(1, round(n_rows / batch_size))
        return cls(number, n_rows // number)


def _plan(state: EnsembleState, n_rows: int, priors: Priors) -> Layout:
    """Lay out a member for so many rows at a time."""
    mean, noise = (
        (state.n_inputs, *(layer.b_m.shape[-1] for layer in network))
        for network in (state.members.mean, state.members.noise)
    )
    return layout(mean, noise, n_rows, priors, is_direct=state.is_direct)


def row_orders(
    seed: int, member: int, n_rows: int, batches: Batches, first_step: int, n_steps: int
) -> Iterator[Int[np.ndarray, " r"]]:
    """Give the rows of `n_steps` steps from `first_step` on, in pieces.

    Every epoch has its order, and every member its own: what the errors of all members share, no
    ensemble averages out. The order depends on seed, member and epoch alone.
    """
    n_epochs = max(1, _ORDERED_AT_A_TIME // n_rows)
    a_piece, last = n_epochs * batches.number, first_step + n_steps
    for piece in range(first_step // a_piece, -(-last // a_piece)):
        rng = np.random.default_rng([seed % 2**32, member, piece])
        rows = np.tile(np.arange(n_rows, dtype=np.int32), (n_epochs, 1))
        rows = rng.permuted(rows, axis=1)[:, : batches.number * batches.size].ravel()
        begin = max(0, first_step - piece * a_piece)
        end = min(a_piece, last - piece * a_piece)
        yield rows[batches.size * begin : batches.size * end]


def _flat(state: EnsembleState) -> Vector:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state.members)])


def by_member(flat: Vector, state: EnsembleState) -> Float32[np.ndarray, "k p"]:
    """Take apart what holds all members of one array of parameters before the next."""
    sizes = [np.size(leaf) for leaf in jax.tree.leaves(state.members)]
    parts = np.split(np.asarray(flat, np.float32), np.cumsum(sizes)[:-1])
    return np.hstack([part.reshape(state.n_members, -1) for part in parts])


def together(rows: Float32[np.ndarray, "k p"], state: EnsembleState) -> list[np.ndarray]:
    """Undo `by_member`, array by array."""
    leaves = jax.tree.leaves(state.members)
    ends = np.cumsum([np.size(leaf) // state.n_members for leaf in leaves])
    parts = np.split(rows, ends[:-1], axis=1)
    return [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]


class _Learnt(NamedTuple):
    """What a member is after its steps, in one vector each, and its losses, (steps, 2)."""

    parameters: Vector
    slope: Vector
    slope_square: Vector
    losses: Float32[np.ndarray, "t 2"]


class _Member(NamedTuple):
    """Number, and what it has learnt so far."""

    number: int
    parameters: Vector
    slope: Vector
    slope_square: Vector


def turn(values: tuple[float, ...], member: int) -> float:
    """Return the value of settings that members take in turn."""
    return values[member % len(values)]


def _train_one(
    member: _Member,
    state: EnsembleState,
    rows: Rows,
    settings: EnsembleSettings,
    n_steps: int,
    stop: Event,
    progress: Callable[[Progress], None] | None,
) -> _Learnt:
    n_rows = len(rows.x)
    batches = Batches.of(n_rows, settings.batch_size)
    plan = _plan(state, batches.size, Priors(*settings.priors))
    work = plan.work(*member[1:], state.log_floor)
    rules = Rules(
        n_steps=float(settings.n_steps),
        step_size=settings.step_size,
        kl_warm_up=settings.kl_warm_up,
        noise_warm_up=settings.noise_warm_up,
        noise_share=turn(settings.noise_shares, member.number),
        n_total=rows.n_total,
        shape=SHAPE,
        log_width=LOG_WIDTH,
        width_precision=WIDTH_PRECISION,
        least_dof=LEAST_DOF,
        mean_least_dof=turn(settings.mean_least_dofs, member.number),
        tilt_limit=TILT_LIMIT,
    )
    losses = np.empty((n_steps, 2), np.float32)
    done, at_a_time, reported = 0, _STEPS_AT_A_TIME * batches.size, 0
    if progress is not None:
        at_a_time = min(_STEPS_AT_A_TIME, -(-n_steps // _N_PROGRESS)) * batches.size
    orders = row_orders(state.seed, member.number, n_rows, batches, state.step, n_steps)
    for order in orders:
        for at in range(0, len(order), at_a_time):
            if stop.is_set():
                break
            part = order[at : at + at_a_time]
            now = slice(done, done + len(part) // batches.size)
            advance(work, rules, *rows[:3], part, batches.size, state.step + done, losses[now])
            done = now.stop
            if progress is not None and (done - reported) * _N_PROGRESS >= n_steps:
                means = losses[reported:done].mean(axis=0, dtype=np.float64).tolist()
                where = member.number, settings.n_members, done, n_steps
                progress(Progress(*where, *means))
                reported = done
    learnt = (work.theta, work.slope, work.slope_square)
    theta, slope, slope_square = (values[plan.leaves] for values in learnt)
    return _Learnt(theta, slope, slope_square, losses)


def train(
    state: EnsembleState,
    rows: Rows,
    settings: EnsembleSettings,
    n_steps: int,
    *,
    first_member: int = 0,
    n_threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[EnsembleState, Float32[np.ndarray, "k t 2"]]:
    """Take `n_steps` steps; return the state after them, and every member's losses at every step.

    Deviations are gone: they were those of other weights.

    Losses are `Loss.total` and `Loss.fit`, nats a row.

    first_member
        Number of the state's first member in its ensemble, which gives it its order of the rows
        and its turn in the settings.
    n_threads
        Threads that share the members; None: one a core.
    progress
        Told of every member ten times, from the thread that trains it.
    """
    parts = (by_member(a, state) for a in (_flat(state), state.slope, state.slope_square))
    each = enumerate(zip(*parts, strict=True), first_member)
    members = [_Member(k, *values) for k, values in each]
    stop = Event()
    train_one = partial(
        _train_one,
        state=state,
        rows=rows,
        settings=settings,
        n_steps=n_steps,
        stop=stop,
        progress=progress,
    )
    n_threads = min(len(members), n_threads or n_cores())
    if n_threads == 1:
        learnt = [train_one(member) for member in members]
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            try:
                learnt = list(pool.map(train_one, members))
            finally:  # without which Ctrl-C would wait for the whole fit
                stop.set()
    parameters, slope, slope_square, losses = map(np.stack, zip(*learnt, strict=True))
    structure = jax.tree.structure(state.members)
    after = state.without_deviations()._replace(
        members=jax.tree.unflatten(structure, together(parameters, state)),
        slope=np.concatenate([np.ravel(part) for part in together(slope, state)]),
        slope_square=np.concatenate([np.ravel(part) for part in together(slope_square, state)]),
        step=state.step + n_steps,
    )
    return after, losses


_NOBODY_ASKS = np.empty((0, 0), np.float32)


def _aside(
    state: EnsembleState,
    member: int,
    *,
    far: np.ndarray | None = None,
    z: np.ndarray = _NOBODY_ASKS,
    gains: np.ndarray = _NOBODY_ASKS,
) -> Aside:
    """Lay out what the loop is told of a member besides its moments, or asked for."""
    n_deviations, n_weights = state.deviations.shape[1:]
    values = aligned_zeros(n_deviations * n_weights + PADDING, np.float32)
    values[: n_deviations * n_weights] = state.deviations[member].ravel()
    n_outputs, n_units = state.n_outputs, sum(w.shape[-1] for w in state.members.log_widths)
    back, moved = (aligned_zeros(n * n_outputs * _ROWS_AT_A_TIME, np.float32) for n in (n_units, 1))
    far = np.empty((0, 0, 0), np.float32) if far is None else far
    return Aside(values, n_deviations, n_weights, n_outputs, back, moved, far, z, gains)


def outputs(
    state: EnsembleState, x: Float[np.ndarray, "n d"], *, n_threads: int | None = None
) -> NoisyOutput:
    """Moments of every member at every row, (k, n, o), and dof (k, o); float64."""
    x = np.ascontiguousarray(x, np.float32)
    plan = _plan(state, _ROWS_AT_A_TIME, Priors())  # of which outputs do not depend
    parameters = by_member(_flat(state), state)
    moments = np.empty((4, state.n_members, len(x), state.n_outputs))

    def evaluate_some(member: int, first: int) -> None:
        rows = slice(first, first + _ROWS_A_TASK)
        work = plan.work(parameters[member], 0.0, 0.0, state.log_floor)
        aside = _aside(state, member)
        evaluate(work, aside, x[rows], _ROWS_AT_A_TIME, *moments[:, member, rows])

    tasks = list(product(range(state.n_members), range(0, len(x), _ROWS_A_TASK)))
    n_threads = min(len(tasks), n_threads or n_cores())
    if n_threads <= 1:
        for task in tasks:
            evaluate_some(*task)
    else:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(evaluate_some, *zip(*tasks, strict=True)))
    dof = LEAST_DOF + np.logaddexp(0.0, np.asarray(state.members.raw_dof, np.float64))
    m, v, log_noise, log_noise_var = moments
    return NoisyOutput(m, v, log_noise, log_noise_var, dof)


def activations(
    state: EnsembleState, x: Float[np.ndarray, "n d"], member: int
) -> tuple[Float32[np.ndarray, "n h"], Float32[np.ndarray, "n h"]]:
    """Return the expected activations of a mean network's hidden units, and their slopes.

    Slopes of the expected activations in the means of what comes in; layers side by side.
    """
    n_units = sum(layer.b_m.shape[-1] for layer in state.members.mean[:-1])
    z, gains = (np.empty((len(x), n_units), np.float32) for _ in range(2))
    _evaluate_alone(state, x, member, z=z, gains=gains)
    return z, gains


def moves(
    state: EnsembleState, x: Float[np.ndarray, "n d"], member: int
) -> Float32[np.ndarray, "n s o"]:
    """How far each of a member's deviations moves the means of its outputs."""
    far = np.empty((len(x), state.deviations.shape[1], state.n_outputs), np.float32)
    _evaluate_alone(state, x, member, far=far)
    return far


def _evaluate_alone(
    state: EnsembleState, x: Float[np.ndarray, "n d"], member: int, **asked: np.ndarray
) -> None:
    plan = _plan(state, _ROWS_AT_A_TIME, Priors())
    work = plan.work(by_member(_flat(state), state)[member], 0.0, 0.0, state.log_floor)
    moments = np.empty((4, len(x), state.n_outputs))
    x = np.ascontiguousarray(x, np.float32)
    evaluate(work, _aside(state, member, **asked), x, _ROWS_AT_A_TIME, *moments)
