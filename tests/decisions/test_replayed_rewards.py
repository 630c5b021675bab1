"""Networks that practise on a memory: what they see, how often, and in which units."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from bayesprop import (
    BatchEPRegressor,
    BayesByBackpropRegressor,
    PointNetworkRegressor,
    ThompsonSampler,
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


def leaves(rewards):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(rewards.model_.state_.network)]


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


def test_what_it_believes_are_moments_of_what_it_draws():
    rewards, (rows, numbers, paid) = begun(scale=2.0), data(12)
    for k in range(12):
        rewards.learn(Choices(rows[k : k + 1], ARMS, numbers[k : k + 1]), paid[k : k + 1])
    belief = rewards.believe(choices_in(rows[0], ARMS, BOTH))
    n, few = 4000, rewards.model_.n_draws
    drawn = rewards.draw(np.random.default_rng(0), choices_in(rows[0], ARMS, BOTH), n)
    assert drawn.shape == (n, 2)
    std = drawn.std(axis=0)
    assert (np.abs(drawn.mean(axis=0) - belief.mean) < 4.0 * std / np.sqrt(few)).all()
    kurtosis = np.mean((drawn - drawn.mean(axis=0)) ** 4, axis=0) / std**4
    assert (np.abs(belief.var / std**2 - 1.0) < 5.0 * np.sqrt(kurtosis / few)).all()
    again = rewards.believe(choices_in(rows[0], ARMS, BOTH))
    np.testing.assert_array_equal(again, belief)
    other = rewards.draw(np.random.default_rng(1), choices_in(rows[0], ARMS, BOTH), n)
    assert (drawn != other).any()
    wanted = rewards.model_.predict(ARMS.inputs(rows[[0, 0]], BOTH))  # of the estimator itself
    assert (np.abs(wanted - drawn.mean(axis=0)) < 5.0 * std / np.sqrt(few)).all()


def test_it_believes_every_member_of_an_ensemble_once():
    net = PointNetworkRegressor((4,), n_members=5, noise=0.1)
    rewards = ReplayedRewards(net, n_steps=5, batch_size=8, buffer_size=16, reward_scale=2.0)
    rewards.begin(2, ARMS, 0)
    rows, numbers, paid = data(8)
    rewards.learn(Choices(rows, ARMS, numbers), paid)
    belief = rewards.believe(choices_in(rows[0], ARMS, BOTH))
    wanted = rewards.model_.predict_dist(ARMS.inputs(rows[[0, 0]], BOTH))
    np.testing.assert_allclose(belief.mean, wanted.mean, rtol=1e-5)
    np.testing.assert_allclose(belief.var, wanted.epistemic_var, rtol=1e-5)


def test_shares_of_the_kl_by_batches_of_an_epoch_are_refused():
    net = BayesByBackpropRegressor((4,), kl_weights="geometric")
    with pytest.raises(ValueError, match="kl_weights must be 'uniform'"):
        ReplayedRewards(net).begin(2, ARMS, 0)


def test_the_unit_of_rewards_does_not_matter():
    one, other = begun(scale=1.0), begun(scale=8.0)
    rows, numbers, paid = data(6)
    for k in range(6):
        one.learn(Choices(rows[k : k + 1], ARMS, numbers[k : k + 1]), paid[k : k + 1])
        other.learn(Choices(rows[k : k + 1], ARMS, numbers[k : k + 1]), 8.0 * paid[k : k + 1])
    for leaf, same in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_allclose(leaf, same, rtol=1e-4, atol=1e-6)
    drawn = [
        m.draw(np.random.default_rng(0), choices_in(rows[0], ARMS, BOTH), 3) for m in (one, other)
    ]
    np.testing.assert_allclose(8.0 * drawn[0], drawn[1], rtol=1e-3, atol=1e-5)


def test_practice_that_fails_is_counted(monkeypatch):
    rewards, (rows, numbers, paid) = begun(), data(3)
    undone = iter([True, False, True])
    monkeypatch.setattr(online_network, "practise", lambda *args, **settings: next(undone))
    rewards.learn(Choices(rows, ARMS, numbers), paid)
    assert rewards.guards_ == {"practice_undone": 2}


def test_numbers_that_single_precision_cannot_bear_are_refused():
    rewards, (rows, numbers, paid) = begun(), data(2)
    before = leaves(rewards)
    with pytest.raises(ValueError, match=r"rewards / reward_scale must be at most 1e\+12"):
        rewards.learn(Choices(rows, ARMS, numbers), np.array([0.0, 1e39]))
    with pytest.raises(ValueError, match=r"contexts must be at most 1e\+12 in size, got 1e\+13"):
        rewards.learn(
            Choices(rows * [[1.0, 1.0], [0.0, 0.0]] - [[0.0, 0.0], [0.0, 1e13]], ARMS, numbers),
            paid,
        )
    with pytest.raises(ValueError, match=r"context must be at most 1e\+12"):
        rewards.believe(choices_in(np.array([1.0, 1e39]), ARMS, BOTH))
    assert rewards._memory.n_seen == 0
    for leaf, same in zip(leaves(rewards), before, strict=True):
        np.testing.assert_array_equal(leaf, same)


@pytest.mark.parametrize(
    ("estimator", "settings", "message"),
    [
        (BatchEPRegressor(), {}, "must be a regressor trained by gradient steps.*BatchEPRegressor"),
        (None, {"reward_scale": 0.0}, "reward_scale must be a finite number > 0"),
        (None, {"every": 0}, "every must be an int >= 1"),
        (None, {"buffer_size": 1.5}, "buffer_size must be an int >= 1"),
        (BayesByBackpropRegressor(n_draws=-1), {}, "n_draws must be an int >= 1"),
    ],
)
def test_wrong_settings_are_said(estimator, settings, message):
    rewards = ReplayedRewards(estimator or BayesByBackpropRegressor(), **settings)
    with pytest.raises(ValueError, match=message):
        rewards.begin(2, ARMS, 0)


def test_it_learns_which_arm_pays():
    net = BayesByBackpropRegressor((8,), noise=0.1, learning_rate=0.02)
    rewards = ReplayedRewards(net, n_steps=20, batch_size=16, buffer_size=128)
    bandit = ThompsonSampler(rewards, ["up", "down"], n_averaged=2)
    contexts = np.random.default_rng(0).standard_normal((150, 1))
    right = 0
    for t, row in enumerate(contexts):
        one = bandit.select(row)
        good = (one.action == "up") == (row[0] > 0.0)
        bandit.settle(one, float(good))
        right += good and t >= 100
    assert right >= 36  # of 50; by chance 25
