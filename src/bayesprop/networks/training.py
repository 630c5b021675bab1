"""A network that gradient steps train and that predicts by draws of its weights, as a method.

What the variational networks, dropout, the point network, ensembles and Laplace share. Whatever
distinguishes them stands in their `GradientMethod`, or in a subclass of `TrainedNetwork`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import MOST_ROWS, Drawn, Learned, Parts
from bayesprop.model.progress import SILENT, Progress
from bayesprop.networks import draws
from bayesprop.networks.gradient_method import GradientMethod, Info, Parameters
from bayesprop.networks.likelihoods import GaussianNoise, NetworkLikelihood
from bayesprop.networks.mlp import init_weights, plain_apply
from bayesprop.numerics import loops
from bayesprop.numerics.filling import blocks, device_rows, padded, slots
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.graphs import ClassNodes, Node, NumberNodes
from bayesprop.numerics.loops import gathered, partitioned_by_xla
from bayesprop.numerics.machine import random_key
from bayesprop.numerics.rows import Rows

FURTHEST_INPUT = 1e12
"""In standard deviations: networks in float32 square their inputs twice."""
_DRAW_VALUES = 8_000_000


class Trained(NamedTuple):
    """Result of training.

    trace
        One value an epoch: loss, mean_log_likelihood (nats a row, standardised units), kl (nats);
        validation_loss where there was one; gradient_norm, the largest derivative of the loss, of
        an optimiser on all rows.
    n_undone
        Epochs that left the finite numbers, and were undone; training stops at the first.
    """

    state: PyTree
    trace: dict[str, list[float]]
    n_undone: int


def train(
    method: GradientMethod,
    state: PyTree,
    data: Rows,
    *,
    n_rows: int,
    seed: int,
    batch_size: int,
    n_epochs: int,
    first_epoch: int = 0,
    validate: Callable[[PyTree], float] | None = None,
    patience: int | None = None,
    progress: Progress = SILENT,
) -> Trained:
    """Run epochs first_epoch, first_epoch + 1, ...; epoch e has its own key whatever came before.

    n_rows
        How many rows there are, the first ones; what follows in `data` only fills it up.
    batch_size
        Rows of a step; all of them if there are fewer.
    validate
        Loss of a state on rows held out; lower is better. The best state is returned, and
        training stops after `patience` epochs without a better one (None: never).
    """
    root = random_key(seed)
    batch_size = min(batch_size, blocks(n_rows))
    trace: dict[str, list[float]] = {"loss": [], "mean_log_likelihood": [], "kl": []}
    if validate is not None:
        trace["validation_loss"] = []
    best, best_epoch, lowest = state, 0, np.inf
    for epoch in range(first_epoch, first_epoch + n_epochs):
        before = state
        key = jax.random.fold_in(root, epoch)
        state, outcome = _epoch(method, state, key, data, n_rows, batch_size)
        *values, is_sound = np.asarray(outcome).tolist()
        if not is_sound:
            return Trained(gathered(before if validate is None else best), trace, 1)
        for name, value in zip(Info._fields, values, strict=True):
            trace[name].append(value)
        if validate is not None:
            held_out = validate(state)
            trace["validation_loss"].append(held_out)
            if held_out < lowest:
                best, best_epoch, lowest = state, epoch + 1, held_out
            elif patience is not None and epoch + 1 - best_epoch >= patience:
                break
        latest = "  ".join(f"{name} {series[-1]:.5g}" for name, series in trace.items())
        done = epoch + 1 - first_epoch
        progress.report(done, n_epochs, f"epoch {epoch + 1}", latest)
        if progress.is_cut(done, n_epochs, "epochs"):
            break
    return Trained(gathered(state if validate is None else best), trace, 0)


@partial(jax.jit, static_argnames=("method", "batch_size"))
def _epoch(
    method: GradientMethod,
    state: PyTree,
    key: PRNGKeyArray,
    data: Rows,
    n_rows: int,
    batch_size: int,
) -> tuple[PyTree, Float[Array, " 4"]]:
    """Train an epoch; return its info and whether loss and mean are finite as one small array."""
    state, info = loops.epoch(method.update, state, key, data, n_rows, batch_size=batch_size)
    sound = jnp.isfinite(info.loss)
    for leaf in jax.tree.leaves(method.mean(state)):
        sound &= jnp.isfinite(leaf).all()
    return state, jnp.stack([*info, sound.astype(info.loss.dtype)])


def is_finite(tree: PyTree) -> bool:
    """Whether every number of a pytree is finite."""
    return all(bool(np.isfinite(np.asarray(leaf)).all()) for leaf in jax.tree.leaves(tree))


@lru_cache(maxsize=64)
def build(
    method: Callable[..., GradientMethod],
    likelihood: NetworkLikelihood,
    activation: str,
    *args: Hashable,
    **settings: Hashable,
) -> GradientMethod:
    """Build each configuration once, so that JAX compiles it once.

    method
        Called with network, likelihood, args and settings, which decide what is compiled.
    """
    return method(partial(plain_apply, activation_name=activation), likelihood, *args, **settings)


class NetworkState(NamedTuple):
    """State of the gradient method after training, and the seed of start and draws."""

    network: PyTree
    seed: int


@dataclass(frozen=True)
class TrainedNetwork:
    """Trains by mini-batches; predicts by n_draws networks drawn from the posterior.

    gradient
        For one configuration, always the very same: its identity keys compilation.
    sizes
        Inputs, hidden units of every layer, outputs.
    n_epochs, batch_size
        Passes over the rows, and rows of a step.
    """

    gradient: GradientMethod
    sizes: tuple[int, ...]
    n_epochs: int
    batch_size: int
    n_draws: int

    furthest_input = FURTHEST_INPUT
    replays: ClassVar[bool] = True
    """Whether gradient steps alone make the posterior, so that a `Replay` can teach it."""

    @property
    def rows_at_once(self) -> int:
        """Rows of a prediction at a time, so that all draws of them fit into memory."""
        return rows_of_draws(self.gradient.likelihood, self.n_draws)

    def start(self, seed: int) -> NetworkState:
        """Return the state before any row."""
        return NetworkState(self.started(seed), seed)

    def started(self, seed: int) -> PyTree:
        """Draw the start of the network and of its method's state."""
        return _started(self.gradient.init, self.sizes, seed)

    @partitioned_by_xla()
    def fit(self, rows: Rows, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Train from a random start."""
        return self.learned(rows, self.start(int(rng.randint(2**31))), 0, progress)

    @partitioned_by_xla()
    def resume(
        self, rows: Rows, before: Learned, rng: np.random.RandomState, progress: Progress
    ) -> Learned:
        """Train on for as many epochs again; the seed is that of the start."""
        del rng
        return self.learned(rows, before.state, before.n_iter, progress)

    def learned(self, rows: Rows, start: NetworkState, epoch: int, progress: Progress) -> Learned:
        """Train from a state that has seen some epochs."""
        started = time.perf_counter()
        trained = self.train(rows, start, epoch, progress)
        report = self.account(trained, len(rows.x), time.perf_counter() - started)
        state = NetworkState(trained.state, start.seed)
        return Learned(state, report, epoch + report.n_epochs)

    def train(
        self, rows: Rows, start: NetworkState, first_epoch: int, progress: Progress
    ) -> Trained:
        """Train on all rows; a subclass may hold some out for early stopping."""
        return train(
            self.gradient,
            start.network,
            device_rows(rows, slots(len(rows.x))),
            n_rows=len(rows.x),
            seed=start.seed,
            batch_size=self.batch_size,
            n_epochs=self.n_epochs,
            first_epoch=first_epoch,
            progress=progress,
        )

    def account(self, trained: Trained, n_rows: int, seconds: float) -> FitReport:
        """Report the training."""
        n_epochs = len(trained.trace["loss"])
        return FitReport(
            n_rows=n_rows,
            n_epochs=n_epochs,
            seconds=seconds,
            n_updates=n_epochs * -(-n_rows // min(self.batch_size, n_rows)),
            guards={"epochs_undone": trained.n_undone},
            trace=trained.trace,
            warnings=self.advice(trained),
        )

    def advice(self, trained: Trained) -> list[str]:
        """Word the warnings of a training run."""
        if not trained.n_undone:
            return []
        return [
            f"epoch {len(trained.trace['loss']) + 1} left the finite numbers and was undone, and "
            "training stopped: lower learning_rate"
        ]

    def predict(self, state: NetworkState, x: np.ndarray) -> Predictive | ClassPredictive:
        """Average over draws of the weights, always the same ones."""
        parts = self.predicted(state, jnp.asarray(padded(x), jnp.float32), _key(state))
        return predictive(parts, len(x))

    def graph(self, state: NetworkState, x: Node) -> NumberNodes | ClassNodes:
        """Write `predict` as a graph of ONNX, in float64; ValueError for settings without one."""
        method = self.drawing
        return draws.graph(method.apply, method.likelihood, self.drawn(state), x)

    def drawn(self, state: NetworkState) -> Parameters:
        """Return the networks of a prediction, along a leading axis."""
        keys = jax.random.split(_key(state), self.n_draws)
        return jax.vmap(lambda key: self.drawing.sample(key, state.network))(keys)

    def draw(self, state: NetworkState, x: np.ndarray, rng: np.random.RandomState, n: int) -> Drawn:
        """Draw functions, one network each."""
        key, rows = random_key(int(rng.randint(2**31))), jnp.asarray(padded(x), jnp.float32)
        drawn = draws.predict_draws(self.drawing, key, state.network, rows, n_draws=n)
        f, noise_var = as_float64(drawn, len(x))
        return Drawn.of(f, noise_var, rng)

    def predicted(
        self, state: NetworkState, x: Float[Array, "n d"], key: PRNGKeyArray
    ) -> Gaussian | draws.ClassMoments:
        """Predict by the networks of a prediction, on the device."""
        return draws.predict_draws(self.drawing, key, state.network, x, n_draws=self.n_draws)

    @property
    def drawing(self) -> GradientMethod:
        """Method whose draws predict."""
        return self.gradient

    @property
    def state_kind(self) -> NetworkState:
        """A state of the shapes of this network."""
        return NetworkState(jax.eval_shape(partial(self.started, 0)), 0)


class BlockNetwork(TrainedNetwork):
    """One that learns a table larger than memory, too: what it optimises is a sum over rows."""

    @partitioned_by_xla()
    def fit_parts(self, parts: Parts, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Train n_epochs, each on another block, whose rows stand for all; more until all are met.

        The optimiser's memory goes on from block to block, and so does what is warmed up.
        """
        started, once = time.perf_counter(), replace(self, n_epochs=1)
        learned = Learned(self.start(int(rng.randint(2**31))), FitReport(0, 0, 0.0, 0, {}, {}), 0)
        trace, n_met, n_updates, share = {}, 0, 0, 0.0
        for epoch, rows in enumerate(parts.passes):
            weight = rows.weights * (parts.total / rows.weights.sum())
            block = rows._replace(weight=weight)
            learned = once.learned(block, learned.state, epoch, SILENT)
            n_met, n_updates = n_met + len(rows.x), n_updates + learned.report.n_updates
            for name, values in learned.report.trace.items():
                trace.setdefault(name, []).extend(values)
            share = min(1.0, learned.n_iter / self.n_epochs, n_met / parts.n_rows)
            progress.report(share, 1.0, f"epoch {learned.n_iter}")
            if share == 1.0 or learned.report.guards["epochs_undone"] or progress.is_over:
                break
        if share < 1.0 and progress.is_over:
            progress.cut(f"{n_met} of {parts.n_rows} rows in {learned.n_iter} epochs")
        report = replace(
            learned.report,
            n_rows=min(n_met, parts.n_rows),
            n_epochs=learned.n_iter,
            n_updates=n_updates,
            seconds=time.perf_counter() - started,
            trace=trace,
        )
        return learned._replace(report=report)


def _key(state: NetworkState) -> PRNGKeyArray:
    """Return what the draws of all predictions come from."""
    return jax.random.fold_in(random_key(state.seed), 2**31 - 1)


@partial(jax.jit, static_argnames=("init", "sizes"))
def _started(
    init: Callable[[PRNGKeyArray, PyTree], PyTree], sizes: tuple[int, ...], seed: int
) -> PyTree:
    """Draw the start of a network and of its method's state, in one compilation."""
    key_weights, key_state = jax.random.split(random_key(seed))
    return init(key_state, init_weights(key_weights, sizes))


def rows_of_draws(likelihood: NetworkLikelihood, n_draws: int) -> int:
    """Rows of a prediction at a time: of targets, all draws of them are in memory at once."""
    if not isinstance(likelihood, GaussianNoise):
        return MOST_ROWS
    return max(1, min(MOST_ROWS, _DRAW_VALUES // (n_draws * likelihood.n_targets)))


def predictive(parts: Gaussian | draws.ClassMoments, n_rows: int) -> Predictive | ClassPredictive:
    """Bring the predictions of networks from the device, without the rows that fill them up."""
    if isinstance(parts, Gaussian):
        return MixturePredictive.of(*as_float64(parts, n_rows))
    return ClassPredictive.of_codes(*(np.asarray(part)[:n_rows] for part in parts))


def as_float64(parts: Gaussian | draws.ClassMoments, n_rows: int) -> list[np.ndarray]:
    """Bring means and noise variances (s, n, o) from the device, without the rows that fill up."""
    return [np.asarray(part[:, :n_rows], np.float64) for part in parts]
