"""Probabilistic backpropagation in the order of its paper (Hernández-Lobato & Adams 2015).

The readable form: any activation that propagates moments, gradients by `jax.grad`, float64. The
compiled engine in `engine.py` must equal it to rounding. Last, the paper's future work:
mini-batches, and EP's estimate of the evidence log p(y | X). The other estimate needs no code of
its own: log Z summed over a first pass of assumed density filtering is the log probability of every
datum given those before it (the chain rule).
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Int, PyTree

from bayesprop.moments.pbp.state import Gamma, Inference, PBPInfo, PBPState, Targets
from bayesprop.networks.mlp import Weights, mlp_apply, mlp_propagate
from bayesprop.numerics import LOG_2PI
from bayesprop.numerics.gaussian import Gaussian, log_cdf, log_pdf, match_moments
from bayesprop.numerics.machine import in_float64
from bayesprop.numerics.rows import Rows

_SMALLEST_VAR = 1e-100
_N_STEPS = 256


def expected_variance(q: Gamma) -> Float[Array, "..."]:
    """E[1 / precision]; infinite in truth, negative here, for a shape at or below 1."""
    return q.rate / (q.shape - 1.0)


def matched_gamma(q: Gamma, v: Float[Array, "..."], resid: Float[Array, "..."]) -> Gamma:
    """Absorb N(resid | 0, v + 1/precision) into a Gamma by its first two moments.

    Hernández-Lobato & Adams (2015), eq. 9-10, with Z, Z1, Z2 approximated by eq. 11-12: Gaussians
    of variance v + rate / (shape - 1), v + rate / shape and v + rate / (shape + 1). Written in
    differences, because the textbook form subtracts numbers that agree to all digits once the
    shape is large.
    """
    shape, rate = q
    v_0 = v + rate / (shape - 1.0)
    v_1 = v + rate / shape
    v_2 = v + rate / (shape + 1.0)
    gap_01 = rate / (shape * (shape - 1.0))
    gap_12 = rate / (shape * (shape + 1.0))
    resid_sq = resid * resid
    log_ratio_1 = -0.5 * (jnp.log1p(-gap_01 / v_0) + resid_sq * gap_01 / (v_0 * v_1))
    log_ratio_2 = -0.5 * (jnp.log1p(-gap_12 / v_1) + resid_sq * gap_12 / (v_1 * v_2))
    new_shape = 1.0 / jnp.expm1(log_ratio_2 - log_ratio_1 + jnp.log1p(1.0 / shape))
    return Gamma(new_shape, new_shape * rate / (shape * jnp.exp(log_ratio_1)))


def is_gamma(q: Gamma) -> Array:
    """Whether a mean and a finite expected variance exist."""
    finite = jnp.isfinite(q.shape) & jnp.isfinite(q.rate)
    return finite & (q.shape > 1.0) & (q.rate > 0.0)


class Factor(NamedTuple):
    """A Gaussian of every weight and a Gamma of every output's noise; factors multiply by adding.

    prec, prec_mean
        1/v and m/v, layer by layer.
    noise
        The Gamma as it is.
    """

    prec: Weights
    prec_mean: Weights
    noise: Gamma

    @classmethod
    def of_posterior(cls, q: PBPState) -> Factor:
        """Return the posterior in natural parameters."""
        layers = tuple(zip(q.m, q.v, strict=True))
        prec, prec_mean = tuple(1.0 / v for _, v in layers), tuple(m / v for m, v in layers)
        return cls(prec, prec_mean, q.noise)

    @classmethod
    def of_average(cls, state: PBPState) -> Factor:
        """Return the average likelihood factor of stochastic EP."""
        noise = Gamma(state.lik_noise_shape, state.lik_noise_rate)
        return cls(state.lik_prec, state.lik_prec_mean, noise)

    @property
    def weights(self) -> tuple[Gaussian, ...]:
        """Means and variances of the weights, negative where improper."""
        layers = zip(self.prec, self.prec_mean, strict=True)
        return tuple(Gaussian(shift / prec, 1.0 / prec) for prec, shift in layers)


def with_posterior(state: PBPState, weights: tuple[Gaussian, ...], noise: Gamma) -> PBPState:
    """Replace the posterior of a state."""
    m, v = tuple(w.m for w in weights), tuple(w.v for w in weights)
    return state._replace(m=m, v=v, noise_shape=noise.shape, noise_rate=noise.rate)


def _minus(a: PyTree, b: PyTree) -> PyTree:
    """Subtract leaf by leaf: in natural parameters, divide two distributions."""
    return jax.tree.map(jnp.subtract, a, b)


def _count_false(flags: PyTree) -> Int[Array, ""]:
    """Count the flags that are down, over all layers."""
    return sum((jnp.sum(~flag) for flag in jax.tree.leaves(flags)), start=jnp.asarray(0))


def _where(flag: Array, new: PyTree, old: PyTree) -> PyTree:
    """Choose leaf by leaf."""
    return jax.tree.map(lambda n, o: jnp.where(flag, n, o), new, old)


def _moved(q: PBPState, slopes: tuple[Weights, Weights]) -> tuple[tuple[Gaussian, ...], Array]:
    """Move the weights by eq. 6 and 7, from the slopes of log Z by their means and variances.

    A weight keeps its mean and variance where the new variance is not positive (section 3.5);
    returned with the number of those.
    """
    old = tuple(map(Gaussian, q.m, q.v))
    new = tuple(match_moments(*layer) for layer in zip(old, *slopes, strict=True))
    valid = tuple((w.v > _SMALLEST_VAR) & jnp.isfinite(w.v) & jnp.isfinite(w.m) for w in new)
    return tuple(map(_where, valid, new, old)), _count_false(valid)


def absorb(
    q: PBPState, datum: Rows, *, activation: str, targets: Targets
) -> tuple[PBPState, PBPInfo]:
    """Absorb one likelihood factor (section 3.3): eq. 13-17 and log Z forward, then 6, 7, 9 and 10.

    Of numbers log Z is eq. 12; of classes, the paper's future work, it is that of a probit, and
    there is no noise to learn. A sample weight is a power of the factor, and the change of q(gamma)
    is multiplied by it.
    """

    def propagate(m: Weights, v: Weights) -> Gaussian:
        return mlp_propagate(m, v, datum.x, activation_name=activation)

    def log_z_of(m: Array, v: Array) -> Array:
        if targets == "classes":
            return _class_log_z(m, v, datum.y)
        return jnp.sum(log_pdf(datum.y, m, v + expected_variance(q.noise)))

    f, pull_back = jax.vjp(propagate, q.m, q.v)
    log_z, grad = jax.value_and_grad(log_z_of, argnums=(0, 1))(*f)
    tempered, removed = _tempered(f, Gaussian(*grad), datum.weight)
    weights, undone = _moved(q, pull_back(tempered))
    noise, noise_kept = q.noise, jnp.asarray(0)
    if targets == "numbers":
        noise, noise_kept = _weighted_noise(q.noise, f, datum)
    info = PBPInfo(datum.weight * log_z, jnp.mean(removed), undone, noise_kept)
    return with_posterior(q, weights, noise), info


def _weighted_noise(old: Gamma, f: Gaussian, datum: Rows) -> tuple[Gamma, Array]:
    matched = matched_gamma(old, f.v, datum.y - f.m)
    new = jax.tree.map(lambda n, o: o + datum.weight * (n - o), matched, old)
    valid = is_gamma(new)
    return _where(valid, new, old), _count_false(valid)


def probit_log_z(
    m: Float[Array, "..."], v: Float[Array, "..."], y: Float[Array, "..."]
) -> Float[Array, "..."]:
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
    m: Float[Array, " o"], v: Float[Array, " o"], y: Float[Array, " q"]
) -> Float[Array, ""]:
    if y.shape == m.shape:
        return jnp.sum(probit_log_z(m, v, y))
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


def _joint_log_z(
    m: Weights, v: Weights, jacobian: Weights, noise_var: Array, data: Rows, *, activation: str
) -> tuple[Array, Gaussian]:
    """Log density of a mini-batch: eq. 12 for several rows at once, whose outputs covary.

    The covariance of two rows is sum_k J_ik v_k J_jk, J the derivative of their means; for one row
    this is eq. 12, for a linear model it is exact. Innovations are the residuals that a row leaves
    once the rows before it are known, as a pass row by row would see them; returned with their
    epistemic variances, (b, o). Rows of weight 0 pad.
    """
    f = jax.vmap(lambda x: mlp_propagate(m, v, x, activation_name=activation))(data.x)
    counted = data.weight > 0.0
    noise = jax.vmap(lambda w: noise_var / w)(jnp.where(counted, data.weight, 1.0))
    var = jnp.where(counted[:, None], f.v + noise, 1.0)
    resid = jnp.where(counted[:, None], data.y - f.m, 0.0)
    off_diagonal = counted[:, None] & counted[None, :] & ~jnp.eye(len(counted), dtype=bool)
    shared = _shared_variance(jacobian, v)
    chol = jnp.linalg.cholesky(
        jax.vmap(lambda cov, var: jnp.where(off_diagonal, cov, jnp.diag(var)))(shared, var.T)
    )
    white = jax.vmap(partial(jax.scipy.linalg.solve_triangular, lower=True))(chol, resid.T).T
    std = jax.vmap(jnp.diag)(chol).T
    log_terms = -0.5 * (LOG_2PI + white**2) - jnp.log(std)
    log_z = jnp.sum(jnp.where(counted[:, None], log_terms, 0.0))
    return log_z, Gaussian(std * white, std**2 - noise)


def _shared_variance(jacobian: Weights, v: Weights) -> Float[Array, "o b b"]:
    """Covariance of the outputs of two rows through the weights they share."""
    layers = zip(jacobian, v, strict=True)
    return sum(
        (jnp.einsum("ioab,ab,joab->oij", j, layer_v, j) for j, layer_v in layers),
        start=jnp.asarray(0.0),
    )


def _noise_change(noise: Gamma, batch: Gaussian, weight: Array) -> tuple[Gamma, Array]:
    """Sum of what the rows ask of q(gamma), and which rows ask something valid."""

    def asked(resid: Array, epistemic_var: Array, weight: Array) -> tuple[Gamma, Array]:
        matched = matched_gamma(noise, epistemic_var, resid)
        valid = is_gamma(matched) | (weight == 0.0)
        change = jax.tree.map(lambda m, o: jnp.where(valid, weight * (m - o), 0.0), matched, noise)
        return change, valid

    changes, valid = jax.vmap(asked)(*batch, weight)
    return jax.tree.map(lambda c: jnp.sum(c, axis=0), changes), valid


def absorb_batch(q: PBPState, data: Rows, *, activation: str) -> tuple[PBPState, PBPInfo]:
    """Absorb a mini-batch as one likelihood factor: eq. 6-7 from its joint log Z (future work).

    Adding up the changes that the rows ask for separately overshoots, because they all push the
    same way: on boston that diverged at 32 rows. The joint density needs no damping.
    The changes of q(gamma) that the innovations ask for are added up, and shortened where they
    would more than halve what the Gamma holds. A batch of one is `absorb`.
    """
    noise_var = expected_variance(q.noise)

    def mean(m: Weights, x: Array) -> Array:
        return mlp_propagate(m, q.v, x, activation_name=activation).m

    jacobian = jax.vmap(jax.jacrev(mean), in_axes=(None, 0))(q.m, data.x)
    joint_log_z = partial(_joint_log_z, activation=activation)
    (log_z, batch), slopes = jax.value_and_grad(joint_log_z, argnums=(0, 1), has_aux=True)(
        q.m, q.v, jacobian, noise_var, data
    )
    weights, undone = _moved(q, slopes)
    change, valid = _noise_change(q.noise, batch, data.weight)
    length = jnp.minimum(
        _longest_step(q.noise.shape - 1.0, change.shape), _longest_step(q.noise.rate, change.rate)
    )
    noise = jax.tree.map(lambda o, c: o + length * c, q.noise, change)
    counted = (data.weight > 0.0)[:, None]
    share = batch.v / (batch.v + noise_var[None, :])
    info = PBPInfo(
        log_z,
        jnp.sum(jnp.where(counted, share, 0.0)) / share.shape[1],
        weights_undone=undone,
        noise_kept=_count_false(valid),
        steps_damped=_count_false(length >= 1.0),
    )
    return with_posterior(q, weights, noise), info


def _longest_step(room: Array, change: Array) -> Array:
    """Longest step, at most 1, that uses up no more than half of the room."""
    falling = change < 0.0
    return jnp.where(falling, jnp.minimum(1.0, 0.5 * room / jnp.where(falling, -change, 1.0)), 1.0)


def _cavity(state: PBPState, n_removed: Array) -> tuple[PBPState, Array]:
    """Q without so many average likelihood factors; where that is improper, q itself.

    Stochastic EP (Li, Hernández-Lobato & Turner 2015, algorithm 1). Returned with the number of
    weights whose cavity is improper.
    """
    rest = jax.tree.map(
        lambda whole, factor: whole - n_removed * factor,
        Factor.of_posterior(state),
        Factor.of_average(state),
    )
    proper = tuple(prec > 0.0 for prec in rest.prec)
    weights = tuple(map(_where, proper, rest.weights, map(Gaussian, state.m, state.v)))
    noise = _where(is_gamma(rest.noise), rest.noise, state.noise)
    return with_posterior(state, weights, noise), _count_false(proper)


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

    def absorbed(q: PBPState, part: Rows) -> tuple[PBPState, PBPInfo]:
        if part.weight.ndim:
            return absorb_batch(q, part, activation=activation)
        return absorb(q, part, activation=activation, targets=targets)

    def stochastic_ep(state: PBPState, part: Rows) -> tuple[PBPState, PBPInfo]:
        count = jnp.sum(part.weight > 0.0)
        cavity, improper = _cavity(state, n_seen * count)
        q, info = absorbed(cavity, part)
        factor = _minus(Factor.of_posterior(q), Factor.of_posterior(cavity))
        average = jax.tree.map(
            lambda a, f: a + (f - n_seen * count * a) / n, Factor.of_average(state), factor
        )
        after = q._replace(
            lik_prec=average.prec,
            lik_prec_mean=average.prec_mean,
            lik_noise_shape=average.noise.shape,
            lik_noise_rate=average.noise.rate,
        )
        return after, info._replace(weights_undone=info.weights_undone + improper)

    step = absorbed if inference == "adf" else stochastic_ep
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
    state, info = _pass(
        state, data, n_seen, activation=activation, inference=inference, targets=targets
    )
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
    """Mean and variance of the noise-free output at standardised rows."""
    m, v = _predict(jax.tree.map(jnp.asarray, state), jnp.asarray(x), activation=activation)
    return np.asarray(m), np.asarray(v)


@partial(jax.jit, static_argnames="activation")
def _evaluate(weights: Weights, x: Float[Array, "n d"], *, activation: str) -> Array:
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


def _log_partition(factor: Factor) -> Float[Array, ""]:
    """Log normaliser of weights and noise; NaN where a precision is not positive."""
    noise = jnp.sum(gamma_log_partition(factor.noise))
    return sum((jnp.sum(gaussian_log_partition(*w)) for w in factor.weights), start=noise)


def gaussian_log_partition(m: Float[Array, "..."], v: Float[Array, "..."]) -> Float[Array, "..."]:
    """Log normaliser of exp(w m/v - w²/2v), nats."""
    return 0.5 * (LOG_2PI + jnp.log(v) + m**2 / v)


def gamma_log_partition(q: Gamma) -> Float[Array, "..."]:
    """Log normaliser of x^(shape - 1) exp(-rate x), nats."""
    return gammaln(q.shape) - q.shape * jnp.log(q.rate)


@partial(jax.jit, static_argnames="activation")
def _ep_log_evidence(state: PBPState, data: Rows, *, activation: str) -> Float[Array, ""]:
    q, average = Factor.of_posterior(state), Factor.of_average(state)
    prior = jax.tree.map(lambda a, f: a - len(data.x) * f, q, average)
    cavity = _minus(q, average)
    start = with_posterior(state, cavity.weights, cavity.noise)

    def of_one(total: tuple[Factor, Array], datum: Rows) -> tuple[tuple[Factor, Array], None]:
        new, info = absorb(start, datum, activation=activation, targets="numbers")
        tilted = Factor.of_posterior(new)
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
