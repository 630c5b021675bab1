"""What comes back with the inputs of a table, and what the ensemble then says of these.

How much of the noise does is judged as the noise itself is (`left_out_rows`): by the
log-likelihood of every measurement given the others of its inputs, and what the members say of all
these left out.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from bayesprop.moments.network_ensemble import known_rows
from bayesprop.moments.network_ensemble.distinct_rows import Distinct, Targets
from bayesprop.moments.network_ensemble.ensemble_state import EnsembleState
from bayesprop.moments.network_ensemble.ensemble_training import outputs
from bayesprop.moments.network_ensemble.joint_covariance import LeftOut
from bayesprop.moments.network_ensemble.known_rows import KnownRows
from bayesprop.moments.network_ensemble.left_out_rows import (
    CONVINCING,
    LEAST_GAIN,
    MOST_STEPS,
    MOST_TARGETS,
    Output,
    is_near,
    nearest_to_best,
)
from bayesprop.moments.network_ensemble.member import NoisyOutput

LEAST_REPEATED = 10
"""Inputs that stand for more than one row, below which nothing is learnt of what comes back."""

LOG_STEP = 0.5
LEAST_LOG_OWN = -LOG_STEP * MOST_STEPS
"""Log of the least share that does not come back: a three thousandth."""

_Moments = tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]


def with_known(state: EnsembleState, distinct: Distinct, left_out: LeftOut) -> EnsembleState:
    """Return a state that remembers the inputs of the table, if their noise comes back."""
    if len(distinct.once.x) == len(distinct.table.x):
        return state
    rng, x = np.random.default_rng([state.seed % 2**32, 5]), distinct.once.x
    said, targets = outputs(state, x[left_out.some]), distinct.targets(left_out.some)
    said = said._replace(m=left_out.m, v=left_out.v)
    log_own = np.zeros(state.n_outputs, np.float32)
    for o, log_ratio in enumerate(state.log_noise_ratio):
        one = Output.of(state, said, o)
        log_own[o] = own_share(rng, one, targets.column(o), float(log_ratio))
    if not log_own.any():
        return state
    said, (m, v) = outputs(state, x), state.residual.moments(x)
    all_m, all_v = said.m + m, said.v + v
    all_m[:, left_out.some], all_v[:, left_out.some] = left_out.m, left_out.v
    said, targets = said._replace(m=all_m, v=all_v), distinct.targets(np.arange(len(x)))
    m, v = np.zeros_like(distinct.once.y), np.zeros_like(distinct.once.y)
    for o in map(int, np.flatnonzero(log_own)):
        moments = _moments(Output.of(state, said, o), float(state.log_noise_ratio[o]))
        count, mean = targets.column(o).means()
        m[:, o], v[:, o] = known_rows.recalled(*moments, float(log_own[o]), count, mean)
    is_measured = np.bincount(targets.at, minlength=targets.n) > 0
    x, m, v = (part[is_measured] for part in (x, m, v))
    return state._replace(known=KnownRows.of(x, m, v, log_own))


def own_share(
    rng: np.random.Generator, of_members: Output, targets: Targets, log_ratio: float
) -> float:
    """Log of the share of the noise that does not come back with the inputs."""
    count, mean = targets.others()
    again = np.flatnonzero(count > 0.0)
    again = np.sort(rng.permutation(again)[:MOST_TARGETS])
    few, count, mean = targets.these(again), count[again], mean[again]
    number, at = np.unique(few.at, return_inverse=True)
    if len(number) < LEAST_REPEATED:
        return 0.0
    there, few = of_members.at(few.at), few._replace(at=at, n=len(number))
    moments = _moments(there, log_ratio)

    def scores(step: int) -> Float[np.ndarray, " n"]:
        log_own = step * LOG_STEP
        known = there.agreed(*known_rows.recalled(*moments, log_own, count, mean))
        return few.scores(known.predictive(log_ratio + log_own).log_prob(few.y))

    step, found = nearest_to_best(scores, (-1,))
    return 0.0 if is_near(found - scores(0) - LEAST_GAIN, CONVINCING) else step * LOG_STEP


def _moments(of_members: Output, log_ratio: float) -> _Moments:
    """Return mean and variance of the function, and the variance of the noise."""
    said = of_members.predictive(log_ratio)
    return said.mean, said.epistemic_var, said.noise_var


def recall(
    state: EnsembleState, x: Float[np.ndarray, "n d"], said: NoisyOutput
) -> tuple[NoisyOutput, Float[np.ndarray, "n o"]]:
    """Say what is known of inputs that were measured, and the log factor of every row's noise."""
    log_ratio = np.tile(np.float64(state.log_noise_ratio), (len(x), 1))
    places, numbers = state.known.find(x)
    if len(places):
        comes_back = state.known.log_own < 0.0
        where, which = np.ix_(places, comes_back), np.ix_(numbers, comes_back)
        m, v = said.m.copy(), said.v.copy()
        m[:, *where], v[:, *where] = state.known.m[which], state.known.v[which]
        said = said._replace(m=m, v=v)
        log_ratio[places] += state.known.log_own
    return said, log_ratio
