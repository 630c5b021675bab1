"""A mixture of Gaussians against scipy, numerical integration and scoringrules."""

from __future__ import annotations

import numpy as np
import pytest
import scoringrules
from scipy import integrate, stats

from bayesprop.model.predictive import MixturePredictive

S, N = 7, 5


def components(shape=(S, N), seed=0):
    rng = np.random.default_rng(seed)
    return 3.0 * rng.standard_normal(shape), rng.uniform(0.05, 2.0, shape)


@pytest.fixture
def pred():
    return MixturePredictive.of(*components())


@pytest.fixture
def y(pred):
    return pred.mean + np.array([-4.0, -0.5, 0.0, 0.7, 30.0])


def density(pred, row):
    means, stds = pred.means[:, row], np.sqrt(pred.noise_vars[:, row])
    return lambda t: np.mean(stats.norm.pdf(t, means, stds))


def integral(function, pred, row):
    reach = 12.0 * np.sqrt(pred.noise_vars[:, row].max())
    low, high = pred.means[:, row].min() - reach, pred.means[:, row].max() + reach
    marks = np.sort(pred.means[:, row])
    return integrate.quad(function, low, high, points=marks, limit=400, epsabs=1e-11)[0]


def test_moments_by_integration(pred):
    for row in range(N):
        p = density(pred, row)
        mean = integral(lambda t, p=p: t * p(t), pred, row)
        second = integral(lambda t, p=p, m=mean: (t - m) ** 2 * p(t), pred, row)
        assert pred.mean[row] == pytest.approx(mean, abs=1e-8)
        assert pred.var[row] == pytest.approx(second, rel=1e-8)
    np.testing.assert_allclose(pred.epistemic_var, np.var(pred.means, axis=0))


def test_log_prob_and_cdf(pred, y):
    stds = np.sqrt(pred.noise_vars)
    near = slice(0, 4)
    expected = np.log(stats.norm.pdf(y, pred.means, stds).mean(axis=0))
    np.testing.assert_allclose(pred.log_prob(y)[near], expected[near], rtol=1e-12)
    np.testing.assert_allclose(
        pred.cdf(y), stats.norm.cdf(y, pred.means, stds).mean(axis=0), rtol=1e-12
    )


def test_log_prob_far_out_does_not_underflow(pred):
    far = pred.mean + 1e4
    assert np.isfinite(pred.log_prob(far)).all()
    widest = stats.norm.logpdf(far, pred.means, np.sqrt(pred.noise_vars)).max(axis=0) - np.log(S)
    np.testing.assert_allclose(pred.log_prob(far), widest, rtol=1e-9)


@pytest.mark.parametrize("level", [1e-6, 0.025, 0.5, 0.9, 1.0 - 1e-6])
def test_quantile_inverts_the_cdf(pred, level):
    np.testing.assert_allclose(pred.cdf(pred.quantile(level)), level, rtol=1e-9)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, float("nan")])
def test_levels_outside_are_refused(pred, level):
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        pred.quantile(level)


def test_crps_of_a_mixture(pred, y):
    expected = scoringrules.crps_mixnorm(y, pred.means.T, np.sqrt(pred.noise_vars).T)
    np.testing.assert_allclose(pred.crps(y), expected, rtol=1e-9)


def test_crps_by_integration(pred, y):
    for row in range(3):
        means, stds = pred.means[:, row], np.sqrt(pred.noise_vars[:, row])

        def gap(t, means=means, stds=stds, at=y[row]):
            return (np.mean(stats.norm.cdf(t, means, stds)) - (t >= at)) ** 2

        parts = [integrate.quad(gap, *ends, limit=400)[0] for ends in ((-60, y[row]), (y[row], 60))]
        assert pred.crps(y)[row] == pytest.approx(sum(parts), rel=1e-6)


def test_one_component_is_a_gaussian():
    m, v = components((1, N))
    pred, y = MixturePredictive.of(m, v), np.linspace(-3, 3, N)
    normal = stats.norm(m[0], np.sqrt(v[0]))
    np.testing.assert_allclose(pred.log_prob(y), normal.logpdf(y))
    np.testing.assert_allclose(pred.quantile(0.1), normal.ppf(0.1))
    np.testing.assert_allclose(pred.interval(0.8), np.stack(normal.interval(0.8), axis=-1))
    np.testing.assert_array_equal(pred.epistemic_var, 0.0)
    assert pred.epistemic_share == 0.0


def test_draws_have_the_moments(pred):
    n = 20_000
    drawn = pred.sample(np.random.default_rng(1), n)
    assert drawn.shape == (n, N)
    assert (np.abs(drawn.mean(axis=0) - pred.mean) < 5.0 * pred.std / np.sqrt(n)).all()
    for row in range(N):
        uniform = stats.kstest(pred_cdf(pred, row, drawn[:, row]), "uniform")
        assert uniform.pvalue > 1e-5


def pred_cdf(pred, row, t):
    stds = np.sqrt(pred.noise_vars[:, row])
    return stats.norm.cdf(t[:, None], pred.means[:, row], stds).mean(axis=1)


def test_units():
    m, v = components((S, N, 2))
    pred, shift, scale = MixturePredictive.of(m, v), np.array([1.0, -2.0]), np.array([10.0, 0.1])
    y = pred.mean + 0.3
    scaled = pred.rescaled(shift, scale)
    np.testing.assert_allclose(scaled.mean, shift + scale * pred.mean)
    np.testing.assert_allclose(scaled.epistemic_var, scale**2 * pred.epistemic_var)
    np.testing.assert_allclose(
        scaled.log_prob(shift + scale * y), pred.log_prob(y) - np.log(scale), rtol=1e-9
    )
    np.testing.assert_allclose(scaled.crps(shift + scale * y), scale * pred.crps(y), rtol=1e-9)
    np.testing.assert_allclose(pred.target(1).log_prob(y[:, 1]), pred.log_prob(y)[:, 1])


def test_rows_and_parts():
    m, v = components((S, N, 2))
    pred = MixturePredictive.of(m, v)
    again = MixturePredictive.joined([pred[:2], pred[2:]])
    np.testing.assert_array_equal(again.means, pred.means)
    np.testing.assert_allclose(again.epistemic_var, pred.epistemic_var)
    assert len(pred[:2]) == 2
    with pytest.raises(ValueError, match="shape of the prediction"):
        pred.log_prob(np.zeros(N))


def test_noise_may_be_shared_by_draws():
    m, _ = components()
    pred = MixturePredictive.of(m, np.full(N, 0.5))
    np.testing.assert_array_equal(pred.noise_var, 0.5)
    assert pred.noise_vars.shape == m.shape
