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

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.model.network_likelihoods import LEAST_LOG_NOISE, MOST_LOG_NOISE
from bayesprop.model.noise_mixture import NoiseMixturePredictive
from bayesprop.moments.network_ensemble import residual_process
from bayesprop.moments.network_ensemble.distinct_rows import Distinct, Targets
from bayesprop.moments.network_ensemble.ensemble_state import (
    EnsembleSettings,
    EnsembleState,
)
from bayesprop.moments.network_ensemble.ensemble_training import outputs
from bayesprop.moments.network_ensemble.joint_covariance import LeftOut
from bayesprop.moments.network_ensemble.member import TILT_LIMIT, NoisyOutput
from bayesprop.numerics.dense import one_blas_thread

LEAST_ROWS = 50
"""Different inputs below which nothing is judged by leaving them out."""

MOST_LEVERAGE = 0.8
"""Of a row, beyond which what a member says without it is too far away for a first order."""

MOST_TARGETS = 8192
"""Measurements that judge, at most."""

LOG_STEP, MOST_STEPS = 0.25, 16
"""Of the logarithm of the factor of the noise variance."""

CONVINCING = 2.0
"""Standard errors by which rows must gain that have chosen what they judge."""

LEAST_GAIN = 1e-3
"""In nats a row, below which a gain is none, however sure."""

MOST_LOG_NOISE_VAR = 2.0 * TILT_LIMIT
"""Variance of the log noise variance beyond which the bound sees none, and no more is predicted.

What the bound does not see keeps its prior: a log-normal whose mean can be e to the hundredth.
"""


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
    told = np.flatnonzero(left_out.leverage <= MOST_LEVERAGE)
    if len(told) < LEAST_ROWS:
        return state, left_out
    kept = np.sort(rng.permutation(told)[: residual_process.MOST_ROWS])
    some = left_out.some[kept]
    x, weight = (part[some].astype(np.float64) for part in (distinct.once.x, distinct.once.weight))
    said = outputs(state, x)._replace(m=left_out.m[:, kept], v=left_out.v[:, kept])
    # The time goes with the cube of it, and with the number of outputs.
    n_evidence = int(residual_process.ROWS_OF_EVIDENCE / np.cbrt(state.n_outputs))
    n_evidence *= settings.learns_residual
    targets = distinct.targets(some)
    with one_blas_thread():
        each = [
            _judged(rng, Output.of(state, said, o), x, targets.column(o), weight, n_evidence)
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


class Output(NamedTuple):
    """What the members say of one output at some rows, (k, n), and the floor of its noise."""

    said: NoisyOutput
    log_floor: float

    @classmethod
    def of(cls, state: EnsembleState, said: NoisyOutput, o: int) -> Output:
        """Take one of all."""
        one = NoisyOutput(*(part[..., o] for part in said))
        return cls(one, float(state.log_floor[o]))

    def predictive(self, log_ratio: float) -> NoiseMixturePredictive:
        """Mix the members, the noise multiplied."""
        return predictive(self.said, log_ratio, self.log_floor)

    def moved(self, m: Float[np.ndarray, " n"], v: Float[np.ndarray, " n"]) -> Output:
        """Add to mean and variance of every member."""
        return self._replace(said=self.said._replace(m=self.said.m + m, v=self.said.v + v))

    def agreed(self, m: Float[np.ndarray, " n"], v: Float[np.ndarray, " n"]) -> Output:
        """Give all members the same mean and variance."""
        shape = self.said.m.shape
        said = self.said._replace(m=np.broadcast_to(m, shape), v=np.broadcast_to(v, shape))
        return self._replace(said=said)

    def at(self, rows: Int[np.ndarray, " r"]) -> Output:
        """Take some rows."""
        return self._replace(said=self.said.at(rows))

    def best(self, targets: Targets) -> tuple[float, Float[np.ndarray, " n"]]:
        """Log of the factor of the noise, and the log-likelihoods with it."""
        there = self.at(targets.at)

        def scores(step: int) -> Float[np.ndarray, " n"]:
            return targets.scores(there.predictive(step * LOG_STEP).log_prob(targets.y))

        step, found = nearest_to_best(scores, (-1, 1))
        return step * LOG_STEP, found


def nearest_to_best(
    scores: Callable[[int], Float[np.ndarray, " n"]], ways: tuple[int, ...]
) -> tuple[int, Float[np.ndarray, " n"]]:
    """Climb from 0, then come back as far as is within a standard error of the top."""
    tried: dict[int, Float[np.ndarray, " n"]] = {}

    def at(step: int) -> Float[np.ndarray, " n"]:
        if step not in tried:
            tried[step] = scores(step)
        return tried[step]

    best = 0
    for way in ways:
        while abs(best) < MOST_STEPS and at(best + way).mean() > at(best).mean():
            best += way
    steps = sorted(range(min(best, 0), max(best, 0) + 1), key=abs)
    nearest = next((step for step in steps if is_near(at(best) - at(step))), best)
    return nearest, at(nearest)


def is_near(values: Float[np.ndarray, " n"], n_errors: float = 1.0) -> bool:
    """Say whether their mean is no more than some standard errors above 0."""
    return bool(values.mean() <= n_errors * values.std() / np.sqrt(len(values)))


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
    said, (_, mean) = of_members.predictive(0.0), targets.means()
    total = said.noise_var + said.f_var.mean(axis=0)
    fitted = residual_process.fit(rng, x, mean - said.mean, total, weight, n_evidence)
    with_process, after = of_members.moved(fitted.m, fitted.v).best(few)
    n_errors = CONVINCING if len(x) >= residual_process.FEW_ROWS else 0.0
    if is_near(after - before - LEAST_GAIN, n_errors):
        return Left(None, log_ratio)
    return Left(fitted, with_process)


def scaled(
    log_noise: Float[np.ndarray, "*a"],
    log_ratio: Float[np.ndarray, "..."] | float,
    log_floor: Float[np.ndarray, "..."] | float,
) -> Float[np.ndarray, "*a"]:
    """Multiply what lies above the floor: log(exp(floor) + ratio (exp(log noise) - exp(floor)))."""
    above = -np.expm1(np.minimum(log_floor - log_noise, 0.0))
    with np.errstate(divide="ignore"):
        return np.logaddexp(log_floor, log_ratio + log_noise + np.log(above))


def predictive(
    said: NoisyOutput,
    log_ratio: Float[np.ndarray, " o"] | float,
    log_floor: Float[np.ndarray, " o"] | float,
) -> NoiseMixturePredictive:
    """One mixture over the members; arrays (k, n) with dof (k,), or (k, n, o) with (k, o)."""
    l_m = scaled(said.l_m, log_ratio, log_floor)
    return NoiseMixturePredictive.of(
        f_mean=said.m,
        f_var=said.v,
        log_noise_mean=np.clip(l_m, LEAST_LOG_NOISE, MOST_LOG_NOISE),
        log_noise_var=np.minimum(said.l_v, MOST_LOG_NOISE_VAR),
        dof=np.broadcast_to(np.expand_dims(said.dof, 1), said.m.shape),
    )
