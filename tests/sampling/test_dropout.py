"""Dropout masks, the networks that they make, and their posterior, against enumeration."""

from __future__ import annotations

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bayesprop.networks.likelihoods import KnownNoise
from bayesprop.networks.mlp import init_weights, plain_apply
from bayesprop.numerics.loops import Batch
from bayesprop.sampling.mc_dropout import (
    Rates,
    drop_rows,
    dropout_forward,
    dropout_kl,
    keep_mask,
    keep_share,
    mc_dropout,
)

RATES = Rates(input=0.25, hidden=0.5)


def network(sizes=(2, 3, 1), seed=0):
    weights = init_weights(jax.random.key(seed), sizes)
    return tuple(
        w + 0.3 * jnp.sin(jnp.arange(w.size, dtype=w.dtype)).reshape(w.shape) for w in weights
    )


def outputs_by_enumeration(weights, x, rates):
    """Outputs of every network with missing units, and their probabilities; NumPy only."""
    n_in, n_hidden = len(x), weights[0].shape[1]
    w0, w1 = (np.asarray(w, np.float64) for w in weights)
    found = []
    for kept in product((0, 1), repeat=n_in + n_hidden):
        kept = np.array(kept)
        p = np.prod(np.where(kept[:n_in] == 1, 1 - rates.input, rates.input))
        p *= np.prod(np.where(kept[n_in:] == 1, 1 - rates.hidden, rates.hidden))
        z = x * kept[:n_in] / (1 - rates.input)
        h = np.maximum(z @ w0[:-1] + w0[-1], 0.0) * kept[n_in:] / (1 - rates.hidden)
        found.append((h @ w1[:-1] + w1[-1], p))
    return np.array([f[0] for f, _ in found]), np.array([p for _, p in found])


@pytest.mark.parametrize("rate", [0.5, 0.2, 0.003, 0.97])
def test_masks_have_their_rate(rate):
    n = 200_001
    mask = np.asarray(keep_mask(jax.random.key(1), (n,), rate))
    keep = keep_share(rate)
    assert keep == pytest.approx(1.0 - rate, abs=2.0**-17)
    assert set(np.unique(mask)) == {0.0, np.float32(1.0 / keep)}
    kept = mask > 0.0
    assert abs(kept.mean() - keep) < 4.5 * np.sqrt(keep * (1 - keep) / n)


@pytest.mark.parametrize("rate", [0.5, 0.2])
def test_entries_from_one_random_word_are_independent(rate):
    """Neighbours share a word: correlations at lags 1 to 4 are those of chance."""
    kept = np.asarray(keep_mask(jax.random.key(2), (300, 1000), rate)).ravel() > 0.0
    centred = kept - kept.mean()
    for lag in (1, 2, 3, 4):
        correlation = np.mean(centred[lag:] * centred[:-lag]) / centred.var()
        assert abs(correlation) < 4.5 / np.sqrt(kept.size)


def test_no_rates_is_the_plain_network():
    weights, x = network((4, 6, 5, 2)), jax.random.normal(jax.random.key(3), (7, 4))
    forward = dropout_forward(Rates(), activation_name="erf")
    expected = jax.vmap(lambda row: plain_apply(weights, row, activation_name="erf"))(x)
    np.testing.assert_allclose(forward(jax.random.key(0), weights, x), expected, rtol=1e-6)
    for w, dropped in zip(weights, drop_rows(jax.random.key(0), weights, Rates()), strict=True):
        np.testing.assert_array_equal(w, dropped)


def test_training_and_draws_have_the_distribution_of_all_masks():
    """Mean and variance of the output over 32 masks, by enumeration, and by both samplers."""
    weights, x, n = network(), np.array([0.7, -1.3]), 40_000
    f, p = outputs_by_enumeration(weights, x, RATES)
    assert p.sum() == pytest.approx(1.0)
    mean = np.sum(p * f)
    var = np.sum(p * (f - mean) ** 2)
    fourth = np.sum(p * (f - mean) ** 4)
    row = jnp.asarray(x, jnp.float32)
    forward = dropout_forward(RATES, activation_name="relu")
    trained = forward(jax.random.key(4), weights, jnp.tile(row, (n, 1)))[:, 0]
    drawn = jax.vmap(lambda key: plain_apply(drop_rows(key, weights, RATES), row)[0])(
        jax.random.split(jax.random.key(5), n)
    )
    for sampled in (np.asarray(trained, np.float64), np.asarray(drawn, np.float64)):
        assert abs(sampled.mean() - mean) < 4.5 * np.sqrt(var / n)
        assert abs(sampled.var() - var) < 4.5 * np.sqrt((fourth - var**2) / n)


