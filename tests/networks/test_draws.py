"""Predictions from draws of the weights, against loops over the draws."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from bayesprop.networks import draws
from bayesprop.networks.gradient_method import GradientMethod, Parameters
from bayesprop.networks.likelihoods import Categorical, InputNoise, LearnedNoise
from bayesprop.networks.mlp import init_weights, plain_apply

N_DRAWS = 6


def sample(key, state):
    key_w, key_noise = jax.random.split(key)
    weights = jax.tree.map(lambda w: w + 0.5 * jax.random.normal(key_w, w.shape), state)
    return Parameters(weights, jax.random.normal(key_noise, (2,)))


def method(likelihood):
    return GradientMethod(plain_apply, likelihood, None, None, sample, None)


def drawn(key, state):
    return [sample(k, state) for k in jax.random.split(key, N_DRAWS)]


def outputs(weights, x):
    z = np.asarray(x, np.float64)
    for k, w in enumerate(np.asarray(w, np.float64) for w in weights):
        z = z @ w[:-1] + w[-1]
        z = np.maximum(z, 0.0) if k < len(weights) - 1 else z
    return z


@pytest.mark.parametrize("likelihood", [LearnedNoise(2), InputNoise(2)])
def test_every_draw_is_one_network_for_all_rows(likelihood):
    state = init_weights(jax.random.key(0), (3, 5, likelihood.n_outputs))
    key, x = jax.random.key(1), jax.random.normal(jax.random.key(2), (9, 3))
    noisy = draws.predict_draws(method(likelihood), key, state, x, n_draws=N_DRAWS)
    assert noisy.m.shape == noisy.v.shape == (N_DRAWS, 9, 2)
    for m, v, draw in zip(*noisy, drawn(key, state), strict=True):
        f, is_constant = outputs(draw.weights, x), isinstance(likelihood, LearnedNoise)
        var = np.exp(np.tile(draw.likelihood, (9, 1)) if is_constant else f[:, 2:])
        np.testing.assert_allclose(m, f[:, :2], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(v, var, rtol=1e-5 if is_constant else 1e-3)


def test_class_probabilities_and_entropies_are_averaged():
    state, key = init_weights(jax.random.key(0), (3, 5, 4)), jax.random.key(1)
    x = 3.0 * jax.random.normal(jax.random.key(2), (9, 3))
    found = draws.predict_draws(method(Categorical(4)), key, state, x, n_draws=N_DRAWS)
    p = np.stack([special.softmax(outputs(d.weights, x), axis=1) for d in drawn(key, state)])
    np.testing.assert_allclose(found.proba, p.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(
        found.expected_entropy, stats.entropy(p, axis=-1).mean(axis=0), atol=1e-5
    )


def test_certain_classes_have_no_entropy_and_no_nan():
    def certain(key, state):
        del key
        return Parameters(state, ())

    weights = (jnp.array([[1000.0, -1000.0], [0.0, 0.0]]),)
    sure, x = method(Categorical(2))._replace(sample=certain), jnp.ones((2, 1))
    found = draws.predict_draws(sure, jax.random.key(0), weights, x, n_draws=2)
    np.testing.assert_array_equal(found.proba, [[1.0, 0.0]] * 2)
    np.testing.assert_array_equal(found.expected_entropy, 0.0)
