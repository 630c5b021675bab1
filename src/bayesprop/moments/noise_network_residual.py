"""What the ensemble leaves: a residual process, and the noise that remains; found after training.

Both are judged by what the members say of rows left out (`LeftOut`), rows of the same inputs
together: the process stays only where the rows speak for it, by more than two standard errors of
the mean of their log-likelihoods, and the noise moves no further than to within one standard error
of where they want it (the rule of Breiman et al. 1984 for trees). Its variance above the floor
changes by one factor. That is mostly less than 1: a member's noise holds its own errors, which
others average out, and those that the process takes away.

Last, and by the same two rules, rows of the same inputs say of one another how much of the noise
comes back with the inputs (`known_rows`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.model.network_likelihoods import LEAST_LOG_NOISE, MOST_LOG_NOISE
from bayesprop.model.noise_mixture import NoiseMixturePredictive
from bayesprop.moments import known_rows, residual_process
from bayesprop.moments.known_rows import KnownRows
from bayesprop.moments.noise_network_deviations import LeftOut
from bayesprop.moments.noise_network_engine import Rows, outputs
from bayesprop.moments.noise_network_members import TILT_LIMIT, NoisyOutput
from bayesprop.moments.noise_network_state import NoiseNetworkSettings, NoiseNetworkState
from bayesprop.numerics.dense import one_blas_thread

LEAST_ROWS = 50
"""Rows below which nothing is judged by leaving them out."""

LEAST_REPEATED = 10
"""Inputs that stand for more than one row, below which nothing is learnt of what comes back."""

LOG_STEP, LOG_OWN_STEP, MOST_STEPS = 0.25, 0.5, 16
"""Of the logarithms of the factor of the noise variance, and of what of it does not come back."""

LEAST_LOG_OWN = -LOG_OWN_STEP * MOST_STEPS
"""Log of the least share that does not come back: a three thousandth."""

CONVINCING = 2.0
"""Standard errors by which rows left out must gain for anything to stay."""

MOST_LOG_NOISE_VAR = 2.0 * TILT_LIMIT
"""Variance of the log noise variance beyond which the bound sees none, and no more is predicted.

