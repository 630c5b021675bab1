"""The fit of the default, for numbers and for classes: experts learn, held-out rows mix them.

Experts are networks with Gaussian weights, whose moments pass through every layer in closed form
(Roth & Pernkopf 2016), with adaptive priors. What differs by task is a
head: what experts there are, their likelihood, and how held-out rows mix them.

Numbers: Student-t noise whose scale depends on the input. One expert is given the inputs, and one
piecewise-linear ramps beside them; beside each stands a Gaussian process on the targets.

Classes: a categorical likelihood. Two choices that no fixed value serves are made four ways at
once: whether inputs have ramps beside them, and how often the posterior believes it saw every row.
Each of the four experts is several networks, each trained without its part of the rows, which give
the experts their mixture weights. In the end the shares of the classes get a weight of one in
n + 2, for a surprise among n rows. Of ordered classes there are further experts, whose likelihood
is cumulative: where their order says nothing, their weights are small.

The recipe, what it was chosen from and what it does not do well: docs/records/default-notebook.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Int

from bayesprop.model.method import Parts
from bayesprop.model.progress import SILENT, Progress
from bayesprop.numerics.dense import one_blas_thread
from bayesprop.numerics.machine import n_cores, side_by_side
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import stack as stacking
from bayesprop.tabular_default.experts import (
    ClassState,
    NumberState,
    Processes,
    Stack,
    choose_beside,
    combined,
    points,
)
from bayesprop.tabular_default.held_out import (
    MOST_WEIGHTS,
    Distinct,
    HeldOut,
    hold_out,
    rows_to_look_at,
)
from bayesprop.tabular_default.kernel_classes import N_PAIRS, advance_classes
from bayesprop.tabular_default.neighbours import KernelDensity, LocalLogits
from bayesprop.tabular_default.networks import (
    Networks,
    class_outputs,
    dead_units,
    init_member,
    init_networks,
    init_thresholds,
    rehearse_classes,
)
from bayesprop.tabular_default.piecewise_linear import Ramps, bounded
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.training import FitInfo, Loop, Table, train

FEWER_STEPS = 4
"""Times, of networks with ramps: ramps let a network learn sooner, and more than there is."""

ROWS_AN_INPUT = 10
"""Below which ramps have no processes: held-out rows flatter lengths that they chose."""

_LEAST_SECONDS, _PROCESS_SECONDS, _PROCESS_ROWS = 4.0, 8.0, 2_000
"""Seconds that the processes of an output take, and further seconds from so many rows on."""

_NEARBY_SECONDS = 5.0
"""Most seconds for learning from the nearest rows, an output, on a slow machine."""

_N_NORMALS, _STEPS_OF_NORMALS = 2**13, 16

LIKELIHOOD_WEIGHTS = (1.0, 8.0)
"""Copies that a row counts for in the experts of classes."""


class Plan(NamedTuple):
    """The experts to be trained, and the data that their mixture needs afterwards.

    starts, tables, settings
        Initial networks, the rows that they are given, and their settings.
    rows
        Those rows in memory, as they came, with the groups that are left out together.
    ramps, rng
        Of the inputs, and for what held-out rows choose.
    loop, numbers
        As in `train`.
    n_least
        Networks of every expert that stay even if time is over.
    counts
        Weight of the rows of every class, (c,).
    """

    starts: Sequence[Networks]
    tables: Sequence[Table]
    settings: Sequence[EnsembleSettings]
    rows: Rows
    ramps: Ramps
    rng: np.random.Generator
    loop: Loop | None = None
    numbers: Sequence[int] | None = None
    n_least: int = 1
    counts: np.ndarray | None = None


@dataclass(frozen=True)
class Numbers:
    """The head of numbers, whose columns are the outputs; standardised."""

    training: ClassVar = 0.8
    """Share of the time, and of the bar, that training takes; the rest is for held-out rows."""

    def plan(self, seed: int, rows: Rows, settings: EnsembleSettings, parts: Parts | None) -> Plan:
        """Give one expert the inputs, and one ramps too where its weights can be looked at."""
        table, n_least = Table.of(*rows, parts), 1
        if rows.group is not None:
            rng, n_least = np.random.default_rng([seed % 2**32, 6]), 2
            alike = np.zeros(len(rows.x), int)
            fold = stacking.folds(rows.group, alike, settings.n_members, rng)
            table = table._replace(fold=fold)
        ramps = Ramps.of(table.x, table.weight)
        start = init_networks(seed, rows.x.shape[1], table.y, settings)
        rng = np.random.default_rng([seed % 2**32, 8])
        plan = Plan([start], [table], [settings], rows, ramps, rng, n_least=n_least)
        if not ramps.n_ramps:
            return plan
        ramped = table.given(ramps.encode)
        n_inputs = ramped.x.shape[1]
        other = init_networks(seed, n_inputs, table.y, settings, is_ramped=True)
        weight, n_weights = _distinct(table).once.weight, other.n_mean_weights
        looked_at = rows_to_look_at(weight, n_weights, other.n_outputs, seed)
        if n_weights > MOST_WEIGHTS or (rows.group is None and looked_at is None):
            return plan
        has_enough = len(rows.x) >= ROWS_AN_INPUT * n_inputs
        few = replace(
            settings,
            n_steps=max(1, settings.n_steps // FEWER_STEPS),
            learns_processes=settings.learns_processes and has_enough,
        )
        return plan._replace(
            starts=[start, other], tables=[table, ramped], settings=[settings, few]
        )

    def mix(
        self, seed: int, plan: Plan, experts: Sequence[Networks], progress: Progress
    ) -> tuple[NumberState, float]:
        """Let held-out rows choose what each expert may say, and whether targets nearby join."""
        table, settings = plan.tables[0], plan.settings[0]
        if table.fold is not None and experts[0].n_members < settings.n_members:
            is_out = table.fold < experts[0].n_members  # of one of them; these stand for all rows
            table = table.at(is_out)._replace(n_total=table.n_total)
        distinct = _distinct(table)
        best, *others = _chosen(seed, experts, distinct, plan, progress)
        for other in others:
            best = combined(best, other, distinct)
        n_outputs = table.y.shape[1]
        held_out = best.held_out if settings.learns_processes else None
        density = (None,) * n_outputs
        if held_out is not None and _has_time_for_neighbours(progress, n_outputs):
            density = _densities(plan.rng, distinct, held_out.near)
        return NumberState(best.experts, best.weights, plan.ramps, density, seed), np.nan


@dataclass(frozen=True)
class Classes:
    """The head of classes.

    n_classes
        Codes of rows are below it.
    is_ordered
        Whether the codes are an order; of two classes they are none.
    """

    n_classes: int
    is_ordered: bool = False
    training: ClassVar = 0.9

    def plan(self, seed: int, rows: Rows, settings: EnsembleSettings, parts: Parts | None) -> Plan:
        """Deal rows out to the networks, and begin the experts."""
        if parts is not None and rows.group is None:
            rows = rows._replace(group=np.arange(len(rows.x)))
        rng, ramps = np.random.default_rng(seed), Ramps.of(rows.x, rows.weights)
        counts = np.bincount(rows.y, rows.weights, self.n_classes)
        rows, fold = _folded(rows, settings.n_members, rng)
        one_hot = np.eye(self.n_classes, dtype=np.float32).__getitem__
        table = Table.of(*rows, parts, one_hot)._replace(fold=fold)
        views = table.given(bounded), table.given(ramps.encode)
        is_ordered = self.is_ordered and self.n_classes > 2
        starts = _start(rng, views, counts, settings, is_ordered=is_ordered)
        rehearsal = f"{rehearse_classes.__module__}:{rehearse_classes.__name__}"
        return Plan(
            starts,
            [views[one.is_ramped] for one in starts],
            [settings] * len(starts),
            rows,
            ramps,
            rng,
            Loop(advance_classes, _normals(seed, self.n_classes), rehearsal),
            [f * settings.n_members for f in range(len(starts))],
            counts=counts,
        )

    def mix(
        self, seed: int, plan: Plan, experts: Sequence[Networks], progress: Progress
    ) -> tuple[ClassState, float]:
        """Set by held-out rows all that is not trained; return their mean loss, NaN if none."""
        (fold, counts), n = (plan.tables[0].fold, plan.counts), len(experts)
        assert fold is not None
        assert counts is not None
        state = ClassState(
            tuple(experts),
            np.full(n, 1.0 / n),
            plan.ramps,
            constant=counts / counts.sum(),
            points=points(self.n_classes),
            seed=seed,
            surprise=float(1.0 / (counts.sum() + 2.0)),
        )
        asks_neighbours = plan.settings[0].learns_processes and plan.rows.group is not None
        asks_neighbours = asks_neighbours and _has_time_for_neighbours(progress, 1)
        out = np.flatnonzero((fold >= 0) & (fold < experts[0].n_members))
        if not len(out):
            return state, np.nan
        proba, known = _held_out_classes(state, plan, out, fold[out]), plan.rows.at(out)
        likelihood = np.maximum(proba[:, np.arange(len(out)), known.y], stacking.LEAST_PROBA)
        weights = stacking.mixture_weights(likelihood, known.weight)
        mixture = np.tensordot(weights, proba, 1)
        known = known._replace(x=bounded(known.x).astype(np.float32))
        state = state._replace(weights=weights)
        found = LocalLogits.fit(plan.rng, known, mixture) if asks_neighbours else None
        if found is not None:
            logits, known, mixture = found
            state = state._replace(neighbours=logits)
        losses = stacking.log_loss(mixture, known.y)
        return state, float(np.average(losses, weights=known.weights))


@one_blas_thread()
def fit(
    seed: int,
    rows: Rows,
    settings: EnsembleSettings,
    head: Numbers | Classes = Numbers(),
    *,
    progress: Progress = SILENT,
    parts: Parts | None = None,
) -> tuple[NumberState | ClassState, FitInfo]:
    """Train the experts of a head; held-out rows mix them.

    rows
        Standardised inputs, and targets or codes of classes. Groups, numbers from 0, are left out
        together; without them rows of the same inputs are.
    progress
        Where its time is over the members are those that are complete, without processes.
    parts
        A table that networks learn, of which the rows are a sample: it chooses all the rest.
    """
    plan = head.plan(seed, rows, settings, parts)
    experts, losses = train(
        plan.starts,
        plan.tables,
        plan.settings,
        seed=seed,
        loop=plan.loop,
        numbers=plan.numbers,
        progress=progress.part(0.0, head.training, time_share=head.training),
        n_least=plan.n_least,
    )
    progress.report(head.training, 1.0, "rows left out")
    state, loss = head.mix(seed, plan, experts, progress)
    return state, _info(state, losses, settings, loss)


def _has_time_for_neighbours(progress: Progress, n_outputs: int) -> bool:
    has_time = not progress.is_over and progress.seconds_left >= n_outputs * _NEARBY_SECONDS
    if not has_time:
        progress.cut("without rows nearby")
    return has_time


def _info(
    state: NumberState | ClassState,
    losses: Float[np.ndarray, "k t 2"],
    settings: EnsembleSettings,
    loss: float,
) -> FitInfo:
    networks = [one for one in state.experts if isinstance(one, Networks)]
    dead = (dead_units(m.mean, settings.priors.mean) for one in networks for m in one.members)
    guards, advice = {"dead_units": sum(map(sum, dead))}, []
    if isinstance(state, NumberState):
        processes = [
            p for one in state.experts if isinstance(one, Processes) for p in one.processes
        ]
        guards["process_rows"] = max((len(p.y) for p in processes if p is not None), default=0)
        near = [*state.density, *(p for one in networks for p in one.residuals)]
        if not state.networks.factors.size and np.isfinite(losses[:, -1]).all():
            advice.append(
                f"The {state.networks.n_mean_weights} weights of a network stay independent of each"
                " other: they, or the outputs, are too many for a joint covariance. Error bars"
                " where no rows lie are too narrow, and no Gaussian process stands beside the"
                " networks; smaller hidden_layer_sizes would help."
            )
    else:
        near = [state.neighbours]
    guards["neighbour_rows"] = max((len(p.weight) for p in near if p is not None), default=0)
    return FitInfo(losses, guards, advice, loss)


def _distinct(table: Table) -> Distinct:
    distinct = table.distinct
    return distinct.one_by_one if distinct.has_cells and table.group is None else distinct


def _chosen(
    seed: int,
    experts: Sequence[Networks],
    distinct: Distinct,
    plan: Plan,
    progress: Progress,
) -> list[Stack]:
    """Let held-out rows choose what stands beside the networks of every expert, side by side."""
    held_out = []
    for networks, chosen in zip(experts, plan.settings, strict=True):
        given = distinct.given(plan.ramps.encode) if networks.is_ramped else distinct
        n_total = plan.tables[0].n_total
        held_out.append((*hold_out(networks, given, chosen, seed, n_total), given, chosen))
    n_rows, n_outputs = distinct.table.y.shape
    turns = -(-len(experts) // n_cores()) * n_outputs
    seconds = _LEAST_SECONDS + _PROCESS_SECONDS * min(1.0, n_rows / _PROCESS_ROWS)
    has_time = not progress.is_over and progress.seconds_left >= turns * seconds
    if not has_time and any(out and one.learns_processes for _, out, _, one in held_out):
        progress.cut("no Gaussian processes")
    n_inputs = distinct.table.x.shape[1]

    def choose(of: tuple) -> Stack:
        networks, out, given, chosen = of
        if out is None:
            return Stack((networks,), np.ones((1, n_outputs)), None)
        learns = chosen.learns_processes and has_time
        return choose_beside(networks, given, out, seed, n_inputs, learns_processes=learns)

    return side_by_side(choose, held_out)


def _densities(
    rng: np.random.Generator, distinct: Distinct, held_out: HeldOut
) -> tuple[KernelDensity | None, ...]:
    """Learn targets of the nearest rows of every output; None where held-out rows gain nothing."""
    measured, at, rows = distinct.measured(held_out.rows)
    predicted = held_out.components.at(at).predictive()
    log_p, std, table = predicted.log_prob(measured.y), predicted.std, distinct.table
    table = table if table.group is not None else table._replace(group=distinct.number)
    return tuple(
        KernelDensity.fit(rng, table._replace(y=table.y[:, o]), rows, log_p[:, o], std[:, o])
        for o in range(table.y.shape[1])
    )


def _folded(
    rows: Rows, n_folds: int, rng: np.random.Generator
) -> tuple[Rows, Int[np.ndarray, " n"]]:
    """Deal rows out to folds; of a table of cells no input is left out whole, but some rows."""
    x, codes, _, groups = rows
    if groups is None:
        distinct = Distinct.of(Rows(x.astype(np.float32), codes[:, None], rows.weights))
        if n_folds > 1 and distinct.has_cells:
            return stacking.dealt(x, codes, rows.weights, n_folds)
        groups = distinct.number
    groups = np.unique(groups, return_inverse=True)[1]
    return Rows(x, codes, rows.weights, groups), stacking.folds(groups, codes, n_folds, rng)


def _start(
    rng: np.random.Generator,
    views: tuple[Table, Table],
    counts: Float[np.ndarray, " c"],
    settings: EnsembleSettings,
    *,
    is_ordered: bool,
) -> list[Networks]:
    """Draw the initial networks of all experts; of ordered classes there are twice as many."""
    experts = []
    for of_order, is_ramped, likelihood_weight in product(
        (False, True)[: 1 + is_ordered], (False, True), LIKELIHOOD_WEIGHTS
    ):
        n_outputs = 1 if of_order else len(counts)
        sizes = (views[is_ramped].x.shape[1], *settings.hidden_layer_sizes, n_outputs)
        members = [init_member(rng, sizes) for _ in range(settings.n_members)]
        if of_order:
            thresholds = init_thresholds(1.0 + counts)
            members = [one._replace(thresholds=thresholds) for one in members]
        no_floor = np.zeros(len(counts), np.float32)
        experts.append(
            Networks.of(members, no_floor, is_ramped=is_ramped, likelihood_weight=likelihood_weight)
        )
    return experts


def _held_out_classes(
    state: ClassState, plan: Plan, rows: Int[np.ndarray, " r"], fold: Int[np.ndarray, " r"]
) -> Float[np.ndarray, "f r c"]:
    """Predict rows by the network of every expert that has not seen them."""
    proba = np.empty((len(state.experts), len(rows), len(state.constant)))
    for f, (expert, table) in enumerate(zip(state.experts, plan.tables, strict=True)):
        for k, member in enumerate(expert.members):
            (one,) = class_outputs([member], table.x[rows[fold == k]], state.points)
            proba[f, fold == k] = one[0]
    return proba


def _normals(seed: int, n_classes: int) -> Float32[np.ndarray, " z"]:
    """Draw what the steps of training draw from, many times what one takes."""
    size = max(_N_NORMALS, _STEPS_OF_NORMALS * N_PAIRS * n_classes)
    return np.random.default_rng([seed, 1]).standard_normal(size).astype(np.float32)
