"""The posterior of a network and its moments, beside NumPyro's of the same model."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from blackjax.diagnostics import ess_bulk
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import potential_energy

from bayesprop.estimators.mcmc import MCMCRegressor
from bayesprop.networks import posterior
from bayesprop.networks.likelihoods import LearnedNoise
from bayesprop.networks.mlp import mlp_apply
from bayesprop.networks.posterior import Position, PosteriorModel
from bayesprop.numerics.rows import Rows

N_HIDDEN = 2
RNG = np.random.default_rng(0)
X = RNG.normal(size=(25, 1))
Y = np.sin(1.5 * X[:, 0]) + 0.3 * RNG.normal(size=25)
X, Y = (X - X.mean(0)) / X.std(0), (Y - Y.mean()) / Y.std()


@pytest.fixture(autouse=True)
def _loose_shapes():
    """NumPyro broadcasts."""
    with jax.numpy_rank_promotion("allow"):
        yield


def network(x, w1, w2):
    """One hidden layer; every layer divided by the root of its fan-in, bias included."""
    hidden = jax.nn.relu((x @ w1[:-1] + w1[-1]) / jnp.sqrt(2.0))
    return ((hidden @ w2[:-1] + w2[-1]) / jnp.sqrt(N_HIDDEN + 1.0))[:, 0]


def model(x, y):
    weight_prec = numpyro.sample("weight_prec", dist.Gamma(6.0, 6.0))
    noise_prec = numpyro.sample("noise_prec", dist.Gamma(6.0, 6.0))
    normal = dist.Normal(0.0, weight_prec**-0.5)
    w1 = numpyro.sample("w1", normal.expand([2, N_HIDDEN]).to_event(2))
    w2 = numpyro.sample("w2", normal.expand([N_HIDDEN + 1, 1]).to_event(2))
    numpyro.sample("y", dist.Normal(network(x, w1, w2), noise_prec**-0.5), obs=y)


def test_log_posterior_is_numpyros_up_to_a_constant():
    ours = PosteriorModel(mlp_apply, LearnedNoise(1))
    rows = Rows(jnp.asarray(X), jnp.asarray(Y[:, None]), jnp.ones(25))
    log_posterior = jax.jit(partial(posterior.log_posterior, ours))
    potential = jax.jit(partial(potential_energy, model, (X, Y), {}))
    gaps = []
    for key in jax.random.split(jax.random.key(0), 4):
        k1, k2, k3 = jax.random.split(key, 3)
        w1, w2 = jax.random.normal(k1, (2, N_HIDDEN)), jax.random.normal(k2, (N_HIDDEN + 1, 1))
        log_weight, log_noise = jax.random.normal(k3, (2,))
        position = Position((w1, w2), log_weight, -log_noise[None])
        names = {"w1": w1, "w2": w2, "weight_prec": log_weight, "noise_prec": log_noise}
        gaps.append(float(log_posterior(position, rows)) + float(potential(names)))
    np.testing.assert_allclose(gaps, gaps[0], atol=2e-4)
    assert gaps[0] == pytest.approx(0.0, abs=2e-4)


def mean_and_error(draws):
    """Mean over chains (c, s, ...) and its standard error by the chains' effective size."""
    chains = np.asarray(draws, np.float64)
    flat = chains.reshape(*chains.shape[:2], -1)
    return flat.mean((0, 1)), flat.std((0, 1)) / np.sqrt(np.asarray(ess_bulk(flat)))


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_predictive_moments_are_those_of_numpyros_sampler():
    plan = {"n_warmup": 500, "n_draws": 1000, "target_acceptance": 0.9}
    ours = MCMCRegressor((N_HIDDEN,), random_state=0, **plan).fit(X, Y)
    grid = np.linspace(-2.5, 2.5, 6)[:, None]
    how = {"num_warmup": 500, "num_samples": 1000, "num_chains": 4, "progress_bar": False}
    sampler = MCMC(NUTS(model, target_accept_prob=0.9), chain_method="sequential", **how)
    sampler.run(jax.random.key(1), X, Y)
    theirs = sampler.get_samples(group_by_chain=True)
    draw = jax.vmap(jax.vmap(lambda w1, w2: network(grid, w1, w2)))
    f = np.asarray(draw(theirs["w1"], theirs["w2"]))
    g = np.asarray(draw(*map(jnp.asarray, ours.state_.chains.draws.weights)))
    draws = ours.state_.chains.draws
    pairs = [(f, g), (f**2, g**2)]
    pairs.append((1.0 / theirs["noise_prec"], np.exp(draws.likelihood[..., 0])))
    pairs.append((theirs["weight_prec"], np.exp(draws.log_precision)))
    for a, b in pairs:
        (mean_a, se_a), (mean_b, se_b) = mean_and_error(a), mean_and_error(b)
        off = np.abs(mean_a - mean_b) / np.hypot(se_a, se_b)
        assert off.max() < 4.0, off
    # Standardised data stay what they are.
    np.testing.assert_allclose(ours.predict(grid), g.mean((0, 1)), atol=1e-5)
