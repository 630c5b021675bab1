"""Networks that practise on a memory: how often, in which units; regressions on what they see."""

from __future__ import annotations

import numpy as np
import pytest
from reward_rows import ARMS, BOTH, data
from scipy import stats

from bayesprop import BayesByBackpropRegressor, PointNetworkRegressor
from bayesprop.bandits.arms import Arms, Choices, choices_in
from bayesprop.bandits.replayed_rewards import NeuralLinearRewards, ReplayedRewards


def begun(scale=1.0, noise=0.1, seed=0, **settings):
    net = BayesByBackpropRegressor((4,), noise=noise * scale**2, learning_rate=0.02)
    settings = {"n_steps": 5, "batch_size": 8, "buffer_size": 16} | settings
    rewards = ReplayedRewards(net, reward_scale=scale, **settings)
    rewards.begin(2, ARMS, seed)
    return rewards


def steps_of(rewards):
    return int(rewards.state_.network.network.optimizer[0].count)


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
    method, state = rewards.replay.method, rewards.state_
    wanted = method.predict(state.network, choices_in(rows[0], ARMS, BOTH).inputs)
    np.testing.assert_allclose(belief.mean, 2.0 * wanted.mean[:, 0], rtol=1e-5)
    np.testing.assert_allclose(belief.var, 4.0 * wanted.epistemic_var[:, 0], rtol=1e-5)


def test_practice_that_fails_is_counted():
    net = PointNetworkRegressor((3,), learning_rate=1e38)
    rewards, (rows, numbers, paid) = ReplayedRewards(net, n_steps=2, batch_size=4), data(3)
    rewards.begin(2, ARMS, 0)
    rewards.learn(Choices(rows, ARMS, numbers), paid)
    assert rewards.guards_ == {"practice_undone": 3}


SCALE = 5.0


def taught(n_alone: int, **settings) -> tuple[NeuralLinearRewards, Arms, np.ndarray, np.ndarray]:
    """Teach 40 rows and practise, then n_alone more, one by one and without practice."""
    rng, arms = np.random.default_rng(1), Arms(["a", "b"])
    contexts = rng.standard_normal((40 + n_alone, 3))
    numbers = rng.integers(2, size=len(contexts))
    paid = 4.0 * contexts[:, 0] * (1 - 2 * numbers) + rng.standard_normal(len(contexts))
    network = PointNetworkRegressor((6,), weight_decay=1.0, noise="input")
    how = {"reward_scale": SCALE, "every": 40, "n_steps": 30, "batch_size": 16, "buffer_size": 64}
    rewards = NeuralLinearRewards(network, **how | settings)
    rewards.begin(3, arms, 0)
    rewards.learn(Choices(contexts[:40], arms, numbers[:40]), paid[:40])
    for row in range(40, len(contexts)):
        one = slice(row, row + 1)
        rewards.learn(Choices(contexts[one], arms, numbers[one]), paid[one])
    return rewards, arms, Choices(contexts, arms, numbers).inputs, np.column_stack([numbers, paid])


def exact(rewards, inputs, told, number, at) -> stats.rv_continuous:
    """The expected reward at a row: Murphy (2012), section 7.6.3, written out."""
    seen = rewards.replay.last_layer(rewards.state_, inputs.astype(np.float32))
    std = np.maximum(seen.noise_std, rewards.least_noise)
    mine = told[:, 0] == number
    z = np.column_stack([seen.features, np.ones(len(std))])[mine] / std[mine, None]
    y = told[mine, 1] / (SCALE * std[mine])
    prior = 0.25 * np.eye(z.shape[1])
    mean = np.linalg.inv(prior + z.T @ z) @ z.T @ y
    shape = 2.0 + 0.5 * len(y)
    rate = 1.0 + 0.5 * (np.sum((y - z @ mean) ** 2) + mean @ prior @ mean)
    at = rewards.replay.last_layer(rewards.state_, at.astype(np.float32))
    row = np.append(at.features[0], 1.0)
    spread = row @ np.linalg.inv(prior + z.T @ z) @ row
    scale = SCALE * np.sqrt(rate / shape * spread)
    return stats.t(2.0 * shape, loc=SCALE * row @ mean, scale=scale)


@pytest.mark.parametrize("n_alone", [0, 15])
def test_belief_is_that_of_weighted_regression_on_the_features(n_alone):
    rewards, arms, inputs, told = taught(n_alone)
    context, numbers = np.array([0.3, -1.0, 0.5]), np.array([0, 1])
    belief = rewards.believe(choices_in(context, arms, numbers))
    drawn = rewards.draw(np.random.default_rng(0), choices_in(context, arms, numbers), 20_000)
    for number in numbers:
        at = choices_in(context, arms, np.array([number])).inputs
        truth = exact(rewards, inputs, told, number, at)
        assert belief.mean[number] == pytest.approx(truth.mean(), rel=1e-4, abs=1e-4)
        assert belief.var[number] == pytest.approx(truth.var(), rel=1e-3)
        assert stats.kstest(drawn[:, number], truth.cdf).pvalue > 1e-4
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 4.0 / np.sqrt(len(drawn))


def test_where_rewards_are_certain_they_are_learnt_at_once():
    """One arm, two contexts, one without noise: there noise="input" makes it surer."""
    rng, arms = np.random.default_rng(0), Arms(["only"])
    contexts = np.repeat(np.eye(2), 60, axis=0)
    paid = np.concatenate([np.full(60, 1.0), rng.choice([-6.0, 2.0], 60)])
    stds = {}
    for noise in ("input", "learned"):
        network = PointNetworkRegressor((8,), weight_decay=0.1, noise=noise, learning_rate=1e-2)
        rewards = NeuralLinearRewards(network, every=120, n_steps=400, batch_size=32)
        rewards.begin(2, arms, 0)
        rewards.learn(Choices(contexts, arms, np.zeros(120, int)), paid)
        found = [rewards.believe(choices_in(context, arms, np.array([0]))) for context in np.eye(2)]
        assert abs(found[0].mean[0] - 1.0) < 4.0 * np.sqrt(found[0].var[0])
        stds[noise] = [float(np.sqrt(belief.var[0])) for belief in found]
    assert stds["input"][0] < 0.3 * stds["learned"][0]
    assert stds["input"][0] < 0.2 * stds["input"][1]
