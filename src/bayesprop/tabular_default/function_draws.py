"""Functions drawn from an ensemble of numbers: networks or processes, with noise or without."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bayesprop.distributions.mixture import (
    LEAST_LOG_NOISE,
    MOST_LOG_NOISE,
    MOST_LOG_NOISE_VAR,
)
from bayesprop.tabular_default import neighbour_process, neighbour_targets, replicates
from bayesprop.tabular_default.gaussian_network import apply, draw
from bayesprop.tabular_default.neighbour_targets import Nearby
from bayesprop.tabular_default.noisy_output import NoisyOutput, Output, scaled
from bayesprop.tabular_default.outputs import moves, outputs
from bayesprop.tabular_default.regression import without_nearby
from bayesprop.tabular_default.state import EnsembleState

_NUMBERS_AT_A_TIME = 2 * 10**6


def sample_functions(
    rng: np.random.Generator,
    state: EnsembleState,
    x: Float[np.ndarray, "n d"],
    n: int,
    *,
    include_noise: bool = False,
) -> Float[np.ndarray, "s n o"]:
    """Draw networks or processes, and return their means at all rows, or new observations.

    Of networks linear in the deviations of the weights, as the variances of `predict` are; where
    there are none, with independent weights.
    """
    x = np.asarray(x, np.float64)
    draws = _sampled(rng, state, x, n, include_noise=include_noise)
    if not any(state.nearby):
        return draws
    beside = neighbour_targets.nearby(state.nearby, x, without_nearby(state, x).std)
    return _or_nearby(rng, draws, beside, include_noise=include_noise)


def _or_nearby(
    rng: np.random.Generator,
    draws: Float[np.ndarray, "s n o"],
    beside: Nearby,
    *,
    include_noise: bool,
) -> Float[np.ndarray, "s n o"]:
    """Let one draw in so many, the same at all rows, be of what was measured nearby: its mean."""
    y, var, share = beside
    total = share.sum(axis=0)
    each = np.divide(share, total, out=np.zeros_like(share), where=total > 0.0)
    values = np.broadcast_to(np.sum(each * y, axis=0), draws.shape)
    if include_noise:
        passed = np.cumsum(each, axis=0)[:-1, None] <= rng.random(draws.shape)
        at = passed.sum(axis=0)
        std = np.sqrt(np.take_along_axis(var, at, axis=0))
        values = np.take_along_axis(y, at, axis=0) + std * rng.standard_normal(at.shape)
    is_nearby = rng.random((len(draws), 1, draws.shape[2])) < total
    return np.where(is_nearby, values, draws)


def _sampled(
    rng: np.random.Generator,
    state: EnsembleState,
    x: Float[np.ndarray, "n d"],
    n: int,
    *,
    include_noise: bool,
) -> Float[np.ndarray, "s n o"]:
    """Draw from an ensemble and its companion."""
    draws = np.empty((n, len(x), state.n_outputs))
    if state.companion is not None:
        other, ramps, share = state.companion
        alone, is_other = state._replace(companion=None), rng.random(n) < share
        for which, one, given in ((~is_other, alone, x), (is_other, other, ramps.beside(x))):
            number = int(which.sum())
            draws[which] = _sampled(rng, one, given, number, include_noise=include_noise)
        return draws
    noisy, drawn = outputs(state, x), rng.integers(state.n_members, size=n)
    of_process = rng.random((n, state.n_outputs)) < state.target_shares
    for k in np.unique(drawn):
        numbers = np.flatnonzero(drawn == k)
        draws[numbers] = _means(rng, state, x, noisy.m[k], k, len(numbers))
    log_ratio, own_std = np.zeros(draws.shape[1:]), np.ones(draws.shape[1:])
    for o, process in enumerate(state.neighbours):
        if process is not None:
            members, ratio = Output.of(noisy, state.log_floor, o), float(state.log_noise_ratio[o])
            moved = neighbour_process.moved_draws(rng, process, x, members, ratio, draws[:, :, o])
            draws[:, :, o], log_ratio[:, o], own_std[:, o] = moved
    for o, process in enumerate(state.target_processes):
        numbers = np.flatnonzero(of_process[:, o])
        if process is not None and len(numbers):
            draws[numbers, :, o] = process.draw(rng, x, len(numbers))
    draws = state.replicates.overwritten(rng, x, draws)
    if include_noise:
        comes_back = replicates.recall(state.replicates, x, noisy)[1]
        for s, k in enumerate(drawn):
            noise = own_std * _noise(rng, state, x, noisy, k, log_ratio + comes_back)
            for o, process in enumerate(state.target_processes):
                if process is not None and of_process[s, o]:
                    log_var = process.log_own_noise + comes_back[:, o]
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
