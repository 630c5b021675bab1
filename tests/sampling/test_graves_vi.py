"""Graves' variational inference against finite differences, sums row by row, and a known answer."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bayesprop.networks.gradient_method import Parameters
from bayesprop.networks.likelihoods import Categorical, KnownNoise
from bayesprop.networks.mlp import init_weights, plain_apply
from bayesprop.numerics.gaussian import Gaussian
from bayesprop.numerics.loops import Batch
from bayesprop.sampling import graves_vi
from bayesprop.sampling.mean_field import MeanField, draw_noise


@pytest.fixture(scope="module")
def q():
    m = init_weights(jax.random.key(0), (3, 4, 2))
    rho = jax.tree.map(lambda w: -2.0 + 0.5 * jnp.sin(jnp.arange(w.size)).reshape(w.shape), m)
    return MeanField(m, rho)


def test_prior_minimises_the_kl_to_it(q):
    best = graves_vi.optimal_prior(q)
    at_best = float(graves_vi.kl_to_prior(q, best))
    for dm, factor in ((0.02, 1.0), (-0.02, 1.0), (0.0, 1.1), (0.0, 0.9)):
        assert float(graves_vi.kl_to_prior(q, Gaussian(best.m + dm, best.v * factor))) > at_best
    m, rho = (np.concatenate([np.ravel(w) for w in part]).astype(float) for part in q)
    std = np.log1p(np.exp(rho))
    draws = np.concatenate([m - std, m + std])
    # Two points at m ± std have the mean and the variance of the Gaussian.
    assert float(best.m) == pytest.approx(draws.mean(), abs=1e-6)
    assert float(best.v) == pytest.approx(draws.var(), rel=1e-5)


def test_slopes_are_summed_row_by_row(q):
    x = jax.random.normal(jax.random.key(1), (6, 3))
    y = jnp.array([0, 1, 1, 0, 1, 0])
    weight = jnp.array([1.0, 2.0, 0.0, 1.0, 0.5, 1.0])
    batch = Batch(x, y, weight, jnp.asarray(0), 1, jnp.sum(weight))
    slopes = jax.jit(partial(graves_vi.row_slopes, plain_apply, Categorical(2)))
    found = slopes(q.m, (), batch)

    @jax.jit
    def log_p(w, row):
        return jax.nn.log_softmax(plain_apply(w, x[row]))[y[row]]

    slope = jax.jit(jax.grad(log_p))
    rows = [slope(q.m, row) for row in range(6)]
    for layer in range(2):
        by_row = np.stack([np.asarray(row[layer], np.float64) for row in rows])
        w = np.asarray(weight, np.float64)[:, None, None]
        np.testing.assert_allclose(found.of_weights[layer], (w * by_row).sum(0), atol=1e-5)
        np.testing.assert_allclose(found.squared[layer], (w * by_row**2).sum(0), atol=1e-5)
    total = sum(float(weight[row] * log_p(q.m, row)) for row in range(6))
    assert float(found.total) == pytest.approx(total, rel=1e-5)


def test_update_is_the_published_one(q):
    """With sgd of step 1, in numpy: the mean by the gradient, the variance by its square."""
    x, y = jnp.array([[0.5, -1.0, 2.0]]), jnp.array([[0.3, -0.2]])
    batch = Batch(x, y, jnp.ones(1), jnp.asarray(0), 4, jnp.asarray(4.0))
    method = graves_vi.graves_vi(plain_apply, KnownNoise(2, 0.5), optax.sgd(1.0))
    start = method.init(jax.random.key(0), q.m)._replace(params=Parameters(q, ()))
    key = jax.random.key(9)
    moved, _ = jax.jit(method.update)(key, start, batch)
    after = moved.params.weights
    noise, stds = draw_noise(key, q.m), q.std
    w = jax.tree.map(lambda m, std, e: m + std * e, q.m, stds, noise)

    def cost(w):
        return jnp.sum((plain_apply(w, x[0]) - y[0]) ** 2) / (2.0 * 0.5)

    slope = jax.jit(jax.grad(cost))(w)
    prior = graves_vi.optimal_prior(q)
    mu, s2 = float(prior.m), float(prior.v)
    for layer in range(2):
        m, rho, std, g = (np.asarray(t[layer], np.float64) for t in (q.m, q.rho, stds, slope))
        to_m = g + 0.25 * (m - mu) / s2
        to_v = 0.5 * g**2 + 0.25 * 0.5 * (1.0 / s2 - 1.0 / std**2)
        dv_drho = 2.0 * std / (1.0 + np.exp(-rho))
        np.testing.assert_allclose(q.m[layer] - after.m[layer], to_m, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(
            q.rho[layer] - after.rho[layer], to_v * dv_drho, rtol=1e-3, atol=1e-5
        )
