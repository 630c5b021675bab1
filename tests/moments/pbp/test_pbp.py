"""Probabilistic backpropagation in JAX against exact Bayes, brute force and its own invariants."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy import stats

from bayesprop.moments.pbp import state as pbp_state
from bayesprop.moments.pbp import updates as pbp
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


def assert_states_close(a, b, rtol=1e-10):
    for name, left, right in zip(a._fields, a, b, strict=True):
        jax.tree.map(
            lambda p, q, name=name: np.testing.assert_allclose(
                p, q, rtol=rtol, atol=1e-13, err_msg=name
            ),
            left,
            right,
        )


@pytest.mark.parametrize("batch_size", [1, 4])
def test_one_weight_is_exact_bayes(batch_size: int):
    noise_var, prior_var = 0.4, 1.7
    y = np.random.default_rng(3).normal(0.8, 0.6, size=(12, 1))
    state, info = pbp.data_pass(
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
    state, info = pbp.data_pass(
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
    one, _ = pbp.data_pass(one, x, y, np.arange(6), weight, activation="erf")
    for i in range(6):
        # A batch of two whose second row is padding.
        batched, _ = pbp.data_pass(
            batched, x, y, np.array([i]), weight, activation="erf", batch_size=2
        )
    assert_states_close(one, batched, rtol=1e-8)


def test_update_is_finite_differences_of_log_z():
    x, y = rows(1, 2, seed=5)
    state = pbp_state.init(np.random.default_rng(4), (2, 3, 1))

    def log_z(m, v):
        """Eq. 12-17 in plain NumPy."""
        z, s = x[0], np.zeros(2)
        for layer in range(2):
            z, s = np.append(z, 1.0), np.append(s, 0.0)
            k = len(z)
            a = z @ m[layer] / np.sqrt(k)
            b = (s @ m[layer] ** 2 + (z**2 + s) @ v[layer]) / k
            if layer == 0:
                alpha = a / np.sqrt(b)
                cdf, pdf = stats.norm.cdf(alpha), stats.norm.pdf(alpha)
                mean = a * cdf + np.sqrt(b) * pdf
                z, s = mean, (a**2 + b) * cdf + a * np.sqrt(b) * pdf - mean**2
        noise = state.noise_rate[0] / (state.noise_shape[0] - 1)
        return stats.norm(a[0], np.sqrt(b[0] + noise)).logpdf(y[0, 0])

    after, info = pbp.data_pass(state, x, y, np.array([0]))
    assert info.log_z == pytest.approx(log_z(state.m, state.v), rel=1e-12)
    h = 1e-6
    for layer in range(2):
        for index in np.ndindex(state.m[layer].shape):
            slopes = []
            for which in (0, 1):
                parts = [[w.copy() for w in state.m], [w.copy() for w in state.v]]
                parts[which][layer][index] += h
                up = log_z(*parts)
                parts[which][layer][index] -= 2 * h
                slopes.append((up - log_z(*parts)) / (2 * h))
            m, v = state.m[layer][index], state.v[layer][index]
            assert after.m[layer][index] == pytest.approx(m + v * slopes[0], abs=1e-8)
            expected = v - v**2 * (slopes[0] ** 2 - 2 * slopes[1])
            assert after.v[layer][index] == pytest.approx(expected, abs=1e-8)


def test_prior_refresh_by_hand():
    state = pbp_state.init(np.random.default_rng(0), (1, 2, 1))
    x, y = rows(6, 1)
    state, _ = pbp.data_pass(state, x, y, np.arange(6))
    after, info = pbp.refresh_prior(state)
    shape, rate = float(state.prior_shape), float(state.prior_rate)
    for layer in range(2):
        n_in, n_out = state.m[layer].shape
        for unit in range(n_out):
            for i in range(n_in):
                m, v = state.m[layer][i, unit], state.v[layer][i, unit]
                prec = 1 / v - state.site_prec[layer][i, unit]
                m_c, v_c = m / v / prec, 1 / prec
                # Weights that the data hardly inform keep their factor.
                if abs(prec) < 0.1 * (shape - 1) / rate:
                    continue
                z = [
                    stats.norm(0, np.sqrt(v_c + rate / (shape - 1 + k))).pdf(m_c) for k in range(3)
                ]
                total = v_c + rate / (shape - 1)
                new_v = v_c - v_c**2 / total
                assert after.v[layer][i, unit] == pytest.approx(new_v, rel=1e-10)
                assert after.m[layer][i, unit] == pytest.approx(m_c * (1 - v_c / total), rel=1e-10)
                shape, rate = (
                    1 / (z[0] * z[2] / z[1] ** 2 * (shape + 1) / shape - 1),
                    1 / (z[2] / z[1] * (shape + 1) / rate - z[1] / z[0] * shape / rate),
                )
    assert 0 < info.prior_uninformed < 8
    assert float(after.prior_shape) == pytest.approx(shape, rel=1e-9)
    assert float(after.prior_rate) == pytest.approx(rate, rel=1e-9)
    # What a site holds is what q gained over the cavity: removing it leads back there.
    for layer in range(2):
        cavity = 1 / state.v[layer] - state.site_prec[layer]
        np.testing.assert_allclose(
            1 / after.v[layer] - after.site_prec[layer], cavity, rtol=1e-8, atol=1e-9
        )


def test_without_data_the_posterior_stays_the_prior():
    state = pbp_state.init(np.random.default_rng(0), (3, 4, 1))
    nothing = np.zeros((0, 3)), np.zeros((0, 1)), np.arange(0)
    after, info = pbp.data_pass(state, *nothing)
    assert_states_close(state, after)
    assert info == pbp_state.PBPInfo()


def test_two_halves_are_one_pass():
    x, y = rows(20, 3)
    start = pbp_state.init(np.random.default_rng(0), (3, 6, 1))
    whole, info = pbp.data_pass(start, x, y, np.arange(20))
    half, first = pbp.data_pass(start, x, y, np.arange(10))
    half, second = pbp.data_pass(half, x[10:], y[10:], np.arange(10))
    assert_states_close(whole, half, rtol=1e-12)
    assert info.log_z == pytest.approx(first.log_z + second.log_z)


def test_weight_zero_leaves_a_row_out_and_a_known_noise_weight_counts_twice():
    x, y = rows(6, 2)
    start = pbp_state.init(np.random.default_rng(0), (2, 4, 1))
    weight = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    with_zeros, _ = pbp.data_pass(start, x, y, np.arange(6), weight)
    without, _ = pbp.data_pass(start, x, y, np.flatnonzero(weight))
    assert_states_close(with_zeros, without, rtol=1e-12)
    linear = linear_state(0.4, 1.7)
    twice, _ = pbp.data_pass(linear, np.zeros((2, 0)), y[:2], np.array([0, 0]))
    heavy, _ = pbp.data_pass(linear, np.zeros((2, 0)), y[:2], np.array([0]), np.array([2.0, 1.0]))
    assert heavy.m[0].item() == pytest.approx(twice.m[0].item(), rel=1e-8)
    assert heavy.v[0].item() == pytest.approx(twice.v[0].item(), rel=1e-8)


def test_outliers_fire_the_noise_guard_and_reference_mode_lets_them_through():
    x, y = np.zeros((1, 1)), np.array([[40.0]])
    start = pbp_state.init(np.random.default_rng(0), (1, 3, 1))
    guarded, info = pbp.data_pass(start, x, y, np.array([0]))
    assert info.noise_kept == 1
    assert guarded.noise_shape == start.noise_shape
    raw, info = pbp.data_pass(start, x, y, np.array([0]), reference=True)
    assert info.noise_kept == 0
    assert raw.noise_shape <= 1.0


@pytest.mark.parametrize("batch_size", [1, 8])
def test_global_precision_is_left_alone(batch_size: int):
    x, y = rows(8, 2)
    before = jax.config.jax_enable_x64
    state = pbp_state.init(np.random.default_rng(0), (2, 4, 1))
    state, _ = pbp.data_pass(state, x, y, np.arange(8), batch_size=batch_size)
    state, _ = pbp.refresh_prior(state)
    assert jax.config.jax_enable_x64 == before
    assert state.m[0].dtype == np.float64


def test_stochastic_ep_stops_shrinking_the_variance():
    x, y = rows(40, 2, seed=2)
    shares = {}
    for inference in ("adf", "sep"):
        state = pbp_state.init(np.random.default_rng(0), (2, 8, 1))
        for epoch in range(60):
            order = np.random.default_rng(epoch).permutation(40)
            state, _ = pbp.data_pass(state, x, y, order, inference=inference)
            state, _ = pbp.refresh_prior(state)
        _, v = pbp.predict_moments(state, x)
        shares[inference] = float(np.mean(v / (v + state.noise_var)))
    assert shares["sep"] > 3 * shares["adf"]


def test_chunks_do_not_matter():
    x, _ = rows(11, 3)
    state = pbp_state.init(np.random.default_rng(0), (3, 4, 2))
    whole = pbp.predict_moments(state, x)
    parts = pbp.predict_moments(state, x, chunk_rows=3)
    np.testing.assert_allclose(whole, parts, rtol=1e-13)
