"""What the ensemble leaves: a residual process, and the noise that remains; found after training.

Both are judged by what the members say of rows left out (`LeftOut`): the process stays only where
the rows speak for it, by more than two standard errors of the mean of their log-likelihoods, and
the noise moves no further than to within one standard error of where they want it (the rule of
Breiman et al. 1984 for trees). Its variance above the floor changes by one factor. That is mostly
less than 1: a member's noise holds its own errors, which others average out, and those that the
process takes away.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.model.network_likelihoods import LEAST_LOG_NOISE, MOST_LOG_NOISE
from bayesprop.model.noise_mixture import NoiseMixturePredictive
from bayesprop.moments import residual_process
from bayesprop.moments.noise_network_deviations import LeftOut
from bayesprop.moments.noise_network_engine import Rows, outputs
from bayesprop.moments.noise_network_members import TILT_LIMIT, NoisyOutput
from bayesprop.moments.noise_network_state import NoiseNetworkSettings, NoiseNetworkState
from bayesprop.numerics.dense import one_blas_thread

LEAST_ROWS = 50
"""Rows below which nothing is judged by leaving them out."""

LOG_STEP, MOST_STEPS = 0.25, 16
"""Of the logarithm of the factor of the noise variance."""

CONVINCING = 2.0
"""Standard errors by which rows left out must gain for the process to stay."""

MOST_LOG_NOISE_VAR = 2.0 * TILT_LIMIT
"""Variance of the log noise variance beyond which the bound sees none, and no more is predicted.

What the bound does not see keeps its prior: a log-normal whose mean can be e to the hundredth.
"""


def with_residual(
    state: NoiseNetworkState, rows: Rows, left_out: LeftOut, settings: NoiseNetworkSettings
) -> NoiseNetworkState:
    """Return a trained state with what rows left out say of its residuals and its noise."""
    rng = np.random.default_rng([state.seed % 2**32, 4])
    n = len(left_out.some)
    if n < LEAST_ROWS:
        return state
    kept = np.sort(rng.permutation(n)[: residual_process.MOST_ROWS])
    some = left_out.some[kept]
    x, y, weight = (np.asarray(part[some], np.float64) for part in rows[:3])
    said = outputs(state, x)._replace(m=left_out.m[:, kept], v=left_out.v[:, kept])
    of_members = [_Output.of(state, said, o) for o in range(state.n_outputs)]
    # The time goes with the cube of it, and with the number of outputs.
    n_evidence = int(residual_process.ROWS_OF_EVIDENCE / np.cbrt(state.n_outputs))
    n_evidence *= settings.learns_residual
    with one_blas_thread():
        found = [
            _judged(rng, one, x, y[:, o], weight, n_evidence) for o, one in enumerate(of_members)
        ]
        fitted, log_ratios = zip(*found, strict=True)
        residual = residual_process.process(rng, x, list(fitted))
    return state._replace(residual=residual, log_noise_ratio=np.array(log_ratios, np.float32))


class _Output(NamedTuple):
    """What the members say of one output at some rows, (k, n), and the floor of its noise."""

    said: NoisyOutput
    log_floor: float

    @classmethod
    def of(cls, state: NoiseNetworkState, said: NoisyOutput, o: int) -> _Output:
        one = NoisyOutput(*(part[..., o] for part in said))
        return cls(one, float(state.log_floor[o]))

    def predictive(self, log_ratio: float) -> NoiseMixturePredictive:
        return predictive(self.said, log_ratio, self.log_floor)

    def moved(self, m: Float[np.ndarray, " n"], v: Float[np.ndarray, " n"]) -> _Output:
        return self._replace(said=self.said._replace(m=self.said.m + m, v=self.said.v + v))

    def best(
        self, y: Float[np.ndarray, " n"], weight: Float[np.ndarray, " n"]
    ) -> tuple[float, Float[np.ndarray, " n"]]:
        """Log of the factor of the noise, and the rows' log-likelihoods with it, weighted."""
        tried: dict[int, Float[np.ndarray, " n"]] = {}

        def scores(step: int) -> Float[np.ndarray, " n"]:
            if step not in tried:
                tried[step] = weight * self.predictive(step * LOG_STEP).log_prob(y)
            return tried[step]

        best = 0
        for way in (-1, 1):
            while abs(best) < MOST_STEPS and scores(best + way).mean() > scores(best).mean():
                best += way
        steps = sorted(range(min(best, 0), max(best, 0) + 1), key=abs)
        lost = (scores(best) - scores(step) for step in steps)
        near = (step for step, each in zip(steps, lost, strict=True) if is_near(each))
        nearest = next(near, best)
        return nearest * LOG_STEP, scores(nearest)


def is_near(values: Float[np.ndarray, " n"], n_errors: float = 1.0) -> bool:
    """Say whether their mean is no more than some standard errors above 0."""
    return bool(values.mean() <= n_errors * values.std() / np.sqrt(len(values)))


def _judged(
    rng: np.random.Generator,
    of_members: _Output,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    n_evidence: int,
) -> tuple[residual_process.Fitted | None, float]:
    """Return the process of one output if rows speak for it, and the log factor of the noise."""
    log_ratio, before = of_members.best(y, weight)
    if not n_evidence:
        return None, log_ratio
    said = of_members.predictive(0.0)
    total = said.noise_var + said.f_var.mean(axis=0)
    fitted = residual_process.fit(rng, x, y - said.mean, total, weight, n_evidence)
    with_process, after = of_members.moved(fitted.m, fitted.v).best(y, weight)
    is_noise = is_near(after - before, CONVINCING)
    return (None, log_ratio) if is_noise else (fitted, with_process)


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
