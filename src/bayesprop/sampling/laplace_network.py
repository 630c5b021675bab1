"""A network with Laplace's approximation around it, as a method.

Trained for some epochs to the mode of the posterior, under Gaussian priors; then precisions and
noise are chosen by the evidence; and so on, n_rounds times over (MacKay 1992). The mathematics of
the approximation is `laplace.py`'s.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from bayesprop import codec
from bayesprop.codec import Stored
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import MOST_ROWS, Learned
from bayesprop.model.progress import Progress
from bayesprop.networks import draws
from bayesprop.networks.gradient_method import Apply, Draw, GradientMethod, Info
from bayesprop.networks.likelihoods import GaussianNoise, NetworkLikelihood, of_output_moments
from bayesprop.networks.training import NetworkState, Trained, TrainedNetwork
from bayesprop.numerics import LOG_2PI
from bayesprop.numerics.devices import gathered
from bayesprop.numerics.filling import blocks, filled, padded
from bayesprop.numerics.gaussian_logits import PREDICTIONS, Logits, log_odds
from bayesprop.numerics.loops import Batch
from bayesprop.numerics.machine import in_float64
from bayesprop.numerics.rows import Rows
from bayesprop.sampling import laplace
from bayesprop.sampling.curvature import Structure
from bayesprop.sampling.jacobians import tangent_apply
from bayesprop.sampling.laplace import Evidence, Fitted, LaplaceModel, Posterior
from bayesprop.sampling.point_network import PointState, point_network

_FEW_STEPS, _STEPS = 5, 200
_TRAINING_TIME = 0.7
"""Share of the time left that epochs may take; the rest is for the curvature after them."""


class ModeState(NamedTuple):
    """What training to a mode carries.

    weights, likelihood
        Of the network, and of the likelihood.
    optimizer
        What the optimiser remembers.
    prior_prec
        Precision of the prior of every leaf of the weights; constant while training.
    """

    weights: Any
    likelihood: Any
    optimizer: Any
    prior_prec: Float[Array, " l"]


def laplace_draws(
    apply: Apply,
    likelihood: NetworkLikelihood,
    optimizer: optax.GradientTransformation,
    structure: Structure,
    prior_prec: float,
) -> GradientMethod:
    """Build training to the mode under priors N(0, 1 / p), one p a leaf; draws of the posterior.

    The state of training is a `ModeState`, that of draws a `Posterior` at one.

    structure
        Shape of the curvature.
    prior_prec
        Of every leaf at the start.
    """
    model = LaplaceModel(apply, likelihood, structure)

    def penalty(precs: Float[Array, " l"], weights: Any) -> Float[Array, ""]:
        leaves = jax.tree.leaves(weights)
        squares = jnp.stack([jnp.sum(leaf**2) for leaf in leaves])
        sizes = jnp.array([leaf.size for leaf in leaves], precs.dtype)
        return 0.5 * jnp.sum(precs * squares - sizes * (jnp.log(precs) - LOG_2PI))

    def training(precs: Float[Array, " l"]) -> GradientMethod:
        return point_network(apply, likelihood, optimizer, prior=partial(penalty, precs))

    def init(key: PRNGKeyArray, weights: Any) -> ModeState:
        precs = jnp.full(len(jax.tree.leaves(weights)), prior_prec, jnp.float32)
        point: PointState = training(precs).init(key, weights)
        return ModeState(*point, precs)

    def update(key: PRNGKeyArray, state: ModeState, batch: Batch) -> tuple[ModeState, Info]:
        *point, precs = state
        (weights, noise, memory), info = training(precs).update(key, PointState(*point), batch)
        return ModeState(weights, noise, memory, precs), info

    def mean(state: ModeState) -> Draw:
        return Draw(state.weights, state.likelihood)

    return GradientMethod(init, update, partial(laplace.sample, model), mean)


@lru_cache(maxsize=64)
def _linear_draws(model: LaplaceModel) -> tuple[Any, Any]:
    """Return the linearised network and how its weights are drawn; always the very same."""
    return tangent_apply(model.apply), partial(laplace.sample_linear, model)


@dataclass(frozen=True)
class LaplaceNetwork(TrainedNetwork):
    """Trains to the mode; predicts by the network linearised there, or by draws.

    model
        Network, likelihood and the shape of the posterior, those of `built`.
    prior
        Precisions that the evidence chooses, as `Evidence` takes it.
    n_rounds
        How often the evidence chooses; no more often than there are epochs.
    is_linearised
        Whether predictions are in closed form; else by draws.
    max_gigabytes
        Of memory for the curvature.
    integral
        Over the Gaussian logits, one of `gaussian_logits.PREDICTIONS`.
    log_unit
        Log of one standardised unit of the targets, summed: the evidence is reported in theirs.
    """

    model: LaplaceModel
    prior: str
    n_rounds: int
    is_linearised: bool
    max_gigabytes: float
    integral: str = "quadrature"
    log_unit: float = 0.0

    replays = False

    @property
    def rows_at_once(self) -> int:
        """Rows of a prediction at a time."""
        return MOST_ROWS if self.is_linearised else super().rows_at_once

    def learned(self, rows: Rows, start: NetworkState, epoch: int, progress: Progress) -> Learned:
        """Train, and choose precisions and noise by the evidence, n_rounds times over."""
        started, mode = time.perf_counter(), start
        if isinstance(start.network, Posterior):
            mode = start._replace(network=start.network.mode)
        laplace.check_memory(self.model, mode.network.weights, self.max_gigabytes)
        n_rounds = min(self.n_rounds, self.n_epochs)
        edges = [self.n_epochs * turn // n_rounds for turn in range(n_rounds + 1)]
        rounds: list[tuple[Trained, Fitted]] = []
        for turn, n_epochs in enumerate(np.diff(edges).tolist()):
            part = replace(self, n_epochs=n_epochs)
            within = f"round {turn + 1} of {n_rounds}" if n_rounds > 1 else ""
            here = turn / n_rounds, (turn + 1) / n_rounds
            in_time = progress.part(*here, within, time_share=_TRAINING_TIME)
            trained = part.train(rows, mode, epoch, in_time)
            # What is to be trained further needs no exact maximum.
            max_steps = _FEW_STEPS if len(rounds) + 1 < n_rounds else _STEPS
            rounds.append((trained, self._approximated(trained, rows, max_steps)))
            mode = mode._replace(network=self._at_evidence(*rounds[-1]))
            epoch += len(trained.trace["loss"])
            if trained.n_undone or in_time.is_over:
                in_time.is_cut(turn + 1, n_rounds, "rounds")
                break
        state = gathered(Posterior(mode.network, rounds[-1][1].posterior.root))
        report = self._report(rounds, rows, time.perf_counter() - started)
        return Learned(mode._replace(network=state), report, epoch)

    @in_float64
    def _approximated(self, trained: Trained, rows: Rows, max_steps: int) -> Fitted:
        """Approximate the posterior, in float64."""
        return laplace.laplace(
            self.model,
            _wide(self.built.gradient.mean(trained.state)),
            filled(rows, blocks(len(rows.x), 64)),
            prior_prec=np.asarray(trained.state.prior_prec, np.float64),
            evidence=Evidence(self.prior, max_steps=max_steps),
            max_gigabytes=self.max_gigabytes,
        )

    def _at_evidence(self, trained: Trained, fitted: Fitted) -> ModeState:
        """Put what the evidence chose in its place."""
        as_float32 = partial(jnp.asarray, dtype=np.float32)
        likelihood = jax.tree.map(as_float32, fitted.posterior.mode.likelihood)
        prec = as_float32(fitted.evidence.point.prior_prec)
        return trained.state._replace(likelihood=likelihood, prior_prec=prec)

    def _report(
        self, rounds: list[tuple[Trained, Fitted]], rows: Rows, seconds: float
    ) -> FitReport:
        """Report all rounds of training, and the course of the evidence in the units of y."""
        trained, fitted = rounds[-1]
        trace = {
            name: [value for one, _ in rounds for value in one.trace[name]]
            for name in trained.trace
        }
        report = self.account(trained._replace(trace=trace), len(rows.x), seconds)
        mass = len(rows.x) if rows.weight is None else float(np.sum(rows.weight))
        in_units = self.log_unit * mass
        evidences = [value - in_units for _, one in rounds for value in one.evidence.trace]
        guards = {
            "evidence_steps_replaced": sum(one.evidence.n_repaired for _, one in rounds),
            "evidence_not_converged": int(not fitted.evidence.converged),
        }
        return replace(
            report,
            guards=report.guards | guards,
            trace=trace | {"log_evidence": evidences},
            log_evidence={"laplace": evidences[-1]},
            warnings=report.warnings + _advice_on(fitted),
        )

    def predict(self, state: NetworkState, x: np.ndarray) -> Predictive | ClassPredictive:
        """Predict in closed form, or by draws."""
        if not self.is_linearised:
            return super().predict(state, x)
        f, cov = self.output_moments(state, x)
        likelihood = self.built.likelihood
        if not isinstance(likelihood, GaussianNoise):
            return ClassPredictive.of_codes(*PREDICTIONS[self.integral](log_odds(Logits(f, cov))))
        v = np.maximum(np.diagonal(cov, axis1=1, axis2=2), 0.0)
        return of_output_moments(likelihood, state.network.mode.likelihood, f, v)

    @in_float64
    def output_moments(self, state: NetworkState, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (n, k) and covariances (n, k, k) of the linearised network's outputs, float64."""
        mode, root = state.network
        posterior = _wide(Posterior(self.built.gradient.mean(mode), root))
        moments = laplace.predict_linearised(self.model, posterior, jnp.asarray(padded(x)))
        return np.asarray(moments.mean)[: len(x)], np.asarray(moments.cov)[: len(x)]

    def observed(self, state: NetworkState, x: Any, key: Any, n_draws: int) -> draws.Observed:
        """Predict by networks drawn from the posterior; linearised ones, where predictions are."""
        if not self.is_linearised:
            return super().observed(state, x, key, n_draws)
        likelihood: Any = self.built.likelihood
        apply, sample = _linear_draws(self.model)
        return draws.observations(apply, sample, likelihood, key, state.network, x, n_draws=n_draws)

    def from_stored(self, stored: Stored) -> NetworkState:
        """Rebuild what `to_stored` gave; ValueError where it does not fit this network."""
        mode = jax.eval_shape(partial(self.started, 0))
        with jax.enable_x64(True):
            root = self.model.structure.shape_of_root(laplace.leaf_shapes(mode.weights))
        return codec.read(NetworkState(Posterior(mode, root), cast(Any, int)), stored)


def _advice_on(fitted: Fitted) -> list[str]:
    advice = []
    if not fitted.evidence.converged:
        advice.append(
            f"the evidence still rose after {len(fitted.evidence.trace) - 1} steps, so that "
            "prior precisions and noise are not at its maximum: choose prior_prec='one', or "
            "give it as a number"
        )
    return advice


def _wide(tree: Any) -> Any:
    return jax.tree.map(partial(jnp.asarray, dtype=np.float64), tree)
