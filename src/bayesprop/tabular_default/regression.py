"""Closed-form variational regression that learns its noise and needs no tuning.

Experts are networks with Gaussian weights and rectifiers with kinks of learnt width, trained on the
closed-form expected log-likelihood of Student-t noise whose scale depends on the input: one that is
given the inputs, and one that is given piecewise-linear ramps beside them; and beside each a
Gaussian process on the targets. Held-out rows choose their mixture weights. The recipe, what it was
chosen from and what it does not do well: docs/records/default-notebook.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int

from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.model.method import Parts
from bayesprop.model.progress import SILENT, Progress
from bayesprop.numerics.dense import one_blas_thread
from bayesprop.numerics.machine import n_cores, side_by_side
from bayesprop.tabular_default import neighbours
from bayesprop.tabular_default.components import Components
from bayesprop.tabular_default.duplicate_inputs import Distinct
from bayesprop.tabular_default.experts import (
    Processes,
    Stack,
    choose_beside,
    combined,
    expert_components,
)
from bayesprop.tabular_default.joint_covariance import (
    MOST_WEIGHTS,
    HeldOut,
    hold_out,
    rows_to_look_at,
)
from bayesprop.tabular_default.neighbours import KernelDensity
from bayesprop.tabular_default.networks import (
    Networks,
    dead_units,
    init_networks,
)
from bayesprop.tabular_default.piecewise_linear import Ramps
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.stack import (
    folds,
)
from bayesprop.tabular_default.training import FitInfo, Table, train

_TRAINING = 0.8
"""Share of the time, and of the bar, that training takes; the rest is for held-out rows."""

FEWER_STEPS = 4
"""Times, of networks with ramps: ramps let a network learn sooner, and more than there is."""

ROWS_AN_INPUT = 10
"""Below which ramps have no processes: held-out rows flatter lengths that they chose."""

_LEAST_SECONDS, _PROCESS_SECONDS, _PROCESS_ROWS = 4.0, 8.0, 2_000
"""What the processes of an output take, and what they take more at so many rows or more."""

_NEARBY_SECONDS = 5.0
"""What targets of rows nearby may take to learn, of an output, on a slow machine."""


class NumberState(NamedTuple):
    """What a fit leaves.

    experts, weights
        Experts, and their mixture weights for every output, (e, o).
    ramps
        Of the inputs.
    density
        Targets of the nearest rows of every output, beside all else; None where held-out rows want
        none.
    seed
        The number that fixed the start and the order of the rows.
    """

    experts: tuple[Networks | Processes, ...]
    weights: Float64[np.ndarray, "e o"]
    ramps: Ramps
    density: tuple[KernelDensity | None, ...]
    seed: int

    @property
    def networks(self) -> Networks:
        """Those that are given the inputs as they are."""
        first = self.experts[0]
        assert isinstance(first, Networks)
        return first

    def validate(self) -> None:
        """Raise ValueError unless all parts belong to one ensemble."""
        d, n_given = len(self.ramps.n_knots), len(self.ramps.n_knots) + self.ramps.n_ramps
        if not self.experts or not isinstance(self.experts[0], Networks):
            raise ValueError("the first expert must be networks")
        o = self.experts[0].n_outputs
        for one in self.experts:
            n_inputs = n_given if one.is_ramped else d
            if isinstance(one, Networks):
                fits = one.n_inputs == n_inputs and one.members[0].sizes[1][-1] == o
            else:
                fits = all(p is None or p.x.shape[1] == n_inputs for p in one.processes)
            if not fits or one.n_outputs != o:
                raise ValueError(f"every expert must lead from its inputs to {o} outputs")
        least, most = self.weights.min(), np.abs(self.weights.sum(axis=0) - 1.0).max()
        if self.weights.shape != (len(self.experts), o) or least < 0.0 or most > 1e-6:
            raise ValueError("weights must be numbers from 0 on that sum to one, of every expert")
        if len(self.density) != o:
            raise ValueError(f"all that belongs to an output must be there {o} times")
        if any(one is not None and one.x.shape[1] != d for one in self.density):
            raise ValueError(f"what knows rows must know {d} inputs of each")


@one_blas_thread()
def fit(
    seed: int,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    settings: EnsembleSettings,
    *,
    weight: Float[np.ndarray, " n"] | None = None,
    groups: Int[np.ndarray, " n"] | None = None,
    progress: Progress = SILENT,
    parts: Parts | None = None,
) -> tuple[NumberState, FitInfo]:
    """Train networks without and with ramps; held-out rows choose what each expert may say.

    x, y
        Standardised.
    weight
        How often each row counts; None: once.
    groups
        Numbers from 0 of what belongs together, such as rows of one patient: every group is left
        out of one member's training, which gives its held-out predictions.
    progress
        Where its time is over the members are those that are complete, without processes.
    parts
        A table that networks learn, of which the rows are a sample: it chooses all the rest.
    """
    table = Table.of(x, y, weight, groups, parts)
    if groups is not None:
        rng = np.random.default_rng([seed % 2**32, 6])
        alike = np.zeros(len(x), int)
        table = table._replace(fold=folds(groups, alike, settings.n_members, rng))
    distinct = _distinct(table)
    ramps = Ramps.of(table.x, table.weight)
    tables, chosen = [table], [settings]
    starts = [init_networks(seed, x.shape[1], table.y, settings)]
    if ramps.n_ramps:
        ramped = table.given(ramps.encode)
        n_inputs = ramped.x.shape[1]
        start = init_networks(seed, n_inputs, table.y, settings, is_ramped=True)
        n_weights, n_outputs = start.n_mean_weights, start.n_outputs
        looked_at = rows_to_look_at(distinct.once.weight, n_weights, n_outputs, seed)
        if n_weights <= MOST_WEIGHTS and (groups is not None or looked_at is not None):
            has_enough = len(x) >= ROWS_AN_INPUT * n_inputs
            few = replace(
                settings,
                n_steps=max(1, settings.n_steps // FEWER_STEPS),
                learns_processes=settings.learns_processes and has_enough,
            )
            tables, starts, chosen = [*tables, ramped], [*starts, start], [settings, few]
    training = progress.part(0.0, _TRAINING, time_share=_TRAINING)
    n_least = 1 if groups is None else 2
    experts, losses = train(starts, tables, chosen, seed=seed, progress=training, n_least=n_least)
    if table.fold is not None and experts[0].n_members < settings.n_members:
        is_out = table.fold < experts[0].n_members  # of one of them; these stand for all rows
        stand_in = table.at(is_out)._replace(n_total=table.n_total)
        distinct = _distinct(stand_in)
    stacks = _chosen(seed, experts, distinct, ramps, chosen, table.n_total, progress)
    best = stacks[0]
    for other in stacks[1:]:
        best = combined(best, other, distinct)
    state = NumberState(best.experts, best.weights, ramps, (None,) * table.y.shape[1], seed)
    if best.held_out is not None and settings.learns_processes:
        state = _with_density(state, distinct, best.held_out, progress)
    return state, _info(state, losses, settings)


def _distinct(table: Table) -> Distinct:
    distinct = table.distinct
    return distinct.one_by_one if distinct.has_cells and table.group is None else distinct


def _chosen(
    seed: int,
    experts: Sequence[Networks],
    distinct: Distinct,
    ramps: Ramps,
    settings: Sequence[EnsembleSettings],
    n_total: float,
    progress: Progress,
) -> list[Stack]:
    """Let held-out rows choose what stands beside the networks of every expert, side by side."""
    held_out = []
    for networks, chosen in zip(experts, settings, strict=True):
        given = distinct.given(ramps.encode) if networks.is_ramped else distinct
        held_out.append((*hold_out(networks, given, chosen, seed, n_total), given, chosen))
    progress.report(_TRAINING, 1.0, "rows left out")
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


def _with_density(
    state: NumberState, distinct: Distinct, held_out: HeldOut, progress: Progress
) -> NumberState:
    """Put targets of the nearest rows beside all else where held-out rows gain by it."""
    n_outputs = len(state.density)
    if progress.is_over or progress.seconds_left < n_outputs * _NEARBY_SECONDS:
        progress.cut("without rows nearby")
        return state
    rng = np.random.default_rng([state.seed % 2**32, 8])
    held_out = held_out.near
    measured, at, rows = distinct.measured(held_out.rows)
    predicted = held_out.components.at(at).predictive()
    log_p, std = predicted.log_prob(measured.y), predicted.std
    table = distinct.table
    table = table if table.group is not None else table._replace(group=distinct.number)
    density = tuple(
        KernelDensity.fit(rng, table._replace(y=table.y[:, o]), rows, log_p[:, o], std[:, o])
        for o in range(n_outputs)
    )
    return state._replace(density=density)


def _info(
    state: NumberState,
    losses: Float[np.ndarray, "k t 2"],
    settings: EnsembleSettings,
) -> FitInfo:
    networks = [one for one in state.experts if isinstance(one, Networks)]
    processes = [one for one in state.experts if isinstance(one, Processes)]
    known = [p.y for one in processes for p in one.processes if p is not None]
    near = [p.g for one in networks for p in one.residuals if p is not None]
    near += [one.y for one in state.density if one is not None]
    dead = (dead_units(m.mean, settings.priors.mean) for one in networks for m in one.members)
    guards = {
        "dead_units": sum(map(sum, dead)),
        "process_rows": max(map(len, known), default=0),
        "neighbour_rows": max(map(len, near), default=0),
    }
    advice = []
    if not state.networks.factors.size and np.isfinite(losses[:, -1]).all():
        advice.append(
            f"The {state.networks.n_mean_weights} weights of a network stay independent of each"
            " other: they, or the outputs, are too many for a joint covariance. Error bars where no"
            " rows lie are too narrow, and no Gaussian process stands beside the networks; smaller"
            " hidden_layer_sizes would help."
        )
    return FitInfo(losses, guards, advice)


def components(state: NumberState, x: Float[np.ndarray, "n d"]) -> Components:
    """Return the mixture of all experts; their noise is as held-out rows want it."""
    given = {one.is_ramped for one in state.experts}
    views = {is_ramped: state.ramps.encode(x) if is_ramped else x for is_ramped in given}
    parts = [expert_components(one, views[one.is_ramped]) for one in state.experts]
    return Components.mixed(parts, state.weights)


def predict(state: NumberState, x: Float[np.ndarray, "n d"]) -> MixturePredictive:
    """Predictive distribution of standardised targets, one mixture of all that a fit leaves."""
    predicted = without_density(state, x)
    if not any(state.density):
        return predicted
    return predicted.with_gaussians(*neighbours.gaussians(state.density, x, predicted.std))


def without_density(state: NumberState, x: Float[np.ndarray, "n d"]) -> MixturePredictive:
    """Predict by the experts alone."""
    return components(state, x).predictive()
