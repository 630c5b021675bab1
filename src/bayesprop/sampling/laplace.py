"""Laplace's approximation of a network's posterior: a Gaussian at the mode.

    q(w) = N(w_map, (H + P)^-1)

H stands for minus the second derivatives of the log-likelihood (MacKay 1992; the lecture prints
neither sign nor logarithm). It is the generalised Gauss-Newton matrix,

    H ~ sum_n J_n' F_n J_n,   J = df/dw,   F the Fisher information of the outputs f,

which is never negative, and for least squares is the Levenberg-Marquardt approximation. H may be
full, diagonal, or a Kronecker product a layer (Ritter, Botev & Barber 2018).

Precisions and noise maximise the evidence. With b the factor of the noise precision, N values
observed, Q their squared residuals over the noise variance, and leaf l of the weights w having n_l
weights of prior precision p_l:

    log p(y) ~ log p(y | w) + sum_l (n_l log p_l - p_l |w_l|²) / 2 - log |b H + P| / 2

(MacKay 1992, "A practical Bayesian framework for backpropagation networks", eq. 3.8; Immer et al.
2021, eq. 5) at fixed w and H. MacKay's fixed point is p = gamma / |w|², b = (N - gamma) / Q, with
gamma = n - p tr (b H + P)^-1 the well-determined weights. It may overshoot: a step that lowers the
evidence is replaced by p = n / (|w|² + tr), b = N / (Q + gamma / b). That one cannot: it maximises
what lies below the evidence and touches it here, because log |b H + P| is concave in b and p.

Predictions are those of the network linearised in its weights, f(x, w_map) + J (w - w_map), whose
outputs are Gaussian with covariance J (H + P)^-1 J' (MacKay 1992; Immer, Korzepa & Bauer 2021), or
averages over networks drawn from q. As a method, a network is trained for some epochs to the mode,
then precisions and noise are chosen by the evidence; and so on, n_rounds times over.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

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
from bayesprop.networks.likelihoods import (
    GaussianNoise,
    LearnedNoise,
    NetworkLikelihood,
    constant_noise,
    of_output_moments,
)
from bayesprop.networks.mlp import ACTIVATIONS, plain_activation
from bayesprop.networks.training import NetworkState, Trained, TrainedNetwork, is_finite
from bayesprop.numerics import LOG_2PI
from bayesprop.numerics.evidence import FIXED, Ascent, Bounds, Groups, Weights, ascend
from bayesprop.numerics.filling import blocks, filled, padded
from bayesprop.numerics.gaussian import Joint
from bayesprop.numerics.gaussian_logits import PREDICTIONS, Logits, log_odds, softmax_graph
from bayesprop.numerics.graphs import ClassNodes, Node, NumberNodes, larger
from bayesprop.numerics.loops import Batch, gathered
from bayesprop.numerics.machine import in_float64
from bayesprop.numerics.rows import Rows
from bayesprop.sampling.curvature import (
    Curvature,
    Diagonal,
    Kron,
    Shapes,
    Structure,
    linearise,
    relu_layers,
    tangent_apply,
)
from bayesprop.sampling.point_network import point_network

_WORKING_VALUES = 4_000_000
_BLOCK_ROWS = 64
_LEAST, _MOST = 1e-8, 1e8
_FEW_STEPS, _STEPS = 5, 200
_TRAINING_TIME = 0.7
"""Share of the time left that epochs may take; the rest is for the curvature after them."""

Prior = Literal["by-leaf", "one", "known"]


@dataclass(frozen=True)
class LaplaceModel:
    """Network, likelihood, and the shape of the posterior; hashable, so that it keys compilation.

    apply
        (weights, one input) -> outputs; any function, but `Kron` needs `plain_apply`.
    """

    apply: Apply
    likelihood: NetworkLikelihood
    structure: Structure

    def __post_init__(self) -> None:
        if isinstance(self.structure, Kron) and plain_activation(self.apply) is None:
            raise ValueError(
                "apply must be plain_apply or a partial of it for Kron, which needs to know "
                f"the layers, got {self.apply!r}: choose Full() or Diagonal()"
            )


class Fit(NamedTuple):
    """Fit of the network at the mode, with its own noise.

    log_likelihood
        Sum over rows, nats.
    misfit
        Sum of squared residuals over the noise variance; 0 where the noise is not free.
    n_values
        Sum of the weights of the observed values.
    """

    log_likelihood: float
    misfit: float
    n_values: float


class Point(NamedTuple):
    """Precisions, and the evidence of groups of leaves and, last, of free noise.

    noise_prec
        Of the noise, as a multiple of the one it was.
    """

    weights: Weights
    log_evidence: float
    prior_prec: Float[np.ndarray, " l"]
    noise_prec: float


class Posterior(NamedTuple):
    """The Gaussian approximation.

    mode
        Network and likelihood at the mode.
    root
        Of the covariance of the weights, in the form of the structure; float64.
    """

    mode: Parameters
    root: PyTree


def laplace(
    model: LaplaceModel,
    mode: Parameters,
    rows: Rows,
    *,
    prior_prec: Float[np.ndarray, " l"] | float = 1.0,
    prior: Prior = "by-leaf",
    max_steps: int = 200,
    tolerance: float = 0.05,
    max_gigabytes: float = 8.0,
) -> tuple[Posterior, Ascent]:
    """Approximate the posterior at a trained network; and maximise the evidence, to a `Point`.

    mode
        Weights and parameters of the likelihood. Their precision is that of the computation:
        float64 is worth its time.
    rows
        The rows of the training.
    prior_prec
        Of every leaf, or of all; where the evidence starts.
    prior
        Precisions that maximise the evidence: "one" for all weights, one "by-leaf", or none where
        they are "known". So does the variance of `LearnedNoise`, by a factor common to all targets.
    max_steps, tolerance
        Of the search: largest derivative of the log evidence by a logarithm at its end, nats.

    Raises ValueError where more than max_gigabytes would be needed, naming what needs less, and
    FloatingPointError where the curvature is not finite.
    """
    check_memory(model, mode.weights, max_gigabytes)
    curvature, fit = measure(model, mode, rows)
    leaves = jax.tree.leaves(mode.weights)
    squares = np.array([float(np.sum(np.asarray(leaf, np.float64) ** 2)) for leaf in leaves])
    prec = np.broadcast_to(np.asarray(prior_prec, np.float64), squares.shape)
    ascent = maximise(curvature, fit, squares, prec, prior, max_steps, tolerance)
    likelihood, noise_prec = mode.likelihood, ascent.point.noise_prec
    if isinstance(model.likelihood, LearnedNoise):
        likelihood = likelihood - np.log(noise_prec)
    root = curvature.root(ascent.point.prior_prec, noise_prec)
    return Posterior(Parameters(mode.weights, likelihood), root), ascent


def leaf_shapes(weights: PyTree) -> Shapes:
    """Shape of every leaf of the weights."""
    return tuple(tuple(leaf.shape) for leaf in jax.tree.leaves(weights))


def check_memory(model: LaplaceModel, weights: PyTree, max_gigabytes: float) -> None:
    """Raise ValueError where the curvature would need more than max_gigabytes."""
    shapes = leaf_shapes(weights)
    needed = model.structure.gigabytes(shapes)
    if needed <= max_gigabytes:
        return
    n_weights = sum(int(np.prod(shape)) for shape in shapes)
    rivals: list[Structure] = [Diagonal()]
    if plain_activation(model.apply) is not None:
        rivals.insert(0, Kron())
    cheaper = [
        f"structure={rival.name!r} needs {rival.gigabytes(shapes):.2g} GB"
        for rival in rivals
        if rival.gigabytes(shapes) < needed
    ]
    raise ValueError(
        f"structure={model.structure.name!r} needs about {needed:.3g} GB for {n_weights} weights, "
        f"more than max_gigabytes={max_gigabytes:g}: {', '.join(cheaper) or 'raise max_gigabytes'}"
    )


def measure(model: LaplaceModel, mode: Parameters, rows: Rows) -> tuple[Curvature, Fit]:
    """Add up the curvature at the mode over all rows, some at a time; and the network's fit."""
    shapes = leaf_shapes(mode.weights)
    held = jax.eval_shape(partial(linearise, model.apply, mode.weights), rows.x[:1])
    a_row = sum(leaf.size for leaf in jax.tree.leaves(held))
    a_row = model.structure.values_a_row(a_row, shapes, model.likelihood.n_outputs)
    at_once = min(len(rows.x), max(1, _WORKING_VALUES // a_row))
    whole = filled(rows, blocks(len(rows.x), at_once))
    batches = jax.tree.map(lambda column: column.reshape(-1, at_once, *column.shape[1:]), whole)
    total, fit = _accumulated(model, mode, batches)
    if not is_finite((total, fit)):
        raise FloatingPointError(
            "the curvature left the finite numbers: the network has not converged, or its noise "
            "has vanished; lower learning_rate, or give noise as a variance"
        )
    curvature = model.structure.finish(total, shapes)
    return curvature, Fit(*np.asarray(fit, np.float64).tolist())


@partial(jax.jit, static_argnames="model")
def _accumulated(
    model: LaplaceModel, mode: Parameters, batches: Rows
) -> tuple[PyTree, Float[Array, " 3"]]:
    """Sum the curvature and the fields of `Fit` over batches."""
    shapes = leaf_shapes(mode.weights)
    dtype = jax.tree.leaves(mode.weights)[0].dtype
    zero = model.structure.zero(shapes, dtype)

    def step(sums: tuple[PyTree, Array], batch: Rows) -> tuple[tuple[PyTree, Array], None]:
        total, fit = sums
        outputs, slopes = linearise(model.apply, mode.weights, batch.x)
        information = partial(model.likelihood.information, mode.likelihood)
        middle = jax.vmap(information)(outputs) * batch.weights[:, None, None]
        total = model.structure.add(total, slopes, middle, batch.weight)
        return (total, fit + _fit(model.likelihood, mode.likelihood, outputs, batch)), None

    sums, _ = jax.lax.scan(step, (zero, jnp.zeros(3, dtype)), batches)
    return sums


def _fit(
    likelihood: NetworkLikelihood, noise: PyTree, f: Float[Array, "b k"], batch: Rows
) -> Float[Array, " 3"]:
    """Return the fields of `Fit` for some rows."""
    log_p = jax.vmap(partial(likelihood.log_prob, noise))(f, batch.y)
    total = jnp.sum(batch.weights * log_p)
    if not isinstance(likelihood, LearnedNoise):
        nothing = jnp.zeros_like(total)
        return jnp.stack([total, nothing, nothing])
    mean, noise_var = likelihood.observe(noise, f)
    misfit = jnp.sum(batch.weights[:, None] * (batch.y - mean) ** 2 / noise_var)
    return jnp.stack([total, misfit, likelihood.n_targets * jnp.sum(batch.weights)])


def maximise(
    curvature: Curvature,
    fit: Fit,
    squares: Float[np.ndarray, " l"],
    prior_prec: Float[np.ndarray, " l"],
    prior: Prior,
    max_steps: int,
    tolerance: float,
) -> Ascent:
    """Maximise the log evidence, from given precisions and the noise as it is, to a `Point`.

    squares
        Sum of squares of the weights of every leaf.
    """
    noise_is_free = fit.misfit > 0.0
    n_leaves = len(squares)
    shared = np.full(n_leaves, 0 if prior == "one" else FIXED)
    groups = Groups(np.arange(n_leaves) if prior == "by-leaf" else shared)
    start = groups.mean(prior_prec)
    start = np.append(start, 1.0) if noise_is_free else start

    def at(by_group: np.ndarray, _: Point | None) -> Point:
        by_group, b = (by_group[:-1], float(by_group[-1])) if noise_is_free else (by_group, 1.0)
        prec = groups.spread(by_group, prior_prec)
        log_det, traces = curvature.spread(prec, b)
        likelihood = fit.log_likelihood + 0.5 * (
            fit.misfit * (1.0 - b) + fit.n_values * float(np.log(b))
        )
        prior = float(np.sum(curvature.sizes * np.log(prec) - prec * squares))
        weights = groups.weights(by_group, squares, traces, curvature.sizes)
        if noise_is_free:
            gamma = max(float(np.sum(curvature.sizes) - prec @ traces), 0.0)
            weights = weights.with_noise(b, fit.n_values, fit.misfit, gamma)
        return Point(weights, likelihood + 0.5 * (prior - log_det), prec, b)

    bounds = Bounds(np.full(len(start), _LEAST), np.full(len(start), _MOST))
    return ascend(at, start, bounds, max_steps=max_steps, tolerance=tolerance)


@partial(jax.jit, static_argnames="model")
def predict_linearised(
    model: LaplaceModel, posterior: Posterior, x: Float[Array, "n ..."]
) -> Joint:
    """Mean and covariance of the outputs of the linearised network, n a multiple of 64."""

    def block(x: Array) -> Joint:
        outputs, slopes = linearise(model.apply, posterior.mode.weights, x)
        return Joint(outputs, model.structure.output_cov(posterior.root, slopes))

    moments = jax.lax.map(block, x.reshape(-1, _BLOCK_ROWS, *x.shape[1:]))
    return jax.tree.map(lambda part: part.reshape(-1, *part.shape[2:]), moments)


def draw_deviation(model: LaplaceModel, key: PRNGKeyArray, posterior: Posterior) -> PyTree:
    """Draw w - w_map, in the number type of the weights."""
    leaves, structure = jax.tree.flatten(posterior.mode.weights)
    drawn = model.structure.draw(posterior.root, key, leaf_shapes(leaves))
    moves = [move.astype(leaf.dtype) for move, leaf in zip(drawn, leaves, strict=True)]
    return jax.tree.unflatten(structure, moves)


def draw_network(model: LaplaceModel, key: PRNGKeyArray, posterior: Posterior) -> Parameters:
    """Draw a network."""
    weights, likelihood = posterior.mode
    deviation = draw_deviation(model, key, posterior)
    return Parameters(jax.tree.map(jnp.add, weights, deviation), likelihood)


def draw_linear(model: LaplaceModel, key: PRNGKeyArray, posterior: Posterior) -> Parameters:
    """Draw a linearised network: weights for `tangent_apply`."""
    weights, likelihood = posterior.mode
    return Parameters((weights, draw_deviation(model, key, posterior)), likelihood)


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
        return draw_network(model, key, Posterior(state.mode.params, state.root))

    def mean(state: LaplaceState) -> Parameters:
        return state.mode.params

    return GradientMethod(apply, likelihood, init, update, sample, mean)


@lru_cache(maxsize=64)
def _linearised(method: GradientMethod, model: LaplaceModel) -> GradientMethod:
    """Return the method that draws linearised networks; always the very same."""

    def sample(key: PRNGKeyArray, state: LaplaceState) -> Parameters:
        return draw_linear(model, key, Posterior(state.mode.params, state.root))

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
    prior: Prior
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
        check_memory(self.model, network.mode.params.weights, self.max_gigabytes)
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
        posterior, ascent = laplace(
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

    def graph(self, state: NetworkState, x: Node) -> NumberNodes | ClassNodes:
        """Write `predict` as a graph of ONNX, in float64; ValueError for settings without one."""
        structure, activation = self.model.structure, plain_activation(self.model.apply)
        is_layered = activation is ACTIVATIONS["relu"] and isinstance(structure, Kron | Diagonal)
        if not (is_layered and self.is_linearised and self.integral == "quadrature"):
            raise ValueError(
                "ONNX takes prediction='linearised', integral='quadrature', activation='relu' and "
                "structure='kron' or 'diagonal' of laplace: set these"
            )
        mode, likelihood = state.network.mode.params, self.gradient.likelihood
        f, slopes = relu_layers([np.asarray(layer, np.float64) for layer in mode.weights], x)
        cov: Any = structure.output_cov(state.network.root, slopes)
        k = likelihood.n_outputs
        if not isinstance(likelihood, GaussianNoise):
            return softmax_graph(f.reshape(-1, 1, k), cov, k)
        v = (cov * np.eye(k)).sum().reshape(-1, k)
        return NumberNodes(f, larger(v, 0.0), constant_noise(likelihood, mode.likelihood))

    @in_float64
    def output_moments(self, state: NetworkState, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (n, k) and covariances (n, k, k) of the linearised network's outputs, float64."""
        posterior = _wide(Posterior(state.network.mode.params, state.network.root))
        moments = predict_linearised(self.model, posterior, jnp.asarray(padded(x)))
        return np.asarray(moments.m)[: len(x)], np.asarray(moments.cov)[: len(x)]

    @property
    def drawing(self) -> GradientMethod:
        """Method that draws networks; linearised ones, where predictions are."""
        return _linearised(self.gradient, self.model) if self.is_linearised else self.gradient

    @property
    def state_kind(self) -> NetworkState:
        """A state of the shapes of this network."""
        example = super().state_kind
        shapes = leaf_shapes(example.network.mode.params.weights)
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
