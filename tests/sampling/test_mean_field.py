"""Independent Gaussians over a pytree: densities against scipy, draws against their moments."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayesprop.networks.priors import LaplacePrior, log_prior
from bayesprop.sampling import mean_field
from bayesprop.sampling.mean_field import MeanField, draw_noise, weights_at


@pytest.fixture
def q():
    m = {"a": jnp.array([[0.5, -1.0]]), "b": jnp.array([2.0])}
    rho = {"a": jnp.array([[-1.0, 0.5]]), "b": jnp.array([-5.0])}
    return MeanField(m, rho)


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]).astype(float)


def softplus(rho):
    return np.log1p(np.exp(flat(rho)))


@pytest.mark.parametrize("std", [1e-3, 0.05, 1.0, 29.0, 1e3])
def test_rho_is_the_inverse_softplus(std):
    for wrong in (0.0, -std, float("nan")):
        with pytest.raises(ValueError, match="std must be > 0"):
            mean_field.rho_of(wrong)
    assert np.logaddexp(0.0, mean_field.rho_of(std)) == pytest.approx(std, rel=1e-12)


def test_start_has_one_std(q):
    start = mean_field.from_weights(q.m, std=0.3)
    np.testing.assert_allclose(flat(start.std), 0.3, rtol=1e-6)
    np.testing.assert_allclose(flat(mean_field.variances(start)), 0.09, rtol=1e-6)
    np.testing.assert_array_equal(flat(start.m), flat(q.m))


def test_draws_have_the_moments(q):
    n = 20_000
    keys = jax.random.split(jax.random.key(0), n)
    drawn = jax.jit(jax.vmap(lambda key: weights_at(q, draw_noise(key, q.m))))(keys)
    values = np.column_stack([np.reshape(leaf, (n, -1)) for leaf in jax.tree.leaves(drawn)])
    std = softplus(q.rho)
    assert (np.abs(values.mean(axis=0) - flat(q.m)) < 4.5 * std / np.sqrt(n)).all()
    assert (np.abs(values.std(axis=0) / std - 1.0) < 4.5 / np.sqrt(2 * n)).all()
    correlation = np.corrcoef(values.T) - np.eye(3)
    assert np.abs(correlation).max() < 4.5 / np.sqrt(n)


def test_densities_against_scipy(q):
    noise = draw_noise(jax.random.key(1), q.m)
    weights = weights_at(q, noise)
    true = stats.norm(flat(q.m), softplus(q.rho)).logpdf(flat(weights)).sum()
    assert float(mean_field.log_q(q, noise)) == pytest.approx(true, rel=1e-4)
    prior = stats.laplace(0.0, 0.4).logpdf(flat(weights)).sum()
    assert float(log_prior(LaplacePrior(0.4), weights)) == pytest.approx(prior, rel=1e-5)