What the bound does not see keeps its prior: a log-normal whose mean can be e to the hundredth.
"""


def with_residual(
    state: NoiseNetworkState,
    rows: Rows,
    distinct: Rows,
    gone: Int[np.ndarray, " n"],
    left_out: LeftOut,
    settings: NoiseNetworkSettings,
) -> NoiseNetworkState:
    """Return a trained state with what rows left out say of its residuals and its noise.

    distinct, gone
        `rows.distinct()`, of which some are left out.
    """
    rng = np.random.default_rng([state.seed % 2**32, 4])
    n = len(left_out.some)
    if n < LEAST_ROWS:
        return state
    kept = np.sort(rng.permutation(n)[: residual_process.MOST_ROWS])
    some = left_out.some[kept]
    x, weight = (np.asarray(part[some], np.float64) for part in (distinct.x, distinct.weight))
    said = outputs(state, x)._replace(m=left_out.m[:, kept], v=left_out.v[:, kept])
    # The time goes with the cube of it, and with the number of outputs.
    n_evidence = int(residual_process.ROWS_OF_EVIDENCE / np.cbrt(state.n_outputs))
    n_evidence *= settings.learns_residual
    with one_blas_thread():
        judged = []
        for o in range(state.n_outputs):
            one, targets = _Output.of(state, said, o), _Targets.of(rows, gone, some, o)
            judged.append(_judged(rng, one, x, targets, weight, n_evidence))
        residual = residual_process.process(rng, x, [one.fitted for one in judged])
    log_ratio = np.array([one.log_ratio for one in judged], np.float32)
    state = state._replace(residual=residual, log_noise_ratio=log_ratio)
    if not any(one.log_own for one in judged):
        return state
    said, (m, v) = outputs(state, distinct.x), residual.moments(distinct.x)
    said.m[:, left_out.some], said.v[:, left_out.some] = left_out.m, left_out.v
    for o, one in enumerate(judged):
        if one.fitted is not None:
            m[some, o], v[some, o] = one.fitted.m, one.fitted.v
    said = said._replace(m=said.m + m, v=said.v + v)
    return state._replace(known=_known(state, rows, distinct, gone, said, judged))


def _known(
    state: NoiseNetworkState,
    rows: Rows,
    distinct: Rows,
    gone: Int[np.ndarray, " n"],
    said: NoisyOutput,
    judged: list[_Judged],
) -> KnownRows:
    """Tell what comes next at all inputs of the table from what was said of them left out."""
    log_own = np.array([one.log_own for one in judged], np.float32)
    m, v = np.zeros_like(distinct.y), np.zeros_like(distinct.y)
    for o in map(int, np.flatnonzero(log_own)):
        targets = _Targets.of(rows, gone, np.arange(len(distinct.x)), o)
        there = _Output.of(state, said, o).predictive(judged[o].log_ratio)
        moments = there.mean, there.epistemic_var, there.noise_var
        m[:, o], v[:, o] = known_rows.recalled(*moments, judged[o].log_own, *targets.means())
    return KnownRows.of(distinct.x, m, v, log_own)


class _Targets(NamedTuple):
    """Targets y (r,) of n different inputs, how often each counts, and the number of its inputs."""

    y: Float[np.ndarray, " r"]
    weight: Float[np.ndarray, " r"]
    at: Int[np.ndarray, " r"]
    n: int

    @classmethod
    def of(
        cls, rows: Rows, gone: Int[np.ndarray, " a"], some: Int[np.ndarray, " n"], o: int
    ) -> _Targets:
        """Take those whose inputs are among some."""
        number = np.full(gone.max() + 1, -1)
        number[some] = np.arange(len(some))
        ours = (number[gone] >= 0) & (rows.weight > 0.0)
        y, weight = rows.y[ours, o].astype(np.float64), rows.weight[ours].astype(np.float64)
        weight *= rows.n_total / rows.weight.sum(dtype=np.float64)
        return cls(y, weight, number[gone[ours]], len(some))

    def sums(self, values: Float[np.ndarray, " r"]) -> Float[np.ndarray, " n"]:
        """Add up what the targets of the same inputs have, as often as each counts."""
        return np.bincount(self.at, self.weight * values, self.n)

    def means(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """How often the targets of every input count, and their mean; 0 of none."""
        count, total = self.sums(np.ones_like(self.y)), self.sums(self.y)
        return count, np.divide(total, count, out=np.zeros_like(total), where=count > 0.0)

    def others(self) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
        """How often the other targets of the same inputs count, and their mean; 0 of none."""
        count = self.sums(np.ones_like(self.y))[self.at] - self.weight
        total = self.sums(self.y)[self.at] - self.weight * self.y
        is_alone = np.bincount(self.at, minlength=self.n)[self.at] == 1
        count[is_alone] = 0.0
        return count, np.divide(total, count, out=np.zeros_like(total), where=~is_alone)


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

    def at(self, rows: Int[np.ndarray, " r"]) -> _Output:
        m, v, l_m, l_v, dof = self.said
        parts = (part[:, rows] for part in (m, v, l_m, l_v))
        return self._replace(said=NoisyOutput(*parts, dof=dof))

    def agreed(self, m: Float[np.ndarray, " n"], v: Float[np.ndarray, " n"]) -> _Output:
        shape = self.said.m.shape
        said = self.said._replace(m=np.broadcast_to(m, shape), v=np.broadcast_to(v, shape))
        return self._replace(said=said)

    def best(self, targets: _Targets) -> tuple[float, Float[np.ndarray, " n"]]:
        """Log of the factor of the noise, and the log-likelihoods with it."""
        there = self.at(targets.at)

        def scores(step: int) -> Float[np.ndarray, " n"]:
            return targets.sums(there.predictive(step * LOG_STEP).log_prob(targets.y))

        step, found = _nearest_to_best(scores, (-1, 1))
        return step * LOG_STEP, found

    def own_share(self, targets: _Targets, log_ratio: float) -> float:
        """Log of the share of the noise that does not come back with the inputs."""
        count, mean = targets.others()
        again = count > 0.0
        number, at = np.unique(targets.at[again], return_inverse=True)
        if len(number) < LEAST_REPEATED:
            return 0.0
        these = _Targets(targets.y[again], targets.weight[again], at, len(number))
        there, count, mean = self.at(targets.at[again]), count[again], mean[again]
        said = there.predictive(log_ratio)

        def scores(step: int) -> Float[np.ndarray, " n"]:
            log_own = step * LOG_OWN_STEP
            moments = said.mean, said.epistemic_var, said.noise_var
            known = there.agreed(*known_rows.recalled(*moments, log_own, count, mean))
            return these.sums(known.predictive(log_ratio + log_own).log_prob(these.y))

        step, found = _nearest_to_best(scores, (-1,))
        return 0.0 if is_near(found - scores(0), CONVINCING) else step * LOG_OWN_STEP


def _nearest_to_best(
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


class _Judged(NamedTuple):
    """What rows left out leave of one output.

    fitted
        The process, if rows speak for it.
    log_ratio, log_own
        Logs of the factor of the noise, and of the share of it that does not come back.
    """

    fitted: residual_process.Fitted | None
    log_ratio: float
    log_own: float


def _judged(
    rng: np.random.Generator,
    of_members: _Output,
    x: Float[np.ndarray, "n d"],
    targets: _Targets,
    weight: Float[np.ndarray, " n"],
    n_evidence: int,
) -> _Judged:
    log_ratio, before = of_members.best(targets)
    if not n_evidence:
        return _Judged(None, log_ratio, 0.0)
    said, (_, mean) = of_members.predictive(0.0), targets.means()
    total = said.noise_var + said.f_var.mean(axis=0)
    fitted = residual_process.fit(rng, x, mean - said.mean, total, weight, n_evidence)
    moved = of_members.moved(fitted.m, fitted.v)
    with_process, after = moved.best(targets)
    if is_near(after - before, CONVINCING):
        return _Judged(None, log_ratio, of_members.own_share(targets, log_ratio))
    return _Judged(fitted, with_process, moved.own_share(targets, with_process))


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


def recall(
    state: NoiseNetworkState, x: Float[np.ndarray, "n d"], said: NoisyOutput
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
