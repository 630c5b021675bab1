"""Chains against posteriors that are known: conjugate regression, calibration, diagnostics."""

from __future__ import annotations

import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bayesprop.networks import posterior
from bayesprop.networks.likelihoods import KnownNoise, LearnedNoise
from bayesprop.networks.mlp import mlp_apply
from bayesprop.networks.posterior import PosteriorModel
from bayesprop.numerics.machine import in_float64
from bayesprop.numerics.rows import Rows
from bayesprop.sampling import diagnostics
from bayesprop.sampling.mcmc import Chains, Plan, sample_chains

OPTIMISED = True

NOISE_VAR, PRIOR_VAR = 0.3, 2.0


def linear_rows() -> Rows:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 3))
    y = x @ [1.0, -0.5, 0.2] + 0.5 * rng.standard_normal(30)
    return Rows(jnp.asarray(x), jnp.asarray(y), jnp.ones(30))


def log_linear(w, rows):
    return -0.5 * jnp.sum((rows.y - rows.x @ w) ** 2) / NOISE_VAR - 0.5 * jnp.sum(w**2) / PRIOR_VAR


def exact_linear(rows: Rows):
    """Mean and covariance of the posterior by dense algebra."""
    x, y = np.asarray(rows.x), np.asarray(rows.y)
    cov = np.linalg.inv(x.T @ x / NOISE_VAR + np.eye(x.shape[1]) / PRIOR_VAR)
    return cov @ x.T @ y / NOISE_VAR, cov


def standard_errors(of_chains, expected):
    """How many standard errors the mean over independent chains lies from what is expected."""
    error = of_chains.std(axis=0, ddof=1) / np.sqrt(len(of_chains))
    return np.abs(of_chains.mean(axis=0) - expected) / error


PLANS = {
    "nuts": Plan("nuts", 200, 150),
    "hmc": Plan("hmc", 200, 150, n_leapfrog=5),
    "random-walk": Plan("random-walk", 1500, 150, thin=10),
}


@pytest.mark.parametrize("name", PLANS)
@in_float64
def test_moments_of_a_conjugate_posterior(name):
    rows = linear_rows()
    starts = [np.full(3, 0.1 * k) for k in range(24)]
    chains = sample_chains(log_linear, starts, jax.random.key(1), PLANS[name], data=(rows,))
    mean, cov = exact_linear(rows)
    squares = (chains.draws - mean) ** 2
    assert (standard_errors(chains.draws.mean(axis=1), mean) < 5.0).all()
    assert (standard_errors(squares.mean(axis=1), np.diag(cov)) < 5.0).all()


@in_float64
def test_trajectories_of_random_length_do_not_resonate():
    """Of one length, 8 steps turn these normals half round and back: 24 of 16,000 draws are left.

    The squares of the radius show it: a half turn changes the sign of a position, not its size.
    """
    starts = [np.full(3, 0.1 * k) for k in range(24)]
    plan = Plan("hmc", 300, 500, n_leapfrog=8)
    chains = sample_chains(lambda x: -0.5 * jnp.sum(x**2), starts, jax.random.key(3), plan)
    powers = {k: chains.draws**k for k in (1, 2, 4)}
    for k, moment in {1: 0.0, 2: 1.0, 4: 3.0}.items():
        assert (standard_errors(powers[k].mean(axis=1), moment) < 5.0).all()
    found = diagnostics.diagnose(chains, of=[powers[1], powers[2]])
    assert found.least_ess > 0.2 * chains.n_draws
    assert found.worst_r_hat < 1.01


@in_float64
def test_draws_do_not_depend_on_the_threads(monkeypatch):
    rows, starts, found = linear_rows(), [np.zeros(3), np.ones(3)], []
    plan = Plan("hmc", 50, 20, n_leapfrog=5)
    for n_cores in (1, 2):
        monkeypatch.setattr(os, "cpu_count", lambda n=n_cores: n)
        found.append(sample_chains(log_linear, starts, jax.random.key(0), plan, data=(rows,)))
    one, two = found
    np.testing.assert_array_equal(one.draws, two.draws)
    assert not np.array_equal(one.draws[0], one.draws[1])


