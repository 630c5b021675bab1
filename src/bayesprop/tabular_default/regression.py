"""Closed-form variational regression that learns its noise and needs no tuning.

An ensemble of networks with Gaussian weights, and rectifiers with kinks of learnt width, trained on
the closed-form expected log-likelihood of Student-t noise whose scale depends on the input. The
recipe, what it was chosen from and what it does not do well: docs/records/default-notebook.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.model.method import Parts
from bayesprop.model.progress import SILENT, Progress
from bayesprop.numerics.dense import one_blas_thread
from bayesprop.numerics.machine import n_cores, side_by_side
from bayesprop.tabular_default import neighbour_targets, replicates
from bayesprop.tabular_default.distinct_rows import Distinct, Groups, Rows
from bayesprop.tabular_default.gaussian_network import dead_units
from bayesprop.tabular_default.held_out import (
    MOST_LEVERAGE,
    Judgement,
    components,
    share_of,
    with_judged,
)
from bayesprop.tabular_default.joint_covariance import (
    MOST_WEIGHTS,
    LeftOut,
    with_deviations,
)
from bayesprop.tabular_default.noisy_output import NoisyOutput, predictive
from bayesprop.tabular_default.piecewise_linear import Ramps
from bayesprop.tabular_default.restarts import gave_up, restart
from bayesprop.tabular_default.settings import EnsembleSettings, settings_for
from bayesprop.tabular_default.state import (
    Companion,
    EnsembleState,
    init,
)
from bayesprop.tabular_default.training import FitInfo, train

__all__ = [
    "EnsembleSettings",
    "EnsembleState",
    "FitInfo",
    "fit",
    "predict",
    "settings_for",
    "without_replicates",
]

_TRAINING = 0.8
"""Share of the time, and of the bar, that training takes; the rest is for rows left out."""

_FIRST = 0.6
"""Share of both of the ensemble that is given the inputs as they are."""

FEWER_STEPS = 4
"""Times, of a companion: ramps let a network learn sooner, and more than there is."""

ROWS_AN_INPUT = 10
"""Below which a companion has no processes: rows left out flatter lengths that they chose."""

LEAST_SHARE = 0.1
"""Of a companion that stays: less gains little, and every prediction would wait for it."""

_LEAST_SECONDS, _PROCESS_SECONDS, _PROCESS_ROWS = 4.0, 8.0, 2_000
"""What the processes of an output take, and what they take more at so many rows or more."""

_NEARBY_SECONDS = 5.0
"""What targets of rows nearby may take to learn, of an output, on a slow machine."""


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
) -> tuple[EnsembleState, FitInfo]:
    """Train an ensemble, and a companion with ramps; rows left out choose what each may say.

    x, y
        Standardised.
    weight
        How often each row counts; None: once.
    groups
        Numbers from 0 of what belongs together, such as rows of one patient: every group is left
        out of one member's training, and what that member says of it takes the place of what is
        said of rows left out.
    progress
        Where its time is over the members are those that are complete, without processes.
    parts
        A table that networks learn, of which the rows are a sample: it chooses all the rest.
    """
    rows, parted = Rows.of(x, y, weight).of_parts(parts), None
    if groups is not None:
        rng = np.random.default_rng([seed % 2**32, 6])
        parted = Groups.of(groups, settings.n_members, rng)
    ramps = _ramps(rows, settings)
    training = progress.part(0.0, _TRAINING, time_share=_TRAINING)
    first = training
    if ramps is not None:
        first = training.part(0.0, _FIRST, "inputs as they are", time_share=_FIRST)
    one = _trained(seed, rows, settings, parted, first)
    each = [one]
    if ramps is not None and one.left_out is not None and training.is_over:
        progress.cut("no networks that are given ramps")
    elif ramps is not None and one.left_out is not None:
        rows = rows.given(ramps.beside)
        has_enough = len(rows.x) >= ROWS_AN_INPUT * rows.x.shape[1]
        settings = replace(
            settings,
            n_steps=max(1, settings.n_steps // FEWER_STEPS),
            learns_processes=settings.learns_processes and has_enough,
        )
        training = training.part(_FIRST, 1.0, "with ramps")
        each.append(_trained(seed, rows, settings, parted, training))
    learnt, *companions = _judged(each, progress)
    if ramps is not None and companions:
        learnt = _together(learnt, companions[0], ramps, one.distinct)
    return _with_nearby(learnt, one, progress)


def _ramps(rows: Rows, settings: EnsembleSettings) -> Ramps | None:
    """Place the ramps that a companion would be given; None where there will be none.

    It must be judged by rows left out, and knows nothing of replicates.
    """
    ramps = Ramps.of(rows.x, rows.weight)
    n_inputs, n_outputs = rows.x.shape[1] + ramps.n_ramps, rows.y.shape[1]
    sizes = n_inputs, *settings.hidden_layer_sizes, n_outputs
    n_weights = sum((below + 1) * above for below, above in pairwise(sizes))
    is_judged = n_weights <= MOST_WEIGHTS and not settings.learns_replicates
    return ramps if ramps.n_ramps and is_judged else None


class _Trained(NamedTuple):
    """One ensemble before rows left out choose anything; `left_out` is None where none are asked.

    n_restarted
        Members that gave up, and were trained from a second start.
    """

    state: EnsembleState
    losses: Float[np.ndarray, "k t 2"]
    n_restarted: int
    distinct: Distinct
    left_out: LeftOut | None
    settings: EnsembleSettings


def _trained(
    seed: int,
    rows: Rows,
    settings: EnsembleSettings,
    parted: Groups | None,
    training: Progress,
) -> _Trained:
    """Train the members of one ensemble, restart those that gave up, and ask rows left out."""
    start = init(seed, rows.x.shape[1], rows.y, settings)
    fold = None if parted is None else parted.fold
    state, losses = train(start, rows, settings, fold=fold, progress=training)
    restarted = [] if training.is_over else gave_up(state, rows, fold)
    for member in restarted:
        state = restart(state, rows, settings, member, fold)
    if parted is not None and state.n_members < settings.n_members:
        is_out = parted.fold < state.n_members  # of one of them; these stand for all rows
        rows = rows.only(is_out)._replace(n_total=rows.n_total)
        parted = parted.at(np.flatnonzero(is_out))
    distinct = Distinct.of(rows.alone, parted)
    if distinct.has_cells and parted is None and not settings.learns_replicates:
        distinct = distinct.one_by_one
    state, left_out = with_deviations(state, distinct, settings, rows.n_total)
    return _Trained(state, losses, len(restarted), distinct, left_out, settings)


class _Learnt(NamedTuple):
    """What one ensemble learnt, and what it says of rows left out, None if of none."""

    state: EnsembleState
    info: FitInfo
    judgement: Judgement | None


def _judged(each: Sequence[_Trained], progress: Progress) -> list[_Learnt]:
    """Let rows left out choose processes and noise of every ensemble, side by side."""
    progress.report(_TRAINING, 1.0, "rows left out")
    table = each[0].distinct.table
    turns = -(-len(each) // n_cores()) * table.y.shape[1]
    seconds = _LEAST_SECONDS + _PROCESS_SECONDS * min(1.0, len(table.x) / _PROCESS_ROWS)
    is_short = progress.is_over or progress.seconds_left < turns * seconds
    if is_short and any(one.left_out and one.settings.learns_processes for one in each):
        progress.cut("no Gaussian processes")
        each = [
            one._replace(settings=replace(one.settings, learns_processes=False)) for one in each
        ]
    return side_by_side(partial(_learnt, n_inputs=each[0].state.n_inputs), each)


def _learnt(trained: _Trained, n_inputs: int) -> _Learnt:
    """Let rows left out choose; nothing else is random but the ensemble's own draws."""
    state, losses, n_restarted, distinct, left_out, settings = trained
    judgement = None
    if left_out is not None:
        state, out = with_judged(state, distinct, left_out, settings, n_inputs)
        if settings.learns_replicates:
            state = _with_replicates(state, distinct, left_out.some, out)
        near = np.flatnonzero(left_out.leverage <= MOST_LEVERAGE)
        judgement = Judgement(left_out.some[near], out.at(near), state.log_floor)
    is_constant = not np.ptp(distinct.table.y, axis=0).any()
    info = _info(state, losses, settings, n_restarted, is_constant=is_constant)
    return _Learnt(state, info, judgement)


