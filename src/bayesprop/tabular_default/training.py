"""Training of all experts by compiled loops, in threads.

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
from jaxtyping import Bool, Float, Float32, Int

from bayesprop.model.method import Parts
from bayesprop.model.progress import SILENT, Progress
from bayesprop.numerics.machine import compiled_beside, n_cores
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import networks as ensemble_outputs
from bayesprop.tabular_default.held_out import Distinct
from bayesprop.tabular_default.kernel_layout import NO_NORMALS, layout
from bayesprop.tabular_default.kernel_member import Rules, advance
from bayesprop.tabular_default.networks import Member, Networks, flat, unflat
from bayesprop.tabular_default.settings import EnsembleSettings

_ORDERED_AT_A_TIME = 100_000  # row numbers: starting a generator takes as long as 2000 of them
_STEPS_AT_A_TIME = 500  # between looks at whether to stop
_N_PROGRESS = 10  # reports of each member
_N_TRIED, _SLOWER = 300, 1.4  # steps that tell how long one takes, and longer side by side
_LEAST_TOTAL = 1e-6  # weight of all rows: they no longer count, and float32 can divide by it


class Table(NamedTuple):
    """Rows as networks are given them, float32, weights of mean 1, and the sum of these before.

    group
        Numbers of what belongs together, (n,); None: nothing does.
    fold
        The member that is not given the row, (n,), -1: none; None: all are given all.
    parts, inputs, targets
        Where these rows are a sample: the table, whose weight is then `n_total`, and the way from
        its inputs and targets to what networks are given and learn.
    """

    x: Float32[np.ndarray, "n d"]
    y: Float32[np.ndarray, "n o"]
    weight: Float32[np.ndarray, " n"]
    n_total: float
    group: Int[np.ndarray, " n"] | None = None
    fold: Int[np.ndarray, " n"] | None = None
    parts: Parts | None = None
    inputs: Callable[[np.ndarray], np.ndarray] = np.asarray
    targets: Callable[[np.ndarray], np.ndarray] = np.asarray

    @classmethod
    def of(
        cls,
        x: Float[np.ndarray, "n d"],
        y: np.ndarray,
        weight: Float[np.ndarray, " n"] | None = None,
        group: Int[np.ndarray, " n"] | None = None,
        parts: Parts | None = None,
        targets: Callable[[np.ndarray], np.ndarray] = np.asarray,
    ) -> Table:
        """Take rows as the compiled loop does, which checks no bounds."""
        y = targets(y)
        weight = np.ones(len(x)) if weight is None else np.asarray(weight, np.float64)
        x, y, each = (np.ascontiguousarray(a, np.float32) for a in (x, y, weight / weight.mean()))
        n_total = float(weight.sum()) if parts is None else parts.total
        return cls(x, y, each, max(n_total, _LEAST_TOTAL), group, None, parts, targets=targets)

    @property
    def distinct(self) -> Distinct:
        """The rows in memory, as a table of their own, with every input once."""
        n_total = self.n_total if self.parts is None else float(self.parts.sample.weights.sum())
        rows = Rows(self.x, self.y, self.weight, self.group)
        return Distinct.of(rows, n_total / self.weight.sum(dtype=np.float64), self.fold)

    def given(self, inputs: Callable[[np.ndarray], np.ndarray]) -> Table:
        """Give networks encoded inputs."""
        return self._replace(x=np.ascontiguousarray(inputs(self.x), np.float32), inputs=inputs)

    def counting(self, kept: Bool[np.ndarray, " n"]) -> Table:
        """Weigh all rows as if there were some of them only: these have mean weight 1."""
        weight = self.weight.astype(np.float64)
        some = weight[kept]
        n_total = self.n_total * some.sum() / weight.sum()
        each = (weight / max(some.mean(), _LEAST_TOTAL)).astype(np.float32)
        return self._replace(weight=each, n_total=max(n_total, _LEAST_TOTAL))

    def at(self, kept: Bool[np.ndarray, " n"]) -> Table:
        """Select some rows; each row keeps its weight."""
        table = self.counting(kept)
        group, fold = (part if part is None else part[kept] for part in (self.group, self.fold))
        x, y, weight = (part[kept] for part in table[:3])
        return table._replace(x=x, y=y, weight=weight, group=group, fold=fold)

    def block(self, rows: Rows) -> Table:
        """Return further rows of the whole table, whose weights have mean 1 over all of it."""
        assert self.parts is not None
        weight = rows.weights * (self.parts.n_rows / self.parts.total)
        columns = self.inputs(np.asarray(rows.x, np.float32)), self.targets(rows.y), weight
        x, y, weight = (np.ascontiguousarray(a, np.float32) for a in columns)
        return self._replace(x=x, y=y, weight=weight, group=rows.group)


class Batches(NamedTuple):
    """Number of batches in an epoch, and rows in each batch."""

    number: int
    size: int

    @classmethod
    def of(cls, n_rows: int, batch_size: int) -> Batches:
        """Choose the size nearest to batch_size that omits fewer rows than there are batches."""
        number = max(1, round(n_rows / batch_size))
        return cls(number, n_rows // number)


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
    """Return the settings of one member for the compiled loop."""
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
    """A member after its steps, its losses (t, 2), and whether it took all of its steps."""

    member: Member
    losses: Float32[np.ndarray, "t 2"]
    is_whole: bool = True


class Loop(NamedTuple):
    """A compiled loop of training, the normal draws that it uses, a rehearsal of what follows."""

    advance: Callable[..., None]
    normals: Float32[np.ndarray, " z"]
    rehearsal: str


OF_NUMBERS = Loop(advance, NO_NORMALS, f"{ensemble_outputs.__name__}:rehearse")


class Start(NamedTuple):
    """An expert to be trained: initial networks, the rows that they are given, their settings.

    number
        Of its first network, see `Job`.
    """

    networks: Networks
    table: Table
    settings: EnsembleSettings
    number: int = 0


class Job(NamedTuple):
    """A member to be trained, and what it is trained on.

    number
        Gives the member its order of the rows, its turn in the settings, and the fold that it does
        not learn.
    kept
        Numbers of the rows that it learns.
    left_out
        Groups of a table larger than memory that it does not learn.
    """

    number: int
    member: Member
    table: Table
    kept: Int[np.ndarray, " m"]
    settings: EnsembleSettings
    left_out: Int[np.ndarray, " g"]

    @classmethod
    def of(cls, start: Start, k: int) -> Job:
        """Train member k of an expert; leave out its fold, if the table has folds."""
        networks, table, settings, first = start
        number = first + k
        kept, left_out = np.arange(len(table.x)), np.zeros(0, np.int64)
        if table.fold is not None:
            is_kept = table.fold != number % settings.n_members
            table, kept = table.counting(is_kept), np.flatnonzero(is_kept)
            if table.group is not None:
                left_out = np.unique(table.group[~is_kept])
        table = table._replace(n_total=networks.likelihood_weight * table.n_total)
        return cls(number, networks.members[k], table, kept.astype(np.int32), settings, left_out)

    def on(self, table: Table) -> Job:
        """Take other rows of the table."""
        kept = np.ones(len(table.x), bool)
        if table.group is not None:
            kept = ~np.isin(table.group, self.left_out)
        return self._replace(table=table, kept=np.flatnonzero(kept).astype(np.int32))

    @property
    def batches(self) -> Batches:
        """Batches of the rows that the member learns."""
        n, size = len(self.kept), self.settings.batch_size
        if self.table.parts is None:
            return Batches.of(n, size)
        return Batches(-(-n // size), size)  # so that all rows are met; the last may repeat some


def _blocks(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Yield jobs with the rows in memory: all rows, or block after block without end."""
    parts = jobs[0].table.parts
    if parts is None:
        yield jobs
        return
    views = {job.table.inputs: job.table for job in jobs}
    for rows in parts.passes:
        tables = {inputs: table.block(rows) for inputs, table in views.items()}
        yield [job.on(tables[job.table.inputs]) for job in jobs]


