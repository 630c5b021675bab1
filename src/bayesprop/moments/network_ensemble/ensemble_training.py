"""Training of the ensemble by compiled loops, in threads.

A member descends the objective of `kernel_member.py`. What comes out does not depend on the number
of threads.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int

from bayesprop.model.progress import SILENT, Progress
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
_N_TRIED, _SLOWER = 300, 1.4  # steps that tell how long one takes, and longer side by side


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
    """A member after its steps, and its losses (t, 2): total and data loss, nats a row.

    is_whole
        Whether these are all of its steps.
    """

    member: Member
    losses: Float32[np.ndarray, "t 2"]
    is_whole: bool = True


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
    rows
        All rows; jobs share them.
    kept
        Numbers of those that it learns.
    """

    number: int
    member: Member
    rows: Rows
    kept: Int[np.ndarray, " m"]
    settings: EnsembleSettings

    @classmethod
    def of(
        cls,
        number: int,
        member: Member,
        rows: Rows,
        fold: Int[np.ndarray, " n"] | None,
        left_out: int,
        settings: EnsembleSettings,
    ) -> Job:
        """Leave out the rows of one fold; None: learn all."""
        kept = np.ones(len(rows.x), bool) if fold is None else fold != left_out
        rows = rows if fold is None else rows.counting(kept)
        return cls(number, member, rows, np.flatnonzero(kept).astype(np.int32), settings)


@dataclass(frozen=True)
class _Course:
    """How far members have come that are trained side by side, and whether to end.

    n_jobs
        Members that are trained.
    least
        Numbers of those that get some steps even if the time is over.
    steps
        Of all members, as they are reported.
    is_abandoned
        Set where nothing is wanted any more.
    """

    progress: Progress
    n_jobs: int
    least: frozenset[int] = frozenset()
    steps: list[int] = field(default_factory=list)
    is_abandoned: Event = field(default_factory=Event)

    def ends(self, number: int, done: int) -> bool:
        """Whether to end a member that has made some steps."""
        can_end = done > 0 or number not in self.least
        return self.is_abandoned.is_set() or (can_end and self.progress.is_over)

    def report(self, job: Job, done: int, losses: Float32[np.ndarray, "t 2"]) -> None:
        """Report a member after a stretch, and its mean losses in it."""
        n_members, n_steps = job.settings.n_members, job.settings.n_steps
        self.steps.append(len(losses))
        loss, data_loss = losses.mean(axis=0, dtype=np.float64)
        self.progress.report(
            sum(self.steps),
            self.n_jobs * n_steps,
            f"network {job.number + 1} of {n_members}",
            f"step {done} of {n_steps}  loss {loss:.5g}  data_loss {data_loss:.5g}",
        )


