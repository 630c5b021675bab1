"""What rows left out choose when training has ended: processes, and the noise that remains.

They are judged by what the members say of rows left out (`LeftOut`), rows of the same inputs
together. A Gaussian process on the targets gets the share of a mixture with the members that makes
these rows most likely (stacking: Yao et al. 2018), and stays where they gain by it. Unless that is
nearly all, another learns the members' residuals; it stays only where rows left out gain by more
than two standard errors of the mean of their log-likelihoods, or, where few rows have lengths that
were learnt without them, at all. The noise moves no further than to within one standard error of
where they want it (the rule of Breiman et al. 1984 for trees); its variance above the floor changes
by one factor. That is mostly less than 1: a member's noise holds its own errors, which others
average out, and those that the process takes away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesprop.model.noise_mixture import LEAST_LOG_NOISE
from bayesprop.moments.network_ensemble import gaussian_process, process_evidence, stacking
from bayesprop.moments.network_ensemble.distinct_rows import Distinct, Targets
from bayesprop.moments.network_ensemble.ensemble_outputs import outputs
from bayesprop.moments.network_ensemble.ensemble_settings import EnsembleSettings
from bayesprop.moments.network_ensemble.ensemble_state import EnsembleState, log_noise_floor
from bayesprop.moments.network_ensemble.gaussian_process import GaussianProcess
from bayesprop.moments.network_ensemble.joint_covariance import LeftOut
from bayesprop.moments.network_ensemble.noisy_output import (
    CONVINCING,
    LEAST_GAIN,
    NoisyOutput,
    Output,
    is_no_more,
    predictive,
    scaled,
)
from bayesprop.moments.network_ensemble.process_evidence import (
    OF_RESIDUALS,
    OF_TARGETS,
    Fitted,
    Known,
    Limits,
)
from bayesprop.numerics.dense import one_blas_thread

LEAST_ROWS = 10
"""Below which nothing is judged by leaving them out."""

MOST_LEVERAGE = 0.8
"""Of a row, beyond which what a member says without it is too far away for a first order."""

MOST_TARGETS = 8192
"""Measurements that judge, at most."""

ENOUGH_SHARE = 0.9
"""Of a process on targets that leaves nothing for one on residuals to do."""

NOISE_SHARE = 0.5
"""Power of the ensemble's variance that the variance of a residual goes with: the noise networks
learnt theirs from the same residuals, and where these are large, it may be for want of a better
mean."""

_LEAST_SHARE = 1e-6  # of either


class Judged(NamedTuple):
    """Of one output: log factor of the noise, and processes that stay.

    share
        Of the process on targets.
    """

    log_ratio: float
    of_residuals: Fitted | None
    of_targets: Fitted | None
    share: float


def components(state: EnsembleState, x: Float[np.ndarray, "n d"]) -> NoisyOutput:
    """Return members and processes at some rows, the members' noise as rows left out want it.

    Those of the companion, too.
    """
    each = state.residual_processes, state.target_processes
    noisy = _mixed(state, outputs(state, x), *(moments(processes, x) for processes in each))
    if state.companion is None:
        return noisy
    other, ramps, share = state.companion
    return noisy.together(components(other, ramps.beside(x)), share)


def with_judged(
    state: EnsembleState, distinct: Distinct, left_out: LeftOut, settings: EnsembleSettings
) -> tuple[EnsembleState, NoisyOutput]:
    """Return a trained state with what rows left out choose, and its components at these rows.

    As they would be, had they not seen the row.
    """
    rng, once = np.random.default_rng([state.seed % 2**32, 4]), distinct.once
    x = once.x[left_out.some].astype(np.float64)
    noisy = left_out.noisy
    is_near = left_out.leverage <= MOST_LEVERAGE
    if is_near.sum() < LEAST_ROWS:
        nothing = moments(state.target_processes, x)
        return state, _mixed(state, noisy, nothing, nothing)
    rows = np.sort(rng.permutation(len(x))[: gaussian_process.MOST_ROWS])
    # Rows that stand there: weights of another unit say no more of the noise of a measurement.
    counts = once.weight[left_out.some].astype(np.float64) * len(distinct.table.x) / len(once.x)
    known = [
        Known(x[rows], column.means()[1], counts[rows])
        for column in map(distinct.targets(left_out.some[rows]).column, range(state.n_outputs))
    ]
    group = None if distinct.groups is None else distinct.groups.number[left_out.some[rows]]
    near = rows[is_near[rows]]
    targets, there = distinct.targets(left_out.some[near]), noisy.at(near)
    with one_blas_thread():
        each = [
            _judged(
                rng,
                Output.of(there, state.log_floor, o),
                targets.column(o),
                known[o]._replace(group=group),
                is_near[rows],
                _limits(distinct, settings, o),
            )
            for o in range(state.n_outputs)
        ]
    state = state._replace(
        log_noise_ratio=np.array([one.log_ratio for one in each], np.float32),
        residual_processes=_processes([one.of_residuals for one in each]),
        target_processes=_processes([one.of_targets for one in each]),
        target_shares=np.array([one.share for one in each], np.float32),
    )
    of_residuals = moments(state.residual_processes, x)
    of_targets = moments(state.target_processes, x)
    for o, one in enumerate(each):
        _overwrite(of_residuals, near, o, one.of_residuals)
        _overwrite(of_targets, rows, o, one.of_targets)
    return state, _mixed(state, noisy, of_residuals, of_targets)


class Judgement(NamedTuple):
    """What an ensemble says of rows that it has not seen.

    some
        Numbers of the different inputs, (r,).
    noisy
        Members and processes there.
    log_floor
        Of the noise, (o,).
    """

    some: Int[np.ndarray, " r"]
    noisy: NoisyOutput
    log_floor: Float[np.ndarray, " o"]

    def log_prob(self, rows: Int[np.ndarray, " n"], targets: Targets) -> Float[np.ndarray, " m"]:
        """Log density of measurements at some of these rows, all outputs together."""
        noisy = self.noisy.at(rows).at(targets.at)
        return predictive(noisy, 0.0, self.log_floor).log_prob(targets.y).sum(axis=1)


def share_of(other: Judgement, one: Judgement, distinct: Distinct) -> float:
    """Return the share of another ensemble in a mixture with one, by rows left out of both.

    0: these are too few.
    """
    common, of_one, of_other = np.intersect1d(one.some, other.some, return_indices=True)
    if len(common) < LEAST_ROWS:
        return 0.0
    targets = distinct.targets(common)
    log_p = np.stack([one.log_prob(of_one, targets), other.log_prob(of_other, targets)])
    return float(stacking.shares(np.exp(log_p - log_p.max(axis=0)), targets.weight)[1])


def _judged(
    rng: np.random.Generator,
    of_members: Output,
    targets: Targets,
    known: Known,
    is_near: Bool[np.ndarray, " n"],
    limits: Limits | None,
) -> Judged:
    """Choose by what is said of rows left out.

    of_members, targets
        At rows of low leverage.
    known, is_near
        Rows for a process on targets, and which of them these are.
    """
    few = targets.sample(rng, MOST_TARGETS)
    log_ratio, before = of_members.best(few)
    if limits is None:
        return Judged(log_ratio, None, None, 0.0)
    on_targets, on_residuals = process_evidence.fit(rng, known, OF_TARGETS, limits), None
    m, v = on_targets.m[is_near][few.at], on_targets.v[is_near][few.at]
    log_p = on_targets.process.log_density(few.y, m, v)
    share, mixed = _stacked(of_members, log_ratio, few, log_p)
    if share < ENOUGH_SHARE:
        left = _on_residuals(rng, of_members, targets, known.at(is_near), limits)
        moved = of_members.moved(left.m, left.v)
        with_process, after = moved.best(few)
        n_errors = CONVINCING if len(left.m) >= process_evidence.FEW_ROWS else 0.0
        if not is_no_more(after - before - LEAST_GAIN, n_errors):
            on_residuals, log_ratio, before = left, with_process, after
            share, mixed = _stacked(moved, log_ratio, few, log_p)
    if is_no_more(mixed - before - LEAST_GAIN, 0.0):
        return Judged(log_ratio, on_residuals, None, 0.0)
    return Judged(log_ratio, on_residuals, on_targets, share)


def _stacked(
    of_members: Output, log_ratio: float, targets: Targets, log_p: Float[np.ndarray, " r"]
) -> tuple[float, Float[np.ndarray, " n"]]:
    """Return the share of another prediction beside the members, and log-likelihoods with it.

    log_p
        Log densities that it gives the targets.
    """
    of_them = of_members.at(targets.at).predictive(log_ratio).log_prob(targets.y)
    both = np.stack([of_them, log_p])
    share = stacking.shares(np.exp(both - both.max(axis=0)), targets.weight)[1]
    share = float(np.clip(share, _LEAST_SHARE, 1.0 - _LEAST_SHARE))
    return share, targets.scores(np.logaddexp(np.log1p(-share) + of_them, np.log(share) + log_p))


def _on_residuals(
    rng: np.random.Generator, of_members: Output, targets: Targets, known: Known, limits: Limits
) -> Fitted:
    """Fit a process to what the members leave of rows left out."""
    predicted, (_, mean) = of_members.predictive(0.0), targets.means()
    log_s = NOISE_SHARE * np.log(predicted.noise_var + predicted.f_var.mean(axis=0))
    weight = known.weight * np.exp(log_s.mean() - log_s)
    left = Known(known.x, mean - predicted.mean, weight, known.group)
    return process_evidence.fit(rng, left, OF_RESIDUALS, limits)


def _limits(distinct: Distinct, settings: EnsembleSettings, o: int) -> Limits | None:
    """Return what bounds the processes of one output; None where they are not asked for."""
    y = distinct.table.y
    if not settings.learns_processes or not np.ptp(y[:, o]):
        return None
    floor = log_noise_floor(y[:, o : o + 1], float(np.exp(0.5 * LEAST_LOG_NOISE)))
    # The time goes with the cube of it, and with the number of outputs.
    n_evidence = int(process_evidence.ROWS_OF_EVIDENCE / np.cbrt(y.shape[1]))
    return Limits(float(floor[0]), n_evidence)


def _processes(each: list[Fitted | None]) -> tuple[GaussianProcess | None, ...]:
    return tuple(None if one is None else one.process for one in each)


_Moments = tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]


def moments(processes: tuple[GaussianProcess | None, ...], x: Float[np.ndarray, "n d"]) -> _Moments:
    """Return means and variances of every output; 0 of those without a process."""
    m, v = np.zeros((2, len(x), len(processes)))
    for o, process in enumerate(processes):
        if process is not None:
            m[:, o], v[:, o] = process.moments(x)
    return m, v


def _overwrite(
    of_processes: _Moments, rows: Int[np.ndarray, " r"], o: int, fitted: Fitted | None
) -> None:
    """Write what a process says of rows that it has not seen over what it says of those seen."""
    if fitted is not None:
        for part, left_out in zip(of_processes, (fitted.m, fitted.v), strict=True):
            part[rows, o] = left_out


def _mixed(
    state: EnsembleState, noisy: NoisyOutput, of_residuals: _Moments, of_targets: _Moments
) -> NoisyOutput:
    noisy = noisy._replace(
        m=noisy.m + of_residuals[0],
        v=noisy.v + of_residuals[1],
        l_m=scaled(noisy.l_m, state.log_noise_ratio, state.log_floor),
    )
    if not state.target_shares.any():
        return noisy
    log_noise = np.array([0.0 if p is None else p.log_own_noise for p in state.target_processes])
    return noisy.beside(*of_targets, log_noise, state.target_shares.astype(np.float64))
