import json

import numpy as np
import pytest
from sklearn.linear_model import BayesianRidge

from bayesprop.report.baselines import Baselines, ConstantBaseline, LinearBaseline


def table(n=120, d=4, noise=0.7, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * np.logspace(-3, 3, d) + 5.0
    y = 40.0 + x @ (rng.standard_normal(d) / np.logspace(-3, 3, d)) + noise * rng.standard_normal(n)
    return x, y


@pytest.mark.parametrize(("n", "d"), [(120, 4), (30, 12), (15, 40)])
def test_linear_baseline_equals_bayesian_ridge(n, d):
    x, y = table(n, d)
    z = (x - x.mean(0)) / x.std(0)
    t = (y - y.mean()) / y.std()
    other = BayesianRidge(tol=1e-12, max_iter=5000).fit(z, t)
    mean, std = other.predict(z, return_std=True)
    ours = LinearBaseline.fit(x, y).predict_dist(x)
    np.testing.assert_allclose(ours.mean, mean * y.std() + y.mean(), rtol=2e-3)
    np.testing.assert_allclose(ours.std, std * y.std(), rtol=2e-3)


def test_linear_posterior_is_the_dense_one():
    x, y = table()
    fit = LinearBaseline.fit(x, y)
    z = (x - x.mean(0)) / x.std(0)
    t = (y - y.mean()) / y.std()
    cov = fit.weight_cov
    # Both precisions can be read off the posterior: cov^-1 = weight_prec I + z'z / noise_var.
    prec = np.linalg.inv(cov) - z.T @ z / fit.noise_var
    np.testing.assert_allclose(prec, prec[0, 0] * np.eye(4), atol=1e-7 * np.linalg.norm(z.T @ z))
    np.testing.assert_allclose(
        fit.weight_mean, np.linalg.solve(np.linalg.inv(cov), z.T @ t / fit.noise_var), rtol=1e-9
    )


def test_linear_baseline_recovers_noise_and_predicts_in_chunks(monkeypatch):
    x, y = table(n=4000, noise=0.7)
    fit = LinearBaseline.fit(x, y)
    whole = fit.predict_dist(x)
    # The standard error of a variance from n Gaussian residuals is var * sqrt(2 / n).
    assert abs(whole.noise_var[0] - 0.49) < 4 * 0.49 * np.sqrt(2 / 4000)
    monkeypatch.setattr("bayesprop.report.baselines._CHUNK_VALUES", 1000)
    parts = fit.predict_dist(x)
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(parts.var, whole.var, rtol=1e-12)


def test_constant_baseline():
    y = np.array([1.0, 2.0, 6.0])
    pred = ConstantBaseline.fit(y).predict_dist(np.zeros((2, 5)))
    np.testing.assert_allclose(pred.mean, [3.0, 3.0])
    np.testing.assert_allclose(pred.var, [14.0 / 3.0] * 2)


@pytest.mark.parametrize("extreme", [1e300, 1e-300])
def test_extreme_columns_stay_finite(extreme):
    x, y = table()
    x[:, 1] *= extreme / np.max(np.abs(x[:, 1]))
    pred = LinearBaseline.fit(x, y).predict_dist(x)
    assert np.all(np.isfinite(pred.mean))
    assert np.all(pred.var > 0)


def test_constant_target_and_constant_columns():
    x = np.ones((10, 2))
    y = np.full(10, 7.0)
    baselines = Baselines.fit(x, y)
    assert baselines.constant is not None
    assert baselines.linear is not None
    for baseline in (baselines.constant, baselines.linear):
        pred = baseline.predict_dist(x)
        np.testing.assert_allclose(pred.mean, 7.0)
        assert np.all(pred.var > 0)
        assert np.all(np.isfinite(pred.log_prob(y)))


def test_round_trip_through_json():
    x, y = table()
    fitted = Baselines.fit(x, y)
    back = Baselines.from_dict(json.loads(json.dumps(fitted.to_dict())))
    assert back.constant == fitted.constant
    assert fitted.linear is not None
    assert back.linear is not None
    np.testing.assert_array_equal(
        back.linear.predict_dist(x).var, fitted.linear.predict_dist(x).var
    )


def test_wide_tables_say_why_there_is_no_linear_baseline():
    x, y = np.random.default_rng(0).standard_normal((5, 70)), np.arange(5.0)
    stored = Baselines.fit(x, y).to_dict()
    assert stored["linear"] is None
    assert "64" in stored["note"]
    wide = Baselines.fit(np.zeros((5, 1001)), y)
    assert wide.linear is None
    assert "1,001" in wide.note
    assert Baselines.fit(np.zeros((1, 3)), y[:1]).linear is None


def test_a_constant_baseline_of_large_numbers_keeps_their_spread():
    y = 1e9 + np.array([-3.0, -1.0, 1.0, 3.0])
    assert ConstantBaseline.fit(y).var == 5.0
    assert ConstantBaseline.fit(np.full(4, 1e9)).var == 1e6
