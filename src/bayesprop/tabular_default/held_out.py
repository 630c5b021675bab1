"""What rows left out choose when training has ended: processes, and the noise that remains.

They are judged by what the members say of rows left out (`LeftOut`), rows of the same inputs
together. A Gaussian process on the targets gets the share of a mixture with the members that makes
these rows most likely (stacking: Yao et al. 2018), and stays where they gain by it. Unless that is
nearly all, the nearest rows are asked what the members leave, where rows left out gain more by it
than by a choice of the noise alone. The noise moves no further than to within one standard error of
where they want it (the rule of Breiman et al. 1984 for trees); its variance above the floor changes
by one factor. That is mostly less than 1: a member's noise holds its own errors, which others
average out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int

from bayesprop.distributions.mixture import LEAST_LOG_NOISE
from bayesprop.numerics import nearest_rows
from bayesprop.numerics.nearest_rows import Known, most_rows
from bayesprop.tabular_default import gaussian_process, neighbour_process, process_evidence
from bayesprop.tabular_default import stack as stacking
from bayesprop.tabular_default.distinct_rows import Distinct, Targets
from bayesprop.tabular_default.gaussian_process import GaussianProcess
from bayesprop.tabular_default.joint_covariance import LeftOut
from bayesprop.tabular_default.neighbour_process import Local, NeighbourProcess, changed
from bayesprop.tabular_default.neighbour_targets import Judges
from bayesprop.tabular_default.noisy_output import (
    LEAST_GAIN,
    MOST_TARGETS,
    NoisyOutput,
    Output,
    is_no_more,
    predictive,
    scaled,
)
from bayesprop.tabular_default.outputs import outputs
from bayesprop.tabular_default.process_evidence import Fitted, Limits
from bayesprop.tabular_default.settings import EnsembleSettings
from bayesprop.tabular_default.state import EnsembleState, log_noise_floor

LEAST_ROWS = 10
"""Below which nothing is judged by leaving them out."""

MOST_LEVERAGE = 0.8
"""Of a row, beyond which what a member says without it is too far away for a first order."""

ENOUGH_SHARE = 0.9
"""Of a process on targets, knowing all rows, that leaves nothing for neighbours to do."""

_LEAST_SHARE = 1e-6  # of either


class Around(NamedTuple):
    """Rows of the table, those that judge first: what members say there, and means of targets.

    group
        As in `Known`.
    """

    x: Float32[np.ndarray, "n d"]
    noisy: NoisyOutput
    y: Float32[np.ndarray, "n o"]
    weight: Float32[np.ndarray, " n"]
    group: Int[np.ndarray, " n"] | None

    @classmethod
    def of(
        cls,
        state: EnsembleState,
        distinct: Distinct,
        left_out: LeftOut,
        order: Int[np.ndarray, " r"],
        n_inputs: int,
    ) -> Around:
        """Look at rows that were left out, as many as judge and others; and at those that were not.

        order
            Places of the former in `left_out`, those that judge first.
        """
        once, groups, rows = distinct.once, distinct.groups, left_out.some[order]
        noisy = left_out.noisy.at(order)
        if groups is None:  # else a member that learnt them would speak for what did not
            rng = np.random.default_rng([state.seed % 2**32, 7])
            others = np.setdiff1d(np.flatnonzero(once.weight), left_out.some)
            rows = np.r_[rows, rng.permutation(others)][: most_rows(n_inputs)]
            noisy, out = outputs(state, once.x[rows]), noisy
            noisy.m[:, : len(order)] = out.m[:, : len(rows)]
        # Rows that stand there: weights of another unit say no more of the noise of a measurement.
        weight = once.weight[rows] * np.float32(len(distinct.table.x) / len(once.x))
        group = None if groups is None else groups.number[rows]
        return cls(once.x[rows, :n_inputs], noisy, once.y[rows], weight, group)

    def learn(
        self, rng: np.random.Generator, log_floor: Float[np.ndarray, " o"], o: int, n_own: int
    ) -> tuple[NeighbourProcess, Local]:
        """Learn what the members leave of a target, and say it of some rows, each of the others."""
        known = Known(self.x, self.y[:, o], self.weight, self.group)
        predicted = Output.of(self.noisy, log_floor, o).predictive(0.0)
        return neighbour_process.learn(rng, known, predicted, n_own)


class Judged(NamedTuple):
    """Of one output: log factor of the noise, and processes that stay.

    share
        Of the process on targets.
    """

    log_ratio: float
    neighbours: tuple[NeighbourProcess, Local] | None
    of_targets: Fitted | None
    share: float


def components(state: EnsembleState, x: Float[np.ndarray, "n d"]) -> NoisyOutput:
    """Return members (of a companion, too) and processes; noise is as rows left out want it."""
    near = [None if process is None else Local.of(process, x) for process in state.neighbours]
    noisy = _mixed(state, outputs(state, x), near, moments(state.target_processes, x))
    if state.companion is None:
        return noisy
    other, ramps, share = state.companion
    return noisy.together(components(other, ramps.beside(x)), share)


def with_judged(
    state: EnsembleState,
    distinct: Distinct,
    left_out: LeftOut,
    settings: EnsembleSettings,
    n_inputs: int,
) -> tuple[EnsembleState, NoisyOutput]:
    """Return a trained state with what rows left out choose, and its components at these rows.

    As they would be, had they not seen the row; n_inputs are the columns before the ramps.
    """
    rng, once = np.random.default_rng([state.seed % 2**32, 4]), distinct.once
    x = once.x[left_out.some].astype(np.float64)
    noisy = left_out.noisy
    is_near = left_out.leverage <= MOST_LEVERAGE
    if is_near.sum() < LEAST_ROWS:
        nothing = moments(state.target_processes, x)
        return state, _mixed(state, noisy, [None] * state.n_outputs, nothing)
    rows = np.sort(rng.permutation(len(x))[: gaussian_process.MOST_ROWS])
    near = rows[is_near[rows]]
    # Rows that stand there: weights of another unit say no more of the noise of a measurement.
    counts = once.weight[left_out.some].astype(np.float64) * len(distinct.table.x) / len(once.x)
    known = [
        Known(x[rows], column.means()[1], counts[rows])
        for column in map(distinct.targets(left_out.some[rows]).column, range(state.n_outputs))
    ]
    group = None if distinct.groups is None else distinct.groups.number[left_out.some[rows]]
    targets, there = distinct.targets(left_out.some[near]), noisy.at(near)
    around = None
    if settings.learns_processes and len(near) >= nearest_rows.LEAST_ROWS:
        order = np.r_[near, np.setdiff1d(np.flatnonzero(is_near), near)]
        around = Around.of(state, distinct, left_out, order, n_inputs)
    each = [
        _judged(
            rng,
            Output.of(there, state.log_floor, o),
            targets.column(o),
            known[o]._replace(group=group),
            is_near[rows],
            _limits(distinct, settings, o),
            around and partial(around.learn, rng, state.log_floor, o, len(near)),
        )
        for o in range(state.n_outputs)
    ]
    state = state._replace(
        log_noise_ratio=np.array([one.log_ratio for one in each], np.float32),
        neighbours=tuple(one.neighbours and one.neighbours[0] for one in each),
        target_processes=tuple(one.of_targets and one.of_targets.process for one in each),
        target_shares=np.array([one.share for one in each], np.float32),
    )
    of_targets, local = moments(state.target_processes, x), []
    for o, one in enumerate(each):  # what is said without a row takes the place of all else
        if one.of_targets is not None:
            of_targets[0][rows, o], of_targets[1][rows, o] = one.of_targets[1:3]
        local.append(one.neighbours and Local.of(one.neighbours[0], x))
        if one.neighbours is not None:
            for part, without in zip(local[o][:3], one.neighbours[1][:3], strict=True):
                part[near] = without
    return state, _mixed(state, noisy, local, of_targets)


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

    def together(self, other: Judgement, share: float) -> Judgement:
        """Mix with another ensemble, at rows that neither has seen."""
        some, of_one, of_other = np.intersect1d(self.some, other.some, return_indices=True)
        noisy = self.noisy.at(of_one).together(other.noisy.at(of_other), share)
        return self._replace(some=some, noisy=noisy)

    def judges(self, distinct: Distinct) -> list[Judges]:
        """Say it of the measurements there, of every output."""
        place = np.full(len(distinct.once.x), -1)
        place[self.some] = np.arange(len(self.some))
        at, table = place[distinct.gone], distinct.table
        rows = np.flatnonzero((at >= 0) & (table.weight > 0.0))
        predicted = predictive(self.noisy.at(at[rows]), 0.0, self.log_floor)
        log_p, std = predicted.log_prob(table.y[rows]), predicted.std
        return [Judges(rows, log_p[:, o], std[:, o]) for o in range(table.y.shape[1])]

    def log_prob(self, rows: Int[np.ndarray, " n"], targets: Targets) -> Float[np.ndarray, " m"]:
        """Log density of measurements at some of these rows, all outputs together."""
        noisy = self.noisy.at(rows).at(targets.at)
        return predictive(noisy, 0.0, self.log_floor).log_prob(targets.y).sum(axis=1)


def share_of(other: Judgement, one: Judgement, distinct: Distinct) -> float:
    """Return another's share in a mixture with one, by rows left out of both; 0: too few."""
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
    learn_neighbours: Callable[[], tuple[NeighbourProcess, Local]] | None,
) -> Judged:
    """Choose by what is said of rows left out, those of low leverage.

    known, is_near
        Rows for a process on targets, and which of them these are.
    """
    few = targets
    if len(targets.at) > MOST_TARGETS:
        few = targets.these(np.sort(rng.permutation(len(targets.at))[:MOST_TARGETS]))
    log_ratio, before = of_members.best(few)
    if limits is None:
        return Judged(log_ratio, None, None, 0.0)
    on_targets, near = process_evidence.fit(rng, known, limits), None
    m, v = on_targets.m[is_near][few.at], on_targets.v[is_near][few.at]
    log_p = on_targets.process.log_density(few.y, m, v)
    share, mixed = _stacked(of_members, log_ratio, few, log_p)
    is_enough = share >= ENOUGH_SHARE and len(known.y) < gaussian_process.MOST_ROWS
    if learn_neighbours is not None and not is_enough:
        left = learn_neighbours()
        with_neighbours = changed(of_members, left[1])
        with_process, after = with_neighbours.best(few)
        of_noise = of_members.best(few, 0.0)[1]  # which would gain as much without them
        if not is_no_more(after - of_noise - neighbour_process.LEAST_GAIN, 0.0):
            near, log_ratio, before = left, with_process, after
            share, mixed = _stacked(with_neighbours, log_ratio, few, log_p)
    if is_no_more(mixed - before - LEAST_GAIN, 0.0):
        return Judged(log_ratio, near, None, 0.0)
    return Judged(log_ratio, near, on_targets, share)


