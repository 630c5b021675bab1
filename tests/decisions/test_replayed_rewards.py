"""Networks that practise on a memory: what they see, how often, and in which units."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop import (
    BayesByBackpropRegressor,
    PointNetworkRegressor,
)
from bayesprop.decisions.arms import Arms, Choices, choices_in
from bayesprop.decisions.replayed_rewards import ReplayedRewards
from bayesprop.estimators import online_network

ARMS = Arms(["a", "b"], room=3)
BOTH = np.array([0, 1])


def begun(scale=1.0, noise=0.1, seed=0, **settings):
    net = BayesByBackpropRegressor((4,), noise=noise * scale**2, learning_rate=0.02)
    settings = {"n_steps": 5, "batch_size": 8, "buffer_size": 16} | settings
    rewards = ReplayedRewards(net, reward_scale=scale, **settings)
    rewards.begin(2, ARMS, seed)
    return rewards


def data(n):
    rng = np.random.default_rng(1)
    rows, numbers = rng.standard_normal((n, 2)), rng.integers(2, size=n)
    return rows, numbers, np.where(numbers == 0, rows[:, 0], -1.0)


def steps_of(rewards):
    return int(rewards.model_.state_.network.optimizer[0].count)


def test_rows_are_remembered_beside_the_columns_of_their_arm():
    rewards, (rows, numbers, paid) = begun(scale=4.0, every=100), data(10)
    rewards.learn(Choices(rows[:7], ARMS, numbers[:7]), paid[:7])
    rewards.learn(Choices(rows[7:], ARMS, numbers[7:]), paid[7:])
    x, y, n_seen = rewards._memory
    wanted = np.hstack([rows, numbers[:, None] == [0, 1, 2]]).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(x)[:10], wanted)
    np.testing.assert_allclose(np.asarray(y)[:10, 0], paid / 4.0, rtol=1e-6)
    assert (n_seen, steps_of(rewards)) == (10, 0)


@pytest.mark.parametrize(("every", "times"), [(1, 20), (3, 6)])
def test_it_practises_so_often(every, times):
    rewards, (rows, numbers, paid) = begun(every=every), data(20)
    for part in (slice(0, 1), slice(1, 2), slice(2, 20)):  # more than it can remember
        rewards.learn(Choices(rows[part], ARMS, numbers[part]), paid[part])
    assert steps_of(rewards) == 5 * times
    assert rewards.guards_ == {"practice_undone": 0}


def test_it_believes_every_member_of_an_ensemble_once():
    net = PointNetworkRegressor((4,), n_members=5, noise=0.1)
    rewards = ReplayedRewards(net, n_steps=5, batch_size=8, buffer_size=16, reward_scale=2.0)
    rewards.begin(2, ARMS, 0)
    rows, numbers, paid = data(8)
    rewards.learn(Choices(rows, ARMS, numbers), paid)
    belief = rewards.believe(choices_in(rows[0], ARMS, BOTH))
    wanted = rewards.model_.predict_dist(choices_in(rows[0], ARMS, BOTH).inputs)
    np.testing.assert_allclose(belief.mean, wanted.mean, rtol=1e-5)
    np.testing.assert_allclose(belief.var, wanted.epistemic_var, rtol=1e-5)


def test_practice_that_fails_is_counted(monkeypatch):
    rewards, (rows, numbers, paid) = begun(), data(3)
    undone = iter([True, False, True])
    monkeypatch.setattr(online_network, "practise", lambda *args, **settings: next(undone))
    rewards.learn(Choices(rows, ARMS, numbers), paid)
    assert rewards.guards_ == {"practice_undone": 2}
