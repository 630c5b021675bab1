"""Training of the ensemble by compiled loops, in threads.

A member descends the objective of `kernel_member.py`. What comes out does not depend on the number
of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int

from bayesprop.moments.network_ensemble.distinct_rows import Rows
from bayesprop.moments.network_ensemble.ensemble_settings import EnsembleSettings
from bayesprop.moments.network_ensemble.ensemble_state import EnsembleState
from bayesprop.moments.network_ensemble.kernel_layout import NO_NORMALS, layout
from bayesprop.moments.network_ensemble.kernel_member import Rules, advance
from bayesprop.moments.network_ensemble.member import LEAST_DOF, Member, flat, unflat
from bayesprop.moments.network_ensemble.student_t_bound import TILT_LIMIT
from bayesprop.moments.network_ensemble.weight_priors import LOG_WIDTH, SHAPE, WIDTH_PRECISION
from bayesprop.numerics.machine import n_cores

_ORDERED_AT_A_TIME = 100_000  # row numbers: starting a generator takes as long as 2000 of them
_STEPS_AT_A_TIME = 500  # between looks at whether to stop
_N_PROGRESS = 10  # reports of each member


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


class Batches(NamedTuple):
    """How many there are in an epoch, and rows in each."""

    number: int
    size: int

    @classmethod
    def of(cls, n_rows: int, batch_size: int) -> Batches:
        """Come as close to that size as leaves out fewer rows than there are batches."""
        number = max(1, round(n_rows / batch_size))
        return cls(number, n_rows // number)


def row_orders(
    seed: int, member: int, n_rows: int, batches: Batches, n_steps: int
) -> Iterator[Int[np.ndarray, " r"]]:
    """Give the rows of `n_steps` steps, in pieces.

    Every epoch has its order, and every member its own: what the errors of all members share, no
    ensemble averages out. The order depends on seed, member and epoch alone.
    """
    n_epochs = max(1, _ORDERED_AT_A_TIME // n_rows)
    a_piece = n_epochs * batches.number
    for piece, first in enumerate(range(0, n_steps, a_piece)):
        rng = np.random.default_rng([seed % 2**32, member, piece])
        rows = np.tile(np.arange(n_rows, dtype=np.int32), (n_epochs, 1))
        rows = rng.permuted(rows, axis=1)[:, : batches.number * batches.size].ravel()
        yield rows[: batches.size * min(a_piece, n_steps - first)]


def rules_of(settings: EnsembleSettings, member: int, n_total: float) -> Rules:
    """Tell the compiled loop what it needs for this member."""
    return Rules(
        n_steps=float(settings.n_steps),
        step_size=settings.step_size,
        kl_warm_up=settings.kl_warm_up,
        noise_warm_up=settings.noise_warm_up,
        noise_share=settings.noise_share(member),
        n_total=n_total,
        shape=SHAPE,
        log_width=LOG_WIDTH,
        width_precision=WIDTH_PRECISION,
        least_dof=LEAST_DOF,
        mean_least_dof=settings.mean_least_dof(member),
        tilt_limit=TILT_LIMIT,
    )


class Trained(NamedTuple):
    """A member after its steps, and its losses (t, 2): total and data loss, nats a row."""

    member: Member
    losses: Float32[np.ndarray, "t 2"]


class Loop(NamedTuple):
    """A compiled loop of training, and the normal draws that it uses."""

    advance: Callable[..., None]
    normals: Float32[np.ndarray, " z"]


OF_NUMBERS = Loop(advance, NO_NORMALS)


class Job(NamedTuple):
    """A member to be trained, and what it is trained on.

    number
        Of the member in its ensemble of `settings.n_members`, which gives it its order of the rows
        and its turn in the settings.
    """

    number: int
    member: Member
    rows: Rows
    settings: EnsembleSettings


def _train_one(
    job: Job,
    *,
    seed: int,
    log_floor: Float32[np.ndarray, " o"],
    loop: Loop,
    stop: Event,
    progress: Callable[[Progress], None] | None,
) -> Trained:
    number, member, rows, settings = job
    n_steps, batches = settings.n_steps, Batches.of(len(rows.x), settings.batch_size)
    plan = layout(member, batches.size, settings.priors)
    work = plan.work(flat(member), log_floor, loop.normals)
    rules = rules_of(settings, number, rows.n_total)
    losses = np.empty((n_steps, 2), np.float32)
    stretch = -(-n_steps // _N_PROGRESS)
    at_a_time = min(_STEPS_AT_A_TIME, stretch) * batches.size
    done = reported = 0
    for order in row_orders(seed, number, len(rows.x), batches, n_steps):
        for at in range(0, len(order), at_a_time):
            if stop.is_set():
                break
            part = order[at : at + at_a_time]
            now = slice(done, done + len(part) // batches.size)
            loop.advance(work, rules, *rows[:3], part, batches.size, done, losses[now])
            done = now.stop
            if progress is not None and (done - reported >= stretch or done == n_steps):
                means = losses[reported:done].mean(axis=0, dtype=np.float64).tolist()
                progress(Progress(number, settings.n_members, done, n_steps, *means))
                reported = done
    return Trained(unflat(work.theta[plan.leaves], member), losses)


def train_all(
    jobs: Sequence[Job],
    *,
    seed: int,
    log_floor: Float32[np.ndarray, " o"],
    loop: Loop,
    n_threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> list[Trained]:
    """Train members from the start to the end, side by side.

    log_floor
        Of the noise of every output; of classes, zeros.
    n_threads
        Threads that share the members; None: one a core.
    progress
        Told of every member ten times, from the thread that trains it.
    """
    stop = Event()
    train_one = partial(
        _train_one, seed=seed, log_floor=log_floor, loop=loop, stop=stop, progress=progress
    )
    n_threads = min(len(jobs), n_threads or n_cores())
    if n_threads == 1:
        return list(map(train_one, jobs))
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            return list(pool.map(train_one, jobs))
        finally:  # without which Ctrl-C would wait for the whole fit
            stop.set()


def train(
    state: EnsembleState,
    rows: Rows,
    settings: EnsembleSettings,
    *,
    fold: Int[np.ndarray, " n"] | None = None,
    first_member: int = 0,
    n_threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[EnsembleState, Float32[np.ndarray, "k t 2"]]:
    """Train an ensemble of numbers; return the state, and every member's losses.

    fold
        Number of the member that is not given the row; None: all are given all.
    first_member
        Number of the state's first member in its ensemble.
    n_threads, progress
        As `train_all` takes them.
    """
    numbered = enumerate(state.members, first_member)
    jobs = [
        Job(k, member, rows if fold is None else rows.only(fold != k), settings)
        for k, member in numbered
    ]
    trained = train_all(
        jobs,
        seed=state.seed,
        log_floor=state.log_floor,
        loop=OF_NUMBERS,
        n_threads=n_threads,
        progress=progress,
    )
    members = tuple(each.member for each in trained)
    return EnsembleState.of(members, state.log_floor, state.seed), np.stack(
        [each.losses for each in trained]
    )