def _together(one: _Learnt, other: _Learnt, ramps: Ramps, distinct: Distinct) -> _Learnt:
    """Give an ensemble its companion, unless the share of that would be small."""
    if one.judgement is None or other.judgement is None:
        return one
    share = share_of(other.judgement, one.judgement, distinct)
    if share < LEAST_SHARE:
        return one
    guards = (one.info.guards, other.info.guards)
    counts = {name: sum(each[name] for each in guards) for name in guards[0]}
    for name in ("process_rows", "neighbour_rows"):
        counts[name] = max(each[name] for each in guards)
    state = one.state._replace(companion=Companion(other.state, ramps, share))
    judgement = one.judgement.together(other.judgement, share)
    return _Learnt(state, one.info._replace(guards=counts), judgement)


def _with_nearby(
    learnt: _Learnt, trained: _Trained, progress: Progress
) -> tuple[EnsembleState, FitInfo]:
    """Put what was measured nearby beside all else where rows left out gain by it."""
    state, info, judgement = learnt
    if judgement is None or not trained.settings.learns_processes:
        return state, info
    if progress.is_over or progress.seconds_left < state.n_outputs * _NEARBY_SECONDS:
        progress.cut("without rows nearby")
        return state, info
    rng = np.random.default_rng([state.seed % 2**32, 8])
    each = judgement.judges(trained.distinct)
    nearby = tuple(
        neighbour_targets.learn(rng, trained.distinct, judges, o, state.n_inputs)
        for o, judges in enumerate(each)
    )
    n_rows = max(0 if targets is None else len(targets.weight) for targets in nearby)
    guards = info.guards | {"neighbour_rows": max(n_rows, info.guards["neighbour_rows"])}
    return state._replace(nearby=nearby), info._replace(guards=guards)


