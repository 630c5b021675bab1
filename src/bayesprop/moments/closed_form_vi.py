"""Variational inference with a closed-form objective (Roth & Pernkopf 2016).

Every weight has an independent Gaussian posterior. Means and variances pass through the network
once, and at its end stands E[log p(y | f)] in closed form: no draws, no gradient noise but that of
the mini-batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import Predictive
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import MOST_ROWS, Learned, Parts, merged_report
from bayesprop.model.progress import SILENT, Progress
from bayesprop.networks.gradient_method import GradientMethod, Info, Parameters, State, clipped
from bayesprop.networks.likelihoods import (
    GaussianNoise,
    NetworkLikelihood,
    constant_noise,
    of_output_moments,
)
from bayesprop.networks.mlp import Weights, plain_apply, plain_propagate
from bayesprop.networks.priors import ClosedPrior, LaplacePrior, NormalPrior
from bayesprop.networks.pruning import PrunableNetwork
from bayesprop.networks.training import Trained, is_finite
from bayesprop.numerics import activation_moments, loops, softmax_expectations
from bayesprop.numerics.filling import blocks, device_rows, padded
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.graphs import ClassNodes, Node, NumberNodes, propagated
from bayesprop.numerics.loops import Batch
from bayesprop.numerics.machine import in_float64
from bayesprop.numerics.rows import Rows

LOG_VAR_START = -10.0
_DEAD_SNR = 0.5
_LBFGS_MEMORY = 20
LBFGS_TOLERANCE = 1e-4
"""Largest derivative of the loss a row at which L-BFGS stops, nats in standardised units."""
_ALL_DEAD = (
    "every unit of a hidden layer is dead, so that all predictions are alike: the data do not pay "
    "for the weights; raise likelihood_weight or lower prior_scale"
)


class Posterior(NamedTuple):
    """Means and log variances of the weights, one array a layer.

    The paper's variance is softplus(rho), which is exp(rho) at its start of -10 and nearly so
    wherever a weight is determined. The logarithm needs one exponential instead of two, makes the
    entropy linear, and lets the variance of a weight grow by a factor a step, not by an amount.
    """

    m: Weights
    log_v: Weights

    @property
    def v(self) -> Weights:
        """Variances of the weights."""
        return tuple(jnp.exp(log_v) for log_v in self.log_v)

    @property
    def std(self) -> tuple[np.ndarray, ...]:
        """Standard deviations of the weights, as NumPy has them."""
        return tuple(np.exp(0.5 * np.asarray(log_v)) for log_v in self.log_v)


class VIState(NamedTuple):
    """Parameters, their weights a `Posterior`; the optimiser's memory; epochs seen, a fraction."""

    params: Parameters
    optimizer: optax.OptState | None
    n_epochs: Float[Array, ""]


@dataclass(frozen=True)
class Model:
    """What the objective depends on; hashable, so that it keys compilation.

    prior
        "normal" or "laplace", around zero, independent.
    prior_scale
        Standard deviation of the normal, scale of the Laplace distribution, of all weights (the
        paper's). "fan_in": sqrt(2 / inputs of the layer), with which hidden units have the size of
        the inputs. "empirical": for every layer the one that maximises the ELBO (empirical Bayes).
    likelihood_weight
        Copies of every row: lambda of section 3.3. A value other than 1 is a tempered posterior.
    """

    likelihood: NetworkLikelihood
    activation: str = "relu"
    prior: Literal["normal", "laplace"] = "normal"
    prior_scale: float | Literal["fan_in", "empirical"] = 1.0
    likelihood_weight: float = 1.0


def start(model: Model, weights: Weights, *, log_var: float = LOG_VAR_START) -> Parameters:
    """Start at the given weights, all with the same log variance (section 4.1: rho = -10)."""
    log_v = tuple(jnp.full_like(w, log_var) for w in weights)
    return Parameters(Posterior(weights, log_v), model.likelihood.init())


