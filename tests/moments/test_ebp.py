"""Expectation backpropagation against enumeration and the paper's backward pass."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import special, stats

from bayesprop.moments import ebp


def forward(h, x, y):
    """The paper's forward pass for binary weights, unit by unit: every layer's m, v and signs."""
    passes, z_m, z_2 = [], np.append(x, 1.0), np.append(x, 1.0) ** 2
    for layer in h:
        w, k = np.tanh(layer), len(layer)
        m = z_m @ w / np.sqrt(k)
        v = np.array([np.sum(z_2 - (w[:, j] * z_m) ** 2) / k for j in range(layer.shape[1])])
        passes.append((m, v, z_m, w))
        z_m, z_2 = np.append(2 * stats.norm.cdf(m / np.sqrt(v)) - 1, 1.0), np.ones(len(m) + 1)
    m, v, *_ = passes[-1]
    return passes, np.sum(stats.norm.logcdf(y * m / np.sqrt(v)))


def test_one_row_is_the_backward_pass_of_the_paper():
    """Soudry et al. (2014), algorithm 1, written out."""
    rng = np.random.default_rng(1)
    state = ebp.EBPState(tuple(0.7 * h for h in ebp.init(rng, (5, 4, 3, 2)).h))
    x, y = rng.normal(size=5), np.array([1.0, -1.0])
    after, info = ebp.data_pass(state, x[None], y[None], np.array([0]), np.array([0.5]))
    passes, log_p = forward(state.h, x, y)
    assert info.log_z == pytest.approx(0.5 * log_p)
    m, v, *_ = passes[-1]
    delta = y * stats.norm.pdf(m, 0, np.sqrt(v)) / stats.norm.cdf(y * m / np.sqrt(v))
    for layer in (2, 1, 0):
        _, _, z, w = passes[layer]
        gradient = np.outer(z, delta) / np.sqrt(len(z))
        np.testing.assert_allclose(after.h[layer], state.h[layer] + 0.5 * gradient, rtol=1e-9)
        if layer:
            m, v, *_ = passes[layer - 1]
            slope = 2 * stats.norm.pdf(m, 0, np.sqrt(v))
            delta = slope * (w[:-1] @ delta) / np.sqrt(len(z))


def exact_means(x, y):
    """E[W] of a sign unit with weights 1 or -1 that are equally likely, by enumeration."""
    inputs = np.column_stack([x, np.ones(len(x))])
    every = np.array(list(product((-1.0, 1.0), repeat=inputs.shape[1])))
    right = (np.sign(inputs @ every.T) == y[:, None]).all(axis=0)
    return every[right].mean(axis=0)


@pytest.mark.parametrize("n_inputs", [4, 8, 12])
def test_one_label_of_a_binary_neuron_comes_near_enumeration(n_inputs):
    """The error is that of the central limit theorem, and falls with the number of inputs."""
    rng = np.random.default_rng(0)
    x, y = rng.choice([-1.0, 1.0], size=(1, n_inputs)), np.array([-1.0])
    after, _ = ebp.data_pass(ebp.init(rng, (n_inputs, 1)), x, y[:, None], np.array([0]))
    exact = exact_means(x, y)
    np.testing.assert_allclose(np.tanh(after.h[0][:, 0]), exact, rtol=0.5 / (n_inputs + 1))


@pytest.mark.parametrize("seed", range(3))
def test_three_labels_of_a_binary_neuron_come_near_enumeration(seed):
    """With ten labels a product of marginals no longer does (docs/understand/ebp.md)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3, 12))
    y = np.sign(x @ rng.choice([-1.0, 1.0], size=12))
    state, info = ebp.data_pass(ebp.init(rng, (12, 1)), x, y[:, None], np.arange(3))
    found, exact = np.tanh(state.h[0][:, 0]), exact_means(x, y)
    assert np.corrcoef(found, exact)[0, 1] > 0.95
    assert np.abs(found - exact).max() < 0.3
    assert info.rows_refused == info.weights_at_bound == 0
    # P(y | x) of new rows: the share of the weights that are right on the three.
    new = rng.normal(size=(200, 12))
    every = np.array(list(product((-1.0, 1.0), repeat=13)))
    with_bias = np.column_stack([x, np.ones(3)])
    right = every[(np.sign(with_bias @ every.T) == y[:, None]).all(axis=0)]
    share = (np.column_stack([new, np.ones(200)]) @ right.T > 0).mean(axis=1)
    p = special.expit(ebp.scores(state, new)[:, 0])
    assert np.abs(p - share).mean() < 0.08


