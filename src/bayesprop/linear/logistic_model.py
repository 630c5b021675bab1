"""Bayesian logistic regression as a method: a Gaussian over the weights of standardised inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import numpy as np
from jaxtyping import Float

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.linear import bases, logistic
from bayesprop.linear.bases import PriorChoice
from bayesprop.linear.logistic import Gaussian
from bayesprop.linear.logistic_vi import variational
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import FURTHEST_INPUT, MOST_ROWS, Learned, merged_report
from bayesprop.model.progress import Progress
from bayesprop.numerics import gaussian_logits
from bayesprop.numerics.gaussian_logits import logistic_graph, softmax_graph
from bayesprop.numerics.graphs import ClassNodes, Node, affine, side_by_side
from bayesprop.numerics.machine import chunks
from bayesprop.numerics.rows import Rows

_VI, _MONTE_CARLO = "vi", "monte-carlo"
_N_MATRICES = {_VI: 18, "laplace": 9}
"""That a search holds at once, of all weights by all weights: by tracemalloc, 1,620 weights."""
POSTERIORS: dict[str, Callable[..., logistic.Fitted]] = {
    _VI: variational,
    "laplace": logistic.laplace,
}


class LogisticState(NamedTuple):
    """What learning leaves.

    prior_prec
        Precision of the prior of every column's weights, the intercept first.
    log_evidence
        Estimate of log p(y | X), nats; of a stream, summed over its calls.
    """

    posterior: Gaussian
    prior_prec: Float[np.ndarray, " k"]
    log_evidence: float


@dataclass(frozen=True)
class LogisticModel:
    """Approximates the posterior of the weights by a Gaussian.

    posterior, covariance, prediction
        One of `POSTERIORS`; "full" or "diagonal"; one of `PREDICTIONS`.
    n_draws, generator
        Of the predictions by Monte Carlo; `generator()` gives what draws them, at every prediction.
    max_steps
        Most steps of each search.
    """

    n_inputs: int
    n_classes: int
    prior: PriorChoice
    posterior: str
    covariance: str
    prediction: str
    n_draws: int
    max_steps: int
    generator: Callable[[], np.random.RandomState]

    rows_at_once = MOST_ROWS
    furthest_input = FURTHEST_INPUT

    @property
    def n_logits(self) -> int:
        """One of two classes, else one each."""
        return logistic.n_logits(self.n_classes)

    def fit(self, rows: Rows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Learn from scratch."""
        return self.absorb(rows, None, rng, progress)

    def absorb(
        self,
        rows: Rows,
        before: Learned | None,
        rng: np.random.RandomState,
        progress: Progress,
    ) -> Learned:
        """Condition on rows: the Gaussian posterior becomes the prior."""
        del rng
        approximate = self._approximate(progress)

        def on_step(share: float) -> bool:
            progress.report(share, 1.0, "evidence")
            return progress.is_over

        started, best, log_evidence = time.perf_counter(), None, 0.0
        data = Rows(bases.design(None, rows.x), rows.y, rows.weight)
        k = data.x.shape[1]
        bases.check_memory(_N_MATRICES[self.posterior], self.n_logits * k)
        prec = self.prior.start(k)
        try:
            if before is not None:
                _, prec, log_evidence = before.state
                found = approximate(data, before.state.posterior)
            elif self.prior.is_known:
                found = approximate(data, logistic.isotropic_prior(prec, self.n_logits))
            else:
                best = logistic.maximise(
                    data,
                    prec,
                    self.prior.groups(k).number,
                    approximate,
                    self.n_logits,
                    is_bound=self.posterior == _VI,
                    max_steps=self.max_steps,
                    on_step=on_step,
                )
                found, prec = best.fitted, best.prior_prec
        except np.linalg.LinAlgError as error:
            raise ValueError(
                "the precision of the weights must be positive definite in 64 bits, which row "
                f"weights of up to {data.weights.max():.3g} and prior precisions from "
                f"{prec.min():.3g} are not: give smaller sample_weight, or a larger prior_prec or "
                "intercept_prec"
            ) from error
        state = LogisticState(found.posterior, prec, log_evidence + found.log_evidence)
        advice = _advice(found, best, self.max_steps)
        if advice and progress.is_over:
            progress.cut("the posterior is not converged")
            advice = []
        seconds = time.perf_counter() - started
        report = self._report(state, found, best, len(rows.x), seconds, advice)
        return Learned(state, report, report.n_epochs)

    def without_rows(self, learned: Learned) -> Learned:
        """Return the prior of what was learnt, with its precisions."""
        prec = learned.state.prior_prec
        prior = logistic.isotropic_prior(prec, self.n_logits)
        return Learned(LogisticState(prior, prec, 0.0), merged_report([], [], {}), 0)

    def combined(self, parts: Sequence[Learned], powers: Sequence[float]) -> Learned:
        """Multiply the Gaussians, and their evidences as those of factors fitted to them."""
        states = [part.state for part in parts]
        product = _product([state.posterior for state in states], powers)
        state = states[0]
        if product is not None:
            posterior, log_mass = product
            evidences = [state.log_evidence for state in states]
            log_evidence = float(np.dot(powers, evidences)) + log_mass
            state = LogisticState(posterior, state.prior_prec, log_evidence)
        report = merged_report(parts, powers, {"not_a_distribution": int(product is None)})
        return Learned(state, report, 1)

    def _approximate(self, progress: Progress) -> Callable[..., logistic.Fitted]:
        return partial(
            POSTERIORS[self.posterior],
            covariance=self.covariance,
            max_steps=self.max_steps,
            is_over=lambda: progress.is_over,
        )

    def _report(
        self,
        state: LogisticState,
        found: logistic.Fitted,
        best: logistic.Maximised | None,
        n_rows: int,
        seconds: float,
        advice: list[str],
    ) -> FitReport:
        """Say how a posterior was found."""
        trace = found.trace if best is None else best.ascent.trace
        n_steps, is_vi = max(len(trace) - 1, 1), self.posterior == _VI
        name = "elbo" if is_vi else "log_joint" if best is None else "log_evidence"
        is_found = found.converged if best is None else best.converged
        guards = {"not_converged": int(not is_found)}
        if best is not None:
            guards |= {"steps_repaired": best.ascent.n_repaired, "priors_at_widest": best.n_widest}
        return FitReport(
            n_rows=n_rows,
            n_epochs=n_steps,
            seconds=seconds,
            n_updates=n_steps,
            guards=guards,
            trace={name: trace[1:] or trace},
            log_evidence={"lower bound" if is_vi else "laplace": state.log_evidence},
            warnings=advice,
            step="step",
        )

    def predict(self, state: LogisticState, x: Float[np.ndarray, "n d"]) -> ClassPredictive:
        """Average class probabilities over the posterior of the weights."""
        phi, posterior = bases.design(None, x), state.posterior
        if self.prediction == _MONTE_CARLO:
            drawn = posterior.sample(self.generator(), self.n_draws)
            return ClassPredictive.of_codes(*logistic.monte_carlo(drawn, phi))
        integrate = gaussian_logits.PREDICTIONS[self.prediction]
        parts = [
            integrate(logistic.logit_moments(posterior, phi[part]))
            for part in chunks(max(len(phi), 1), self.n_logits**2)
        ]
        return ClassPredictive.of_codes(*map(np.concatenate, zip(*parts, strict=True)))

    def graph(self, state: LogisticState, x: Node) -> ClassNodes:
        """Write `predict` as a graph of ONNX; ValueError but for quadrature."""
        if self.prediction != "quadrature":
            raise ValueError(
                f"ONNX takes prediction='quadrature', got {self.prediction!r}: set it so"
            )
        n, p = self.n_logits, len(state.posterior.mean)
        mean = state.posterior.mean.reshape(n, -1)
        root = state.posterior.root.reshape(n, -1, p)
        m, *spread = (affine(x, w[1:], w[0]) for w in (mean.T, *root))
        if n == 1:
            return logistic_graph(m, (spread[0] * spread[0]).sum())
        rows = side_by_side(spread).reshape(-1, n, p)
        return softmax_graph(m.reshape(-1, 1, n), rows @ rows.mT, n)

    @property
    def state_kind(self) -> LogisticState:
        """A state of the shapes of this method."""
        k = self.n_inputs + 1
        p = self.n_logits * k
        posterior = Gaussian(np.zeros(p), np.zeros((p, p)))
        return LogisticState(posterior, np.zeros(k), cast("float", float))

    def check_state(self, state: LogisticState) -> None:
        """Raise ValueError unless the precisions of prior and posterior are positive."""
        if not (state.prior_prec > 0.0).all() or not np.isfinite(state.posterior.root).all():
            raise ValueError("the precisions of prior and posterior must be > 0")