def test_a_start_without_density_is_refused():
    with pytest.raises(ValueError, match="finite at every start, got nan at that of chain 1"):
        sample_chains(jnp.log, [np.ones(()), -np.ones(())], jax.random.key(0), Plan())


def test_chains_that_disagree_are_called_out():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((4, 400, 2))
    log_density, never = np.zeros((4, 400)), np.zeros((4, 400), bool)
    agreeing = Chains(draws, log_density, never, np.ones(4), np.ones(4))
    found = diagnostics.diagnose(agreeing)
    assert found.worst_r_hat < 1.02
    assert (np.abs(found.ess_bulk / 1600.0 - 1.0) < 0.35).all()
    assert diagnostics.advice(found) == [] or found.worst_r_hat > diagnostics.MOST_R_HAT
    draws[3, :, 1] += 3.0
    diverged = never.copy()
    diverged[0, :5] = True
    bad = diagnostics.diagnose(agreeing._replace(diverged=diverged))
    said = " ".join(diagnostics.advice(bad))
    assert bad.worst_r_hat > 1.3
    assert "draws that diverged: 5" in said
    assert "R-hat" in said
    assert bad.names[1] in said


def test_diagnostics_need_two_chains():
    chains = Chains(np.zeros((1, 9)), np.zeros((1, 9)), np.zeros((1, 9), bool), *np.ones((2, 1)))
    with pytest.raises(ValueError, match="two chains"):
        diagnostics.diagnose(chains)


def tiny_model(likelihood, **settings):
    return PosteriorModel(partial(mlp_apply, activation_name="erf"), likelihood, **settings)


@in_float64
def test_log_posterior_is_the_sum_of_its_densities():
    rng = np.random.default_rng(1)
    weights = (jnp.asarray(rng.standard_normal((3, 2))), jnp.asarray(rng.standard_normal((3, 1))))
    x, y = rng.standard_normal((5, 2)), rng.standard_normal((5, 1))
    rows = Rows(jnp.asarray(x), jnp.asarray(y), jnp.asarray([1.0, 1.0, 2.0, 0.0, 1.0]))
    log_lambda, log_gamma = 0.4, -0.3
    position = posterior.Position(weights, jnp.asarray(log_lambda), jnp.asarray([-log_gamma]))
    model = tiny_model(LearnedNoise(1), weight_precision=(2.5, 0.5), noise_prior=(6.0, 4.0))
    f = np.array([float(model.apply(weights, row)[0]) for row in rows.x])
    noise = stats.norm(f, np.exp(-0.5 * log_gamma)).logpdf(y[:, 0])
    flat = np.concatenate([np.ravel(w) for w in weights])
    expected = (
        stats.norm(0.0, np.exp(-0.5 * log_lambda)).logpdf(flat).sum()
        + stats.loggamma(2.5, loc=-np.log(0.5)).logpdf(log_lambda)
        + stats.loggamma(6.0, loc=-np.log(4.0)).logpdf(log_gamma)
        + np.sum(np.asarray(rows.weight) * noise)
    )
    assert float(posterior.log_posterior(model, position, rows)) == pytest.approx(expected)


@in_float64
def test_known_precision_leaves_its_coordinate_to_its_prior():
    model = tiny_model(KnownNoise(1, 0.5), weight_precision=4.0)
    places = [posterior.Position((jnp.ones((2, 1)),), jnp.asarray(v), ()) for v in (0.0, 0.7)]
    first, second = (float(posterior.log_prior(model, place)) for place in places)
    gamma = stats.loggamma(6.0, loc=-np.log(6.0)).logpdf([0.0, 0.7])
    assert second - first == pytest.approx(gamma[1] - gamma[0])
