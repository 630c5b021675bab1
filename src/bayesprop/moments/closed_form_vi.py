"""Variational inference with a closed-form objective (Roth & Pernkopf 2016).

Every weight has an independent Gaussian posterior. Means and variances pass through the network
once, and at its end stands E[log p(y | f)] in closed form: no draws, no gradient noise but that of
the mini-batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PRNGKeyArray

from bayesprop.model.progress import SILENT, Progress
from bayesprop.networks.gradient_method import Draw, GradientMethod, Info, clipped
from bayesprop.networks.likelihoods import NetworkLikelihood
from bayesprop.networks.mlp import Weights, plain_propagate
from bayesprop.networks.priors import ClosedPrior, LaplacePrior, NormalPrior
from bayesprop.numerics import activation_moments, loops
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.loops import Batch
from bayesprop.numerics.machine import in_float64
from bayesprop.numerics.rows import Rows

LOG_VAR_START = -10.0
_DEAD_SNR = 0.5
_LBFGS_MEMORY = 20


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


class Params(NamedTuple):
    """What is optimised: the posterior, and the likelihood's own parameters (a point estimate)."""

    q: Posterior
    likelihood: Any


class VIState(NamedTuple):
    """Params, the optimiser's memory, and the epochs seen so far, a fraction inside an epoch."""

    params: Params
    opt_state: Any
    n_epochs: Float[Array, ""]