def _stacked(
    of_members: Output, log_ratio: float, targets: Targets, log_p: Float[np.ndarray, " r"]
) -> tuple[float, Float[np.ndarray, " n"]]:
    """Return the share beside the members of what gives targets log_p, and log-likelihoods."""
    of_them = of_members.at(targets.at).predictive(log_ratio).log_prob(targets.y)
    both = np.stack([of_them, log_p])
    share = stacking.shares(np.exp(both - both.max(axis=0)), targets.weight)[1]
    share = float(np.clip(share, _LEAST_SHARE, 1.0 - _LEAST_SHARE))
    return share, targets.scores(np.logaddexp(np.log1p(-share) + of_them, np.log(share) + log_p))


def _limits(distinct: Distinct, settings: EnsembleSettings, o: int) -> Limits | None:
    """Return what bounds the processes of one output; None where they are not asked for."""
    y = distinct.table.y
    if not settings.learns_processes or not np.ptp(y[:, o]):
        return None
    floor = log_noise_floor(y[:, o : o + 1], float(np.exp(0.5 * LEAST_LOG_NOISE)))
    # The time goes with the cube of it, and with the number of outputs.
    n_evidence = int(process_evidence.ROWS_OF_EVIDENCE / np.cbrt(y.shape[1]))
    return Limits(float(floor[0]), n_evidence)


_Moments = tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]


def moments(processes: tuple[GaussianProcess | None, ...], x: Float[np.ndarray, "n d"]) -> _Moments:
    """Return means and variances of every output; 0 of those without a process."""
    m, v = np.zeros((2, len(x), len(processes)))
    for o, process in enumerate(processes):
        if process is not None:
            m[:, o], v[:, o] = process.moments(x)
    return m, v


def _mixed(
    state: EnsembleState,
    noisy: NoisyOutput,
    near: Sequence[Local | None],
    of_targets: _Moments,
) -> NoisyOutput:
    noisy = neighbour_process.with_neighbours(noisy, near, state.log_floor)
    noisy = noisy._replace(l_m=scaled(noisy.l_m, state.log_noise_ratio, state.log_floor))
    if not state.target_shares.any():
        return noisy
    log_noise = np.array([0.0 if p is None else p.log_own_noise for p in state.target_processes])
    return noisy.beside(*of_targets, log_noise, state.target_shares.astype(np.float64))
