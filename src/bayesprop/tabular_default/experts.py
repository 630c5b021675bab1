"""Experts of numbers, and what held-out rows choose of each: processes, noise, mixture weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesprop.distributions.mixture import LEAST_LOG_NOISE
from bayesprop.numerics.rows import Rows
from bayesprop.tabular_default import gaussian_process, neighbours, residual_process
from bayesprop.tabular_default.components import Components
from bayesprop.tabular_default.duplicate_inputs import Distinct
from bayesprop.tabular_default.gaussian_process import Fitted, GaussianProcess, Limits
from bayesprop.tabular_default.joint_covariance import HeldOut
from bayesprop.tabular_default.networks import Networks, log_noise_floor
from bayesprop.tabular_default.outputs import outputs
from bayesprop.tabular_default.residual_process import Local, ResidualProcess
from bayesprop.tabular_default.stack import (
    LEAST_GAIN,
    MOST_MEASUREMENTS,
    is_no_more,
    noise_factor,
    scores,
    weights_of,
)

LEAST_ROWS = 10
"""Below which held-out rows choose nothing."""

LEAST_WEIGHT = 0.1
"""Of networks with ramps that stay: less gains little, and every prediction would wait for it."""

ENOUGH_WEIGHT = 0.9
"""Of a process on targets, knowing all rows, that leaves nothing for neighbours to do."""

_LEAST_PROCESS_WEIGHT = 1e-6  # and of the networks beside it


class Processes(NamedTuple):
    """An expert: a Gaussian process on every output; None where held-out rows want none.

    is_ramped
        Whether its inputs have ramps beside them.
    """

    processes: tuple[GaussianProcess | None, ...]
    is_ramped: bool = False

    @property
    def n_outputs(self) -> int:
        """Columns of y."""
        return len(self.processes)

    def components(self, x: Float[np.ndarray, "n d"]) -> Components:
        """Predict all outputs; an output without a process has zeros, and weight zero."""
        m, v = np.zeros((2, 1, len(x), self.n_outputs))
        for o, process in enumerate(self.processes):
            if process is not None:
                m[0, :, o], v[0, :, o] = process.moments(x)
        log_noise = [0.0 if one is None else one.log_own_noise for one in self.processes]
        return Components.of(m, v, np.array(log_noise, np.float64))


def expert_components(expert: Networks | Processes, x: Float[np.ndarray, "n d"]) -> Components:
    """Predict by one expert, from the inputs that it is given."""
    if isinstance(expert, Processes):
        return expert.components(x)
    near = [None if process is None else Local.of(process, x) for process in expert.residuals]
    return _corrected(expert, outputs(expert, x), near)


def _corrected(
    networks: Networks, components: Components, near: Sequence[Local | None]
) -> Components:
    """Move what networks predict by residuals, and multiply their noise."""
    moved = residual_process.with_neighbours(components, near)
    return moved.with_noise_factor(networks.log_noise_factor)


class Stack(NamedTuple):
    """Experts, their mixture weights of every output, (e, o), and their held-out mixture."""

    experts: tuple[Networks | Processes, ...]
    weights: Float[np.ndarray, "e o"]
    held_out: HeldOut | None


def choose_beside(
    networks: Networks,
    distinct: Distinct,
    held_out: HeldOut,
    seed: int,
    n_inputs: int,
    *,
    learns_processes: bool,
) -> Stack:
    """Let held-out rows choose processes and the noise that remains.

    A Gaussian process on the targets gets the mixture weight that makes held-out rows most likely,
    and stays where they gain by it. Unless that is nearly all, the nearest rows are asked what the
    networks leave, where held-out rows gain more by it than by a choice of the noise alone. The
    factor of the noise is mostly less than 1: a member's noise holds its own errors, which others
    average out.

    n_inputs
        Columns before the ramps.
    """
    rng, once, n_outputs = (
        np.random.default_rng([seed % 2**32, 4]),
        distinct.once,
        networks.n_outputs,
    )
    if held_out.is_near.sum() < LEAST_ROWS:
        return Stack((networks,), np.ones((1, n_outputs)), held_out)
    x = once.x[held_out.rows].astype(np.float64)
    rows = np.sort(rng.permutation(len(x))[: gaussian_process.MOST_ROWS])
    near = rows[held_out.is_near[rows]]
    known = once.at(held_out.rows[rows])._replace(x=x[rows])
    measured, at, _ = distinct.measured(held_out.rows[near])
    there, around = held_out.components.at(near), None
    if learns_processes and len(near) >= neighbours.LEAST_ROWS:
        order = np.r_[near, np.setdiff1d(np.flatnonzero(held_out.is_near), near)]
        around = _around(networks, distinct, held_out, order, n_inputs, seed)
    each = [
        _choice(
            rng,
            there.column(o),
            at,
            measured._replace(y=measured.y[:, o]),
            known._replace(y=known.y[:, o]),
            held_out.is_near[rows],
            _limits(distinct, o) if learns_processes else None,
            around and partial(_residual, rng, *around, o, len(near)),
        )
        for o in range(n_outputs)
    ]
    networks = networks._replace(
        log_noise_factor=np.array([one.log_factor for one in each], np.float32),
        residuals=tuple(one.residual and one.residual[0] for one in each),
    )
    local = [_local(one.residual, x, near) for one in each]
    parts = [_corrected(networks, held_out.components, local)]
    experts, weight = (networks,), np.array([one.weight for one in each])
    if weight.any():
        processes = tuple(one.process and one.process.process for one in each)
        experts = networks, Processes(processes, networks.is_ramped)
        parts.append(experts[1].components(x))
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


def _residual(
    rng: np.random.Generator, known: Rows, components: Components, o: int, n_own: int
) -> tuple[ResidualProcess, Local] | None:
    """Fit a residual process to one target, and predict the first rows, each held out."""
    known = known._replace(y=np.float32(known.y[:, o]), weight=np.float32(known.weight))
    return ResidualProcess.fit(rng, known, components.column(o).predictive(), n_own)


def _local(
    residual: tuple[ResidualProcess, Local] | None, x: np.ndarray, near: np.ndarray
) -> Local | None:
    if residual is None:
        return None
    local = Local.of(residual[0], x)
    for part, without in zip(local[:3], residual[1][:3], strict=True):
        part[near] = without
    return local


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
    log_factor, before = noise_factor(networks, measured, n_errors)
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
        moved_factor, after = noise_factor(moved, measured, n_errors)
        of_noise = noise_factor(networks, measured, 0.0)[1]  # which would gain as much without them
        if not is_no_more(after - of_noise - neighbours.LEAST_GAIN, 0.0):
            residual, log_factor, before = found, moved_factor, after
            weight, mixed = _stacked(moved, log_factor, measured, log_p)
    if is_no_more(mixed - before - LEAST_GAIN, 0.0):
        return _Choice(log_factor, residual)
    return _Choice(log_factor, residual, process, weight)


def _stacked(
    networks: Components, log_factor: float, measured: Rows, log_p: Float[np.ndarray, " r"]
) -> tuple[float, Float[np.ndarray, " n"]]:
    """Return the mixture weight of log densities log_p beside networks, and log-likelihoods."""
    of_them = networks.predictive(log_factor).log_prob(measured.y)
    weight = float(weights_of(np.stack([of_them, log_p]), measured.weight)[1])
    weight = float(np.clip(weight, _LEAST_PROCESS_WEIGHT, 1.0 - _LEAST_PROCESS_WEIGHT))
    mixed = np.logaddexp(np.log1p(-weight) + of_them, np.log(weight) + log_p)
    return weight, scores(measured, mixed)


def _limits(distinct: Distinct, o: int) -> Limits | None:
    """Return what bounds the processes of one output; None where it is constant."""
    y = distinct.table.y
    if not np.ptp(y[:, o]):
        return None
    floor = log_noise_floor(y[:, o : o + 1], float(np.exp(0.5 * LEAST_LOG_NOISE)))
    # The time goes with the cube of it, and with the number of outputs.
    n_evidence = int(gaussian_process.ROWS_OF_EVIDENCE / np.cbrt(y.shape[1]))
    return Limits(float(floor[0]), n_evidence)


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
    weights = weights_of(np.stack(log_p), measured.weight)
    if weights[1] < LEAST_WEIGHT:
        return one
    held_out = HeldOut(common, Components.mixed(parts, weights), np.ones(len(common), bool))
    each = weights[0] * one.weights, weights[1] * other.weights
    return Stack((*one.experts, *other.experts), np.concatenate(each), held_out)
