"""Closed-form variational regression that learns its noise and needs no tuning.

An ensemble of networks with Gaussian weights, and rectifiers with kinks of learnt width, trained on
the closed-form expected log-likelihood of Student-t noise whose scale depends on the input. The
recipe, what it was chosen from and what it does not do well: docs/records/mlp-notebook.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.model.method import Parts
from bayesprop.model.noise_mixture import (
    LEAST_LOG_NOISE,
    MOST_LOG_NOISE,
    MOST_LOG_NOISE_VAR,
    NoiseMixturePredictive,
)
from bayesprop.model.progress import SILENT, Progress
from bayesprop.moments.network_ensemble import replicates
from bayesprop.moments.network_ensemble.distinct_rows import Distinct, Groups, Rows
from bayesprop.moments.network_ensemble.ensemble_outputs import moves, outputs
from bayesprop.moments.network_ensemble.ensemble_settings import EnsembleSettings, settings_for
from bayesprop.moments.network_ensemble.ensemble_state import (
    Companion,
    EnsembleState,
    count_weights,
    init,
)
from bayesprop.moments.network_ensemble.ensemble_training import train
from bayesprop.moments.network_ensemble.gaussian_network import apply, draw
from bayesprop.moments.network_ensemble.input_views import Ramps
from bayesprop.moments.network_ensemble.joint_covariance import MOST_WEIGHTS, with_deviations
from bayesprop.moments.network_ensemble.left_out_rows import (
    MOST_LEVERAGE,
    Judgement,
    components,
    share_of,
    with_judged,
)
from bayesprop.moments.network_ensemble.noisy_output import NoisyOutput, predictive, scaled
from bayesprop.moments.network_ensemble.restarts import gave_up, restart
from bayesprop.moments.network_ensemble.weight_priors import dead_units

__all__ = [
    "EnsembleSettings",
    "EnsembleState",
    "FitInfo",
    "fit",
    "predict",
    "sample_functions",
    "settings_for",
    "without_replicates",
]

_NUMBERS_AT_A_TIME = 2 * 10**6
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

_PROCESS_SECONDS, _PROCESS_ROWS = 8.0, 2_000
"""What processes of an output take at so many rows or more."""


class FitInfo(NamedTuple):
    """What training met.

    losses
        Of every member and step, (k, t, 2): the objective, and its share from the data, nats a row.
    n_dead_units
        Hidden units of the mean networks that say nothing to the layer above.
    n_restarted
        Members that gave up on some rows and were trained from a second start.
    n_independent
        Weights of a mean network that have no joint covariance, being too many; else 0.
    n_process_rows
        Rows that Gaussian processes know; 0 if none has a share.
    n_replicated
        Inputs whose next measurement is expected like the last; 0 if nothing comes back.
    are_copies
        Whether their targets agree as closely as is looked for, as those of copies do.
    """

    losses: np.ndarray
    n_dead_units: int
    n_restarted: int
    n_independent: int
    n_process_rows: int
    n_replicated: int
    are_copies: bool

    def with_companion(self, other: FitInfo) -> FitInfo:
        """Count what training met in both ensembles."""
        return self._replace(
            n_dead_units=self.n_dead_units + other.n_dead_units,
            n_restarted=self.n_restarted + other.n_restarted,
            n_process_rows=max(self.n_process_rows, other.n_process_rows),
        )


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
    if ramps is None:
        state, info, _, _ = _learnt(seed, rows, settings, parted, progress)
        return state, info
    first = progress.part(0.0, _FIRST, "inputs as they are", time_share=_FIRST)
    state, info, distinct, one = _learnt(seed, rows, settings, parted, first)
    if one is None:
        return state, info
    if progress.is_over:
        progress.cut("no networks that are given ramps")
        return state, info
    rows = rows.given(ramps.beside)
    has_enough = len(rows.x) >= ROWS_AN_INPUT * rows.x.shape[1]
    settings = replace(
        settings,
        n_steps=max(1, settings.n_steps // FEWER_STEPS),
        learns_processes=settings.learns_processes and has_enough,
    )
    second = progress.part(_FIRST, 1.0, "with ramps")
    other, of_other, _, its = _learnt(seed, rows, settings, parted, second)
    share = 0.0 if its is None else share_of(its, one, distinct)
    if share < LEAST_SHARE:
        return state, info
    state = state._replace(companion=Companion(other, ramps, share))
    return state, info.with_companion(of_other)


def _ramps(rows: Rows, settings: EnsembleSettings) -> Ramps | None:
    """Place the ramps that a companion would be given; None where there will be none.

    It must be judged by rows left out, and knows nothing of replicates.
    """
    ramps = Ramps.of(rows.x, rows.weight)
    n_inputs, n_outputs = rows.x.shape[1] + ramps.n_ramps, rows.y.shape[1]
    n_weights = count_weights((n_inputs, *settings.hidden_layer_sizes, n_outputs))
    is_judged = n_weights <= MOST_WEIGHTS and not settings.learns_replicates
    return ramps if ramps.n_ramps and is_judged else None


class _Learnt(NamedTuple):
    """What one ensemble learnt, and what it says of rows left out, None if of none."""

    state: EnsembleState
    info: FitInfo
    distinct: Distinct
    judgement: Judgement | None


def _learnt(
    seed: int,
    rows: Rows,
    settings: EnsembleSettings,
    parted: Groups | None,
    progress: Progress,
) -> _Learnt:
    """Train the members of one ensemble, restart those that gave up, and ask rows left out."""
    start = init(seed, rows.x.shape[1], rows.y, settings)
    fold = None if parted is None else parted.fold
    training = progress.part(0.0, _TRAINING, time_share=_TRAINING)
    state, losses = train(start, rows, settings, fold=fold, progress=training)
    restarted = [] if training.is_over else gave_up(state, rows, fold)
    for member in restarted:
        state = restart(state, rows, settings, member, fold)
    if parted is not None and state.n_members < settings.n_members:
        rows, parted = _left_out(rows, parted, state.n_members)
    progress.report(_TRAINING, 1.0, "rows left out")
    distinct = Distinct.of(rows.alone, parted)
    if distinct.has_cells and parted is None and not settings.learns_replicates:
        distinct = distinct.one_by_one
    state, left_out = with_deviations(state, distinct, settings, rows.n_total)
    judgement = None
    if left_out is not None:
        is_short = progress.is_over or progress.seconds_left < _process_seconds(rows)
        if settings.learns_processes and is_short:
            settings = replace(settings, learns_processes=False)
            training.cut("no Gaussian processes")
        state, out = with_judged(state, distinct, left_out, settings)
        if settings.learns_replicates:
            state = _with_replicates(state, distinct, left_out.some, out)
        near = np.flatnonzero(left_out.leverage <= MOST_LEVERAGE)
        judgement = Judgement(left_out.some[near], out.at(near), state.log_floor)
    is_constant = not np.ptp(rows.y, axis=0).any()
    info = _info(state, losses, settings, len(restarted), is_constant=is_constant)
    return _Learnt(state, info, distinct, judgement)


def _process_seconds(rows: Rows) -> float:
    """Return how long Gaussian processes may take to learn, on a slow machine."""
    n_rows, n_outputs = len(rows.x), rows.y.shape[1]
    return n_outputs * (1.0 + _PROCESS_SECONDS * min(1.0, n_rows / _PROCESS_ROWS))


def _left_out(rows: Rows, parted: Groups, n_members: int) -> tuple[Rows, Groups]:
    """Take the rows that one of fewer members has not seen; they stand for all of them."""
    some = np.flatnonzero(parted.fold < n_members)
    return rows.only(parted.fold < n_members)._replace(n_total=rows.n_total), parted.at(some)


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
    processes = state.residual_processes + state.target_processes
    is_joint = state.deviations.size or not np.isfinite(losses[:, -1]).all()
    return FitInfo(
        losses,
        n_dead_units=sum(map(sum, dead)),
        n_restarted=n_restarted,
        n_independent=0 if is_joint else state.n_mean_weights,
        n_process_rows=max(0 if p is None else len(p.y) for p in processes),
        n_replicated=len(state.replicates.rows),
        are_copies=state.replicates.are_copies and not is_constant,
    )


def without_replicates(state: EnsembleState) -> EnsembleState:
    """Return a state that remembers no inputs."""
    nothing = replicates.Replicates.none(state.n_inputs, state.n_outputs)
    return state._replace(replicates=nothing)


def predict(state: EnsembleState, x: Float[np.ndarray, "n d"]) -> NoiseMixturePredictive:
    """Predictive distribution of standardised targets, one mixture of members and processes."""
    noisy, log_ratio = replicates.recall(state.replicates, x, components(state, x))
    return predictive(noisy, log_ratio, state.log_floor)


def sample_functions(
    rng: Any,
    state: EnsembleState,
    x: Float[np.ndarray, "n d"],
    n: int,
    *,
    include_noise: bool = False,
) -> Float[np.ndarray, "s n o"]:
    """Draw networks or processes, and return their means at all rows, or new observations.

    Of networks linear in the deviations of the weights, as the variances of `predict` are; where
    there are none, with independent weights.

    rng
        A Generator or RandomState of NumPy.
    """
    if isinstance(rng, np.random.RandomState):
        rng = np.random.default_rng(rng.randint(2**31))
    x = np.asarray(x, np.float64)
    if state.companion is None:
        return _sampled(rng, state, x, n, include_noise=include_noise)
    other, ramps, share = state.companion
    draws, is_other = np.empty((n, len(x), state.n_outputs)), rng.random(n) < share
    for which, one, given in ((~is_other, state, x), (is_other, other, ramps.beside(x))):
        number = int(which.sum())
        draws[which] = _sampled(rng, one, given, number, include_noise=include_noise)
    return draws


def _sampled(
    rng: np.random.Generator,
    state: EnsembleState,
    x: Float[np.ndarray, "n d"],
    n: int,
    *,
    include_noise: bool,
) -> Float[np.ndarray, "s n o"]:
    """Draw from one ensemble, without its companion."""
    noisy, drawn = outputs(state, x), rng.integers(state.n_members, size=n)
    of_process = rng.random((n, state.n_outputs)) < state.target_shares
    draws = np.empty((n, len(x), state.n_outputs))
    for k in np.unique(drawn):
        numbers = np.flatnonzero(drawn == k)
        draws[numbers] = _means(rng, state, x, noisy.m[k], k, len(numbers))
    for o, process in enumerate(state.residual_processes):
        numbers = np.flatnonzero(~of_process[:, o])
        if process is not None and len(numbers):
            draws[numbers, :, o] += process.draw(rng, x, len(numbers))
    for o, process in enumerate(state.target_processes):
        numbers = np.flatnonzero(of_process[:, o])
        if process is not None and len(numbers):
            draws[numbers, :, o] = process.draw(rng, x, len(numbers))
    draws = state.replicates.overwritten(rng, x, draws)
    if include_noise:
        log_ratio = replicates.recall(state.replicates, x, noisy)[1]
        for s, k in enumerate(drawn):
            noise = _noise(rng, state, x, noisy, k, log_ratio)
            for o, process in enumerate(state.target_processes):
                if process is not None and of_process[s, o]:
                    log_var = process.log_own_noise + log_ratio[:, o]
                    noise[:, o] = np.exp(0.5 * log_var) * rng.standard_normal(len(x))
            draws[s] += noise
    return draws


def _noise(
    rng: np.random.Generator,
    state: EnsembleState,
    x: Float[np.ndarray, "n d"],
    noisy: NoisyOutput,
    k: int,
    log_ratio: Float[np.ndarray, "n o"],
) -> Float[np.ndarray, "n o"]:
    """Draw a noise network of member k, and noise as it says."""
    member, l_m = state.members[k], noisy.l_m[k]
    raw = member.log_noise + apply(draw(rng, member.noise), x)
    shrinkage = np.sqrt(MOST_LOG_NOISE_VAR / np.maximum(noisy.l_v[k], MOST_LOG_NOISE_VAR))
    away = shrinkage * (np.logaddexp(raw, state.log_floor) - l_m)
    l_m = scaled(l_m, state.log_noise_ratio + log_ratio, state.log_floor)
    log_var = np.clip(l_m + away, LEAST_LOG_NOISE, MOST_LOG_NOISE)
    return np.exp(0.5 * log_var) * rng.standard_t(noisy.dof[k], size=raw.shape)


def _means(
    rng: np.random.Generator,
    state: EnsembleState,
    x: Float[np.ndarray, "n d"],
    m: Float[np.ndarray, "n o"],
    k: int,
    n: int,
) -> Float[np.ndarray, "s n o"]:
    """Draw n mean networks of member k, whose expected outputs are m."""
    if not state.deviations.size:
        member = state.members[k]
        return np.stack([apply(draw(rng, member.mean), x, member.log_widths) for _ in range(n)])
    n_deviations = state.deviations.shape[1]
    steps, once = rng.standard_normal((n, n_deviations)), n <= n_deviations
    if once:  # fewer ways to go than there are deviations
        together = np.float32(steps @ state.deviations[k])
        state = state._replace(deviations=np.broadcast_to(together, (k + 1, *together.shape)))
    draws = np.empty((n, *m.shape))
    a_piece = max(1, _NUMBERS_AT_A_TIME // (state.deviations.shape[1] * state.n_outputs))
    for first in range(0, len(x), a_piece):
        part = slice(first, first + a_piece)
        far = moves(state, x[part], k)
        draws[:, part] = m[part]
        draws[:, part] += np.moveaxis(far, 1, 0) if once else np.tensordot(steps, far, axes=(1, 1))
    return draws
