"""Rewards absorbed one by one by PBP: units, draws, files, and what a bandit makes of them."""

from __future__ import annotations

import numpy as np
from reward_rows import ARMS, BOTH, data

from bayesprop import PBPRegressor, ThompsonSampler
from bayesprop.bandits.arms import Choices, choices_in
from bayesprop.bandits.streamed_rewards import StreamedRewards


def begun(**settings):
    rewards = StreamedRewards(PBPRegressor((6,)), **settings)
    rewards.begin(2, ARMS, 0)
    return rewards


def test_rewards_are_learnt_and_units_do_not_matter():
    rows, numbers, paid = data(300)
    one, other = begun(), begun(reward_scale=8.0)
    one.learn(Choices(rows, ARMS, numbers), paid)
    other.learn(Choices(1024.0 * rows, ARMS, numbers), 8.0 * paid)
    belief = one.believe(choices_in(np.array([1.5, 0.0]), ARMS, BOTH))
    assert np.abs(belief.mean - [1.5, -1.0]).max() < 0.3
    scaled = other.believe(choices_in(np.array([1536.0, 0.0]), ARMS, BOTH))
    np.testing.assert_allclose(scaled.mean, 8.0 * belief.mean, rtol=1e-9)
    np.testing.assert_allclose(scaled.var, 64.0 * belief.var, rtol=1e-9)
    third = one.believe(choices_in(rows[0], ARMS, np.array([2])))  # of which nothing was learnt
    assert third.var[0] > 5.0 * one.believe(choices_in(rows[0], ARMS, BOTH)).var.max()


def test_it_learns_which_class_is_which_sooner_than_without_recalling():
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((200, 3))[rng.integers(200, size=1500)]
    right = (contexts[:, 0] * contexts[:, 1] > 0.0).astype(int)  # no line divides them

    def misses(**settings):
        bandit = ThompsonSampler(StreamedRewards(**settings), [0, 1])
        chosen = []
        for context, arm in zip(contexts, right, strict=True):
            one = bandit.select(context)
            chosen.append(one.action)
            bandit.settle(one, float(one.action == arm))
        return np.array(chosen) != right

    recalling, once = misses(), misses(n_recalled=0)
    assert recalling.sum() < 0.6 * once.sum()
    assert recalling[1000:].mean() < 0.1  # uniform: 0.5