def propagate(model: Model, q: Posterior, x: Float[Array, "n d"]) -> Gaussian:
    """Mean and variance of the outputs at every row (eq. 7-11); (n, k)."""
    one = partial(plain_propagate, q.m, q.v, activation_name=model.activation)
    return jax.vmap(one)(x)


def layer_prior(model: Model, q: Gaussian) -> ClosedPrior:
    """Prior of one layer's weights, given their posterior.

    Empirical Bayes: var* = mean(m² + v) for the normal, scale* = mean E|w| for the Laplace
    distribution. Both maximise eq. 15, 16; that the scale is the best one makes its derivative
    vanish, so that none is taken.
    """
    scale = model.prior_scale
    is_normal = model.prior == "normal"
    if scale == "fan_in":
        scale = (2.0 / (q.m.shape[0] - 1)) ** 0.5
    if isinstance(scale, float):
        return NormalPrior(scale**2) if is_normal else LaplacePrior(scale)
    if is_normal:
        return NormalPrior(jax.lax.stop_gradient(jnp.mean(q.m**2 + q.v)))
    mean_abs = activation_moments.relu(q.m, q.v).m + activation_moments.relu(-q.m, q.v).m
    return LaplacePrior(jax.lax.stop_gradient(jnp.mean(mean_abs)))


def kl(model: Model, q: Posterior) -> Float[Array, ""]:
    """KL(q || prior) of all weights, nats (eq. 14-16)."""

    def of_layer(layer: Gaussian, log_v: Array) -> Array:
        return layer_prior(model, layer).kl(layer, log_v)

    layers = map(Gaussian, q.m, q.v)
    return sum(map(of_layer, layers, q.log_v), start=jnp.zeros(()))


def terms(model: Model, params: Parameters, rows: Rows) -> tuple[Array, Array]:
    """Sum over rows of weight * E[log p(y | f)], and KL from posterior to prior, nats in all."""
    f = propagate(model, params.weights, rows.x)
    expected = partial(model.likelihood.expected_log_prob, params.likelihood)
    log_lik = jnp.sum(rows.weight * jax.vmap(expected)(f.m, f.v, rows.y))
    return log_lik, kl(model, params.weights)


def elbo(model: Model, params: Parameters, rows: Rows) -> Float[Array, ""]:
    """likelihood_weight * sum_rows E[log p(y | f)] - KL, nats (section 3, with 3.3)."""
    log_lik, divergence = terms(model, params, rows)
    return model.likelihood_weight * log_lik - divergence


@lru_cache(maxsize=64)
def closed_form_vi(
    model: Model,
    *,
    learning_rate: float = 1e-3,
    optimizer: str = "adam",
    warm_up_epochs: float = 0.0,
    log_var: float = LOG_VAR_START,
) -> GradientMethod:
    """Fit a model by Adam, the paper's choice, or another optimiser of optax, by name.

    learning_rate
        Of the optimiser.
    warm_up_epochs
        Epochs over which the weight of the KL rises linearly from 0 to 1.
    log_var
        Of every weight at the start.

    The gradient does not need the value of the KL: `update` computes it once an epoch. For equal
    arguments it is always the very same method: its identity keys compilation.
    """
    steps = clipped(getattr(optax, optimizer)(learning_rate), model.likelihood)

    def init(key: PRNGKeyArray, weights: Weights) -> VIState:
        del key
        params = start(model, weights, log_var=log_var)
        return VIState(params, steps.init(params), jnp.zeros(()))

    def objective(params: Parameters, batch: Batch, kl_weight: Array) -> tuple[Array, Array]:
        log_lik, divergence = terms(model, params, Rows(batch.x, batch.y, batch.weight))
        share = kl_weight * divergence / batch.n_batches
        gain = model.likelihood_weight * log_lik
        return batch.n_batches / batch.n_total * (share - gain), log_lik

    def update(key: PRNGKeyArray, state: VIState, batch: Batch) -> tuple[VIState, Info]:
        del key
        kl_weight = jnp.minimum(1.0, state.n_epochs / warm_up_epochs) if warm_up_epochs else 1.0
        slope_of = jax.grad(objective, has_aux=True)
        slope, log_lik = slope_of(state.params, batch, jnp.asarray(kl_weight))
        params, memory = State(state.params, state.optimizer).descend(steps, slope)
        kl_now = loops.once_an_epoch(batch, lambda: kl(model, params.weights))
        a_row = batch.n_batches / batch.n_total
        share = kl_weight * kl_now / batch.n_batches
        loss = a_row * (share - model.likelihood_weight * log_lik)
        n_epochs = state.n_epochs + 1.0 / batch.n_batches
        return VIState(params, memory, n_epochs), Info(loss, a_row * log_lik, kl_now)

    apply = partial(plain_apply, activation_name=model.activation)
    return GradientMethod(apply, model.likelihood, init, update, sample, mean)


