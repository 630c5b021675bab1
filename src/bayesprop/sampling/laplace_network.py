"""A network with Laplace's approximation around it, as a method.

Trained for some epochs to the mode of the posterior, under Gaussian priors; then precisions and
noise are chosen by the evidence; and so on, n_rounds times over (MacKay 1992). The mathematics of
the approximation is `laplace.py`'s.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import MOST_ROWS, Learned
from bayesprop.model.progress import Progress
from bayesprop.networks.gradient_method import Apply, GradientMethod, Info, Parameters, State
from bayesprop.networks.likelihoods import GaussianNoise, NetworkLikelihood, of_output_moments
from bayesprop.networks.training import NetworkState, Trained, TrainedNetwork
from bayesprop.numerics import LOG_2PI
from bayesprop.numerics.devices import gathered
from bayesprop.numerics.evidence import Ascent
from bayesprop.numerics.filling import blocks, filled, padded
from bayesprop.numerics.gaussian_logits import PREDICTIONS, Logits, log_odds
from bayesprop.numerics.loops import Batch
from bayesprop.numerics.machine import in_float64
from bayesprop.numerics.rows import Rows
from bayesprop.sampling import laplace
from bayesprop.sampling.curvature import Structure
from bayesprop.sampling.jacobians import tangent_apply
from bayesprop.sampling.laplace import LaplaceModel, Posterior
from bayesprop.sampling.point_network import point_network

_FEW_STEPS, _STEPS = 5, 200
_TRAINING_TIME = 0.7
"""Share of the time left that epochs may take; the rest is for the curvature after them."""


class LaplaceState(NamedTuple):
    """Network at the mode, and the Gaussian around it.

    mode
        Parameters, and the memory of their optimiser.
    prior_prec
        Precision of the prior of every leaf of the weights; constant while training.
    root
        As `Posterior` has it; empty while training.
    """

    mode: State
    prior_prec: Float[Array, " l"]
    root: PyTree = ()


def laplace_draws(
    apply: Apply,
    likelihood: NetworkLikelihood,
    optimizer: optax.GradientTransformation,
    structure: Structure,
    prior_prec: float,
) -> GradientMethod:
    """Build training to the mode under priors N(0, 1 / p), one p a leaf; draws of the posterior.

    structure
        Shape of the curvature.
    prior_prec
        Of every leaf at the start.
    """
    model = LaplaceModel(apply, likelihood, structure)

    def penalty(precs: Float[Array, " l"], weights: PyTree) -> Float[Array, ""]:
        leaves = jax.tree.leaves(weights)
        squares = jnp.stack([jnp.sum(leaf**2) for leaf in leaves])
        sizes = jnp.array([leaf.size for leaf in leaves], precs.dtype)
        return 0.5 * jnp.sum(precs * squares - sizes * (jnp.log(precs) - LOG_2PI))

    def training(precs: Float[Array, " l"]) -> GradientMethod:
        return point_network(apply, likelihood, optimizer, prior=partial(penalty, precs))

    def init(key: PRNGKeyArray, weights: PyTree) -> LaplaceState:
        precs = jnp.full(len(jax.tree.leaves(weights)), prior_prec, jnp.float32)
        return LaplaceState(training(precs).init(key, weights), precs)

    def update(key: PRNGKeyArray, state: LaplaceState, batch: Batch) -> tuple[LaplaceState, Info]:
        mode, info = training(state.prior_prec).update(key, state.mode, batch)
        return state._replace(mode=mode), info

    def sample(key: PRNGKeyArray, state: LaplaceState) -> Parameters:
        return laplace.sample(model, key, Posterior(state.mode.params, state.root))

    def mean(state: LaplaceState) -> Parameters:
        return state.mode.params

    return GradientMethod(apply, likelihood, init, update, sample, mean)


@lru_cache(maxsize=64)
def _linearised(method: GradientMethod, model: LaplaceModel) -> GradientMethod:
    """Return the method that draws linearised networks; always the very same."""

    def sample(key: PRNGKeyArray, state: LaplaceState) -> Parameters:
        return laplace.sample_linear(model, key, Posterior(state.mode.params, state.root))

    return method._replace(apply=tangent_apply(model.apply), sample=sample)


@dataclass(frozen=True)
class LaplaceNetwork(TrainedNetwork):
    """Trains to the mode; predicts by the network linearised there, or by draws.

    model
        Network, likelihood and the shape of the posterior, those of `gradient`.
    prior
        Precisions that the evidence chooses, as `laplace` takes it.
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
    prior: laplace.Prior
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
        started, network = time.perf_counter(), start.network
        laplace.check_memory(self.model, network.mode.params.weights, self.max_gigabytes)
        n_rounds = min(self.n_rounds, self.n_epochs)
        edges = [self.n_epochs * turn // n_rounds for turn in range(n_rounds + 1)]
        rounds: list[tuple[Trained, Ascent]] = []
        for turn, n_epochs in enumerate(np.diff(edges).tolist()):
            part = replace(self, n_epochs=n_epochs)
            within = f"round {turn + 1} of {n_rounds}" if n_rounds > 1 else ""
            here = turn / n_rounds, (turn + 1) / n_rounds
            in_time = progress.part(*here, within, time_share=_TRAINING_TIME)
            mode = start._replace(network=network._replace(root=()))
            trained = part.train(rows, mode, epoch, in_time)
            # What is to be trained further needs no exact maximum.
            max_steps = _FEW_STEPS if len(rounds) + 1 < n_rounds else _STEPS
            network, ascent = self._approximated(trained.state, rows, max_steps)
            rounds.append((trained, ascent))
            epoch += len(trained.trace["loss"])
            if trained.n_undone or in_time.is_over:
                in_time.is_cut(turn + 1, n_rounds, "rounds")
                break
        report = self._report(rounds, rows, time.perf_counter() - started)
        return Learned(start._replace(network=gathered(network)), report, epoch)

    @in_float64
    def _approximated(
        self, state: LaplaceState, rows: Rows, max_steps: int
    ) -> tuple[LaplaceState, Ascent]:
        """Approximate the posterior in float64, and put noise and precisions to its evidence."""
        posterior, ascent = laplace.laplace(
            self.model,
            _wide(state.mode.params),
            filled(rows, blocks(len(rows.x), 64)),
            prior_prec=np.asarray(state.prior_prec, np.float64),
            prior=self.prior,
            max_steps=max_steps,
            max_gigabytes=self.max_gigabytes,
        )
        as_float32 = partial(jnp.asarray, dtype=np.float32)
        likelihood = jax.tree.map(as_float32, posterior.mode.likelihood)
        mode = state.mode._replace(params=state.mode.params._replace(likelihood=likelihood))
        prior_prec = as_float32(ascent.point.prior_prec)
        return LaplaceState(mode, prior_prec, posterior.root), ascent

    def _report(
        self, rounds: list[tuple[Trained, Ascent]], rows: Rows, seconds: float
    ) -> FitReport:
        """Report all rounds of training, and the course of the evidence in the units of y."""
        trained, ascent = rounds[-1]
        trace = {
            name: [value for one, _ in rounds for value in one.trace[name]]
            for name in trained.trace
        }
        report = self.account(trained._replace(trace=trace), len(rows.x), seconds)
        mass = float(np.sum(rows.weights))
        in_units = self.log_unit * mass
        evidences = [value - in_units for _, one in rounds for value in one.trace]
        guards = {
            "evidence_steps_replaced": sum(one.n_repaired for _, one in rounds),
            "evidence_not_converged": int(not ascent.converged),
        }
        return replace(
            report,
            guards=report.guards | guards,
            trace=trace | {"log_evidence": evidences},
            log_evidence={"laplace": evidences[-1]},
            warnings=report.warnings + _advice(ascent),
        )

    def predict(self, state: NetworkState, x: np.ndarray) -> Predictive | ClassPredictive:
        """Predict in closed form, or by draws."""
        if not self.is_linearised:
            return super().predict(state, x)
        f, cov = self.output_moments(state, x)
        likelihood = self.gradient.likelihood
        if not isinstance(likelihood, GaussianNoise):
            return ClassPredictive.of_codes(*PREDICTIONS[self.integral](log_odds(Logits(f, cov))))
        v = np.maximum(np.diagonal(cov, axis1=1, axis2=2), 0.0)
        return of_output_moments(likelihood, state.network.mode.params.likelihood, f, v)

    @in_float64
    def output_moments(self, state: NetworkState, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (n, k) and covariances (n, k, k) of the linearised network's outputs, float64."""
        posterior = _wide(Posterior(state.network.mode.params, state.network.root))
        moments = laplace.predict_linearised(self.model, posterior, jnp.asarray(padded(x)))
        return np.asarray(moments.m)[: len(x)], np.asarray(moments.cov)[: len(x)]

    @property
    def drawing(self) -> GradientMethod:
        """Method that draws networks; linearised ones, where predictions are."""
        return _linearised(self.gradient, self.model) if self.is_linearised else self.gradient

    @property
    def state_kind(self) -> NetworkState:
        """A state of the shapes of this network."""
        example = super().state_kind
        shapes = laplace.leaf_shapes(example.network.mode.params.weights)
        with jax.enable_x64(True):
            root = self.model.structure.shape_of_root(shapes)
        return example._replace(network=example.network._replace(root=root))


def _advice(ascent: Ascent) -> list[str]:
    if ascent.converged:
        return []
    return [
        f"the evidence still rose after {len(ascent.trace) - 1} steps, so that prior precisions "
        "and noise are not at its maximum: choose prior_prec='one', or give it as a number"
    ]


def _wide(tree: PyTree) -> PyTree:
    return jax.tree.map(partial(jnp.asarray, dtype=np.float64), tree)
