"""Independent Gaussians over a pytree: densities against scipy, draws against their moments."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayesprop.model import mean_field
from bayesprop.model.mean_field import MeanField
from bayesprop.model.priors import LaplacePrior, NormalPrior, ScaleMixturePrior


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
    assert np.logaddexp(0.0, mean_field.rho_of(std)) == pytest.approx(std, rel=1e-12)


@pytest.mark.parametrize("std", [0.0, -1.0, float("nan")])
def test_rho_of_no_std(std):
    with pytest.raises(ValueError, match="std must be > 0"):
        mean_field.rho_of(std)


def test_start_has_one_std(q):
    start = mean_field.from_weights(q.m, std=0.3)
    np.testing.assert_allclose(flat(mean_field.stds(start)), 0.3, rtol=1e-6)
    np.testing.assert_allclose(flat(mean_field.variances(start)), 0.09, rtol=1e-6)
    np.testing.assert_array_equal(flat(start.m), flat(q.m))


def test_draws_have_the_moments(q):
    n = 20_000
    draws = jax.vmap(lambda key: mean_field.draw(key, q))(jax.random.split(jax.random.key(0), n))
    values = np.column_stack([np.reshape(leaf, (n, -1)) for leaf in jax.tree.leaves(draws)])
    std = softplus(q.rho)
    assert (np.abs(values.mean(axis=0) - flat(q.m)) < 4.5 * std / np.sqrt(n)).all()
    assert (np.abs(values.std(axis=0) / std - 1.0) < 4.5 / np.sqrt(2 * n)).all()
    correlation = np.corrcoef(values.T) - np.eye(3)
    assert np.abs(correlation).max() < 4.5 / np.sqrt(n)


def test_densities_against_scipy(q):
    weights = mean_field.draw(jax.random.key(1), q)
    true = stats.norm(flat(q.m), softplus(q.rho)).logpdf(flat(weights)).sum()
    assert float(mean_field.log_prob(q, weights)) == pytest.approx(true, rel=1e-4)
    prior = stats.laplace(0.0, 0.4).logpdf(flat(weights)).sum()
    assert float(mean_field.log_prior(LaplacePrior(0.4), weights)) == pytest.approx(prior, rel=1e-5)


@pytest.mark.parametrize("prior", [NormalPrior(0.5), LaplacePrior(0.8)])
def test_sampled_kl_averages_to_the_closed_one(q, prior):
    n = 20_000

    @jax.jit
    @jax.vmap
    def one(key):
        return mean_field.sampled_kl(prior, q, mean_field.draw(key, q))

    drawn = np.asarray(one(jax.random.split(jax.random.key(2), n)), float)
    error = drawn.mean() - float(mean_field.kl(prior, q))
    assert abs(error) < 4.0 * drawn.std() / np.sqrt(n)


def test_sampled_kl_needs_no_closed_one(q):
    weights = mean_field.draw(jax.random.key(3), q)
    assert np.isfinite(float(mean_field.sampled_kl(ScaleMixturePrior(), q, weights)))