def _with_replicates(
    state: EnsembleState, distinct: Distinct, some: Int[np.ndarray, " r"], left_out: NoisyOutput
) -> EnsembleState:
    x = distinct.once.x
    if len(x) == len(distinct.table.x):
        return state
    noisy = components(state, x)
    noisy.m[:, some], noisy.v[:, some] = left_out.m, left_out.v
    known = replicates.learn(state.seed, distinct, some, noisy, state.log_floor)
    return state._replace(replicates=known)


def _info(
    state: EnsembleState,
    losses: Float[np.ndarray, "k t 2"],
    settings: EnsembleSettings,
    n_restarted: int,
    *,
    is_constant: bool,
) -> FitInfo:
    dead = (dead_units(member.mean, settings.priors.mean) for member in state.members)
    is_joint = state.deviations.size or not np.isfinite(losses[:, -1]).all()
    guards = {
        "dead_units": sum(map(sum, dead)),
        "members_restarted": n_restarted,
        "process_rows": max(0 if p is None else len(p.y) for p in state.target_processes),
        "neighbour_rows": max(0 if p is None else len(p.g) for p in state.neighbours),
        "replicated_inputs": len(state.replicates.rows),
    }
    advice = []
    if not is_joint:
        advice.append(
            f"The {state.n_mean_weights} weights of a network stay independent of each other: they,"
            " or the outputs, are too many for a joint covariance. Error bars where no rows lie are"
            " too narrow, and no Gaussian process stands beside the networks; smaller"
            " hidden_layer_sizes would help."
        )
    if state.replicates.are_copies and not is_constant:
        advice.append(
            "Rows of the same inputs have the same targets, as copies would: inputs of the table "
            "are expected to give again what they gave. If one measurement stands in the table "
            "more than once, remove its copies: they flatter held-out scores, too."
        )
    return FitInfo(losses, guards, advice)


def without_replicates(state: EnsembleState) -> EnsembleState:
    """Return a state that remembers no inputs."""
    nothing = replicates.Replicates.none(state.n_inputs, state.n_outputs)
    return state._replace(replicates=nothing)


def predict(state: EnsembleState, x: Float[np.ndarray, "n d"]) -> MixturePredictive:
    """Predictive distribution of standardised targets, one mixture of all that a fit leaves."""
    predicted = without_nearby(state, x)
    if not any(state.nearby):
        return predicted
    return predicted.with_gaussians(*neighbour_targets.nearby(state.nearby, x, predicted.std))


def without_nearby(state: EnsembleState, x: Float[np.ndarray, "n d"]) -> MixturePredictive:
    """Predict by members and processes."""
    noisy, log_ratio = replicates.recall(state.replicates, x, components(state, x))
    return predictive(noisy, log_ratio, state.log_floor)