def _advice(found: logistic.Fitted, best: logistic.Maximised | None, max_steps: int) -> list[str]:
    """Say what a person should know about a fit, in sentences."""
    if not found.converged:
        return [
            f"the posterior was not found in {max_steps} steps (squared gradient "
            f"{found.residual:.2g} in its own metric): raise max_steps, or give prior_prec a "
            "larger number"
        ]
    if best is not None and not best.converged:
        return [
            f"the evidence was not maximised in {max_steps} steps (it still rises by "
            f"{best.ascent.gradient:.2g} nats a unit of log precision): raise max_steps, or give "
            "prior_prec a number"
        ]
    return []


def _product(parts: Sequence[Gaussian], powers: Sequence[float]) -> tuple[Gaussian, float] | None:
    """Multiply Gaussians to powers that add up to 1; None where that is no distribution.

    Also returns the log of the product's integral, nats.

    Natural parameters add; the mass is A(product) - sum of power times A(part), with the log
    partition A(m, P) = (m'P m - log det P) / 2 (Minka 2005, "Divergence measures and message
    passing"; Bui et al. 2018, "Partitioned variational inference", section 2).
    """
    pairs = list(zip(parts, powers, strict=True))
    prec = np.sum([power * one.prec for one, power in pairs], axis=0)
    slope = np.sum([power * one.prec @ one.mean for one, power in pairs], axis=0)
    try:
        root = Gaussian(slope, prec := 0.5 * (prec + prec.T)).root
    except np.linalg.LinAlgError:
        return None
    posterior = Gaussian(root @ (root.T @ slope), prec)
    log_mass = _log_partition(posterior) - np.dot(powers, [*map(_log_partition, parts)])
    return posterior, float(log_mass)


def _log_partition(one: Gaussian) -> float:
    return 0.5 * (float(one.mean @ one.prec @ one.mean) - one.log_det_prec)
