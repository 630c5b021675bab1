"""Probabilistic backpropagation in the order of its paper (Hernández-Lobato & Adams 2015).

The readable form: any activation that propagates moments, any likelihood with a log Z, gradients by
`jax.grad`, float64. The compiled engine in `engine.py` must equal it to rounding.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from bayesprop.model.likelihoods import GammaPrecisionNoise
from bayesprop.model.networks import mlp_propagate
from bayesprop.moments.pbp.factors import (
    Datum,
    average_factor,
    cavity_of,
    count_false,
    is_gamma,
    layers,
    minus,
    natural,
    undo_invalid,
    with_average_factor,
    with_q,
)
from bayesprop.moments.pbp.mini_batches import batch_pass
from bayesprop.moments.pbp.prior_factors import refresh
from bayesprop.moments.pbp.state import (
    Inference,
    PBPInfo,
    PBPState,
    Targets,
    least_information,
)
from bayesprop.moments.pbp.targets import LogZ, log_z_of, target_gradient
from bayesprop.numerics import gamma, gaussian
from bayesprop.numerics.gamma import Gamma
from bayesprop.numerics.gaussian import Gaussian, log_pdf
from bayesprop.numerics.precision import in_float64


class Absorbed(NamedTuple):
    """q after one datum, and what it would take to say how that went."""

    weights: tuple[Gaussian, ...]
    noise: Gamma
    log_z: Float[Array, ""]
    epistemic_share: Float[Array, ""]
    undone: Int[Array, ""]
    noise_kept: Int[Array, ""]


def absorb(
    weights: tuple[Gaussian, ...],
    noise: Gamma,
    datum: Datum,
    *,
    activation: str,
    target_log_z: LogZ | None = None,
) -> Absorbed:
    """Absorb one likelihood factor (section 3.3): eq. 13-17 and 12 forward, then 6, 7, 9 and 10.

    A sample weight tempers the factor: its noise variance is divided by the weight, and the change
    of q(gamma) is multiplied by it. With `target_log_z`, the target is not a number with noise.
    """
    if target_log_z is not None:
        m, v = tuple(w.m for w in weights), tuple(w.v for w in weights)
        grad, log_z_now, share = target_gradient(m, v, datum, target_log_z, activation=activation)
        kept_weights, undone = undo_invalid(weights, _moved(weights, grad))
        return Absorbed(kept_weights, noise, log_z_now, share, undone, jnp.asarray(0))
    noise_var = gamma.expected_variance(noise)

    def log_z(m: tuple, v: tuple) -> tuple[Array, Gaussian]:
        f = mlp_propagate(m, v, datum.x, activation_name=activation)
        return jnp.sum(log_pdf(datum.y, f.m, f.v + noise_var / datum.weight)), f

    m, v = tuple(w.m for w in weights), tuple(w.v for w in weights)
    grad, f = jax.grad(log_z, argnums=(0, 1), has_aux=True)(m, v)
    kept_weights, undone = undo_invalid(weights, _moved(weights, grad))
    likelihood = GammaPrecisionNoise(noise)
    new_noise, noise_kept = _weighted_noise(likelihood, f, datum)
    log_z_now = datum.weight * jnp.sum(likelihood.log_z(f.m, f.v, datum.y))
    share = jnp.mean(f.v / (f.v + noise_var))
    return Absorbed(kept_weights, new_noise, log_z_now, share, undone, noise_kept)


def _moved(weights: tuple[Gaussian, ...], grad: tuple[tuple, tuple]) -> tuple[Gaussian, ...]:
    """Eq. 6 and 7 for every layer."""
    return tuple(
        gaussian.match_moments(w, *dw)
        for w, dw in zip(weights, zip(*grad, strict=True), strict=True)
    )


def _weighted_noise(
    likelihood: GammaPrecisionNoise, f: Gaussian, datum: Datum
) -> tuple[Gamma, Array]:
    old = likelihood.precision
    matched = likelihood.update(f.m, f.v, datum.y)
    new = Gamma(*(o + datum.weight * (n - o) for o, n in zip(old, matched, strict=True)))
    valid = is_gamma(new)
    kept = Gamma(*(jnp.where(valid, n, o) for n, o in zip(new, old, strict=True)))
    return kept, count_false(valid)


@partial(jax.jit, static_argnames=("activation", "inference", "target_log_z"))
def _online_pass(
    state: PBPState,
    data: Datum,
    n_seen: Array,
    *,
    activation: str,
    inference: Inference,
    target_log_z: LogZ | None,
) -> tuple[PBPState, PBPInfo]:
    """Absorb row by row; n_seen is 1 if q has seen each of these rows before, else 0."""
    n = data.x.shape[0]

    def step(state: PBPState, datum: Datum) -> tuple[PBPState, PBPInfo]:
        if inference == "adf":
            cavity, noise = layers(state.m, state.v), Gamma(state.noise_shape, state.noise_rate)
            improper = jnp.asarray(0)
        else:
            cavity, noise, improper = cavity_of(state, n_seen)
        new = absorb(cavity, noise, datum, activation=activation, target_log_z=target_log_z)
        info = PBPInfo(new.log_z, new.epistemic_share, new.undone + improper, new.noise_kept)
        after = with_q(state, new.weights, new.noise)
        if inference == "sep":
            factor = minus(natural(new.weights, new.noise), natural(cavity, noise))
            average = jax.tree.map(
                lambda a, f: a + (f - n_seen * a) / n, average_factor(state), factor
            )
            after = with_average_factor(after, average)
        return after, info

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
    targets: Targets | LogZ = "numbers",
) -> tuple[PBPState, PBPInfo]:
    """Absorb the rows named by `order`, one after the other or batch by batch.

    x, y
        Standardised rows.
    order
        Row numbers in the order of visit; a row with weight 0 is passed over.
    inference
        "adf" treats every visit as a new datum, as the paper does. "sep" removes the average
        likelihood factor first, so that many passes do not shrink the variance; its first pass,
        with no factor to remove yet, is "adf" that keeps the average.
    batch_size
        1 is the paper's algorithm.
    targets
        What a row of y is, or log Z as a function of the outputs' means and variances and that row.
        Batches are for numbers only: they need the joint density of their rows.
    """
    is_number = targets == "numbers"
    if batch_size > 1 and not is_number:
        raise ValueError(f"batch_size must be 1 unless targets are numbers, got {batch_size}")
    weight = np.ones(len(x)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    order = order[weight[order] > 0.0]
    if len(order) == 0:
        return state, PBPInfo()
    state = jax.tree.map(jnp.asarray, state)
    n_seen = jnp.asarray(float(any(np.any(f) for f in state.lik_prec)))
    rule = {"activation": activation, "inference": inference}
    if batch_size == 1:
        data = Datum(*(jnp.asarray(a[order]) for a in (x, y, weight)))
        log_z = log_z_of(targets)
        return _to_host(*_online_pass(state, data, n_seen, target_log_z=log_z, **rule))
    n_padding = -len(order) % batch_size
    padded = np.concatenate([order, np.zeros(n_padding, dtype=order.dtype)])
    counted = np.where(np.arange(len(padded)) < len(order), weight[padded], 0.0)
    batches = Datum(
        *(
            jnp.asarray(a.reshape(len(padded) // batch_size, batch_size, *a.shape[1:]))
            for a in (x[padded], y[padded], counted)
        )
    )
    return _to_host(*batch_pass(state, batches, n_seen, **rule))


@in_float64
def refresh_prior(
    state: PBPState, *, targets: Targets | LogZ = "numbers"
) -> tuple[PBPState, PBPInfo]:
    """One full EP update of the weight-prior factors (section 3.4, supplement section 6)."""
    least = jnp.asarray(least_information(targets))
    return _to_host(*refresh(jax.tree.map(jnp.asarray, state), least))


@partial(jax.jit, static_argnames=("activation",))
def _predict(state: PBPState, x: Float[Array, "n d"], *, activation: str) -> Gaussian:
    return jax.vmap(lambda row: mlp_propagate(state.m, state.v, row, activation_name=activation))(x)


@in_float64
def predict_moments(
    state: PBPState,
    x: Float[np.ndarray, "n d"],
    *,
    activation: str = "relu",
    chunk_rows: int = 8192,
) -> tuple[Float[np.ndarray, "n o"], Float[np.ndarray, "n o"]]:
    """Mean and variance of the noise-free output at standardised rows, in bounded memory."""
    state = jax.tree.map(jnp.asarray, state)
    n_out = state.m[-1].shape[1]
    m, v = np.empty((len(x), n_out)), np.empty((len(x), n_out))
    for start in range(0, len(x), chunk_rows):
        rows = slice(start, start + chunk_rows)
        m[rows], v[rows] = _predict(state, jnp.asarray(x[rows]), activation=activation)
    return m, v
