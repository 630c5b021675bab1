"""A network that learns row by row: its ring of rows, and where its steps lead."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop import BayesByBackpropRegressor, PointNetworkRegressor
from bayesprop.model.task import Numbers, Standardiser
from bayesprop.networks.replay import Replay


def rows(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)).astype(np.float32)
    y = x @ np.arange(1.0, d + 1.0, dtype=np.float32) + 0.5 * rng.standard_normal(n)
    return x, y.astype(np.float32)


def replay_of(estimator, n_inputs=2, **settings):
    return Replay(estimator.build_method(Numbers(Standardiser.none(1), True), n_inputs), **settings)


@pytest.mark.parametrize("packs", [[1] * 11, [3, 5, 3], [11], [2, 9]])
def test_the_memory_holds_the_last_rows(packs):
    x, y = rows(11)
    replay, first = replay_of(PointNetworkRegressor((3,)), buffer_size=4, every=100), 0
    state = replay.start(0)
    for n in packs:
        state = replay.absorb(state, x[first : first + n], y[first : first + n])
        first += n
        assert state.n_seen == first
        assert state.n_rows == min(first, 4)
    held = np.hstack([state.x, state.y])
    order = np.argsort([np.flatnonzero((x == row[:2]).all(axis=1))[0] for row in held])
    np.testing.assert_array_equal(held[order], np.column_stack([x, y])[-4:])


def test_draws_without_a_hidden_layer_have_the_moments_of_their_weights():
    replay = replay_of(BayesByBackpropRegressor((), init_std=0.4, noise=0.1), 3)
    state = replay.start(2)
    x = np.array([[1.0, -2.0, 0.5], [0.0, 0.0, 3.0]])
    m = np.asarray(state.network.network.params.weights.m[0], np.float64)[:, 0]
    std = np.asarray(state.network.network.params.weights.std[0], np.float64)[:, 0]
    with_one = np.hstack([x, np.ones((2, 1))])
    mean, var = with_one @ m, with_one**2 @ std**2
    n = 4000
    drawn = replay.draw(state, x, 7, n)
    assert drawn.shape == (n, 2)
    assert (np.abs(drawn.mean(axis=0) - mean) < 4.0 * np.sqrt(var / n)).all()
    assert (np.abs(drawn.var(axis=0) / var - 1.0) < 4.0 * np.sqrt(2.0 / n)).all()
    joint = np.cov(drawn.T)[0, 1]
    wanted = with_one[0] * with_one[1] @ std**2  # one function at both rows
    assert abs(joint - wanted) < 4.0 * np.sqrt((np.prod(var) + wanted**2) / n)
    alone = replay.draw(state, x[1:], 7, n)[:, 0]
    np.testing.assert_allclose(alone, drawn[:, 1], atol=1e-4)


def test_practice_leads_to_the_best_gaussian_of_independent_weights():
    """Of a linear model it is known: the exact mean, and precisions from the diagonal."""
    noise, n = 0.125, 12
    x, y = rows(n)
    replay = replay_of(
        BayesByBackpropRegressor((), prior_std=1.5, noise=noise, learning_rate=3e-3, n_samples=4),
        buffer_size=20, n_steps=1000, batch_size=8, every=3,
    )  # fmt: skip
    state = replay.absorb(replay.start(0), x, y / 2.0)
    network = state.network.network
    assert (int(state.n_undone), int(network.optimizer[0].count)) == (0, 4000)
    with_one = np.hstack([x, np.ones((n, 1))])
    prec = with_one.T @ with_one / noise + np.eye(3) / 1.5**2
    exact = np.linalg.solve(prec, with_one.T @ y / 2.0 / noise)
    std = np.asarray(network.params.weights.std[0])[:, 0]
    np.testing.assert_allclose(std, 1.0 / np.sqrt(np.diag(prec)), rtol=0.15)
    assert (np.abs(np.asarray(network.params.weights.m[0])[:, 0] - exact) < 0.5 * std).all()


def test_practice_that_leaves_the_finite_numbers_is_undone():
    estimator = PointNetworkRegressor((3,), learning_rate=1e38)
    replay = replay_of(estimator, n_steps=5, batch_size=4, every=6)
    state, (x, y) = replay.start(0), rows(6)
    before = replay.draw(state, x, 0, 1)
    state = replay.absorb(state, x, y)
    assert (state.n_seen, int(state.n_undone)) == (6, 1)
    np.testing.assert_array_equal(replay.draw(state, x, 0, 1), before)


@pytest.mark.parametrize("noise", ["input", "learned", 4.0])
def test_a_network_shows_its_last_hidden_layer_and_its_noise(noise):
    replay, x = replay_of(PointNetworkRegressor((4, 3), noise=noise)), rows(5)[0]
    state = replay.start(0)
    layer = replay.last_layer(state, x)
    assert layer.features.shape == (5, 3)
    assert (layer.features >= 0.0).all()
    last = np.asarray(replay.method.gradient.mean(state.network.network).weights[-1])[0]
    mean = layer.features @ last[:-1, 0] + last[-1, 0]
    np.testing.assert_allclose(mean, replay.draw(state, x, 0, 1)[0], rtol=1e-5)
    expected = np.sqrt(replay.method.predict(state.network, x).noise_var)[:, 0]
    np.testing.assert_allclose(layer.noise_std, expected, rtol=1e-5)