@dataclass(frozen=True)
class _Course:
    """Progress of members that are trained side by side, and whether to end.

    n_jobs, n_steps
        Members that are trained, and steps of all of them.
    n_least
        Members, the first ones, that get some steps even if the time is over.
    steps
        Of all members, as they are reported.
    is_abandoned
        Set where nothing is wanted any more.
    """

    progress: Progress
    n_jobs: int
    n_steps: int
    n_least: int = 0
    steps: list[int] = field(default_factory=list)
    is_abandoned: Event = field(default_factory=Event)

    def ends(self, place: int, done: int) -> bool:
        """Whether to end a member that has made some steps."""
        can_end = done > 0 or place >= self.n_least
        return self.is_abandoned.is_set() or (can_end and self.progress.is_over)

    def report(self, place: int, training: _Training) -> None:
        """Report a member after a stretch, and its mean losses in it."""
        losses = training.losses[training.reported : training.done]
        self.steps.append(len(losses))
        loss, data_loss = losses.mean(axis=0, dtype=np.float64)
        self.progress.report(
            sum(self.steps),
            self.n_steps,
            f"network {place + 1} of {self.n_jobs}",
            f"step {training.done} of {len(training.losses)}"
            f"  loss {loss:.5g}  data_loss {data_loss:.5g}",
        )


