"""The Gaussian process of the search against scikit-learn's, and its slopes against differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from papers import surrogate
from papers.surrogate import Surrogate


@pytest.fixture(scope="module")
def trials():
    rng = np.random.default_rng(0)
    points = rng.random((20, 3))
    values = 3.0 + np.sin(6.0 * points[:, 0]) + points[:, 1] ** 2 + 0.05 * rng.standard_normal(20)
    return points, values


def test_predictions_are_those_of_scikit_learn_at_the_same_kernel(trials):
    points, values = trials
    ours = Surrogate.fit(points, values)
    covariance = ours.cholesky @ ours.cholesky.T
    noise = covariance[0, 0] - 1.0
    kernel = ConstantKernel(ours.variance) * Matern(ours.lengths, nu=2.5)
    theirs = GaussianProcessRegressor(
        kernel + WhiteKernel(ours.variance * noise), optimizer=None, normalize_y=True
    ).fit(points, values)
    new = np.random.default_rng(1).random((50, 3))
    mean, std = theirs.predict(new, return_std=True)
    without_noise = np.sqrt(std**2 - ours.variance * noise * ours.scale**2)
    np.testing.assert_allclose(ours(new).mean, mean, rtol=1e-6)
    np.testing.assert_allclose(ours(new).std, without_noise, rtol=1e-4)
    # The third dimension says nothing, which the lengths show.
    assert ours.lengths[2] > 2.0 * ours.lengths[0]
    rmse = np.sqrt(np.mean((ours(new).mean - 3.0 - np.sin(6 * new[:, 0]) - new[:, 1] ** 2) ** 2))
    assert rmse < 0.2


def test_cost_is_the_likelihood_at_the_best_scale_and_its_slopes_are_right(trials):
    points, values = trials
    y = (values - values.mean()) / values.std()
    logs = np.array([-0.7, 0.2, 0.5, -3.0])
    value, slopes = surrogate.cost(logs, points, y)
    for k in range(4):
        step = np.eye(4)[k] * 1e-5
        two = [surrogate.cost(logs + sign * step, points, y)[0] for sign in (1.0, -1.0)]
        assert slopes[k] == pytest.approx((two[0] - two[1]) / 2e-5, rel=1e-5, abs=1e-7)

    def minus_log_likelihood(variance, logs):
        kernel = ConstantKernel(variance) * Matern(np.exp(logs[:3]), nu=2.5)
        kernel += WhiteKernel(variance * np.exp(logs[3]))
        model = GaussianProcessRegressor(kernel, optimizer=None).fit(points, y)
        return -model.log_marginal_likelihood_value_

    def at_best_scale(logs):
        found = optimize.minimize_scalar(
            lambda log_v: minus_log_likelihood(np.exp(log_v), logs), (-2.0, 2.0)
        )
        return found.fun

    other = logs + np.array([0.5, -0.3, 0.2, 1.0])
    means = np.array([np.log(0.5)] * 3 + [np.log(1e-2)])
    widths = np.array([1.0, 1.0, 1.0, 2.0])
    prior = [0.5 * np.sum(((at - means) / widths) ** 2) for at in (logs, other)]
    found = surrogate.cost(other, points, y)[0] - value - prior[1] + prior[0]
    assert found == pytest.approx(at_best_scale(other) - at_best_scale(logs), abs=1e-5)


def test_a_function_without_noise_seen_at_near_points():
    points = 0.5 + 1e-7 * np.arange(30.0)[:, None] * np.ones(3)
    points[::3] = np.random.default_rng(0).uniform(size=(10, 3))
    surrogate = Surrogate.fit(points, points @ [1.0, 2.0, 3.0])
    said = surrogate(points)
    assert np.isfinite(said.std).all()
    np.testing.assert_allclose(said.mean, points @ [1.0, 2.0, 3.0], rtol=1e-3)
