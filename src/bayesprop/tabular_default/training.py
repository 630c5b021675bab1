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
from bayesprop.numerics.machine import n_cores
from bayesprop.simd.beside import compiled_beside
from bayesprop.tabular_default import outputs as ensemble_outputs
from bayesprop.tabular_default.distinct_rows import Rows
from bayesprop.tabular_default.kernel_layout import NO_NORMALS, layout
from bayesprop.tabular_default.kernel_member import Rules, advance
from bayesprop.tabular_default.member import Member, flat, unflat
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.state import EnsembleState

_ORDERED_AT_A_TIME = 100_000  # row numbers: starting a generator takes as long as 2000 of them
_STEPS_AT_A_TIME = 500  # between looks at whether to stop
_N_PROGRESS = 10  # reports of each member
NO_GROUPS = np.zeros(0, np.int64)
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

    @classmethod
    def over(cls, n_rows: int, batch_size: int) -> Batches:
        """Leave out none: the last one may take some again."""
        return cls(-(-n_rows // batch_size), batch_size)


def row_orders(
    seed: int, member: int, n_rows: int, batches: Batches, n_steps: int, n_before: int = 0
) -> Iterator[Int[np.ndarray, " r"]]:
    """Give the rows of `n_steps` steps, in pieces.

    Every epoch has its order, and every member its own: what the errors of all members share, no
    ensemble averages out. The order depends on seed, member and epoch alone.

    n_before
        Pieces of other rows that came before.
    """
    n_epochs = max(1, _ORDERED_AT_A_TIME // n_rows)
    a_piece = n_epochs * batches.number
    for piece, first in enumerate(range(0, n_steps, a_piece), n_before):
        rng = np.random.default_rng([seed % 2**32, member, piece])
        rows = np.tile(np.arange(n_rows, dtype=np.int32), (n_epochs, 1))
        places = np.arange(batches.number * batches.size) % n_rows
        rows = rng.permuted(rows, axis=1)[:, places].ravel()
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
        mean_least_dof=settings.mean_least_dof(member),
    )


class Trained(NamedTuple):
    """A member after its steps, their losses as in `FitInfo`, and whether these are all."""

    member: Member
    losses: Float32[np.ndarray, "t 2"]
    is_whole: bool = True


class Loop(NamedTuple):
    """A compiled loop of training, the normal draws that it uses, a rehearsal of what follows."""

    advance: Callable[..., None]
    normals: Float32[np.ndarray, " z"]
    rehearsal: str


OF_NUMBERS = Loop(advance, NO_NORMALS, f"{ensemble_outputs.__name__}:rehearse")


class Job(NamedTuple):
    """A member to be trained, and what it is trained on.

    number
        Of the member in its ensemble of `settings.n_members`, which gives it its order of the rows
        and its turn in the settings.
    rows
        All rows; jobs share them.
    kept
        Numbers of those that it learns.
    left_out
        Groups of a table larger than memory that it does not learn.
    """

    number: int
    member: Member
    rows: Rows
    kept: Int[np.ndarray, " m"]
    settings: EnsembleSettings
    left_out: Int[np.ndarray, " g"] = NO_GROUPS

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
        groups = NO_GROUPS if rows.beyond is None else np.unique(rows.beyond.groups[~kept])
        rows = rows if fold is None else rows.counting(kept)
        kept = np.flatnonzero(kept).astype(np.int32)
        return cls(number, member, rows, kept, settings, groups)

    def on(self, rows: Rows, groups: Int[np.ndarray, " n"] | None) -> Job:
        """Take other rows of the table."""
        kept = np.ones(len(rows.x), bool) if groups is None else ~np.isin(groups, self.left_out)
        kept = np.flatnonzero(kept).astype(np.int32)
        return self._replace(rows=rows, kept=kept)

    @property
    def batches(self) -> Batches:
        """How its rows are divided."""
        batches = Batches.of if self.rows.beyond is None else Batches.over
        return batches(len(self.kept), self.settings.batch_size)


def _blocks(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Give jobs the rows that are in memory: all of them, or block after block without end."""
    beyond = jobs[0].rows.beyond
    if beyond is None:
        yield jobs
        return
    for block in beyond.parts.passes:
        views = {id(job.rows.beyond): job.rows.beyond for job in jobs}  # which families share
        rows = {key: view.rows(block) for key, view in views.items() if view is not None}
        yield [job.on(rows[id(job.rows.beyond)], block.group) for job in jobs]


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


class _Training:
    """A member that is trained, block after block of rows, and how far it has come."""

    def __init__(
        self, job: Job, seed: int, log_floor: Float32[np.ndarray, " o"], loop: Loop
    ) -> None:
        n_steps, self.seed, self.loop = job.settings.n_steps, seed, loop
        self.plan = layout(job.member, job.batches.size, job.settings.priors)
        self.work = self.plan.work(flat(job.member), log_floor, loop.normals)
        self.rules = rules_of(job.settings, job.number, job.rows.n_total)
        self.losses = np.empty((n_steps, 2), np.float32)
        self.done = self.n_pieces = self.reported = 0
        self.is_cut = False

    def take(self, job: Job, course: _Course) -> None:
        """Take the steps that there are rows for: all of them where these are the whole table."""
        number, _, rows, kept, settings = job[:5]
        n_left, batches = settings.n_steps - self.done, job.batches
        n_steps = n_left if rows.beyond is None else min(n_left, batches.number)
        stretch = -(-settings.n_steps // _N_PROGRESS)
        at_a_time = min(_STEPS_AT_A_TIME, stretch) * batches.size
        for order in row_orders(self.seed, number, len(kept), batches, n_steps, self.n_pieces):
            self.n_pieces += 1
            for at in range(0, len(order), at_a_time):
                self.is_cut = self.is_cut or course.ends(number, self.done)
                if self.is_cut:
                    return
                part = kept[order[at : at + at_a_time]]
                now = slice(self.done, self.done + len(part) // batches.size)
                self.loop.advance(
                    self.work, self.rules, *rows[:3], part, batches.size, self.done,
                    self.losses[now],
                )  # fmt: skip
                self.done = now.stop
                if self.done - self.reported >= stretch or self.done == settings.n_steps:
                    course.report(job, self.done, self.losses[self.reported : self.done])
                    self.reported = self.done

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing more to do."""
        return self.is_cut or self.done == len(self.losses)

    def trained(self, like: Member) -> Trained:
        """Return the member as it is now."""
        member = unflat(self.work.theta[self.plan.leaves], like)
        return Trained(member, self.losses[: self.done], self.done == len(self.losses))


def train_all(
    jobs: Sequence[Job],
    *,
    seed: int,
    log_floor: Float32[np.ndarray, " o"],
    loop: Loop,
    progress: Progress = SILENT,
    n_least: int = 1,
) -> list[Trained]:
    """Train members from the start to the end, side by side; fewer steps where time is over.

    log_floor
        Of the noise of every output; of classes, zeros.
    n_least
        Jobs, the first ones, that get some steps in any case.
    """
    n_threads = min(len(jobs), n_cores())
    course = _Course(progress, len(jobs), frozenset(job.number for job in jobs[:n_least]))
    begin = partial(_Training, seed=seed, log_floor=log_floor, loop=loop)
    if math.isfinite(progress.deadline):
        jobs = _in_time(jobs, begin, progress.seconds_left / -(-n_least // n_threads))
    by_number = {job.number: job for job in jobs}
    going: dict[int, _Training] = {}
    trained: dict[int, Trained] = {}

    def take(job: Job) -> None:
        number = job.number
        if number in trained:
            return
        if number not in going:
            going[number] = begin(by_number[number])
        going[number].take(job, course)
        if going[number].has_ended:  # what it worked with is free again
            trained[number] = going.pop(number).trained(job.member)

    with compiled_beside(loop.advance, loop.rehearsal), ThreadPoolExecutor(n_threads) as pool:
        try:
            for block in _blocks(jobs):
                list(pool.map(take, block))
                if not going:
                    break
        finally:  # without which Ctrl-C would wait for the whole fit
            course.is_abandoned.set()
    return [trained[job.number] for job in jobs]


def _in_time(jobs: Sequence[Job], begin: Callable[[Job], _Training], seconds: float) -> list[Job]:
    """Shorten the training of members that would not be complete in some seconds.

    A schedule of steps that comes to its end is better than a longer one that is cut.
    """
    settings, a_step = jobs[0].settings, math.inf
    for n in (1, _N_TRIED):  # the first loads the compiled loop
        rows = jobs[0].rows._replace(beyond=None)
        trial = jobs[0]._replace(rows=rows, settings=replace(settings, n_steps=n))
        started = time.perf_counter()
        begin(trial).take(trial, _Course(SILENT, 1))
        a_step = _SLOWER * (time.perf_counter() - started) / n
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
    progress: Progress = SILENT,
) -> tuple[EnsembleState, Float32[np.ndarray, "k t 2"]]:
    """Train an ensemble of numbers; return the state, and every member's losses.

    Where the time is over before all members are complete, those that are; at least one, and two
    where there are folds.

    fold
        Number of the member that is not given the row; None: all are given all.
    first_member
        Number of the state's first member in its ensemble.
    """
    numbered = enumerate(state.members, first_member)
    jobs = [Job.of(k, member, rows, fold, k, settings) for k, member in numbered]
    least = min(len(jobs), 1 if fold is None else 2)
    trained = train_all(
        jobs,
        seed=state.seed,
        log_floor=state.log_floor,
        loop=OF_NUMBERS,
        progress=progress,
        n_least=least,
    )
    trained = trained[: n_complete(trained, least, settings.n_steps, progress)]
    members = tuple(each.member for each in trained)
    return EnsembleState.of(members, state.log_floor, state.seed), losses_of(trained)


class FitInfo(NamedTuple):
    """What training met.

    losses
        Of every member and step, (k, t, 2): the objective, and its share from the data, nats a row.
    guards
        Counts, by name.
    advice
        What a person should know, in sentences.
    left_out_loss
        Of classes: mean log loss of rows left out, after shares and power; NaN if none.
    """

    losses: Float32[np.ndarray, "k t 2"]
    guards: dict[str, int]
    advice: Sequence[str] = ()
    left_out_loss: float = math.nan


def losses_of(trained: Sequence[Trained]) -> Float32[np.ndarray, "k t 2"]:
    """Return the losses of members, as many steps as all have made."""
    n_steps = min(len(one.losses) for one in trained)
    return np.stack([one.losses[:n_steps] for one in trained])
