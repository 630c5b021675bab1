"""Linear rewards against the dense algebra of the normal-inverse-gamma."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from bayesprop.bandits import linear_rewards
from bayesprop.bandits.arms import Arms, Choices, choices_in
from bayesprop.bandits.linear_rewards import LinearRewards

SETTINGS = {"prior_prec": 0.3, "noise_shape": 2.5, "noise_rate": 0.7}
FEATURES = np.array([[1.0, 0.0], [0.5, -2.0], [0.0, 1.0]])


class Exact(NamedTuple):
    """Student-t of the weights of a regression: location, covariance factor, shape and rate."""

    mean: np.ndarray
    inverse: np.ndarray
    shape: float
    rate: float


def conjugate(x, y, prior_prec, noise_shape, noise_rate):
    """Condition by dense inverses; the rate from residuals (Murphy 2012, section 7.6.3)."""
    prior = prior_prec * np.eye(x.shape[1])
    inverse = np.linalg.inv(prior + x.T @ x)
    mean = inverse @ x.T @ y
    misfit = np.sum((y - x @ mean) ** 2) + mean @ prior @ mean
    return Exact(mean, inverse, noise_shape + len(y) / 2, noise_rate + misfit / 2)


def data(n, n_arms=3, seed=0):
    rng = np.random.default_rng(seed)
    rows, numbers = rng.standard_normal((n, 2)), rng.integers(n_arms, size=n)
    paid = rows @ [1.0, -2.0] * (numbers - 1.0) + 3.0 + 0.5 * rng.standard_normal(n)
    return rows, numbers, paid


def begun(arms, **settings):
    rewards = LinearRewards(**(SETTINGS | settings))
    rewards.begin(2, arms, 0)
    return rewards


def column(rows):
    return np.hstack([np.ones((len(rows), 1)), rows])


def products(rows, numbers):
    known = FEATURES[numbers]
    each = zip(rows, known, strict=True)
    return np.array([[1.0, *c, *f, *np.outer(c, f).ravel()] for c, f in each]).reshape(-1, 9)


def exact_beliefs(rows, numbers, paid, context, *, features):
    """Return location, scale² and degrees of freedom of the t of every arm, and joint scales."""
    if features:
        found = conjugate(products(rows, numbers), paid, **SETTINGS)
        x = products(np.repeat(context[None], 3, axis=0), np.arange(3))
        joint = found.rate / found.shape * x @ found.inverse @ x.T
        return x @ found.mean, joint, np.full(3, 2.0 * found.shape)
    each = [conjugate(column(rows[numbers == k]), paid[numbers == k], **SETTINGS) for k in range(3)]
    x = column(context[None])[0]
    spread = [one.rate / one.shape * x @ one.inverse @ x for one in each]
    return [x @ one.mean for one in each], np.diag(spread), [2.0 * one.shape for one in each]


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("n", [0, 1, 40])
def test_beliefs_and_draws_are_the_student_t_of_dense_algebra(features, n):
    rows, numbers, paid = data(n)
    arms = Arms(["a", "b", "c"], features=FEATURES if features else None)
    rewards, context = begun(arms), np.array([0.7, -1.2])
    for k in range(0, n - 7, 1):
        rewards.learn(Choices(rows[k : k + 1], arms, numbers[k : k + 1]), paid[k : k + 1])
    if n:
        rest = slice(max(0, n - 7), n)
        rewards.learn(Choices(rows[rest], arms, numbers[rest]), paid[rest])
    mean, joint, dof = exact_beliefs(rows, numbers, paid, context, features=features)
    belief = rewards.believe(choices_in(context, arms, np.arange(3)))
    stretch = np.array(dof) / (np.array(dof) - 2.0)
    np.testing.assert_allclose(belief.mean, mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(belief.var, np.diag(joint) * stretch, rtol=1e-9)
    n_draws = 10_000
    drawn = rewards.draw(np.random.default_rng(n), choices_in(context, arms, np.arange(3)), n_draws)
    for k in range(3):
        t = stats.t(dof[k], mean[k], np.sqrt(joint[k, k]))
        assert stats.kstest(drawn[:, k], t.cdf).pvalue > 1e-4
    scale = np.sqrt(np.diag(joint))
    signs = np.sign((drawn - mean) / scale)  # of a t, these correlate as of its normal
    wanted = 2.0 / np.pi * np.arcsin(np.clip(joint / np.outer(scale, scale), -1.0, 1.0))
    assert (np.abs(signs.T @ signs / n_draws - wanted) < 4.5 / np.sqrt(n_draws)).all()


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_streams_of_thousands_of_rows_do_not_drift(scale):
    rng = np.random.default_rng(0)
    x = scale * (rng.standard_normal((2000, 8)) @ rng.standard_normal((8, 8)) + 1.0)
    y = x @ rng.standard_normal(8) + rng.standard_normal(2000)
    found = linear_rewards.start(8, 0.5)
    worst = 0.0
    for n in range(1, 2001):
        found = linear_rewards.absorb(found, x[n - 1 : n], y[n - 1 : n])
        if n % 501 == 0:
            wanted = conjugate(x[:n], y[:n], 0.5, 2.0, 1.0)
            error = np.abs(found.cov - wanted.inverse).max() / np.abs(wanted.inverse).max()
            worst = max(worst, float(error), np.abs(found.mean / wanted.mean - 1.0).max())
    assert worst < 1e-8


def test_contexts_that_drown_the_prior_are_said():
    arms, rewards = Arms(["a"]), LinearRewards()
    rewards.begin(2, arms, 0)
    with pytest.raises(ValueError, match=r"so large that the prior precision is lost by rounding"):
        rewards.learn(Choices(np.full((2, 2), 1e12), arms, np.zeros(2, int)), np.ones(2))
    assert not rewards._regressions.learnt


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6])
def test_equal_contexts_leave_the_prior_to_divide_their_sum(scale):
    """The two normal equations are one: (4 scale² + prior precision) mean = 2 scale."""
    x, prior_precision = np.full((2, 2), scale), 0.5
    found = linear_rewards.absorb(linear_rewards.start(2, prior_precision), x, np.ones(2))
    wanted = 2.0 * scale / (4.0 * scale**2 + prior_precision)
    np.testing.assert_allclose(found.mean, wanted, rtol=1e-3)