def _train_one(
    job: Job,
    *,
    seed: int,
    log_floor: Float32[np.ndarray, " o"],
    loop: Loop,
    course: _Course,
) -> Trained:
    number, member, rows, kept, settings = job
    n_steps, batches = settings.n_steps, Batches.of(len(kept), settings.batch_size)
    plan = layout(member, batches.size, settings.priors)
    work = plan.work(flat(member), log_floor, loop.normals)
    rules = rules_of(settings, number, rows.n_total)
    losses = np.empty((n_steps, 2), np.float32)
    stretch = -(-n_steps // _N_PROGRESS)
    at_a_time = min(_STEPS_AT_A_TIME, stretch) * batches.size
    done = reported = 0
    for order in row_orders(seed, number, len(kept), batches, n_steps):
        for at in range(0, len(order), at_a_time):
            if course.ends(number, done):
                break
            part = kept[order[at : at + at_a_time]]
            now = slice(done, done + len(part) // batches.size)
            loop.advance(work, rules, *rows[:3], part, batches.size, done, losses[now])
            done = now.stop
            if done - reported >= stretch or done == n_steps:
                course.report(job, done, losses[reported:done])
                reported = done
    whole = done == n_steps
    return Trained(unflat(work.theta[plan.leaves], member), losses[:done], whole)


def train_all(
    jobs: Sequence[Job],
    *,
    seed: int,
    log_floor: Float32[np.ndarray, " o"],
    loop: Loop,
    n_threads: int | None = None,
    progress: Progress = SILENT,
    n_least: int = 1,
) -> list[Trained]:
    """Train members from the start to the end, side by side; fewer steps where time is over.

    log_floor
        Of the noise of every output; of classes, zeros.
    n_threads
        Threads that share the members; None: one a core.
    progress
        Reported to ten times a member, from the thread that trains it.
    n_least
        Jobs, the first ones, that get some steps in any case.
    """
    n_threads = min(len(jobs), n_threads or n_cores())
    course = _Course(progress, len(jobs), frozenset(job.number for job in jobs[:n_least]))
    train = partial(_train_one, seed=seed, log_floor=log_floor, loop=loop)
    if math.isfinite(progress.deadline):
        one = partial(train, course=_Course(SILENT, 1))
        jobs = _in_time(jobs, one, progress.seconds_left / -(-n_least // n_threads))
    train_one = partial(train, course=course)
    if n_threads == 1:
        return list(map(train_one, jobs))
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            return list(pool.map(train_one, jobs))
        finally:  # without which Ctrl-C would wait for the whole fit
            course.is_abandoned.set()


def _in_time(jobs: Sequence[Job], train: Callable[[Job], Trained], seconds: float) -> list[Job]:
    """Shorten the training of members that would not be complete in some seconds.

    A schedule of steps that comes to its end is better than a longer one that is cut.
    """
    settings = jobs[0].settings
    trials = [jobs[0]._replace(settings=replace(settings, n_steps=n)) for n in (1, _N_TRIED)]
    train(trials[0])  # which loads the compiled loop
    started = time.perf_counter()
    train(trials[1])
    a_step = _SLOWER * (time.perf_counter() - started) / _N_TRIED
    n_steps = min(settings.n_steps, max(_STEPS_AT_A_TIME, int(seconds / a_step)))
    return [job._replace(settings=replace(job.settings, n_steps=n_steps)) for job in jobs]


def n_complete(trained: Sequence[Trained], least: int, n_steps: int, progress: Progress) -> int:
    """Count the first members that are complete; `least` of them stay even if they are not.

    n_steps
        As many as there would have been in time.
    """
    n_whole = next((k for k, one in enumerate(trained) if not one.is_whole), len(trained))
    n, taken = max(n_whole, least), len(trained[0].losses)
    if n_whole < len(trained) or taken < n_steps:
        each = f" after {taken} of {n_steps} steps" if taken < n_steps else ""
        progress.cut(f"{n} of {len(trained)} networks{each}")
    return n


def train(
    state: EnsembleState,
    rows: Rows,
    settings: EnsembleSettings,
    *,
    fold: Int[np.ndarray, " n"] | None = None,
    first_member: int = 0,
    n_threads: int | None = None,
    progress: Progress = SILENT,
) -> tuple[EnsembleState, Float32[np.ndarray, "k t 2"]]:
    """Train an ensemble of numbers; return the state, and every member's losses.

    Where the time is over before all members are complete, those that are; at least one, and two
    where there are folds.

    fold
        Number of the member that is not given the row; None: all are given all.
    first_member
        Number of the state's first member in its ensemble.
    n_threads, progress
        As `train_all` takes them.
    """
    numbered = enumerate(state.members, first_member)
    jobs = [Job.of(k, member, rows, fold, k, settings) for k, member in numbered]
    least = min(len(jobs), 1 if fold is None else 2)
    trained = train_all(
        jobs,
        seed=state.seed,
        log_floor=state.log_floor,
        loop=OF_NUMBERS,
        n_threads=n_threads,
        progress=progress,
        n_least=least,
    )
    trained = trained[: n_complete(trained, least, settings.n_steps, progress)]
    members = tuple(each.member for each in trained)
    return EnsembleState.of(members, state.log_floor, state.seed), losses_of(trained)


def losses_of(trained: Sequence[Trained]) -> Float32[np.ndarray, "k t 2"]:
    """Return the losses of members, as many steps as all have made."""
    n_steps = min(len(one.losses) for one in trained)
    return np.stack([one.losses[:n_steps] for one in trained])
