"""Bayesian linear regression as a method: a basis learnt once, and exact statistics of all rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop import codec
from bayesprop.distributions.measured import TrueInputs
from bayesprop.distributions.predictive import GaussianPredictive, Predictive, StudentTPredictive
from bayesprop.linear import bases, regression, sums
from bayesprop.linear.bases import ARD, Basis, PriorChoice
from bayesprop.linear.regression import LinearPosterior, Maximised, NoisePrior
from bayesprop.linear.sums import Statistics
from bayesprop.model.fit_report import CONSTANT_TARGET, FitReport
from bayesprop.model.method import MOST_ROWS, Drawn, Learned, merged_report
from bayesprop.model.progress import Progress
from bayesprop.numerics.graphs import Node, NumberNodes, affine, side_by_side
from bayesprop.numerics.rows import Rows

_ROWS_AT_ONCE = 65_536
_MOST_ROUNDS, _LEAST_SHARE = 100, 1e-6  # of the noise, if errors of inputs explain the rest
_NO_NOISE = (
    "errors as large as X_std explain all noise of the target: check whether X_std is too large"
)
_N_MATRICES = 6  # that learning holds at once, of all weights by all weights: by tracemalloc
LearnBasis = Callable[[np.ndarray, np.ndarray | None, np.random.RandomState], Basis | None]
"""From rows and their weights to a basis; None stands for the inputs themselves."""


class LinearState(NamedTuple):
    """What learning leaves.

    log_evidence
        log p(y | X), nats, in the original units of y, summed over outputs.
    input_share
        Share of the variance of the rows that came from errors of their inputs, and is not in the
        noise of `posterior`; None: inputs were exact.
    """

    basis: Basis | None
    statistics: Statistics
    posterior: LinearPosterior
    log_evidence: float
    input_share: float | None = None


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Conditions on rows exactly, whatever their order and number at a time.

    log_unit
        Log of one standardised unit of every target, in the original units, summed.
    prior
        Needs a number where the noise has a conjugate prior.
    noise
        Variance of every output, (o,); its conjugate prior; or None: it maximises the evidence.
    integrates_noise
        Whether noise that maximises the evidence is then integrated out, for Student-t predictions.
    max_steps
        Most steps of the maximisation of the evidence, for every output.
    furthest_input
        How many training standard deviations from the mean an input may lie.
    """

    n_inputs: int
    n_outputs: int
    log_unit: float
    learn_basis: LearnBasis
    prior: PriorChoice
    noise: Float[np.ndarray, " o"] | NoisePrior | None
    max_steps: int
    furthest_input: float
    integrates_noise: bool = False

    rows_at_once = MOST_ROWS
    state_kind = LinearState

    def fit(self, rows: Rows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Learn from scratch."""
        return self.absorb(rows, None, rng, progress)

    def fit_measured(
        self, rows: Rows, inputs: TrueInputs, rng: np.random.RandomState
    ) -> Learned | None:
        """Learn from inputs with errors: y | measured ~ N(w' mean, noise_var + w' cov w).

        None where that does not hold: with a basis, several targets or conjugate noise.

        The moments are of the true inputs given the measured ones. Rows are divided by the root of
        their variance over the mean one, until that stays: for equal errors the maximum of the
        likelihood of y and X, else without what variances tell about w.
        """
        basis = self.learn_basis(rows.x, rows.weight, rng)
        if self.n_outputs > 1 or isinstance(self.noise, NoisePrior) or basis is not None:
            return None
        weight = rows.weights
        learned, input_var = self._given_noise(rows, inputs, np.ones(len(weight)))
        noise_var = float(learned.state.posterior.noise_var[0])
        noise, growth = np.full(len(weight), noise_var), np.ones(len(weight))
        for _ in range(_MOST_ROUNDS):
            before, noise = noise, noise_var + input_var
            if np.allclose(noise, before, rtol=1e-9, atol=0.0):
                break
            usual = weight @ noise / weight.sum() if self.noise is None else noise_var
            growth = noise / usual
            learned, input_var = self._given_noise(rows, inputs, growth)
            if self.noise is None:
                excess = float(learned.state.posterior.noise_var[0]) / usual - 1.0
                step = excess * weight.sum() / (weight @ (1.0 / noise))
                noise_var = max(noise_var + step, 0.1 * noise_var, 0.5 * _LEAST_SHARE * usual)
        log_evidence = learned.state.log_evidence - 0.5 * float(weight @ np.log(growth))
        share = float(weight @ input_var / (weight @ noise))
        posterior = learned.state.posterior._replace(noise_var=np.array([noise_var]))
        state = learned.state._replace(
            posterior=posterior, log_evidence=log_evidence, input_share=share
        )
        report = replace(learned.report, log_evidence={"exact": log_evidence})
        if share > 1.0 - _LEAST_SHARE:
            report = replace(report, warnings=[*report.warnings, _NO_NOISE])
        return learned._replace(state=state, report=report)

    def _given_noise(
        self, rows: Rows, inputs: TrueInputs, growth: Float[np.ndarray, " n"]
    ) -> tuple[Learned, Float[np.ndarray, " n"]]:
        """Learn from means of inputs and relative variances; and E[w' cov w] of every row."""
        started, phi = time.perf_counter(), bases.design(None, inputs.mean)
        statistics = sums.update(sums.init(phi.shape[1]), phi, rows.y, rows.weights / growth)
        statistics = statistics._replace(weight_sum=float(rows.weights.sum()))
        learned = self._learned(None, statistics, len(phi), started)
        mean, root = (part[0, 1:] for part in learned.state.posterior[1:3])
        square = (np.outer(mean, mean) + root @ root.T)[np.ix_(inputs.columns, inputs.columns)]
        return learned, np.einsum("mde,de->m", inputs.cov, square)[inputs.kind]

    def absorb(
        self,
        rows: Rows,
        before: Learned | None,
        rng: np.random.RandomState,
        progress: Progress,
    ) -> Learned:
        """Condition on rows; the first of a stream decide on the basis."""
        del progress
        started = time.perf_counter()
        if before is None:
            basis = self.learn_basis(rows.x, rows.weight, rng)
            n_columns = bases.design(basis, rows.x[:1]).shape[1]
            bases.check_memory(_N_MATRICES, n_columns)
            statistics = sums.init(n_columns, self.n_outputs)
        else:
            _check_exact([before])
            basis, statistics = before.state.basis, before.state.statistics
        for first in range(0, len(rows.x), _ROWS_AT_ONCE):
            part = slice(first, first + _ROWS_AT_ONCE)
            weight = None if rows.weight is None else rows.weight[part]
            phi = bases.design(basis, rows.x[part])
            statistics = sums.update(statistics, phi, rows.y[part], weight)
        # Further rows move precisions little; relevance that was lost would not come back.
        near = None if before is None or self.prior.prec == ARD else before.state.posterior
        return self._learned(basis, statistics, len(rows.x), started, near)

    def without_rows(self, learned: Learned) -> Learned:
        """Return the prior of what was learnt, with its basis."""
        none = sums.init(*learned.state.statistics.target.shape)
        state = learned.state._replace(statistics=none)
        return Learned(state, merged_report([], [], {}), 0)

    def combined(self, parts: Sequence[Learned], powers: Sequence[float]) -> Learned:
        """Add up the statistics of the parts, each times its power, and infer from them."""
        started = time.perf_counter()
        _check_exact(parts)
        statistics = sums.combined([part.state.statistics for part in parts], powers)
        n_rows = merged_report(parts, powers, {}).n_rows
        return self._learned(parts[0].state.basis, statistics, n_rows, started)

    def re_expressed(self, learned: Learned, change: Float[np.ndarray, "p p"]) -> Learned:
        """Return what is learnt of columns that are linear in these, [1, x, y] new = old change."""
        _check_exact([learned])
        started, before = time.perf_counter(), learned.state.statistics
        statistics = sums.of_factor(
            sums.factor(before) @ change, len(before.design), before.weight_sum
        )
        return self._learned(learned.state.basis, statistics, learned.report.n_rows, started)

    def _learned(
        self,
        basis: Basis | None,
        statistics: Statistics,
        n_rows: int,
        started: float,
        near: LinearPosterior | None = None,
    ) -> Learned:
        """Infer from statistics, and report."""
        best = self._infer(statistics, near)
        log_scale = statistics.weight_sum * self.log_unit
        log_evidence = float(np.sum(best.posterior.log_evidence)) - log_scale
        state = LinearState(basis, statistics, best.posterior, log_evidence)
        report = self._report(state, best, n_rows, time.perf_counter() - started)
        return Learned(state, report, report.n_epochs)

    def _infer(self, statistics: Statistics, near: LinearPosterior | None) -> Maximised:
        """Find the posterior from the statistics."""
        k, o = statistics.target.shape
        prec = self.prior.start(k)
        if isinstance(self.noise, NoisePrior):
            return Maximised(regression.conjugate(statistics, np.tile(prec, (o, 1)), self.noise))
        best = regression.maximise(
            statistics,
            prec,
            self.prior.groups(k),
            noise_var=self.noise,
            near=near,
            max_steps=self.max_steps,
        )
        if not self.integrates_noise:
            return best
        posterior = regression.with_noise_integrated(best.posterior, statistics.weight_sum)
        return best._replace(posterior=posterior)

    def _report(
        self, state: LinearState, best: Maximised, n_rows: int, seconds: float
    ) -> FitReport:
        traces = [ascent.trace for ascent in best.ascents]
        log_scale = state.statistics.weight_sum * self.log_unit
        return FitReport(
            n_rows=n_rows,
            n_epochs=max(map(len, traces), default=1),
            seconds=seconds,
            n_updates=sum(map(len, traces)) or 1,
            guards={
                "steps_repaired": sum(ascent.n_repaired for ascent in best.ascents),
                "noise_at_bound": best.n_noiseless,
                "not_converged": sum(not ascent.converged for ascent in best.ascents),
            },
            trace={"log_evidence": _summed(traces, log_scale)} if traces else {},
            log_evidence={"exact": state.log_evidence},
            warnings=_advice(state.statistics, best, self.max_steps),
            step="step",
        )

    def predict(self, state: LinearState, x: Float[np.ndarray, "n d"]) -> Predictive:
        """Predict Student-t where the noise is integrated out, else Gaussians."""
        posterior = state.posterior
        m, v = regression.predict(posterior, bases.design(state.basis, x))
        noise_var = np.broadcast_to(posterior.noise_var, m.shape)
        if np.isfinite(posterior.dof).all():
            return StudentTPredictive(m, v, noise_var, np.broadcast_to(posterior.dof, m.shape))
        return GaussianPredictive(m, v, noise_var)

    def graph(self, state: LinearState, x: Node) -> NumberNodes:
        """Write `predict` as a graph of ONNX; ValueError for a basis."""
        if state.basis is not None:
            raise ValueError("basis must be None for ONNX: fit the columns of the basis themselves")
        posterior = state.posterior
        spread = [affine(x, root[1:], root[0]) for root in posterior.root]
        v = side_by_side([(each * each).sum() for each in spread])
        m = affine(x, posterior.mean[:, 1:].T, posterior.mean[:, 0])
        return NumberNodes(m, v, posterior.noise_var, posterior.dof)

    def draw(
        self, state: LinearState, x: Float[np.ndarray, "n d"], rng: np.random.RandomState, n: int
    ) -> Drawn:
        """Draw n functions jointly over standardised rows."""
        weights, noise_var = regression.sample(rng, state.posterior, n)
        f = np.einsum("nk,sok->sno", bases.design(state.basis, x), weights)
        return Drawn.of(f, noise_var[:, None, :], rng)

    def features(
        self, state: LinearState, x: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "n o k"]:
        """Return numbers whose inner products are the posterior covariances of the function."""
        return np.einsum("nk,okj->noj", bases.design(state.basis, x), state.posterior.root)

    def check_state(self, state: LinearState) -> None:
        """Raise TypeError for a basis that is code, ValueError for a state of another method."""
        if isinstance(state.basis, bases.Given):
            raise TypeError(
                "a model file holds no code, and this basis is a function or a transformer: apply "
                "it to X before fit, or use basis='polynomial' or 'radial'"
            )
        o = self.n_outputs
        k = bases.design(state.basis, np.zeros((1, self.n_inputs))).shape[1]
        weights, per_output = np.zeros((o, k)), np.zeros(o)
        posterior = LinearPosterior(weights, weights, np.zeros((o, k, k)), *[per_output] * 3)
        example = LinearState(state.basis, sums.init(k, o), posterior, 0.0)
        if codec.shapes(state) != codec.shapes(example):
            raise ValueError(f"the arrays must be those of {k} columns and {o} outputs")
        self._check_noise(state)

    def _check_noise(self, state: LinearState) -> None:
        """Raise ValueError unless the noise is one that this method can have learnt."""
        dof = state.posterior.dof
        if not (state.posterior.noise_var > 0.0).all():
            raise ValueError("the variance of the noise must be > 0")
        if isinstance(self.noise, NoisePrior):
            is_right = dof == 2.0 * self.noise.shape_after(state.statistics.weight_sum)
        elif self.integrates_noise:
            is_right = (dof >= regression.LEAST_DOF) & (dof < np.inf)
        else:
            is_right = dof == np.inf
        if not np.all(is_right):
            raise ValueError(f"the degrees of freedom do not fit the noise, got {dof}")


def _check_exact(parts: Sequence[Learned]) -> None:
    """Raise ValueError where inputs had errors, whose rows go on with no others."""
    if any(part.state.input_share for part in parts):
        raise ValueError(
            "a model that learnt from inputs with errors (X_std) takes no further rows and cannot "
            "be merged: fit all rows together"
        )


def _advice(state: Statistics, best: Maximised, max_steps: int) -> list[str]:
    """Say what a person should know about a fit, in sentences."""
    advice = []
    columns = zip(state.target.T, state.residual.T, strict=True)
    if not all(target.any() or residual.any() for target, residual in columns):
        advice.append(CONSTANT_TARGET)
    elif best.n_noiseless:
        advice.append(
            "the columns explain the target without noise: there are too few rows for them, or "
            "the target was computed from them; give noise a number"
        )
    if not all(ascent.converged for ascent in best.ascents):
        worst = max(ascent.gradient for ascent in best.ascents)
        advice.append(
            f"the evidence was not maximised in {max_steps} steps (it still rises by "
            f"{worst:.2g} nats a unit of log precision): raise max_steps"
        )
    return advice


def _summed(traces: list[list[float]], log_scale: float) -> list[float]:
    """Log evidence of all outputs step by step; one that has converged stays where it is."""
    length = max(map(len, traces))
    padded = [trace + trace[-1:] * (length - len(trace)) for trace in traces]
    return [sum(step) - log_scale for step in zip(*padded, strict=True)]