def test_probabilities_are_those_of_drawn_networks():
    """Two layers: the mean of the output's sign against networks drawn from the posterior."""
    rng = np.random.default_rng(2)
    h = ebp.init(rng, (30, 40, 1)).h
    x = rng.normal(size=(3, 30))
    p = special.expit(ebp.scores(ebp.EBPState(h), x)[:, 0])
    n, ups = 4000, np.zeros(3)
    inputs = np.column_stack([x, np.ones(3)])
    for _ in range(n):
        first, last = (np.where(rng.random(w.shape) < special.expit(2 * w), 1, -1) for w in h)
        ups += np.column_stack([np.sign(inputs @ first), np.ones(3)]) @ last[:, 0] > 0
    assert np.abs(p - ups / n).max() < 4 * np.sqrt(0.25 / n) + 0.02


def test_real_weights_keep_their_variance_and_move_by_the_gradient():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1, 3)), np.array([[-1.0]])
    state = ebp.EBPState((rng.normal(size=(4, 1)),))
    after, _ = ebp.data_pass(state, x, y, np.array([0]), weights="real")
    z = np.append(x[0], 1.0)
    m, v = z @ state.h[0][:, 0] / 2.0, z @ z / 4.0
    slope = -stats.norm.pdf(m / np.sqrt(v)) / stats.norm.cdf(-m / np.sqrt(v)) / np.sqrt(v)
    np.testing.assert_allclose(after.h[0][:, 0], state.h[0][:, 0] + slope * z / 2.0)
    scores = ebp.scores(state, x, weights="real", is_map=True)
    assert scores[0, 0] == pytest.approx(m)


def test_guards_are_counted_and_padding_changes_nothing():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(11, 2)), np.ones((11, 1))
    sure = ebp.EBPState((np.full((3, 1), -ebp.FURTHEST),))
    after, info = ebp.data_pass(sure, np.abs(x), y, np.arange(1))
    assert info.steps_shortened == 3
    np.testing.assert_allclose(after.h[0], 1.0 - ebp.FURTHEST)
    start = ebp.init(rng, (2, 3, 1))
    whole, _ = ebp.data_pass(start, x, y, np.arange(11))
    parts, _ = ebp.data_pass(start, x, y, np.arange(5))
    parts, _ = ebp.data_pass(parts, x, y, np.arange(5, 11))
    for a, b in zip(whole.h, parts.h, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    bad = np.where(np.arange(11)[:, None] == 3, np.nan, x)
    kept, info = ebp.data_pass(start, bad, y, np.array([3]))
    assert info.rows_refused == 1
    np.testing.assert_array_equal(kept.h[0], start.h[0])


@pytest.mark.parametrize("weights", ["real", "binary"])
def test_a_weighted_row_is_absorbed_like_its_copies(weights):
    rng = np.random.default_rng(3)
    x = 3.0 * rng.normal(size=(40, 4))
    y = np.where(x[:, :1] + rng.normal(size=(40, 1)) > 0.0, 1.0, -1.0)
    times = rng.integers(0, 6, 40)
    start = ebp.init(rng, (4, 5, 1))
    weighted, info = ebp.data_pass(start, x, y, np.arange(40), times.astype(float), weights=weights)
    copies, told = ebp.data_pass(start, x, y, np.repeat(np.arange(40), times), weights=weights)
    for a, b in zip(weighted.h, copies.h, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    assert info.steps_shortened == told.steps_shortened
    halves, _ = ebp.data_pass(start, x, y, np.arange(40), np.full(40, 0.5), weights=weights)
    assert np.isfinite(ebp.scores(halves, x, weights=weights)).all()


@pytest.mark.parametrize("weight", [5.0, 1e3, 1e300])
def test_heavy_rows_do_not_run_away(weight):
    x = np.linspace(-2.0, 2.0, 50)[:, None]
    y = np.where(x > 0.1, 1.0, -1.0)
    state = ebp.init(np.random.default_rng(0), (1, 1))
    for _ in range(3):
        state, _ = ebp.data_pass(state, x, y, np.arange(50), np.full(50, weight), weights="real")
    odds = ebp.scores(state, x, weights="real")
    assert np.isfinite(odds).all()
    assert np.mean((odds > 0.0) == (y > 0.0)) > 0.9