@partial(jax.jit, static_argnames="model")
def _loss_and_slope(model: Model, params: Parameters, rows: Rows) -> tuple[Array, Parameters]:
    def loss(params: Parameters) -> Array:
        return -elbo(model, params, rows) / jnp.sum(rows.weight)

    return jax.value_and_grad(loss)(params)


@in_float64
def fit_lbfgs(
    model: Model,
    params: Parameters,
    rows: Rows,
    *,
    tol: float = 1e-4,
    max_steps: int = 1000,
    progress: Progress = SILENT,
) -> Trained:
    """Minimise -ELBO on all rows at once, in float64; the state is parameters of their precision.

    Without gradient noise a minimum can be recognised: the gradient vanishes (section 1, ii).

    tol
        Of the largest absolute derivative of -ELBO a row.
    max_steps
        Steps of L-BFGS; a step takes one evaluation or a few.
    """
    from scipy.optimize import OptimizeResult, minimize

    def wide(a: Array) -> Array:
        is_code = jnp.issubdtype(a.dtype, jnp.integer)
        return a if is_code else jnp.asarray(a, jnp.float64)

    start, rows = jax.tree.map(wide, (params, rows))
    flat_start, unflat = ravel_pytree(start)

    def evaluated(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal slope
        value, slopes = _loss_and_slope(model, unflat(jnp.asarray(flat)), rows)
        slope = np.asarray(ravel_pytree(slopes)[0])
        return float(value), slope

    trace: dict[str, list[float]] = {"loss": [], "gradient_norm": []}
    slope = np.zeros(0)

    def follow(intermediate_result: OptimizeResult) -> None:
        trace["loss"].append(float(intermediate_result.fun))
        trace["gradient_norm"].append(float(np.abs(slope).max()))
        n = len(trace["loss"])
        progress.report(n, max_steps, f"step {n}", f"loss {trace['loss'][-1]:.5g}")
        if progress.is_cut(n, max_steps, "steps"):
            raise StopIteration

    result = minimize(
        evaluated,
        np.asarray(flat_start),
        jac=True,
        method="L-BFGS-B",
        callback=follow,
        options={"maxcor": _LBFGS_MEMORY, "maxiter": max_steps, "maxfun": 20 * max_steps,
                 "gtol": tol, "ftol": 0.0},
    )  # fmt: skip
    trace["gradient_norm"][-1:] = [float(np.abs(result.jac).max())]
    optimum = unflat(jnp.asarray(result.x))
    narrow = jax.tree.map(lambda a, like: a.astype(like.dtype), optimum, params)
    return Trained(narrow, trace, 0)


def sample(key: PRNGKeyArray, state: VIState) -> Parameters:
    """Draw all weights once from the posterior."""
    q, likelihood = state.params
    keys = jax.random.split(key, len(q.m))
    weights = tuple(
        m + jnp.exp(0.5 * log_v) * jax.random.normal(key, m.shape, m.dtype)
        for key, m, log_v in zip(keys, q.m, q.log_v, strict=True)
    )
    return Parameters(weights, likelihood)


def mean(state: VIState) -> Parameters:
    """Return the posterior means of the weights."""
    return Parameters(state.params.weights.m, state.params.likelihood)


def dead_units(q: Posterior) -> Int[np.ndarray, " l"]:
    """Count the units of every hidden layer through which nothing passes.

    A unit is dead when no weight that leaves it is told from zero: |m| < std / 2 for all of them.
    """
    return np.array(
        [
            int(np.sum(np.all(np.abs(np.asarray(m[:-1])) < _DEAD_SNR * std[:-1], axis=1)))
            for m, std in zip(q.m[1:], q.std[1:], strict=True)
        ],
        dtype=int,
    )


@dataclass(frozen=True)
class ClosedFormNetwork(PrunableNetwork):
    """Moments of every activation instead of draws.

    optimizer
        Adam or RMSprop on batches, or L-BFGS on all rows, whose steps then are the epochs.
    prediction
        By expectations; by the network of the mean weights; or by draws.
    """

    model: Model
    optimizer: Literal["adam", "rmsprop", "lbfgs"]
    prediction: Literal["expected", "mean", "draws"]

    replays = False

    @property
    def rows_at_once(self) -> int:
        """Rows of a prediction at a time."""
        return super().rows_at_once if self.prediction == "draws" else MOST_ROWS

    def fit_parts(self, parts: Parts, rng: np.random.RandomState, progress: Progress) -> Learned:
        """Train on blocks; ValueError for L-BFGS."""
        if self.optimizer == "lbfgs":
            raise ValueError(
                "optimizer must be 'adam' or 'rmsprop' for a table larger than memory, got"
                " 'lbfgs', which takes all rows at once"
            )
        return super().fit_parts(parts, rng, progress)

    def train(self, rows: Rows, start: PyTree, first_epoch: int, progress: Progress) -> Trained:
        """Descend the objective."""
        if self.optimizer != "lbfgs":
            return super().train(rows, start, first_epoch, progress)
        data, before = device_rows(rows, blocks(len(rows.x))), start.network
        optimum = fit_lbfgs(
            self.model,
            before.params,
            data,
            tol=LBFGS_TOLERANCE,
            max_steps=self.n_epochs,
            progress=progress,
        )
        if not is_finite(optimum.state):
            return optimum._replace(state=before, trace={"loss": []}, n_undone=1)
        return optimum._replace(state=before._replace(params=optimum.state))

    def account(self, trained: Trained, n_rows: int, seconds: float) -> FitReport:
        """Report the training, and the hidden units through which nothing passes."""
        report = super().account(trained, n_rows, seconds)
        dead = dead_units(trained.state.params.weights)
        guards = report.guards | {"dead_units": int(dead.sum())}
        if "gradient_norm" not in trained.trace:
            return replace(report, guards=guards)
        guards["not_converged"] = int(trained.trace["gradient_norm"][-1] > LBFGS_TOLERANCE)
        return replace(report, guards=guards, n_updates=report.n_epochs)

    def advice(self, trained: Trained) -> list[str]:
        """Say what a person should know about the training, in sentences."""
        advice, dead = super().advice(trained), dead_units(trained.state.params.weights)
        gradient_norm = trained.trace.get("gradient_norm", [0.0])[-1]
        if gradient_norm > LBFGS_TOLERANCE:
            advice.append(
                f"L-BFGS stopped after {len(trained.trace['loss'])} steps at a gradient of "
                f"{gradient_norm:.2g} (tolerance {LBFGS_TOLERANCE:g}): raise n_epochs"
            )
        if any(count == size for count, size in zip(dead, self.sizes[1:-1], strict=True)):
            advice.append(_ALL_DEAD)
        return advice

    def predict(self, state: PyTree, x: np.ndarray) -> Predictive | ClassPredictive:
        """Predict in closed form, or by draws."""
        if self.prediction == "draws":
            return super().predict(state, x)
        params, rows = state.network.params, jnp.asarray(padded(x), jnp.float32)
        f = _moments(self.model, params.weights, rows, by_mean=self.prediction == "mean")
        m, v = (np.asarray(part, np.float64) for part in f)
        if not isinstance(self.gradient.likelihood, GaussianNoise):
            proba, entropy = map(np.asarray, _class_moments(m, v))
            return ClassPredictive.of_codes(proba[: len(x)], entropy[: len(x)])
        m, v = m[: len(x)], v[: len(x)]
        return of_output_moments(self.gradient.likelihood, params.likelihood, m, v)

    def graph(self, state: PyTree, x: Node) -> NumberNodes | ClassNodes:
        """Write `predict` as a graph of ONNX, in float64; ValueError for settings without one."""
        likelihood, params = self.gradient.likelihood, state.network.params
        if self.prediction != "expected":
            raise ValueError(
                f"ONNX takes prediction='expected' of closed-form-vi, got {self.prediction!r}: "
                "set it so"
            )
        q = params.weights
        m, v = ([np.asarray(layer, np.float64) for layer in part] for part in (q.m, q.v))
        mean, var = propagated(m, v, x, self.model.activation)
        if not isinstance(likelihood, GaussianNoise):
            return softmax_expectations.graph(mean, var, likelihood.n_outputs)
        return NumberNodes(mean, var, constant_noise(likelihood, params.likelihood))

    def combined(self, parts: Sequence[Learned], powers: Sequence[float]) -> Learned:
        """Add the natural parameters of the weights; what the likelihood learnt is averaged.

        The prior is in every part, and so in the product once (Bui et al. 2018, "Partitioned
        variational inference", section 2). Adam's memory is that of the first part.
        """
        network = parts[0].state.network
        params = [part.state.network.params for part in parts]
        q, n_undone = _product([one.weights for one in params], powers)
        weights = np.asarray(powers, np.float32)
        mean = partial(jax.tree.map, lambda *each: jnp.tensordot(weights, jnp.stack(each), 1))
        likelihood = mean(*(one.likelihood for one in params))
        state = network._replace(params=Parameters(q, likelihood))
        report = merged_report(parts, powers, {"weights_undone": n_undone})
        n_iter = max(part.n_iter for part in parts)
        return Learned(parts[0].state._replace(network=state), report, n_iter)


def _product(posteriors: Sequence[Posterior], powers: Sequence[float]) -> tuple[Posterior, int]:
    """Multiply posteriors to powers; weights without a positive precision stay as in the first."""
    m, log_v, n_undone = [], [], 0
    for layer, first in enumerate(posteriors[0].m):
        means = np.stack([np.asarray(one.m[layer], np.float64) for one in posteriors])
        precs = np.stack([np.exp(-np.asarray(one.log_v[layer], np.float64)) for one in posteriors])
        prec = np.tensordot(powers, precs, 1)
        is_proper = prec > 0.0
        safe = np.where(is_proper, prec, precs[0])
        mean = np.where(is_proper, np.tensordot(powers, precs * means, 1) / safe, means[0])
        m.append(jnp.asarray(mean, first.dtype))
        log_v.append(jnp.asarray(-np.log(safe), first.dtype))
        n_undone += int(np.sum(~is_proper))
    return Posterior(tuple(m), tuple(log_v)), n_undone


@partial(jax.jit, static_argnames=("model", "by_mean"))
def _moments(model: Model, q: Posterior, x: Float[Array, "n d"], *, by_mean: bool) -> Gaussian:
    if not by_mean:
        return propagate(model, q, x)
    f = jax.vmap(partial(plain_apply, q.m, activation_name=model.activation))(x)
    return Gaussian(f, jnp.zeros_like(f))


@in_float64
@jax.jit
def _class_moments(m: Float[Array, "n c"], v: Float[Array, "n c"]) -> tuple[Array, Array]:
    """Probabilities and expected entropies, some rows at a time to bound the memory.

    In float64: the entropy is a small difference of large numbers where the logits are wide.
    """

    def one(moments: tuple[Array, Array]) -> tuple[Array, Array]:
        expected = softmax_expectations.moments(*moments)
        proba = jnp.maximum(expected.proba, 0.0)
        return proba, softmax_expectations.expected_entropy(*moments, expected)

    return jax.lax.map(one, (m, v), batch_size=1024)
