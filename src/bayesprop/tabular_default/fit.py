"""The fit of the default, for numbers and for classes: experts learn, held-out rows mix them.

Experts are networks with Gaussian weights, whose moments pass through every layer in closed form
(Roth & Pernkopf 2016), with adaptive priors. What differs by task is a
head: what experts there are, their likelihood, and how held-out rows mix them.

Numbers: Student-t noise whose scale depends on the input. One expert is given the inputs, and one
piecewise-linear ramps beside them; beside each stands a Gaussian process on the targets.

Classes: a categorical likelihood. Two choices that no fixed value serves are made four ways at
once: whether inputs have ramps beside them, and how often the posterior believes it saw every row.
Each of the four experts is several networks, each trained without its part of the rows, which give
the experts their mixture weights, and the mixture a power. In the end the shares of the classes get
a weight of one in n + 2, for a surprise among n rows. Of ordered classes there are further experts,
whose likelihood is cumulative: where their order says nothing, their weights are small.

The recipe, what it was chosen from and what it does not do well: docs/records/default-notebook.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int
from scipy import special

from bayesprop.distributions.mixture import LEAST_LOG_NOISE
from bayesprop.model.method import Parts
from bayesprop.model.progress import SILENT, Progress
from bayesprop.numerics.machine import n_cores, one_blas_thread, side_by_side
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import gaussian_process, neighbours, residual_process, twins
from bayesprop.tabular_default import stack as stacking
from bayesprop.tabular_default.experts import ClassState, NumberState, Processes
from bayesprop.tabular_default.gaussian_process import Fitted, GaussianProcess, Limits
from bayesprop.tabular_default.held_out import (
    MOST_WEIGHTS,
    Distinct,
    HeldOut,
    hold_out,
    rows_to_look_at,
)
from bayesprop.tabular_default.kernel_classes import N_PAIRS, advance_classes
from bayesprop.tabular_default.neighbours import KernelDensity, LocalLogits, bits
from bayesprop.tabular_default.networks import (
    Networks,
    class_outputs,
    dead_units,
    init_member,
    init_networks,
    init_thresholds,
    log_noise_floor,
    outputs,
    rehearse_classes,
)
from bayesprop.tabular_default.piecewise_linear import Ramps
from bayesprop.tabular_default.residual_process import Local, ResidualProcess
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.stack import MOST_MEASUREMENTS, Components, is_no_more
from bayesprop.tabular_default.training import FitInfo, Loop, Start, Table, train

FEWER_STEPS = 4
"""Times, of networks with ramps: ramps let a network learn sooner, and more than there is."""

ROWS_AN_INPUT = 10
"""Below which ramps have no processes: held-out rows flatter lengths that they chose."""

LEAST_ROWS = 10
"""Below which held-out rows choose nothing."""

LEAST_WEIGHT = 0.1
"""Of networks with ramps that stay: less gains little, and every prediction would wait for it."""

ENOUGH_WEIGHT = 0.9
"""Of a process on targets, knowing all rows, that leaves nothing for neighbours to do."""

LIKELIHOOD_WEIGHTS = (1.0, 8.0)
"""Copies that a row counts for in the experts of classes."""

_OF_NUMBERS, _OF_CLASSES = 0.8, 0.9
"""Share of the time, and of the bar, that training takes; the rest is for held-out rows."""

_LEAST_SECONDS, _PROCESS_SECONDS, _PROCESS_ROWS = 4.0, 8.0, 2_000
"""Seconds that the processes of an output take, and further seconds from so many rows on."""

_NEARBY_SECONDS = 5.0
"""Most seconds for learning from the nearest rows, an output, on a slow machine."""

_LEAST_PROCESS_WEIGHT = 1e-6  # and of the networks beside it
_N_POINTS = 64  # of the logits of a prediction, and as many opposite
_N_NORMALS, _STEPS_OF_NORMALS = 2**13, 16


@dataclass(frozen=True)
class Numbers:
    """The head of numbers, whose columns are the outputs; standardised."""

    def fit(
        self,
        seed: int,
        rows: Rows,
        settings: EnsembleSettings,
        progress: Progress,
        parts: Parts | None,
    ) -> tuple[NumberState, FitInfo]:
        """Train; held-out rows choose the experts, and whether the nearest targets are used."""
        table, n_least = Table.of(*rows, parts), 1
        if rows.group is not None:
            rng, n_least = np.random.default_rng([seed % 2**32, 6]), 2
            alike = np.zeros(len(rows.x), int)
            table = table._replace(fold=stacking.folds(rows.group, alike, settings.n_members, rng))
        ramps = Ramps.of(table.x, table.weight)
        starts = _starts(seed, table, ramps, settings)
        of_training = progress.part(0.0, _OF_NUMBERS, time_share=_OF_NUMBERS)
        experts, losses = train(starts, seed=seed, progress=of_training, n_least=n_least)
        progress.report(_OF_NUMBERS, 1.0, "rows left out")
        if table.fold is not None and experts[0].n_members < settings.n_members:
            is_out = table.fold < experts[0].n_members  # of one of them; these stand for all rows
            table = table.at(is_out)._replace(n_total=table.n_total)
        distinct, n_outputs = table.distinct.cells_apart, table.y.shape[1]
        stacks = _chosen(seed, starts, experts, distinct, ramps, progress)
        best = reduce(lambda one, other: combined(one, other, distinct), stacks)
        held_out = best.held_out.near if best.held_out and settings.learns_processes else None
        density, tail = (None,) * n_outputs, np.zeros((2, n_outputs))
        if held_out is not None and table.group is None and len(held_out.rows) >= LEAST_ROWS:
            tail, held_out = held_out.with_tails(seed, distinct)
        if held_out is not None and _has_time_for_neighbours(progress, n_outputs):
            rng = np.random.default_rng([seed % 2**32, 8])
            are_exchangeable = settings.are_exchangeable and neighbours.repeat(rows.x)
            density = _densities(rng, distinct, held_out, are_exchangeable=are_exchangeable)
        state = NumberState(best.experts, best.weights, ramps, density, seed, tail)
        networks = [one for one in best.experts if isinstance(one, Networks)]
        others = [one for one in best.experts if isinstance(one, Processes)]
        near = [*density, *(process for one in networks for process in one.residuals)]
        known = (len(p.y) for one in others for p in one.processes if p is not None)
        guards = _guards(networks, settings, near) | {"process_rows": max(known, default=0)}
        advice = []
        if not networks[0].factors.size and np.isfinite(losses[:, -1]).all():
            advice.append(
                f"The {networks[0].n_mean_weights} weights of a network stay independent of each"
                " other: they, or the outputs, are too many for a joint covariance. Error bars"
                " where no rows lie are too narrow, and no Gaussian process stands beside the"
                " networks; smaller hidden_layer_sizes would help."
            )
        out = best.held_out if rows.group is not None and len(table.x) == len(rows.x) else None
        left_out = None if out is None else out.residuals(distinct)
        return state, FitInfo(losses, guards, advice, left_out=left_out)


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

    def fit(
        self,
        seed: int,
        rows: Rows,
        settings: EnsembleSettings,
        progress: Progress,
        parts: Parts | None,
    ) -> tuple[ClassState, FitInfo]:
        """Train networks, each without its fold of the rows, which set all that is not trained."""
        if parts is not None and rows.group is None:
            rows = rows._replace(group=np.arange(len(rows.x)))
        rng, are_exchangeable = np.random.default_rng(seed), settings.are_exchangeable
        are_exchangeable = are_exchangeable and rows.group is None and neighbours.repeat(rows.x)
        ramps = Ramps.of(rows.x, rows.weights).with_halves(rows.x, rows.weights)
        given, counts = rows, np.bincount(rows.y, rows.weights, self.n_classes)
        rows, fold = _folded(rows, settings.n_members, rng, are_exchangeable=are_exchangeable)
        one_hot = np.eye(self.n_classes, dtype=np.float32).__getitem__
        table = Table.of(*rows, parts, one_hot)._replace(fold=fold)
        views = table.given(ramps.plain), table.given(ramps.encode)
        is_ordered = self.is_ordered and self.n_classes > 2
        starts = _class_starts(rng, views, counts, settings, is_ordered=is_ordered)
        rehearsal = f"{rehearse_classes.__module__}:{rehearse_classes.__name__}"
        loop = Loop(advance_classes, _normals(seed, self.n_classes), rehearsal)
        of_training = progress.part(0.0, _OF_CLASSES, time_share=_OF_CLASSES)
        experts, losses = train(starts, seed=seed, loop=loop, progress=of_training)
        progress.report(_OF_CLASSES, 1.0, "rows left out")
        state = ClassState(
            tuple(experts),
            np.full(len(experts), 1.0 / len(experts)),
            ramps,
            constant=counts / counts.sum(),
            points=points(self.n_classes),
            seed=seed,
            surprise=float(1.0 / (counts.sum() + 2.0)),
        )
        asks_neighbours = settings.learns_processes and _has_time_for_neighbours(progress, 1)
        out, loss = np.flatnonzero((fold >= 0) & (fold < experts[0].n_members)), np.nan
        left_out = None
        if len(out):
            proba, known = _held_out_classes(state, starts, out, fold[out]), rows.at(out)
            likelihood = np.maximum(proba[:, np.arange(len(out)), known.y], stacking.LEAST_PROBA)
            weights = stacking.mixture_weights(likelihood, known.weight)
            mixture = np.tensordot(weights, proba, 1)
            if given.group is not None:
                left_out = np.full((len(rows.x), self.n_classes), np.nan)
                left_out[out] = mixture
            near, logits = known._replace(x=ramps.plain(known.x).astype(np.float32)), None
            if asks_neighbours and (found := LocalLogits.fit(rng, near, mixture)) is not None:
                logits, own, mixture = found
                known = known.at(own)
            power = stacking.power(known, mixture)
            state = state._replace(weights=weights, neighbours=logits, power=power)
            mixture = stacking.normalised(mixture, power)
            if settings.learns_processes and are_exchangeable:
                state = state._replace(twins=twins.Twins.fit(given, known, mixture))
            loss = float(np.average(stacking.log_loss(mixture, known.y), weights=known.weights))
        guards = _guards(experts, settings, [state.neighbours])
        return state, FitInfo(losses, guards, [], loss, left_out)


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
    return head.fit(seed, rows, settings, progress, parts)


def _has_time_for_neighbours(progress: Progress, n_outputs: int) -> bool:
    has_time = not progress.is_over and progress.seconds_left >= n_outputs * _NEARBY_SECONDS
    if not has_time:
        progress.cut("without neighbours")
    return has_time


def _guards(
    networks: Sequence[Networks],
    settings: EnsembleSettings,
    near: Sequence[neighbours.Neighbours | None],
) -> dict[str, int]:
    """Count dead units, and the rows that are looked up among."""
    dead = (dead_units(m.mean, settings.priors.mean) for one in networks for m in one.members)
    known = (len(one.weight) for one in near if one is not None)
    return {"dead_units": sum(map(sum, dead)), "neighbour_rows": max(known, default=0)}


def _starts(seed: int, table: Table, ramps: Ramps, settings: EnsembleSettings) -> list[Start]:
    """Give one expert the inputs, and one ramps too where its weights can be looked at."""
    plain = table.given(ramps.plain)
    first = Start(init_networks(seed, plain.x.shape[1], plain.y, settings), plain, settings)
    if not ramps.n_ramps:
        return [first]
    ramped, n_inputs = table.given(ramps.encode), len(ramps.n_knots) + ramps.n_ramps
    networks = init_networks(seed, n_inputs, table.y, settings, is_ramped=True)
    weight, n_weights = table.distinct.cells_apart.once.weight, networks.n_mean_weights
    looked_at = rows_to_look_at(weight, n_weights, networks.n_outputs, seed)
    if n_weights > MOST_WEIGHTS or (table.group is None and looked_at is None):
        return [first]
    has_enough = len(table.x) >= ROWS_AN_INPUT * n_inputs
    few = replace(
        settings,
        n_steps=max(1, settings.n_steps // FEWER_STEPS),
        learns_processes=settings.learns_processes and has_enough,
    )
    return [first, Start(networks, ramped, few)]


def _chosen(
    seed: int,
    starts: Sequence[Start],
    experts: Sequence[Networks],
    distinct: Distinct,
    ramps: Ramps,
    progress: Progress,
) -> list[Stack]:
    """Let held-out rows choose what stands beside the networks of every expert, side by side."""
    held_out = []
    for networks, start in zip(experts, starts, strict=True):
        of_processes = distinct.given(ramps.encode) if networks.is_ramped else distinct
        given = of_processes if networks.is_ramped else distinct.given(ramps.plain)
        found = hold_out(networks, given, start.settings, seed, start.table.n_total)
        held_out.append((*found, given, of_processes.once.x, start.settings.learns_processes))
    n_rows, n_outputs = distinct.table.y.shape
    turns = -(-len(experts) // n_cores()) * n_outputs
    seconds = _LEAST_SECONDS + _PROCESS_SECONDS * min(1.0, n_rows / _PROCESS_ROWS)
    has_time = not progress.is_over and progress.seconds_left >= turns * seconds
    if not has_time and any(out and learns for _, out, *_, learns in held_out):
        progress.cut("no Gaussian processes")
    n_inputs = distinct.table.x.shape[1]

    def choose(of: tuple) -> Stack:
        networks, out, given, far, learns = of
        if out is None:
            return Stack((networks,), np.ones((1, n_outputs)), None)
        learns = learns and has_time
        return choose_beside(networks, out, given, far, seed, n_inputs, learns_processes=learns)

    return side_by_side(choose, held_out)


class Stack(NamedTuple):
    """Experts, their mixture weights of every output, (e, o), and their held-out mixture."""

    experts: tuple[Networks | Processes, ...]
    weights: Float[np.ndarray, "e o"]
    held_out: HeldOut | None


def choose_beside(
    networks: Networks,
    held_out: HeldOut,
    distinct: Distinct,
    of_processes: Float[np.ndarray, "u d"],
    seed: int,
    n_inputs: int,
    *,
    learns_processes: bool,
) -> Stack:
    """Let held-out rows choose processes and the noise that remains.

    A Gaussian process on the targets gets the mixture weight that makes held-out rows most likely,
    and stays where they gain, or are too few to tell. Unless that is nearly all, the nearest rows
    are asked what the networks leave, where held-out rows gain more by it than by a choice of the
    noise alone. The factor of the noise is mostly less than 1: a member's noise holds its own
    errors, which others average out.

    distinct, of_processes
        Rows as the networks take them, and inputs as processes on the targets do.
    n_inputs
        Columns before the ramps.
    """
    rng, once = np.random.default_rng([seed % 2**32, 4]), distinct.once
    n_outputs = networks.n_outputs
    if held_out.is_near.sum() < LEAST_ROWS:
        return Stack((networks,), np.ones((1, n_outputs)), held_out)
    x, far = (a[held_out.rows].astype(np.float64) for a in (once.x, of_processes))
    rows = np.sort(rng.permutation(len(x))[: gaussian_process.MOST_ROWS])
    near = rows[held_out.is_near[rows]]
    known = once.at(held_out.rows[rows])._replace(x=far[rows])
    measured, at, _ = distinct.measured(held_out.rows[near])
    there, around = held_out.components.at(near), None
    if learns_processes and len(near) >= neighbours.LEAST_ROWS:
        order = np.r_[near, np.setdiff1d(np.flatnonzero(held_out.is_near), near)]
        around = _around(networks, distinct, held_out, order, n_inputs, seed)
    # The time goes with the cube of it, and with the number of outputs.
    n_evidence, each = int(gaussian_process.ROWS_OF_EVIDENCE / np.cbrt(n_outputs)), []
    for o in range(n_outputs):
        learn = around and partial(
            ResidualProcess.fit,
            rng,
            around[0]._replace(y=around[0].y[:, o]),
            around[1].column(o).predictive(),
            len(near),
        )
        targets = measured._replace(y=measured.y[:, o]), known._replace(y=known.y[:, o])
        y, limits = distinct.table.y[:, o : o + 1], None
        if learns_processes and np.ptp(y):
            floor = log_noise_floor(y, float(np.exp(0.5 * LEAST_LOG_NOISE)))
            limits = Limits(float(floor[0]), n_evidence)
        is_near = held_out.is_near[rows]
        each.append(_choice(rng, there.column(o), at, *targets, is_near, limits, learn))
    networks = networks._replace(
        log_noise_factor=np.array([one.log_factor for one in each], np.float32),
        residuals=tuple(one.residual and one.residual[0] for one in each),
    )
    local: list[Local | None] = []
    for one in each:
        own = one.residual and Local.of(one.residual[0], x)
        local.append(own)
        if one.residual is not None and own is not None:
            for part, without in zip(own[:3], one.residual[1][:3], strict=True):
                part[near] = without
    parts = [networks.corrected(held_out.components, local)]
    experts, weight = (networks,), np.array([one.weight for one in each])
    if weight.any():
        processes = tuple(one.process and one.process.process for one in each)
        experts = networks, Processes(processes, networks.is_ramped)
        parts.append(experts[1].components(far))
        for o, one in enumerate(each):  # what is said without a row takes the place of all else
            if one.process is not None:
                parts[1].m[0, rows, o], parts[1].v[0, rows, o] = one.process.m, one.process.v
    weights = np.stack([1.0 - weight, weight])[: len(experts)]
    return Stack(experts, weights, held_out._replace(components=Components.mixed(parts, weights)))


def _around(
    networks: Networks,
    distinct: Distinct,
    held_out: HeldOut,
    order: Int[np.ndarray, " r"],
    n_inputs: int,
    seed: int,
) -> tuple[Rows, Components]:
    """Return rows whose residuals are learnt, held-out rows first, and their predictions."""
    once, rows = distinct.once, held_out.rows[order]
    components = held_out.components.at(order)
    if once.group is None:  # else a member that learnt them would speak for what did not
        rng = np.random.default_rng([seed % 2**32, 7])
        others = np.setdiff1d(np.flatnonzero(once.weight), held_out.rows)
        rows = np.r_[rows, rng.permutation(others)][: neighbours.most_rows(n_inputs)]
        components, out = outputs(networks, once.x[rows]), components
        components.m[:, : len(order)] = out.m[:, : len(rows)]
    known = once.at(rows)
    return known._replace(x=known.x[:, :n_inputs]), components


class _Choice(NamedTuple):
    """Choices for one output: log factor of the noise, processes kept, weight of the process."""

    log_factor: float
    residual: tuple[ResidualProcess, Local] | None = None
    process: Fitted | None = None
    weight: float = 0.0


def _choice(
    rng: np.random.Generator,
    there: Components,
    at: Int[np.ndarray, " m"],
    measured: Rows,
    known: Rows,
    is_near: Bool[np.ndarray, " n"],
    limits: Limits | None,
    learn_residual: Callable[[], tuple[ResidualProcess, Local] | None] | None,
) -> _Choice:
    """Choose by what is predicted of held-out rows of low leverage.

    there, at
        Components of one output at these rows, and the row of every measurement.
    known, is_near
        Rows for a process on targets, and which of them these are.
    """
    if len(at) > MOST_MEASUREMENTS:
        some = np.sort(rng.permutation(len(at))[:MOST_MEASUREMENTS])
        at, measured = at[some], measured.at(some)
    # The noise of groups was learnt from rows of the same groups: it goes all the way.
    n_errors, networks = 1.0 if known.group is None else 0.0, there.at(at)
    log_factor, before = stacking.noise_factor(networks, measured, n_errors)
    if limits is None:
        return _Choice(log_factor)
    process, residual = GaussianProcess.fit(rng, known, limits), None
    m, v = process.m[is_near][at], process.v[is_near][at]
    log_p = process.process.log_density(measured.y, m, v)
    weight, mixed = _stacked(networks, log_factor, measured, log_p)
    is_enough = weight >= ENOUGH_WEIGHT and len(known.y) < gaussian_process.MOST_ROWS
    found = learn_residual() if learn_residual is not None and not is_enough else None
    if found is not None:
        moved = residual_process.changed(there, found[1]).at(at)
        moved_factor, after = stacking.noise_factor(moved, measured, n_errors)
        # A choice of the noise alone would gain as much without them.
        of_noise = stacking.noise_factor(networks, measured, 0.0)[1]
        if not is_no_more(after - of_noise - neighbours.LEAST_GAIN, 0.0):
            residual, log_factor, before = found, moved_factor, after
            weight, mixed = _stacked(moved, log_factor, measured, log_p)
    pull = stacking.PSEUDO_ROWS / len(mixed)  # to equal weights, which may cost that
    if is_no_more(mixed - before - stacking.LEAST_GAIN + pull, 0.0):
        return _Choice(log_factor, residual)
    return _Choice(log_factor, residual, process, weight)


def _stacked(
    networks: Components, log_factor: float, measured: Rows, log_p: Float[np.ndarray, " r"]
) -> tuple[float, Float[np.ndarray, " n"]]:
    """Return the mixture weight of log densities log_p beside networks, and log-likelihoods."""
    of_them = networks.predictive(log_factor).log_prob(measured.y)
    weight = float(stacking.weights_of(np.stack([of_them, log_p]), measured.weight)[1])
    weight = float(np.clip(weight, _LEAST_PROCESS_WEIGHT, 1.0 - _LEAST_PROCESS_WEIGHT))
    mixed = np.logaddexp(np.log1p(-weight) + of_them, np.log(weight) + log_p)
    return weight, stacking.scores(measured, mixed)


def combined(one: Stack, other: Stack, distinct: Distinct) -> Stack:
    """Mix two stacks by rows held out of both, unless the weight of the other would be small."""
    if one.held_out is None or other.held_out is None:
        return one
    of_one, of_other = one.held_out.near, other.held_out.near
    one = one._replace(held_out=of_one)
    common, at_one, at_other = np.intersect1d(of_one.rows, of_other.rows, return_indices=True)
    if len(common) < LEAST_ROWS:
        return one
    parts = [of_one.components.at(at_one), of_other.components.at(at_other)]
    measured, at, _ = distinct.measured(common)
    log_p = [part.at(at).predictive().log_prob(measured.y).sum(axis=1) for part in parts]
    weights = stacking.weights_of(np.stack(log_p), measured.weight)
    if weights[1] < LEAST_WEIGHT:
        return one
    held_out = HeldOut(common, Components.mixed(parts, weights), np.ones(len(common), bool))
    each = weights[0] * one.weights, weights[1] * other.weights
    return Stack((*one.experts, *other.experts), np.concatenate(each), held_out)


def _densities(
    rng: np.random.Generator, distinct: Distinct, held_out: HeldOut, *, are_exchangeable: bool
) -> tuple[KernelDensity | None, ...]:
    """Learn targets of the nearest rows of every output; None where held-out rows gain nothing."""
    measured, at, rows = distinct.measured(held_out.rows)
    predicted = held_out.components.at(at).predictive()
    log_p, std, table = predicted.log_prob(measured.y), predicted.std, distinct.table
    if table.group is None and not are_exchangeable:
        table = table._replace(group=distinct.number)
    return tuple(
        KernelDensity.fit(rng, table._replace(y=table.y[:, o]), rows, log_p[:, o], std[:, o])
        for o in range(table.y.shape[1])
    )


def _folded(
    rows: Rows, n_folds: int, rng: np.random.Generator, *, are_exchangeable: bool
) -> tuple[Rows, Int[np.ndarray, " n"]]:
    """Deal rows out to folds, those of the same inputs to one fold unless they are exchangeable.

    Nor of a table of cells, where no input can be missed whole.
    """
    x, codes, _, groups = rows
    if groups is None:
        distinct = Distinct.of(Rows(x.astype(np.float32), codes[:, None], rows.weights))
        is_dealt = len(distinct.once.x) < len(x) and (are_exchangeable or distinct.has_cells)
        if n_folds > 1 and is_dealt:
            rows, fold = stacking.dealt(x, codes, rows.weights, n_folds)
            return rows._replace(group=np.unique(bits(rows.x), return_inverse=True)[1]), fold
        groups = distinct.number
    groups = np.unique(groups, return_inverse=True)[1]
    return Rows(x, codes, rows.weights, groups), stacking.folds(groups, codes, n_folds, rng)


def _class_starts(
    rng: np.random.Generator,
    views: tuple[Table, Table],
    counts: Float[np.ndarray, " c"],
    settings: EnsembleSettings,
    *,
    is_ordered: bool,
) -> list[Start]:
    """Draw the initial networks of all experts; of ordered classes there are twice as many."""
    starts: list[Start] = []
    for of_order, is_ramped, likelihood_weight in product(
        (False, True)[: 1 + is_ordered], (False, True), LIKELIHOOD_WEIGHTS
    ):
        n_outputs = 1 if of_order else len(counts)
        sizes = (views[is_ramped].x.shape[1], *settings.hidden_layer_sizes, n_outputs)
        members = [init_member(rng, sizes) for _ in range(settings.n_members)]
        if of_order:
            thresholds = init_thresholds(1.0 + counts)
            members = [one._replace(thresholds=thresholds) for one in members]
        no_floor, given = np.zeros(len(counts), np.float32), (is_ramped, likelihood_weight)
        networks, number = Networks.of(members, no_floor, *given), len(starts) * len(members)
        starts.append(Start(networks, views[is_ramped], settings, number))
    return starts


def _held_out_classes(
    state: ClassState,
    starts: Sequence[Start],
    rows: Int[np.ndarray, " r"],
    fold: Int[np.ndarray, " r"],
) -> Float[np.ndarray, "f r c"]:
    """Predict rows by the network of every expert that has not seen them."""
    proba = np.empty((len(state.experts), len(rows), len(state.constant)))
    for f, (expert, start) in enumerate(zip(state.experts, starts, strict=True)):
        for k, member in enumerate(expert.members):
            x = start.table.x[rows[fold == k]]
            (one,) = class_outputs([member], x, state.points)
            proba[f, fold == k] = one[0]
    return proba


def points(n_classes: int) -> Float32[np.ndarray, "p c"]:
    """Draw all logits so that they cover the normal distribution evenly (Owen 1995)."""
    from scipy.stats import qmc

    uniform = qmc.Sobol(n_classes, rng=0).random(_N_POINTS)
    return special.ndtri(uniform).astype(np.float32)


def _normals(seed: int, n_classes: int) -> Float32[np.ndarray, " z"]:
    """Draw what the steps of training draw from, many times what one takes."""
    size = max(_N_NORMALS, _STEPS_OF_NORMALS * N_PAIRS * n_classes)
    return np.random.default_rng([seed, 1]).standard_normal(size).astype(np.float32)