class _Training:
    """Training of one member, block after block of rows."""

    def __init__(
        self, job: Job, seed: int, log_floor: Float32[np.ndarray, " o"], loop: Loop
    ) -> None:
        n_steps, self.seed, self.loop = job.settings.n_steps, seed, loop
        self.plan = layout(job.member, job.settings.priors)
        self.work = self.plan.work(flat(job.member), log_floor, loop.normals)
        self.rules = rules_of(job.settings, job.number, job.table.n_total)
        self.losses = np.empty((n_steps, 2), np.float32)
        self.done = self.n_pieces = self.reported = 0
        self.is_cut = False

    def take(self, job: Job, course: _Course, place: int = 0) -> None:
        """Take the steps that there are rows for: all of them where these are the whole table."""
        table, kept, n_steps, batches = job.table, job.kept, len(self.losses), job.batches
        n_left, stretch = n_steps - self.done, -(-n_steps // _N_PROGRESS)
        n_now = n_left if table.parts is None else min(n_left, batches.number)
        at_a_time = min(_STEPS_AT_A_TIME, stretch) * batches.size
        for order in row_orders(self.seed, job.number, len(kept), batches, n_now, self.n_pieces):
            self.n_pieces += 1
            for at in range(0, len(order), at_a_time):
                self.is_cut = self.is_cut or course.ends(place, self.done)
                if self.is_cut:
                    return
                part = kept[order[at : at + at_a_time]]
                now = slice(self.done, self.done + len(part) // batches.size)
                self.loop.advance(
                    self.work, self.rules, *table[:3], part, batches.size, self.done,
                    self.losses[now],
                )  # fmt: skip
                self.done = now.stop
                if self.done - self.reported >= stretch or self.done == n_steps:
                    course.report(place, self)
                    self.reported = self.done

    def trained(self, like: Member) -> Trained:
        """Return the member as it is now."""
        member = unflat(self.work.theta[self.plan.leaves], like)
        return Trained(member, self.losses[: self.done], self.done == len(self.losses))


def train_jobs(
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
    begin = partial(_Training, seed=seed, log_floor=log_floor, loop=loop)
    if math.isfinite(progress.deadline):
        jobs = _in_time(jobs, begin, progress.seconds_left * min(n_threads, n_least), n_least)
    course = _Course(progress, len(jobs), sum(job.settings.n_steps for job in jobs), n_least)
    going: dict[int, _Training] = {}
    trained: dict[int, Trained] = {}

    def take(place: int, job: Job) -> None:
        if place in trained:
            return
        if place not in going:
            going[place] = begin(jobs[place])
        going[place].take(job, course, place)
        own = going[place]
        if own.is_cut or own.done == len(own.losses):
            trained[place] = own.trained(job.member)
            del going[place]  # what it worked with is free again

    with compiled_beside(loop.advance, loop.rehearsal), ThreadPoolExecutor(n_threads) as pool:
        try:
            for block in _blocks(jobs):
                list(pool.map(take, range(len(jobs)), block))
                if not going:
                    break
        finally:  # without which Ctrl-C would wait for the whole fit
            course.is_abandoned.set()
    return [trained[place] for place in range(len(jobs))]


def _in_time(
    jobs: Sequence[Job], begin: Callable[[Job], _Training], seconds: float, n_least: int
) -> list[Job]:
    """Shorten all training where the first members would not be complete in some seconds.

    A schedule of steps that comes to its end is better than a longer one that is cut.
    """
    settings, a_step = jobs[0].settings, math.inf
    for n in (1, _N_TRIED):  # the first loads the compiled loop
        table = jobs[0].table._replace(parts=None)
        trial = jobs[0]._replace(table=table, settings=replace(settings, n_steps=n))
        started = time.perf_counter()
        begin(trial).take(trial, _Course(SILENT, 1, n))
        a_step = _SLOWER * (time.perf_counter() - started) / n
    share = seconds / a_step / sum(job.settings.n_steps for job in jobs[:n_least])

    def shortened(settings: EnsembleSettings) -> EnsembleSettings:
        n_steps = max(_STEPS_AT_A_TIME, int(min(share, 1.0) * settings.n_steps))
        return replace(settings, n_steps=min(settings.n_steps, n_steps))

    return [job._replace(settings=shortened(job.settings)) for job in jobs]


def train(
    starts: Sequence[Start],
    *,
    seed: int,
    loop: Loop | None = None,
    progress: Progress = SILENT,
    n_least: int = 1,
) -> tuple[list[Networks], Float32[np.ndarray, "k t 2"]]:
    """Train the networks of all experts; where the time is over, return those that are complete.

    And losses of the members of the experts of most steps, (k, t, 2): the objective, and its share
    from the data, nats a row.

    loop
        None: OF_NUMBERS.
    n_least
        Networks of every expert that stay even if they are not complete.
    """
    first, n_experts = starts[0], len(starts)
    # The first network of every expert, the second of every one, and so on.
    jobs = [Job.of(one, k) for k in range(first.networks.n_members) for one in starts]
    least = min(n_least * n_experts, len(jobs))
    trained = train_jobs(
        jobs,
        seed=seed,
        log_floor=first.networks.log_floor,
        loop=loop or OF_NUMBERS,
        progress=progress,
        n_least=least,
    )
    n_whole = next((j for j, one in enumerate(trained) if not one.is_whole), len(trained))
    taken, wanted = len(trained[0].losses), first.settings.n_steps
    n = max(n_whole, least) // n_experts
    if n_whole < len(trained) or taken < wanted:
        each = f" after {taken} of {wanted} steps" if taken < wanted else ""
        progress.cut(f"{n * n_experts} of {len(trained)} networks{each}")
    whole, longest = [], []
    for f, (networks, _, settings, _) in enumerate(starts):
        each = trained[f : n * n_experts : n_experts]
        members = tuple(one.member for one in each)
        whole.append(networks._replace(members=members, factors=networks.factors[:n]))
        if settings.n_steps == wanted:
            longest += [one.losses for one in each]
    n_steps = min(map(len, longest))
    return whole, np.stack([losses[:n_steps] for losses in longest])


class FitInfo(NamedTuple):
    """Losses, counts of guards and advice of a fit.

    losses
        As `train` returns them.
    guards
        Counts, by name.
    advice
        What a person should know, in sentences.
    left_out_loss
        Of classes: mean log loss of held-out rows under the mixture; NaN if none.
    left_out
        Of rows in groups, by experts that have not seen the group: residuals in predicted standard
        deviations, or probabilities of classes; NaN of rows without.
    """

    losses: Float32[np.ndarray, "k t 2"]
    guards: dict[str, int]
    advice: Sequence[str] = ()
    left_out_loss: float = math.nan
    left_out: Float[np.ndarray, "n o"] | None = None