@pytest.mark.parametrize("by_row", [True, False])
def test_missing_connections_have_the_moments_of_all_masks(by_row):
    """Means and covariances of two outputs at two rows, over 4096 masks by enumeration."""
    rate, n = 0.25, 60_000
    weights, x = network((2, 2, 2)), np.array([[0.7, -1.3], [1.1, 0.4]])
    kept = np.array(list(product((0, 1), repeat=12)))
    p = np.prod(np.where(kept == 1, 1 - rate, rate), axis=1)
    masks = kept.reshape(-1, 2, 3, 2) / (1 - rate)
    w0, w1 = (np.asarray(w, np.float64) * masks[:, k] for k, w in enumerate(weights))
    h = np.maximum(x @ w0[:, :2] + w0[:, 2:], 0.0)
    f = (h @ w1[:, :2] + w1[:, 2:]).reshape(len(p), 4)
    mean = p @ f
    off = f - mean
    cov = off.T @ (p[:, None] * off)
    spread = np.sqrt(np.einsum("m,mi,mj->ij", p, off**2, off**2))
    rows, key = jnp.asarray(x, jnp.float32), jax.random.key(6)
    rates = Rates(connection=rate, connection_by_row=by_row)
    forward = dropout_forward(rates, activation_name="relu")
    if by_row:  # rows have masks of their own
        cov[:2, 2:] = cov[2:, :2] = 0.0
        found = forward(key, weights, jnp.tile(rows, (n, 1)))
    else:
        found = jax.vmap(lambda key: forward(key, weights, rows))(jax.random.split(key, n))
    found = np.asarray(found, np.float64).reshape(n, 4)
    assert (np.abs(found.mean(0) - mean) < 4.5 * np.sqrt(np.diag(cov) / n)).all()
    assert (np.abs(np.cov(found.T) - cov) < 4.5 * spread / np.sqrt(n)).all()


def test_a_mask_a_row_does_not_hold_all_masks():
    """The gradient draws them again: it needs less than rows x weights."""
    n, weights = 256, network((100, 100, 1))
    forward = dropout_forward(Rates(connection=0.5, connection_by_row=True), activation_name="relu")

    def loss(weights, key, x):
        return jnp.sum(forward(key, weights, x) ** 2)

    compiled = jax.jit(jax.grad(loss)).lower(weights, jax.random.key(0), jnp.ones((n, 100)))
    held = compiled.compile().memory_analysis().temp_size_in_bytes
    assert held < 4 * n * sum(w.size for w in weights) / 10


def test_penalty_is_gal_and_ghahramanis():
    """Sum of p l² / 2 |M|² over layers and l² / 2 |b|² over biases, M what a kept unit sends."""
    weights, length_scale = network((3, 4, 2)), 1.7
    expected = 0.0
    for w, rate in zip(weights, (RATES.input, RATES.hidden), strict=True):
        kept_value = np.asarray(w[:-1], np.float64) / (1 - rate)
        squares = (1 - rate) * np.sum(kept_value**2) + np.sum(w[-1] ** 2)
        expected += 0.5 * length_scale**2 * squares
    found = float(dropout_kl(RATES, length_scale=length_scale)(weights))
    assert found == pytest.approx(float(expected), rel=1e-5)


def test_objective_is_dropout_with_their_weight_decay():
    """The loss, over tau, is their eq. 1 with lambda = p l² / (2 N tau), up to a constant."""
    tau, n, length_scale = 4.0, 50, 0.8
    weights, rates = network((2, 1)), Rates(input=0.25)
    x = jax.random.normal(jax.random.key(8), (n, 2))
    y = jax.random.normal(jax.random.key(9), (n, 1))
    how = {"rates": rates, "length_scale": length_scale}
    method = mc_dropout(plain_apply, KnownNoise(1, 1.0 / tau), optax.sgd(0.0), **how)
    key = jax.random.key(10)
    batch = Batch(x, y, jnp.ones(n), jnp.zeros((), jnp.int32), 1, jnp.float32(n))
    _, info = method.update(key, method.init(key, weights), batch)
    f = np.asarray(dropout_forward(rates, activation_name="relu")(key, weights, x), np.float64)
    keep, w = 0.75, np.asarray(weights[0], np.float64)
    decay = keep * length_scale**2 / (2.0 * n * tau)
    bias_decay = length_scale**2 / (2.0 * n * tau)
    theirs = np.mean(0.5 * (np.asarray(y) - f) ** 2)
    theirs += decay * np.sum((w[:-1] / keep) ** 2) + bias_decay * np.sum(w[-1] ** 2)
    constant = 0.5 * np.log(2.0 * np.pi / tau)
    assert float(info.loss) == pytest.approx(tau * theirs + constant, rel=1e-5)
