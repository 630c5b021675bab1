"""Probabilistic backpropagation in the order of its paper (Hernández-Lobato & Adams 2015).

The readable form: any activation that propagates moments, gradients by `jax.grad`, float64. The
compiled engine in `engine.py` must equal it to rounding.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesprop.model.networks import mlp_apply, mlp_propagate
from bayesprop.moments.pbp.factors import (
    Gamma,
    Q,
    Rows,
    absorb_batch,
    average_factor,
    cavity_of,
    count_false,
    expected_variance,
    factor_of,
    is_gamma,
    matched_gamma,
    minus,
    moved,
    q_of,
    where,
    with_average_factor,
    with_q,
)
from bayesprop.moments.pbp.state import Inference, PBPInfo, PBPState, Targets
from bayesprop.numerics.gaussian import Gaussian, log_cdf, log_pdf
from bayesprop.numerics.machine import in_float64

_N_STEPS, _ROWS_AT_ONCE = 256, 8192


def absorb(q: Q, datum: Rows, *, activation: str, targets: Targets) -> tuple[Q, PBPInfo]:
    """Absorb one likelihood factor (section 3.3): eq. 13-17 and log Z forward, then 6, 7, 9 and 10.

    Of numbers log Z is eq. 12; of classes, the paper's future work, it is that of a probit, and
    there is no noise to learn. A sample weight is a power of the factor, and the change of q(gamma)
    is multiplied by it.
    """

    def propagate(m: tuple, v: tuple) -> Gaussian:
        return mlp_propagate(m, v, datum.x, activation_name=activation)

    def log_z_of(m: Array, v: Array) -> Array:
        if targets == "classes":
            return _class_log_z(m, v, datum.y)
        return jnp.sum(log_pdf(datum.y, m, v + expected_variance(q.noise)))

    f, pull_back = jax.vjp(propagate, *q.moments)
    log_z, grad = jax.value_and_grad(log_z_of, argnums=(0, 1))(*f)
    tempered, removed = _tempered(f, Gaussian(*grad), datum.weight)
    weights, undone = moved(q, pull_back(tempered))
    noise, noise_kept = q.noise, jnp.asarray(0)
    if targets == "numbers":
        noise, noise_kept = _weighted_noise(q.noise, f, datum)
    return Q(weights, noise), PBPInfo(datum.weight * log_z, jnp.mean(removed), undone, noise_kept)


def _weighted_noise(old: Gamma, f: Gaussian, datum: Rows) -> tuple[Gamma, Array]:
    matched = matched_gamma(old, f.v, datum.y - f.m)
    new = jax.tree.map(lambda n, o: o + datum.weight * (n - o), matched, old)
    valid = is_gamma(new)
    return where(valid, new, old), count_false(valid)


def probit_log_z(m: Float[Array, ""], v: Float[Array, ""], y: Float[Array, ""]) -> Float[Array, ""]:
    """Log Phi(y m / sqrt(1 + v)): y is the sign of f + e, e ~ N(0, 1) (Minka 2001, eq. 3.63)."""
    return log_cdf(y * m / jnp.sqrt(1.0 + v))


def multinomial_probit_log_z(
    m: Float[Array, " k"], v: Float[Array, " k"], y: Int[Array, ""]
) -> Float[Array, ""]:
    """Y is the number of the largest of f + e, e ~ N(0, 1) (Girolami & Rogers 2006).

    Log of the integral of N(u; m_y, 1 + v_y) prod_{j != y} Phi((u - m_j) / sqrt(1 + v_j)): a sum
    over equal steps around the mode, which Newton's method finds from the left without
    overshooting, because the slope is convex and falls. The steps serve where no output is ten
    times as uncertain as another.
    """
    others = jnp.arange(m.shape[0]) != y
    std = jnp.sqrt(1.0 + v)

    def log_joint(u: Float[Array, ""]) -> Float[Array, ""]:
        below = log_cdf((u - m) / std)
        return log_pdf(u, m[y], std[y] ** 2) + jnp.sum(jnp.where(others, below, 0.0))

    slope, curvature = jax.grad(log_joint), jax.grad(jax.grad(log_joint))
    mode = jax.lax.fori_loop(0, 20, lambda _, u: u - slope(u) / curvature(u), m[y])
    reach = jnp.linspace(-7.5, 7.5, _N_STEPS)
    u = jax.lax.stop_gradient(mode + reach * std[y])
    log_step = jnp.log(jax.lax.stop_gradient(15.0 / (_N_STEPS - 1.0) * std[y]))
    return jax.scipy.special.logsumexp(jax.vmap(log_joint)(u)) + log_step


def _class_log_z(
    m: Float[Array, " o"], v: Float[Array, " o"], y: Float[Array, " 1"]
) -> Float[Array, ""]:
    if m.shape[0] == 1:
        return probit_log_z(m[0], v[0], y[0])
    return multinomial_probit_log_z(m, v, y[0].astype(int))


def _tempered(f: Gaussian, grad: Gaussian, weight: Array) -> tuple[Gaussian, Array]:
    """Gradient for the power `weight` of a factor, and the share of the variance it removes.

    With slope g and curve c = g² - 2 d log Z / dv, the Gaussian factor that moves N(m, v) as log Z
    does has precision c / (1 - v c) and precision-mean (g + m c) / (1 - v c). Both times w, it
    moves N(m, v) by g and c times w / (1 + (w - 1) v c). For Gaussian noise that is exactly the
    noise variance divided by w. One output is treated as if the others had no part in it.
    """
    curve = grad.m**2 - 2.0 * grad.v
    removed = f.v * curve
    factor = weight / (1.0 + (weight - 1.0) * removed)
    slope = factor * grad.m
    return Gaussian(slope, 0.5 * (slope**2 - factor * curve)), removed


@partial(jax.jit, static_argnames=("activation", "inference", "targets"))
def _pass(
    state: PBPState,
    data: Rows,
    n_seen: Array,
    *,
    activation: str,
    inference: Inference,
    targets: Targets,
) -> tuple[PBPState, PBPInfo]:
    """Absorb row by row, or batch by batch; weight 0 marks the padding of a batch.

    n_seen is 1 if q has seen each of these rows before, else 0.
    """
    n = jnp.sum(data.weight > 0.0)

    def absorbed(q: Q, part: Rows) -> tuple[Q, PBPInfo]:
        if part.weight.ndim:
            return absorb_batch(q, part, activation=activation)
        return absorb(q, part, activation=activation, targets=targets)

    def filtering(state: PBPState, part: Rows) -> tuple[PBPState, PBPInfo]:
        q, info = absorbed(q_of(state), part)
        return with_q(state, q), info

    def stochastic_ep(state: PBPState, part: Rows) -> tuple[PBPState, PBPInfo]:
        count = jnp.sum(part.weight > 0.0)
        cavity, improper = cavity_of(state, n_seen * count)
        q, info = absorbed(cavity, part)
        factor, average = minus(factor_of(q), factor_of(cavity)), average_factor(state)
        average = jax.tree.map(lambda a, f: a + (f - n_seen * count * a) / n, average, factor)
        after = with_average_factor(with_q(state, q), average)
        return after, info._replace(weights_undone=info.weights_undone + improper)

    step = filtering if inference == "adf" else stochastic_ep
    state, infos = jax.lax.scan(step, state, data)
    return state, jax.tree.map(jnp.sum, infos)


def _to_host(state: PBPState, info: PBPInfo) -> tuple[PBPState, PBPInfo]:
    counts = (int(count) for count in info[2:])
    sums = float(info.log_z), float(info.epistemic_share)
    return jax.tree.map(np.asarray, state), PBPInfo(*sums, *counts)


@in_float64
def data_pass(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n q"],
    order: Int[np.ndarray, " k"],
    sample_weight: Float[np.ndarray, " n"] | None = None,
    *,
    activation: str = "relu",
    inference: Inference = "adf",
    batch_size: int = 1,
    targets: Targets = "numbers",
) -> tuple[PBPState, PBPInfo]:
    """Absorb the rows named by `order`, one after the other or batch by batch.

    x, y
        Standardised rows.
    order
        Row numbers in the order of visit; a row with weight 0 is passed over.
    inference
        "adf" treats every visit as a new datum, as the paper does. "sep", stochastic EP (Li,
        Hernández-Lobato & Turner 2015), removes the average likelihood factor first, so that many
        passes do not shrink the variance; its first pass only collects that factor.
    batch_size
        1 is the paper's algorithm, and what classes need.
    """
    weight = np.ones(len(x)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    order = order[weight[order] > 0.0]
    if len(order) == 0:
        return state, PBPInfo()
    parts = [table[order] for table in (x, y, weight)]
    if batch_size > 1:
        parts = [_in_batches(part, batch_size) for part in parts]
    data, state = Rows(*map(jnp.asarray, parts)), jax.tree.map(jnp.asarray, state)
    n_seen = jnp.asarray(float(any(np.any(f) for f in state.lik_prec)))
    rule = {"activation": activation, "inference": inference, "targets": targets}
    return _to_host(*_pass(state, data, n_seen, **rule))


def _in_batches(rows: np.ndarray, size: int) -> np.ndarray:
    """Fold the first axis in two, filled up with zeros."""
    n_missing = -len(rows) % size
    rows = np.concatenate([rows, np.zeros((n_missing, *rows.shape[1:]))])
    return rows.reshape(len(rows) // size, size, *rows.shape[1:])


@partial(jax.jit, static_argnames="activation")
def _predict(state: PBPState, x: Float[Array, "n d"], *, activation: str) -> Gaussian:
    return jax.vmap(lambda row: mlp_propagate(state.m, state.v, row, activation_name=activation))(x)


@in_float64
def predict_moments(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    *,
    activation: str = "relu",
) -> tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]:
    """Mean and variance of the noise-free output at standardised rows, in bounded memory."""
    state = jax.tree.map(jnp.asarray, state)
    n_out = state.m[-1].shape[1]
    m, v = np.empty((len(x), n_out)), np.empty((len(x), n_out))
    for start in range(0, len(x), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        m[rows], v[rows] = _predict(state, jnp.asarray(x[rows]), activation=activation)
    return m, v


@partial(jax.jit, static_argnames="activation")
def _evaluate(weights: tuple, x: Float[Array, "n d"], *, activation: str) -> Array:
    return jax.vmap(lambda row: mlp_apply(weights, row, activation_name=activation))(x)


@in_float64
def sample_functions(
    rng: np.random.Generator | np.random.RandomState,
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    n_samples: int,
    *,
    activation: str = "relu",
) -> Float[np.ndarray, "s n o"]:
    """Draw weights from q; each draw is one function, evaluated at all rows of x."""
    layers, rows = list(zip(state.m, state.v, strict=True)), jnp.asarray(x)
    out = np.empty((n_samples, len(x), state.m[-1].shape[1]))
    for s in range(n_samples):
        weights = tuple(m + np.sqrt(v) * rng.standard_normal(m.shape) for m, v in layers)
        out[s] = _evaluate(weights, rows, activation=activation)
    return out