class Terms(NamedTuple):
    """The two sides of the ELBO, nats in all.

    expected_log_lik
        Sum over the rows of weight * E[log p(y | f)].
    kl
        KL from posterior to prior.
    """

    expected_log_lik: Float[Array, ""]
    kl: Float[Array, ""]


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
        Copies of every row: lambda of section 3.3. Any value but 1 is a tempered posterior.
    """

    likelihood: NetworkLikelihood
    activation: str = "relu"
    prior: Literal["normal", "laplace"] = "normal"
    prior_scale: float | Literal["fan_in", "empirical"] = 1.0
    likelihood_weight: float = 1.0


def start(model: Model, weights: Weights, *, log_var: float = LOG_VAR_START) -> Params:
    """Start at the given weights, all with the same log variance (section 4.1: rho = -10)."""
    log_v = tuple(jnp.full_like(w, log_var) for w in weights)
    return Params(Posterior(weights, log_v), model.likelihood.init())


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


def terms(model: Model, params: Params, rows: Rows) -> Terms:
    """Both sides of the ELBO on some rows; the expected log-likelihood is not weighted."""
    f = propagate(model, params.q, rows.x)
    expected = partial(model.likelihood.expected_log_prob, params.likelihood)
    log_lik = jnp.sum(rows.weight * jax.vmap(expected)(f.m, f.v, rows.y))
    return Terms(log_lik, kl(model, params.q))


def elbo(model: Model, params: Params, rows: Rows) -> Float[Array, ""]:
    """likelihood_weight * sum_rows E[log p(y | f)] - KL, nats (section 3, with 3.3)."""
    log_lik, divergence = terms(model, params, rows)
    return model.likelihood_weight * log_lik - divergence


def closed_form_vi(
    model: Model,
    *,
    learning_rate: float = 1e-3,
    optimizer: str = "adam",
    warm_up_epochs: float = 0.0,
) -> GradientMethod:
    """Fit a model by Adam, the paper's choice, or another optimiser of optax, by name.

    learning_rate
        Of the optimiser.
    warm_up_epochs
        Epochs over which the weight of the KL rises linearly from 0 to 1.

    The gradient does not need the value of the KL: `update` computes it once an epoch.
    """
    steps = clipped(getattr(optax, optimizer)(learning_rate), model.likelihood)

    def init(key: PRNGKeyArray, weights: Weights) -> VIState:
        del key
        params = start(model, weights)
        return VIState(params, steps.init(params), jnp.zeros(()))

    def objective(params: Params, batch: Batch, kl_weight: Array) -> tuple[Array, Array]:
        found = terms(model, params, Rows(batch.x, batch.y, batch.weight))
        share = kl_weight * found.kl / batch.n_batches
        gain = model.likelihood_weight * found.expected_log_lik
        return batch.n_batches / batch.n_total * (share - gain), found.expected_log_lik

    def update(key: PRNGKeyArray, state: VIState, batch: Batch) -> tuple[VIState, Info]:
        del key
        kl_weight = jnp.minimum(1.0, state.n_epochs / warm_up_epochs) if warm_up_epochs else 1.0
        slope_of = jax.grad(objective, has_aux=True)
        slope, log_lik = slope_of(state.params, batch, jnp.asarray(kl_weight))
        step, opt_state = steps.update(slope, state.opt_state)
        params = jax.tree.map(jnp.add, state.params, step)
        kl_now = loops.once_an_epoch(batch, lambda: kl(model, params.q))
        a_row = batch.n_batches / batch.n_total
        share = kl_weight * kl_now / batch.n_batches
        loss = a_row * (share - model.likelihood_weight * log_lik)
        n_epochs = state.n_epochs + 1.0 / batch.n_batches
        return VIState(params, opt_state, n_epochs), Info(loss, a_row * log_lik, kl_now)

    return GradientMethod(init, update, sample, mean)


class Optimum(NamedTuple):
    """Where L-BFGS stopped.

    loss
        -ELBO a row at every step, nats.
    gradient_norm
        Largest absolute derivative of `loss` at the end.
    """

    params: Params
    loss: list[float]
    gradient_norm: float


@partial(jax.jit, static_argnames="model")
def _loss_and_slope(model: Model, params: Params, rows: Rows) -> tuple[Array, Params]:
    def loss(params: Params) -> Array:
        return -elbo(model, params, rows) / jnp.sum(rows.weight)

    return jax.value_and_grad(loss)(params)


@in_float64
def fit_lbfgs(
    model: Model,
    params: Params,
    rows: Rows,
    *,
    tol: float = 1e-4,
    max_steps: int = 1000,
    progress: Progress = SILENT,
) -> Optimum:
    """Minimise -ELBO on all rows at once, in float64; the result is in the parameters' precision.

    Without gradient noise a minimum can be recognised: the gradient vanishes (section 1, ii).

    tol
        Of the largest absolute derivative of -ELBO a row.
    max_steps
        Steps of L-BFGS; a step takes one evaluation or a few.
    """
    from scipy.optimize import minimize

    def wide(a: Any) -> Any:
        is_code = jnp.issubdtype(a.dtype, jnp.integer)
        return a if is_code else jnp.asarray(a, jnp.float64)

    start, rows = jax.tree.map(wide, (params, rows))
    flat_start, unflat = ravel_pytree(start)

    def evaluated(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _loss_and_slope(model, unflat(jnp.asarray(flat)), rows)
        return float(value), _flat(slope)

    trace: list[float] = []

    def follow(intermediate_result: Any) -> None:
        trace.append(float(intermediate_result.fun))
        n = len(trace)
        progress.report(n, max_steps, f"step {n}", f"loss {trace[-1]:.5g}")
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
    optimum = unflat(jnp.asarray(result.x))
    _, slope = _loss_and_slope(model, optimum, rows)
    narrow = jax.tree.map(lambda a, like: a.astype(like.dtype), optimum, params)
    return Optimum(narrow, trace, float(np.abs(_flat(slope)).max()))


def _flat(params: Params) -> np.ndarray:
    return np.asarray(ravel_pytree(params)[0])


def sample(key: PRNGKeyArray, state: VIState) -> Draw:
    """Draw all weights once from the posterior."""
    q, likelihood = state.params
    keys = jax.random.split(key, len(q.m))
    weights = tuple(
        m + jnp.exp(0.5 * log_v) * jax.random.normal(key, m.shape, m.dtype)
        for key, m, log_v in zip(keys, q.m, q.log_v, strict=True)
    )
    return Draw(weights, likelihood)


def mean(state: VIState) -> Draw:
    """Return the posterior means of the weights."""
    return Draw(state.params.q.m, state.params.likelihood)


def dead_units(q: Posterior) -> Int[np.ndarray, " l"]:
    """Count the units of every hidden layer through which nothing passes.

    A unit is dead when no weight that leaves it is told from zero: |m| < std / 2 for all of them.
    """
    return np.array(
        [
            int(np.sum(np.all(np.abs(m[:-1]) < _DEAD_SNR * np.exp(0.5 * log_v[:-1]), axis=1)))
            for m, log_v in zip(map(np.asarray, q.m[1:]), map(np.asarray, q.log_v[1:]), strict=True)
        ],
        dtype=int,
    )
