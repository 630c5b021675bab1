"""What the ensemble leaves: a residual process, and the noise that remains; found after training.

Both are judged by what the members say of rows left out (`LeftOut`), rows of the same inputs
together. The process stays only where they gain by it: by more than two standard errors of the mean
of their log-likelihoods, or, where few rows have lengths that were learnt without them, at all. The
noise moves no further than to within one standard error of where they want it (the rule of Breiman
et al. 1984 for trees); its variance above the floor changes by one factor. That is mostly less than
1: a member's noise holds its own errors, which others average out, and those that the process takes
away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.moments.network_ensemble import residual_process
from bayesprop.moments.network_ensemble.distinct_rows import Distinct, Targets
from bayesprop.moments.network_ensemble.ensemble_outputs import outputs
from bayesprop.moments.network_ensemble.ensemble_settings import EnsembleSettings
from bayesprop.moments.network_ensemble.ensemble_state import EnsembleState
from bayesprop.moments.network_ensemble.joint_covariance import LeftOut
from bayesprop.moments.network_ensemble.noisy_output import (
    CONVINCING,
    LEAST_GAIN,
    Output,
    is_near,
)
from bayesprop.numerics.dense import one_blas_thread

LEAST_ROWS = 50
"""Different inputs below which nothing is judged by leaving them out."""

MOST_LEVERAGE = 0.8
"""Of a row, beyond which what a member says without it is too far away for a first order."""

MOST_TARGETS = 8192
"""Measurements that judge, at most."""


class Left(NamedTuple):
    """What is left of one output: the process, if rows speak for it, and the noise's log factor."""

    fitted: residual_process.Fitted | None
    log_ratio: float


def with_residual(
    state: EnsembleState, distinct: Distinct, left_out: LeftOut, settings: EnsembleSettings
) -> tuple[EnsembleState, LeftOut]:
    """Return a trained state with what rows left out say of its residuals and its noise.

    And what it then says of rows left out.
    """
    rng = np.random.default_rng([state.seed % 2**32, 4])
    judging = np.flatnonzero(left_out.leverage <= MOST_LEVERAGE)
    if len(judging) < LEAST_ROWS:
        return state, left_out
    kept = np.sort(rng.permutation(judging)[: residual_process.MOST_ROWS])
    some = left_out.some[kept]
    x, weight = (part[some].astype(np.float64) for part in (distinct.once.x, distinct.once.weight))
    noisy = outputs(state, x)._replace(m=left_out.m[:, kept], v=left_out.v[:, kept])
    # The time goes with the cube of it, and with the number of outputs.
    n_evidence = int(residual_process.ROWS_OF_EVIDENCE / np.cbrt(state.n_outputs))
    n_evidence *= settings.learns_residual
    targets = distinct.targets(some)
    with one_blas_thread():
        each = [
            _judged(
                rng, Output.of(noisy, state.log_floor, o), x, targets.column(o), weight, n_evidence
            )
            for o in range(state.n_outputs)
        ]
        residual = residual_process.process(rng, x, [one.fitted for one in each])
    log_ratio = np.array([one.log_ratio for one in each], np.float32)
    m, v = residual.moments(distinct.once.x[left_out.some])
    for o, one in enumerate(each):
        if one.fitted is not None:
            m[kept, o], v[kept, o] = one.fitted.m, one.fitted.v
    left_out = left_out._replace(m=left_out.m + m, v=left_out.v + v)
    return state._replace(residual=residual, log_noise_ratio=log_ratio), left_out


def _judged(
    rng: np.random.Generator,
    of_members: Output,
    x: Float[np.ndarray, "n d"],
    targets: Targets,
    weight: Float[np.ndarray, " n"],
    n_evidence: int,
) -> Left:
    few = targets.sample(rng, MOST_TARGETS)
    log_ratio, before = of_members.best(few)
    if not n_evidence:
        return Left(None, log_ratio)
    predicted, (_, mean) = of_members.predictive(0.0), targets.means()
    total = predicted.noise_var + predicted.f_var.mean(axis=0)
    fitted = residual_process.fit(rng, x, mean - predicted.mean, total, weight, n_evidence)
    with_process, after = of_members.moved(fitted.m, fitted.v).best(few)
    n_errors = CONVINCING if len(x) >= residual_process.FEW_ROWS else 0.0
    if is_near(after - before - LEAST_GAIN, n_errors):
        return Left(None, log_ratio)
    return Left(fitted, with_process)
