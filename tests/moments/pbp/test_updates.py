"""Probabilistic backpropagation in JAX against exact Bayes, brute force and its own invariants."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from compiled_passes import assert_states_close
from scipy import stats

from bayesprop.moments.pbp import state as pbp_state
from bayesprop.moments.pbp import updates
from bayesprop.moments.pbp.state import GammaPrior

KNOWN = 1e10


def linear_state(noise_var: float, prior_var: float, d: int = 0):
    """A linear model with known noise and known prior, as certain Gammas."""
    return pbp_state.init(
        np.random.default_rng(0),
        (d, 1),
        weight_prior=GammaPrior(KNOWN, KNOWN * prior_var),
        noise_prior=GammaPrior(KNOWN, KNOWN * noise_var),
    )


def rows(n: int, d: int, seed: int = 0, o: int = 1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    y = np.stack([np.tanh(x[:, 0]) + 0.1 * k for k in range(o)], axis=1)
    return x, y + 0.2 * rng.normal(size=(n, o))


@pytest.mark.parametrize("batch_size", [1, 4])
def test_one_weight_is_exact_bayes(batch_size: int):
    noise_var, prior_var = 0.4, 1.7
    y = np.random.default_rng(3).normal(0.8, 0.6, size=(12, 1))
    state, info = updates.data_pass(
        linear_state(noise_var, prior_var),
        np.zeros((12, 0)),
        y,
        np.arange(12),
        batch_size=batch_size,
    )
    prec = 1 / prior_var + 12 / noise_var
    assert state.v[0].item() == pytest.approx(1 / prec, rel=1e-8)
    assert state.m[0].item() == pytest.approx(y.sum() / noise_var / prec, rel=1e-8)
    cov = noise_var * np.eye(12) + prior_var
    exact = stats.multivariate_normal(np.zeros(12), cov).logpdf(y[:, 0])
    assert info.log_z == pytest.approx(exact, rel=1e-8)


def test_a_batch_of_a_linear_model_has_the_exact_marginals():
    # The whole data as one batch: the joint likelihood is exact, so are mean and variances.
    rng = np.random.default_rng(1)
    x, noise_var, prior_var = rng.normal(size=(9, 3)), 0.3, 2.0
    y = rng.normal(size=(9, 1))
    state, info = updates.data_pass(
        linear_state(noise_var, prior_var, d=3), x, y, np.arange(9), batch_size=9
    )
    design = np.column_stack([x, np.ones(9)]) / 2.0
    cov = np.linalg.inv(design.T @ design / noise_var + np.eye(4) / prior_var)
    mean = cov @ design.T @ y[:, 0] / noise_var
    np.testing.assert_allclose(state.m[0][:, 0], mean, rtol=1e-6)
    np.testing.assert_allclose(state.v[0][:, 0], np.diag(cov), rtol=1e-6)
    marginal = noise_var * np.eye(9) + prior_var * design @ design.T
    exact = stats.multivariate_normal(np.zeros(9), marginal).logpdf(y[:, 0])
    assert info.log_z == pytest.approx(exact, rel=1e-7)


def test_a_batch_of_one_is_the_paper():
    x, y = rows(6, 3, o=2)
    one = batched = pbp_state.init(np.random.default_rng(0), (3, 5, 4, 2))
    weight = np.linspace(0.0, 2.0, 6)
    one, _ = updates.data_pass(one, x, y, np.arange(6), weight, activation="erf")
    for i in range(6):
        # A batch of two whose second row is padding.
        batched, _ = updates.data_pass(
            batched, x, y, np.array([i]), weight, activation="erf", batch_size=2
        )
    assert_states_close(one, batched, rtol=1e-8, atol=1e-13)


def test_without_data_the_posterior_stays_the_prior():
    state = pbp_state.init(np.random.default_rng(0), (3, 4, 1))
    nothing = np.zeros((0, 3)), np.zeros((0, 1)), np.arange(0)
    after, info = updates.data_pass(state, *nothing)
    assert_states_close(state, after, rtol=0.0)
    assert info == pbp_state.PBPInfo()


def test_a_weight_counts_a_row_twice():
    _, y = rows(2, 2)
    linear = linear_state(0.4, 1.7)
    twice, _ = updates.data_pass(linear, np.zeros((2, 0)), y[:2], np.array([0, 0]))
    heavy, _ = updates.data_pass(
        linear, np.zeros((2, 0)), y[:2], np.array([0]), np.array([2.0, 1.0])
    )
    assert heavy.m[0].item() == pytest.approx(twice.m[0].item(), rel=1e-8)
    assert heavy.v[0].item() == pytest.approx(twice.v[0].item(), rel=1e-8)


def test_outliers_fire_the_noise_guard():
    x, y = np.zeros((1, 1)), np.array([[40.0]])
    start = pbp_state.init(np.random.default_rng(0), (1, 3, 1))
    guarded, info = updates.data_pass(start, x, y, np.array([0]))
    assert info.noise_kept == 1
    assert guarded.noise_shape == start.noise_shape


def test_global_precision_is_left_alone():
    before = jax.config.jax_enable_x64
    state, _ = updates.refresh_prior(linear_state(0.4, 1.7))
    assert jax.config.jax_enable_x64 == before
    assert state.m[0].dtype == np.float64
