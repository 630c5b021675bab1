"""Probabilistic backpropagation in JAX: exact Bayes, the compiled engine, evidence of models."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from compiled_passes import assert_states_close, linear_state, train
from scipy import stats

from bayesprop.moments.pbp import engine, updates
from bayesprop.moments.pbp import state as pbp_state

NOISE, PRIOR = 0.4, 1.7


@pytest.mark.parametrize("batch_size", [1, 4])
def test_one_weight_is_exact_bayes(batch_size: int):
    noise_var, prior_var = 0.4, 1.7
    y = np.random.default_rng(3).normal(0.8, 0.6, size=(12, 1))
    state, info = updates.data_pass(
        linear_state(prior_var, noise_var=noise_var),
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
        linear_state(prior_var, 3, noise_var=noise_var), x, y, np.arange(9), batch_size=9
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
    rng = np.random.default_rng(0)
    x, y, weight = rng.normal(size=(6, 3)), rng.normal(size=(6, 2)), np.linspace(0.0, 2.0, 6)
    one = batched = pbp_state.init(rng, (3, 5, 4, 2))
    one, _ = updates.data_pass(one, x, y, np.arange(6), weight)
    for i in range(6):
        # A batch of two whose second row is padding.
        batched, _ = updates.data_pass(batched, x, y, np.array([i]), weight, batch_size=2)
    assert_states_close(one, batched, rtol=1e-8, atol=1e-13)


def test_outliers_fire_the_noise_guard_and_precision_is_a_call_s_own():
    x, y = np.zeros((1, 1)), np.array([[40.0]])
    start = pbp_state.init(np.random.default_rng(0), (1, 3, 1))
    before = jax.config.jax_enable_x64
    guarded, info = updates.data_pass(start, x, y, np.array([0]))
    assert jax.config.jax_enable_x64 == before
    assert guarded.m[0].dtype == np.float64
    assert info.noise_kept == 1
    assert guarded.noise_shape == start.noise_shape


def learnable(sizes, n, seed=0, targets="numbers"):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, sizes[0]))
    if targets == "classes":
        label = np.digitize(x[:, 0] + 0.5 * rng.normal(size=n), [0.0, 0.7, 1.5][: sizes[-1] - 1])
        label = np.where(x[:, 0] > 0.0, 1, -1) if sizes[-1] == 1 else label
        return pbp_state.init(rng, sizes, start_in_prior=True), x, label[:, None].astype(float)
    f = np.sin(x.sum(axis=1) / np.sqrt(sizes[0]))
    y = np.stack([f * (k + 1) + 0.3 * rng.normal(size=n) for k in range(sizes[-1])], axis=1)
    state = pbp_state.init(rng, sizes)
    return state, (x - x.mean(0)) / x.std(0), (y - y.mean(0)) / y.std(0)


@pytest.mark.parametrize(
    ("sizes", "inference", "targets"),
    [
        ((3, 7, 5, 2), "adf", "numbers"),
        ((4, 10, 1), "sep", "numbers"),
        ((3, 6, 5, 4), "adf", "classes"),
        ((3, 6, 1), "sep", "classes"),
    ],
)
def test_epochs_agree(sizes, inference, targets):
    start, x, y = learnable(sizes, 60, targets=targets)
    weight = np.random.default_rng(1).integers(0, 3, size=60).astype(float)
    one = other = start
    infos = [pbp_state.PBPInfo(), pbp_state.PBPInfo()]
    rule = {"inference": inference, "targets": targets}
    for epoch in range(3):
        order = np.random.default_rng(epoch).permutation(60)
        one, absorbed = updates.data_pass(one, x, y, order, weight, **rule)
        one, refreshed = engine.refresh_prior(one, **rule)
        infos[0] += absorbed + refreshed
        other, (info,) = train(other, x, y, [order], weight, **rule)
        infos[1] += info
    assert infos[0].guards == infos[1].guards
    assert infos[0].epistemic_share == pytest.approx(infos[1].epistemic_share, rel=1e-10)
    assert infos[0].log_z == pytest.approx(infos[1].log_z, rel=1e-10)
    for name, a, b in zip(one._fields, one, other, strict=True):
        scale = max(np.abs(leaf).max(initial=0.01) for leaf in jax.tree.leaves(a))
        for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-10, atol=1e-10 * scale, err_msg=name)


def test_predictions_agree():
    state, x, _ = learnable((3, 8, 6, 2), 50)
    np.testing.assert_allclose(
        updates.predict_moments(state, x), engine.predict_moments(state, x), rtol=1e-11
    )


def fitted(x, y, n_epochs: int):
    # With 1e10 for `known` the normalisers of the noise would cancel to five digits.
    state, first = linear_state(PRIOR, x.shape[1], noise_var=NOISE, known=1e7), None
    for _ in range(n_epochs):
        state, info = updates.data_pass(state, x, y, np.arange(len(x)), inference="sep")
        first = first or info.log_z
    return state, first


def exact_log_evidence(x, y):
    design = np.column_stack([x, np.ones(len(x))]) / np.sqrt(x.shape[1] + 1)
    cov = NOISE * np.eye(len(x)) + PRIOR * design @ design.T
    return stats.multivariate_normal(np.zeros(len(x)), cov).logpdf(y[:, 0])


def test_both_estimates_are_exact_for_one_weight():
    x, y = np.zeros((10, 0)), np.random.default_rng(1).normal(0.7, 0.6, size=(10, 1))
    state, prequential = fitted(x, y, n_epochs=200)
    exact = exact_log_evidence(x, y)
    assert prequential == pytest.approx(exact, rel=1e-7)
    estimate = updates.ep_log_evidence(state, x, y)
    assert estimate == pytest.approx(exact, rel=1e-4)  # 2e-5 without fused products


def test_estimates_err_little_where_the_weights_hardly_correlate():
    rng = np.random.default_rng(2)
    design = np.linalg.qr(np.column_stack([np.ones(60), rng.normal(size=(60, 3))]))[0] * np.sqrt(60)
    x = design[:, 1:] * np.sign(design[0, 0])
    y = (x @ [[0.5], [-0.3], [0.8]]) + np.sqrt(NOISE) * rng.normal(size=(60, 1))
    state, prequential = fitted(x, y, n_epochs=300)
    exact = exact_log_evidence(x, y)
    estimate = updates.ep_log_evidence(state, x, y)
    assert prequential == pytest.approx(exact, abs=1.0)
    assert estimate == pytest.approx(exact, abs=1.0)


def test_an_improper_division_is_nan():
    x, y = np.zeros((4, 0)), np.ones((4, 1))
    state, _ = fitted(x, y, n_epochs=3)
    broken = state._replace(lik_prec=(state.lik_prec[0] + 100.0,))
    assert np.isnan(updates.ep_log_evidence(broken, x, y))
