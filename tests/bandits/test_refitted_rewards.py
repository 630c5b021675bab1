"""Rewards by estimators that are fitted anew: when, to which rows, and what is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from reward_rows import ARMS, BOTH, data
from sklearn.linear_model import BayesianRidge

from bayesprop import BayesianLinearRegressor
from bayesprop.bandits.arms import Choices, choices_in
from bayesprop.bandits.refitted_rewards import RefittedRewards


def begun(estimator=None, seed=0, **settings):
    rewards = RefittedRewards(estimator or BayesianLinearRegressor(), **settings)
    rewards.begin(2, ARMS, seed)
    return rewards


def learn_each(rewards, rows, numbers, paid):
    fits = []
    for t in range(len(rows)):
        before = rewards.model_
        rewards.learn(Choices(rows[t : t + 1], ARMS, numbers[t : t + 1]), paid[t : t + 1])
        if rewards.model_ is not before:
            fits.append(t + 1)
    return fits


def test_it_fits_when_the_rows_have_grown_by_a_share():
    rewards = begun(first=5, growth=0.5)
    assert learn_each(rewards, *data(30, 0.1)) == [5, 8, 12, 18, 27]
    assert rewards.n_at_next_fit == 41


def test_the_last_fit_is_one_to_the_last_rows():
    rows, numbers, paid = data(27, 0.1)
    rewards = begun(first=5, growth=0.5, buffer_size=10, keep="last")
    learn_each(rewards, rows, numbers, paid)
    other = begun(first=5, growth=0.5, buffer_size=10, keep="last")
    other.learn(Choices(rows, ARMS, numbers), paid)  # more than it can remember
    wanted = BayesianLinearRegressor(random_state=4).fit(
        Choices(rows, ARMS, numbers).inputs[17:], paid[17:]
    )
    at = choices_in(rows[0], ARMS, BOTH).inputs
    for model in (rewards, other):
        np.testing.assert_allclose(model.model_.predict(at), wanted.predict(at), rtol=1e-12)
    learn_each(rewards, *data(3, 0.1))
    learn_each(other, *data(3, 0.1))
    np.testing.assert_array_equal(rewards._x[np.argsort(rewards._y)], other._x[other._y.argsort()])


def test_the_memory_is_an_even_sample_of_all_rows():
    n, size, counts = 60, 6, np.zeros(60)
    paid = np.arange(n, dtype=float)
    rows, numbers, n_runs = np.zeros((n, 2)), np.zeros(n, int), 150
    for seed in range(n_runs):
        rewards = RefittedRewards(BayesianLinearRegressor(), first=6, growth=1e9, buffer_size=size)
        rewards.begin(2, ARMS, seed)
        rewards.learn(Choices(rows, ARMS, numbers), paid)
        assert len(np.unique(rewards._y)) == size
        counts[rewards._y.astype(int)] += 1
    share = size / n
    assert np.abs(counts / n_runs - share).max() < 4.5 * np.sqrt(share * (1 - share) / n_runs)


def test_a_sample_is_the_same_however_the_rows_come():
    rows, numbers, paid = data(40, 0.1)
    one, other = (begun(first=5, growth=0.5, buffer_size=10) for _ in range(2))
    learn_each(one, rows, numbers, paid)
    for part in (slice(0, 7), slice(7, 31), slice(31, 40)):
        other.learn(Choices(rows[part], ARMS, numbers[part]), paid[part])
    np.testing.assert_array_equal(one._x, other._x)
    np.testing.assert_array_equal(one._y, other._y)


def test_before_the_first_fit_all_arms_are_the_same():
    rewards = begun(first=40)
    learn_each(rewards, *data(39, 0.1))
    belief = rewards.believe(choices_in(np.zeros(2), ARMS, BOTH))
    np.testing.assert_array_equal(belief, [[0.0, 0.0], [1.0, 1.0]])
    n = 4000
    drawn = rewards.draw(np.random.default_rng(0), choices_in(np.zeros(2), ARMS, BOTH), n)
    assert abs((drawn.argmax(axis=1) == 0).mean() - 0.5) < 4.0 * 0.5 / np.sqrt(n)


def test_draws_are_joint():
    rewards, (rows, numbers, paid) = begun(BayesianLinearRegressor()), data(40, 0.1)
    rewards.learn(Choices(rows, ARMS, numbers), paid)
    far = np.array([100.0, 0.0])  # what is not known of the slope moves both arms
    drawn = rewards.draw(np.random.default_rng(0), choices_in(far, ARMS, BOTH), 1000)
    features = rewards.model_.posterior_features(choices_in(far, ARMS, BOTH).inputs)[:, 0]
    cov = features @ features.T
    wanted = cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1])
    assert wanted > 0.9
    assert abs(np.corrcoef(drawn.T)[0, 1] - wanted) < 0.02


def test_a_fit_that_fails_learns_nothing():
    class Failing(BayesianRidge):
        def fit(self, X, y, sample_weight=None):
            raise ValueError("no")

    rewards, (rows, numbers, paid) = begun(Failing(), first=3), data(3, 0.1)
    learn_each(rewards, rows[:2], numbers[:2], paid[:2])
    with pytest.raises(ValueError, match="no"):
        rewards.learn(Choices(rows[2:], ARMS, numbers[2:]), paid[2:])
    assert rewards.n_at_next_fit == 3
    assert rewards._n_seen == 2
