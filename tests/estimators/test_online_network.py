"""A network taught from a memory: its ring, its units, and where its steps lead."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop import BayesByBackpropRegressor, PointNetworkRegressor
from bayesprop.estimators import online_network
from bayesprop.sampling import mean_field


def rows(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)).astype(np.float32)
    y = x @ np.arange(1.0, d + 1.0, dtype=np.float32) + 0.5 * rng.standard_normal(n)
    return x, y.astype(np.float32)[:, None]


@pytest.mark.parametrize("packs", [[1] * 11, [3, 5, 3], [11], [2, 9]])
def test_the_memory_holds_the_last_rows(packs):
    x, y = rows(11)
    memory, first = online_network.empty(4, 2), 0
    for n in packs:
        memory = online_network.remembered(memory, x[first : first + n], y[first : first + n])
        first += n
        assert memory.n_seen == first
        assert memory.n_rows == min(first, 4)
    held = np.hstack([memory.x, memory.y])
    order = np.argsort([np.flatnonzero((x == row[:2]).all(axis=1))[0] for row in held])
    np.testing.assert_array_equal(held[order], np.hstack([x, y])[-4:])


def test_a_beginning_leaves_the_estimator_alone():
    given = PointNetworkRegressor((3,))
    begun = online_network.begun(given, 2, y_scale=2.0, seed=5)
    assert not hasattr(given, "state_")
    assert (begun.state_.seed, begun.n_features_in_, begun.n_iter_) == (5, 2, 0)
    again, other = (online_network.begun(given, 2, y_scale=2.0, seed=k) for k in (5, 6))
    x = rows(3)[0]
    drawn = [online_network.functions(m, x, 0, 1) for m in (begun, again, other)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).all()
    with pytest.raises(ValueError, match="n_draws must be an int >= 1"):
        online_network.begun(BayesByBackpropRegressor(n_draws=0), 2, y_scale=1.0, seed=0)


def test_draws_without_a_hidden_layer_have_the_moments_of_their_weights():
    model = online_network.begun(
        BayesByBackpropRegressor((), init_std=0.4, noise=0.1), 3, y_scale=5.0, seed=2
    )
    x = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 3.0]])
    m = np.asarray(model.state_.network.q.m[0], np.float64)[:, 0]
    std = np.asarray(mean_field.stds(model.state_.network.q)[0], np.float64)[:, 0]
    with_one = np.hstack([x, np.ones((2, 1))])
    mean, var = 5.0 * with_one @ m, 25.0 * with_one**2 @ std**2
    n = 4000
    drawn = online_network.functions(model, x, 7, n)
    assert drawn.shape == (n, 2)
    assert (np.abs(drawn.mean(axis=0) - mean) < 4.0 * np.sqrt(var / n)).all()
    assert (np.abs(drawn.var(axis=0) / var - 1.0) < 4.0 * np.sqrt(2.0 / n)).all()
    joint = np.cov(drawn.T)[0, 1] / 25.0
    wanted = with_one[0] * with_one[1] @ std**2  # one function at both rows
    assert abs(joint - wanted) < 4.0 * np.sqrt((np.prod(var) / 625.0 + wanted**2) / n)
    alone = online_network.functions(model, x[1:], 7, n)[:, 0]
    np.testing.assert_allclose(alone, drawn[:, 1], atol=1e-4)


def test_practice_leads_to_the_best_gaussian_of_independent_weights():
    """Of a linear model it is known: the exact mean, and precisions from the diagonal."""
    noise, scale, n = 0.5, 2.0, 12
    x, y = rows(n)
    model = online_network.begun(
        BayesByBackpropRegressor((), prior_std=1.5, noise=noise, learning_rate=3e-3, n_samples=4),
        2, y_scale=scale, seed=0,
    )  # fmt: skip
    memory = online_network.remembered(online_network.empty(20, 2), x, y / scale)
    for place in range(4):
        undone = online_network.practise(model, memory, place, n_steps=1000, batch_size=8)
        assert not undone
    assert int(model.state_.network.optimizer[0].count) == 4000
    with_one = np.hstack([x, np.ones((n, 1))])
    prec = with_one.T @ with_one * scale**2 / noise + np.eye(3) / 1.5**2
    exact = np.linalg.solve(prec, with_one.T @ y[:, 0] * scale / noise)
    std = np.asarray(mean_field.stds(model.state_.network.q)[0])[:, 0]
    np.testing.assert_allclose(std, 1.0 / np.sqrt(np.diag(prec)), rtol=0.15)
    assert (np.abs(np.asarray(model.state_.network.q.m[0])[:, 0] - exact) < 0.5 * std).all()


def test_practice_that_leaves_the_finite_numbers_is_undone():
    model = online_network.begun(
        PointNetworkRegressor((3,), learning_rate=1e38), 2, y_scale=1.0, seed=0
    )
    before, x = model.state_, rows(6)[0]
    memory = online_network.remembered(online_network.empty(8, 2), *rows(6))
    assert online_network.practise(model, memory, 0, n_steps=5, batch_size=4)
    drawn = online_network.functions(model, x, 0, 1)
    model.learned_ = model.learned_._replace(state=before)
    np.testing.assert_array_equal(drawn, online_network.functions(model, x, 0, 1))


@pytest.mark.parametrize("noise", ["input", "learned", 4.0])
def test_a_network_shows_what_its_last_layer_sees_and_its_noise(noise):
    model = online_network.begun(
        PointNetworkRegressor((4, 3), noise=noise), 2, y_scale=10.0, seed=0
    )
    x = rows(5)[0]
    seen = online_network.seen(model, x)
    assert seen.features.shape == (5, 3)
    assert (seen.features >= 0.0).all()
    last = np.asarray(model.fitted_.method.built.gradient.mean(model.state_.network).weights[-1])[0]
    drawn = online_network.functions(model, x, 0, 1)[0]
    mean = 10.0 * (seen.features @ last[:-1, 0] + last[-1, 0])
    np.testing.assert_allclose(mean, drawn, rtol=1e-5)
    told = np.sqrt(model.predict_dist(x).noise_var)
    np.testing.assert_allclose(10.0 * seen.noise_std, told, rtol=1e-5)
