"""Functions drawn from an ensemble of numbers: networks or processes, with noise or without."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bayesprop.distributions.mixture import (
    LEAST_LOG_NOISE,
    MOST_LOG_NOISE,
    MOST_LOG_NOISE_VAR,
)
from bayesprop.tabular_default import neighbours, residual_process
from bayesprop.tabular_default.components import Components, scale_noise
from bayesprop.tabular_default.experts import Processes
from bayesprop.tabular_default.neighbours import Gaussians
from bayesprop.tabular_default.networks import Networks, apply, draw
from bayesprop.tabular_default.outputs import moves, outputs
from bayesprop.tabular_default.regression import NumberState, without_density

_NUMBERS_AT_A_TIME = 2 * 10**6


def sample_functions(
    rng: np.random.Generator,
    state: NumberState,
    x: Float[np.ndarray, "n d"],
    n: int,
    *,
    include_noise: bool = False,
) -> Float[np.ndarray, "s n o"]:
    """Draw networks or processes, and return their means at all rows, or new observations.

    Of networks linear in the covariance factors of the weights, as the variances of `predict` are;
    where there are none, with independent weights.
    """
    x = np.asarray(x, np.float64)
    draws = np.empty((n, len(x), state.weights.shape[1]))
    # One number a draw, so that outputs share networks where their weights are alike.
    passed = np.cumsum(state.weights, axis=0)[:-1, None] <= rng.random((n, 1))
    which = passed.sum(axis=0)
    for e, expert in enumerate(state.experts):
        of_expert = np.flatnonzero((which == e).any(axis=1))
        if len(of_expert):
            given = state.ramps.encode(x) if expert.is_ramped else x
            if isinstance(expert, Processes):
                values = _of_processes(rng, expert, given, len(of_expert), include_noise)
            else:
                values = _of_networks(rng, expert, given, len(of_expert), include_noise)
            is_own = (which[of_expert] == e)[:, None]
            draws[of_expert] = np.where(is_own, values, draws[of_expert])
    if not any(state.density):
        return draws
    beside = neighbours.gaussians(state.density, x, without_density(state, x).std)
    return _or_nearby(rng, draws, beside, include_noise=include_noise)


def _or_nearby(
    rng: np.random.Generator,
    draws: Float[np.ndarray, "s n o"],
    beside: Gaussians,
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


def _of_processes(
    rng: np.random.Generator,
    expert: Processes,
    x: Float[np.ndarray, "n d"],
    n: int,
    include_noise: bool,
) -> Float[np.ndarray, "s n o"]:
    """Draw functions of processes, or observations; 0 of outputs without one."""
    draws = np.zeros((n, len(x), expert.n_outputs))
    for o, process in enumerate(expert.processes):
        if process is not None:
            draws[..., o] = process.draw(rng, x, n)
    if include_noise:
        noise_std = np.exp(0.5 * expert.components(x).l_m)
        draws += noise_std * rng.standard_normal(draws.shape)
    return draws


def _of_networks(
    rng: np.random.Generator,
    expert: Networks,
    x: Float[np.ndarray, "n d"],
    n: int,
    include_noise: bool,
) -> Float[np.ndarray, "s n o"]:
    """Draw mean networks moved by residuals, or observations with noise networks."""
    draws = np.empty((n, len(x), expert.n_outputs))
    noisy, drawn = outputs(expert, x), rng.integers(expert.n_members, size=n)
    for k in np.unique(drawn):
        numbers = np.flatnonzero(drawn == k)
        draws[numbers] = _means(rng, expert, x, noisy.m[k], k, len(numbers))
    log_factor, own_std = np.zeros(draws.shape[1:]), np.ones(draws.shape[1:])
    for o, process in enumerate(expert.residuals):
        if process is not None:
            members, factor = noisy.column(o), float(expert.log_noise_factor[o])
            draws[:, :, o], local = residual_process.moved_draws(
                rng, process, x, members, factor, draws[:, :, o]
            )
            log_factor[:, o] = local.log_ratio(members.predictive())
            own_std[:, o] = np.sqrt(1.0 - local.unknown)
    if include_noise:
        log_factor += expert.log_noise_factor
        for s, k in enumerate(drawn):
            draws[s] += own_std * _noise(rng, expert, x, noisy, k, log_factor)
    return draws


def _noise(
    rng: np.random.Generator,
    networks: Networks,
    x: Float[np.ndarray, "n d"],
    noisy: Components,
    k: int,
    log_factor: Float[np.ndarray, "n o"],
) -> Float[np.ndarray, "n o"]:
    """Draw a noise network of member k, and noise as it says."""
    member, l_m = networks.members[k], noisy.l_m[k]
    raw = member.log_noise + apply(draw(rng, member.noise), x)
    shrinkage = np.sqrt(MOST_LOG_NOISE_VAR / np.maximum(noisy.l_v[k], MOST_LOG_NOISE_VAR))
    away = shrinkage * (np.logaddexp(raw, networks.log_floor) - l_m)
    l_m = scale_noise(l_m, log_factor, networks.log_floor)
    log_var = np.clip(l_m + away, LEAST_LOG_NOISE, MOST_LOG_NOISE)
    return np.exp(0.5 * log_var) * rng.standard_t(noisy.dof[k], size=raw.shape)


def _means(
    rng: np.random.Generator,
    networks: Networks,
    x: Float[np.ndarray, "n d"],
    m: Float[np.ndarray, "n o"],
    k: int,
    n: int,
) -> Float[np.ndarray, "s n o"]:
    """Draw n mean networks of member k, whose expected outputs are m."""
    if not networks.factors.size:
        member = networks.members[k]
        return np.stack([apply(draw(rng, member.mean), x, member.log_widths) for _ in range(n)])
    n_factors = networks.factors.shape[1]
    steps, once = rng.standard_normal((n, n_factors)), n <= n_factors
    if once:  # fewer ways to go than there are factors
        together = np.float32(steps @ networks.factors[k])
        networks = networks._replace(factors=np.broadcast_to(together, (k + 1, *together.shape)))
    draws = np.empty((n, *m.shape))
    a_piece = max(1, _NUMBERS_AT_A_TIME // (networks.factors.shape[1] * networks.n_outputs))
    for first in range(0, len(x), a_piece):
        part = slice(first, first + a_piece)
        far = moves(networks, x[part], k)
        draws[:, part] = m[part]
        draws[:, part] += np.moveaxis(far, 1, 0) if once else np.tensordot(steps, far, axes=(1, 1))
    return draws
