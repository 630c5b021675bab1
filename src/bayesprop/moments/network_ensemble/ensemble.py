"""Closed-form variational regression that learns its noise and needs no tuning.

An ensemble of networks with Gaussian weights, and rectifiers with kinks of learnt width, trained on
the closed-form expected log-likelihood of Student-t noise whose scale depends on the input. The
recipe, what it was chosen from and what it does not do well: docs/records/mlp-notebook.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.model.network_likelihoods import LEAST_LOG_NOISE, MOST_LOG_NOISE
from bayesprop.model.noise_mixture import NoiseMixturePredictive
from bayesprop.moments.network_ensemble.distinct_rows import Distinct
from bayesprop.moments.network_ensemble.ensemble_state import (
    EnsembleSettings,
    EnsembleState,
    init,
    log_noise_floor,
    settings_for,
)
from bayesprop.moments.network_ensemble.ensemble_training import (
    Progress,
    Rows,
    moves,
    outputs,
    train,
)
from bayesprop.moments.network_ensemble.gaussian_network import apply, draw, n_units_below
from bayesprop.moments.network_ensemble.joint_covariance import with_deviations
from bayesprop.moments.network_ensemble.known_rows import KnownRows
from bayesprop.moments.network_ensemble.known_rows_recall import LEAST_LOG_OWN, recall, with_known
from bayesprop.moments.network_ensemble.left_out_rows import (
    MOST_LOG_NOISE_VAR,
    predictive,
    scaled,
    with_residual,
)
from bayesprop.moments.network_ensemble.member import LEAST_DOF
from bayesprop.moments.network_ensemble.restarts import gave_up, start_again
from bayesprop.moments.network_ensemble.weight_priors import Priors, dead_units

__all__ = [
    "EnsembleSettings",
    "EnsembleState",
    "FitInfo",
    "Progress",
    "fit",
    "init",
    "input_relevance",
    "log_noise_floor",
    "outputs",
    "predict",
    "sample_functions",
    "settings_for",
    "without_replicates",
]

_N_TRACE = 100
_NUMBERS_AT_A_TIME = 2 * 10**6


class FitInfo(NamedTuple):
    """What training met; traces are means over members at up to 100 equally spaced stretches.

    loss, data_loss
        The training objective and its share from the data, nats a row.
    n_units, n_dead_units
        Hidden units of the mean networks, and how many of them say nothing to the layer above.
    smallest_dof
        Least degrees of freedom of the noise in any member; 3 is as heavy as its tails can be.
    n_restarted
        Members that gave up on some rows and were trained from a second start.
    n_independent
        Weights of a mean network that have no joint covariance, being too many; else 0.
    n_residual_rows
        Rows of the residual process; 0 if the networks leave nothing that it could learn.
    n_replicated
        Inputs whose next measurement is expected like the last; 0 if nothing comes back.
    are_copies
        Whether their targets agree as closely as is looked for, as those of copies do.
    """

    loss: np.ndarray
    data_loss: np.ndarray
    n_units: int
    n_dead_units: int
    smallest_dof: float
    n_restarted: int
    n_independent: int
    n_residual_rows: int
    n_replicated: int
    are_copies: bool


def fit(
    state: EnsembleState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    settings: EnsembleSettings,
    *,
    weight: Float[np.ndarray, " n"] | None = None,
    n_steps: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[EnsembleState, FitInfo]:
    """Train to the end of the schedule, or `n_steps` further; stopping changes nothing.

    At the end, members that gave up on some rows start again, and the weights of every mean network
    get their covariances.

    x, y
        Standardised.
    weight
        How often each row counts; None: once.
    progress
        Told of every member ten times, from the thread that trains it.
    """
    remaining = settings.n_steps - state.step
    n_steps = remaining if n_steps is None else min(n_steps, remaining)
    rows, before = Rows.of(x, y, weight), state
    state, losses = train(state, rows, settings, n_steps, progress=progress)
    again = gave_up(state, rows) if state.step == settings.n_steps else []
    for member in again:
        state = start_again(state, rows, settings, member)
    if before.deviations.size and not n_steps and not again:
        state = before
    elif state.step == settings.n_steps:
        distinct = Distinct.of(rows)
        state, left_out = with_deviations(state, distinct, settings)
        if left_out is not None:
            state, left_out = with_residual(state, distinct, left_out, settings)
        if left_out is not None and settings.learns_replicates:
            state = with_known(state, distinct, left_out)
    priors = Priors(*settings.priors)
    info = _info(state, losses.mean(axis=0, dtype=np.float64), priors, len(again))
    return state, info._replace(are_copies=info.are_copies and bool(np.ptp(rows.y, axis=0).any()))


def _info(
    state: EnsembleState, losses: Float[np.ndarray, "t 2"], priors: Priors, n_again: int
) -> FitInfo:
    each = state.each_member()
    dead = [unit for member in each for unit in dead_units(member.mean, priors.mean)]
    stretches = min(_N_TRACE, len(losses))
    parts = [part.mean(axis=0) for part in np.array_split(losses, stretches)] if stretches else []
    total, data = np.reshape(parts, (-1, 2)).T
    least_dof = LEAST_DOF + np.logaddexp(0.0, state.members.raw_dof).min()
    is_joint = state.deviations.size or not np.isfinite(least_dof)
    n_independent = 0 if is_joint else state.n_mean_weights
    return FitInfo(
        total,
        data,
        len(dead),
        int(np.sum(dead)),
        float(least_dof),
        n_again,
        n_independent,
        len(state.residual.rows),
        len(state.known.rows),
        bool(state.known.log_own.min() <= LEAST_LOG_OWN),
    )


def without_replicates(state: EnsembleState) -> EnsembleState:
    """Return a state that remembers no inputs."""
    return state._replace(known=KnownRows.none(state.n_inputs, state.n_outputs))


def predict(state: EnsembleState, x: Float[np.ndarray, "n d"]) -> NoiseMixturePredictive:
    """Predictive distribution of standardised targets, one mixture over the members."""
    said, (m, v) = outputs(state, x), state.residual.moments(x)
    said, log_ratio = recall(state, x, said._replace(m=said.m + m, v=said.v + v))
    return predictive(said, log_ratio, state.log_floor)


def sample_functions(
    rng: Any,
    state: EnsembleState,
    x: Float[np.ndarray, "n d"],
    n: int,
    *,
    include_noise: bool = False,
) -> Float[np.ndarray, "s n o"]:
    """Draw networks, and return their means at all rows, or with noise new observations.

    Linear in the deviations of the weights, as the variances of `predict` are; where there are
    none, with independent weights.

    rng
        A Generator or RandomState of NumPy.
    """
    if isinstance(rng, np.random.RandomState):
        rng = np.random.default_rng(rng.randint(2**31))
    x = np.asarray(x, np.float64)
    said, drawn = outputs(state, x), rng.integers(state.n_members, size=n)
    draws = np.empty((n, len(x), state.n_outputs))
    l_m = scaled(said.l_m, recall(state, x, said)[1], state.log_floor)
    for k, member in enumerate(state.each_member()):
        its = np.flatnonzero(drawn == k)
        if len(its):
            functions = _means(rng, state, x, said.m[k], k, len(its))
            functions += state.residual.draw(rng, x, len(its))
            draws[its] = state.known.overwritten(rng, x, functions)
        for s in its if include_noise else ():
            raw = member.log_noise + apply(draw(rng, member.noise), x)
            shrinkage = np.sqrt(MOST_LOG_NOISE_VAR / np.maximum(said.l_v[k], MOST_LOG_NOISE_VAR))
            away = np.logaddexp(raw, state.log_floor) - said.l_m[k]
            t = rng.standard_t(said.dof[k], size=raw.shape)
            log_var = np.clip(l_m[k] + shrinkage * away, LEAST_LOG_NOISE, MOST_LOG_NOISE)
            draws[s] += np.exp(0.5 * log_var) * t
    return draws


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
        member = state.each_member()[k]
        draws = [apply(draw(rng, member.mean), x, member.log_widths) for _ in range(n)]
        return np.stack(draws)
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


def input_relevance(state: EnsembleState) -> Float[np.ndarray, " d"]:
    """Share of every input in the paths to the mean, each path the product of its squared weights.

    Products, because the first-layer weights of a dead unit keep their random start. Sums to 1.
    """
    shares = np.zeros(state.n_inputs)
    for member in state.each_member():
        paths, direct = np.ones(state.n_outputs), np.zeros(state.n_inputs)
        for depth, layer in reversed([*enumerate(member.mean)]):
            found = np.square(np.asarray(layer.w_m, np.float64)) @ paths
            paths, past = np.split(found, [n_units_below(member.mean, depth)])
            direct += past if len(past) else 0.0
        shares += (paths + direct) / (paths + direct).sum()
    return shares / shares.sum()
