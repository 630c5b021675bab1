"""Probabilistic backpropagation in the order of its paper (Hernández-Lobato & Adams 2015).

The readable form: any activation that propagates moments, gradients by `jax.grad`, float64. The
compiled engine in `engine.py` must equal it to rounding. Last, the paper's future work: EP's
estimate of the evidence log p(y | X). The other estimate needs no code of its own: log Z summed
over a first pass of assumed density filtering is the log probability of every datum given those
before it (the chain rule).
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Int

from bayesprop.moments.pbp import factors
from bayesprop.moments.pbp.state import Inference, PBPInfo, PBPState, Targets
from bayesprop.networks.mlp import mlp_apply, mlp_propagate
from bayesprop.numerics.gaussian import LOG_2PI, Gaussian, from_natural, log_cdf, log_pdf
from bayesprop.numerics.machine import in_float64
from bayesprop.numerics.rows import Rows

_N_STEPS, _ROWS_AT_ONCE = 256, 8192


def absorb(
    q: factors.Q, datum: Rows, *, activation: str, targets: Targets
) -> tuple[factors.Q, PBPInfo]:
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
        return jnp.sum(log_pdf(datum.y, m, v + factors.expected_variance(q.noise)))

    f, pull_back = jax.vjp(propagate, *q.moments)
    log_z, grad = jax.value_and_grad(log_z_of, argnums=(0, 1))(*f)
    tempered, removed = _tempered(f, Gaussian(*grad), datum.weight)
    weights, undone = factors.moved(q, pull_back(tempered))
    noise, noise_kept = q.noise, jnp.asarray(0)
    if targets == "numbers":
        noise, noise_kept = _weighted_noise(q.noise, f, datum)
    return factors.Q(weights, noise), PBPInfo(
        datum.weight * log_z, jnp.mean(removed), undone, noise_kept
    )


def _weighted_noise(old: factors.Gamma, f: Gaussian, datum: Rows) -> tuple[factors.Gamma, Array]:
    matched = factors.matched_gamma(old, f.v, datum.y - f.m)
    new = jax.tree.map(lambda n, o: o + datum.weight * (n - o), matched, old)
    valid = factors.is_gamma(new)
    return factors.where(valid, new, old), factors.count_false(valid)


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

    def absorbed(q: factors.Q, part: Rows) -> tuple[factors.Q, PBPInfo]:
        if part.weight.ndim:
            return factors.absorb_batch(q, part, activation=activation)
        return absorb(q, part, activation=activation, targets=targets)

    def filtering(state: PBPState, part: Rows) -> tuple[PBPState, PBPInfo]:
        q, info = absorbed(factors.q_of(state), part)
        return factors.with_q(state, q), info

    def stochastic_ep(state: PBPState, part: Rows) -> tuple[PBPState, PBPInfo]:
        count = jnp.sum(part.weight > 0.0)
        cavity, improper = factors.cavity_of(state, n_seen * count)
        q, info = absorbed(cavity, part)
        factor, average = (
            factors.minus(factors.factor_of(q), factors.factor_of(cavity)),
            factors.average_factor(state),
        )
        average = jax.tree.map(lambda a, f: a + (f - n_seen * count * a) / n, average, factor)
        after = factors.with_average_factor(factors.with_q(state, q), average)
        return after, info._replace(weights_undone=info.weights_undone + improper)

    step = filtering if inference == "adf" else stochastic_ep
    state, infos = jax.lax.scan(step, state, data)
    return state, jax.tree.map(jnp.sum, infos)


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
    state, info = _pass(state, data, n_seen, **rule)
    log_z, share, *counts = info
    on_host = PBPInfo(float(log_z), float(share), *map(int, counts))
    return jax.tree.map(np.asarray, state), on_host


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


def _q_of(factor: factors.Factor) -> factors.Q:
    return factors.Q(tuple(from_natural(w) for w in factor.weights), factor.noise)


def _log_partition(factor: factors.Factor) -> Float[Array, ""]:
    """Log normaliser of weights and noise; NaN where a precision is not positive."""
    q = _q_of(factor)
    noise = jnp.sum(gamma_log_partition(q.noise))
    return sum((jnp.sum(gaussian_log_partition(*w)) for w in q.weights), start=noise)


def gaussian_log_partition(m: Float[Array, "..."], v: Float[Array, "..."]) -> Float[Array, "..."]:
    """Log normaliser of exp(w m/v - w²/2v), nats."""
    return 0.5 * (LOG_2PI + jnp.log(v) + m**2 / v)


def gamma_log_partition(q: factors.Gamma) -> Float[Array, "..."]:
    """Log normaliser of x^(shape - 1) exp(-rate x), nats."""
    return gammaln(q.shape) - q.shape * jnp.log(q.rate)


@partial(jax.jit, static_argnames=("activation",))
def _ep_log_evidence(state: PBPState, data: Rows, *, activation: str) -> Float[Array, ""]:
    q, average = factors.factor_of(factors.q_of(state)), factors.average_factor(state)
    prior = jax.tree.map(lambda a, f: a - len(data.x) * f, q, average)
    cavity = factors.minus(q, average)

    def of_one(
        total: tuple[factors.Factor, Array], datum: Rows
    ) -> tuple[tuple[factors.Factor, Array], None]:
        new, info = absorb(_q_of(cavity), datum, activation=activation, targets="numbers")
        tilted = factors.factor_of(new)
        log_scale = info.log_z - _log_partition(tilted) + _log_partition(cavity)
        product = jax.tree.map(lambda p, t, c: p + t - c, total[0], tilted, cavity)
        return (product, total[1] + log_scale), None

    (product, log_scales), _ = jax.lax.scan(of_one, (prior, jnp.asarray(0.0)), data)
    return _log_partition(product) - _log_partition(prior) + log_scales


@in_float64
def ep_log_evidence(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    *,
    activation: str = "relu",
) -> float:
    """Log of int p0 prod_n s_n f_n, nats in standardised units, after stochastic EP on (x, y).

    Every factor f_n is matched to its likelihood under the cavity q / f, with log s_n = log Z_n -
    Phi(tilted_n) + Phi(cavity), Phi the log normaliser (Minka 2001, section 4). p0 is q without
    the data: the weight prior at its present precision, so that this is the evidence of the model
    with that precision. Exact for one weight; for more, as good as independence between weights
    is. NaN where a division leaves no distribution.
    """
    data = Rows(*(jnp.asarray(a) for a in (x, y, np.ones(len(x)))))
    state = jax.tree.map(jnp.asarray, state)
    return float(_ep_log_evidence(state, data, activation=activation))
