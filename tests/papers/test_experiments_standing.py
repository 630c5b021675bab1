"""Peers, quantiles without a density, pairs and ranks by hand and against other libraries."""

from __future__ import annotations

import numpy as np
import pytest
from made_rows import row_of_today as row
from scipy import integrate, stats

from bayesprop import metrics
from bayesprop.distributions import quantiles as quantile_predictive
from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.distributions.quantiles import QuantilePredictive
from bayesprop.evaluation.baselines import GaussianProcess, QuantileBoosting
from papers.standing import Field, Score, critical_difference, standings, undominated
from papers.uci_today import ARENA

LEVELS = np.linspace(0.05, 0.95, 19)
CRPS = Score("crps", "CRPS", -1)


def test_quantiles_of_a_normal_distribution_are_that_distribution(monkeypatch):
    monkeypatch.setattr(quantile_predictive, "_BLOCK", 2)
    mean, std = np.array([0.3, -2.0, 5.0]), np.array([0.5, 1.0, 3.0])
    normal = GaussianPredictive(mean, np.zeros(3), std**2)
    found = QuantilePredictive.of(mean, LEVELS, stats.norm.ppf(LEVELS, mean[:, None], std[:, None]))
    y = np.array([0.1, 0.9, -3.0])
    for level in (0.001, 0.05, 0.31, 0.999):
        np.testing.assert_allclose(found.quantile(level), normal.quantile(level), rtol=1e-12)
    np.testing.assert_allclose(found.cdf(y), normal.cdf(y), rtol=1e-9)
    np.testing.assert_allclose(found.crps(y), normal.crps(y), rtol=2e-3)
    np.testing.assert_allclose(found.std, std, rtol=0.02)
    moved = found[1:].rescaled(10.0, 2.0)
    np.testing.assert_allclose(moved.quantile(0.2), normal.quantile(0.2)[1:] * 2.0 + 10.0)
    drawn = found.sample(np.random.default_rng(0), 4000)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 5.0 * std / np.sqrt(4000))


def test_crps_of_crossing_quantiles_by_quadrature():
    """The integral of (F(x) - 1{x >= y})² is another definition of the score."""
    knots = np.array([[1.0, 0.5, 2.0, 2.5, 6.0]])
    found = QuantilePredictive.of(np.array([2.0]), np.array([0.1, 0.3, 0.5, 0.7, 0.9]), knots)
    for y in (-1.0, 2.2, 7.0):
        square = lambda x: (found.cdf(np.array([x]))[0] - (x >= y)) ** 2  # noqa: E731, B023
        exact = sum(
            integrate.quad(square, low, high, limit=400)[0]
            for low, high in zip((-60.0, y), (y, 90.0), strict=True)
        )
        assert found.crps(np.array([y]))[0] == pytest.approx(exact, rel=0.01)


def test_quantiles_that_fall_together():
    found = QuantilePredictive.of(np.zeros(1), np.array([0.25, 0.5, 0.75]), np.zeros((1, 3)))
    assert found.cdf(np.array([-1.0]))[0] == 0.0
    assert found.cdf(np.array([1.0]))[0] == 1.0
    assert np.isnan(found.log_prob(np.zeros(1)))
    with pytest.raises(ValueError, match="between 0 and 1"):
        found.quantile(1.0)


@pytest.fixture(scope="module")
def curve():
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, size=(400, 2))
    spread = 0.1 + 0.2 * (X[:, 0] > 0.0)
    return X, np.sin(2.0 * X[:, 0]) * 50.0 + 50.0 * spread * rng.standard_normal(400)


def test_gaussian_process_against_its_equations(curve):
    """Its mean and variance from the kernel that it found, by plain linear algebra."""
    X, y = curve
    found = GaussianProcess(0, n_learning=60, n_kept=120).fit(X[:300], y[:300])
    predicted = found.predict_dist(X[300:])
    product, white = found.model_.kernel_.k1, found.model_.kernel_.k2
    kept = np.random.default_rng(0).permutation(300)[:120]
    scaled = (X - X[:300].mean(axis=0)) / X[:300].std(axis=0)

    def covariance(a, b):
        gaps = (a[:, None] - b[None]) / product.k2.length_scale
        return product.k1.constant_value * np.exp(-0.5 * np.sum(gaps**2, axis=2))

    gram = covariance(scaled[kept], scaled[kept]) + white.noise_level * np.eye(120)
    cross = covariance(scaled[300:], scaled[kept])
    mean, std = y[:300].mean(), y[:300].std()
    weights = np.linalg.solve(gram, (y[kept] - mean) / std)
    left = product.k1.constant_value - np.sum(cross * np.linalg.solve(gram, cross.T).T, axis=1)
    np.testing.assert_allclose(predicted.mean, mean + std * cross @ weights, rtol=1e-5)
    np.testing.assert_allclose(predicted.epistemic_var, std**2 * left, rtol=1e-4)
    np.testing.assert_allclose(predicted.noise_var, std**2 * white.noise_level)


def test_quantile_boosting_sees_the_noise_change(curve):
    X, y = curve
    predicted = QuantileBoosting(0, (0.05, 0.5, 0.95)).fit(X[:300], y[:300]).predict_dist(X[300:])
    width = np.diff(predicted.interval(0.9)).ravel()
    assert width[X[300:, 0] > 0.2].mean() > 1.5 * width[X[300:, 0] < -0.2].mean()
    assert 0.5 < metrics.coverage(predicted, y[300:], 0.9) < 1.0


def field_of(name="yacht", **crps):
    """A field of methods with a CRPS on every split that each has finished."""
    rows = [row(name, m, s, crps=v) for m, values in crps.items() for s, v in enumerate(values)]
    return Field.of(rows, ARENA.contestants)


def test_a_field_compares_only_splits_that_all_have():
    figures = {"linear": (1.1, 2.2, 2.9), "laplace": (2.0, 3.0, 4.0), "mcmc": (0.1,)}
    field = field_of(pbp=(1.0, 2.0, 3.0, 9.0), **figures)
    assert field.splits == (0, 1, 2)
    assert field.unfinished == {"mcmc": 1}
    # Differences to pbp: .1, .2, -.1 have mean .067 and standard error .088; 1, 1, 1 are clear.
    assert field.leaders(CRPS) == {"pbp", "linear"}
    assert field.leaders(Score("crps", "", 1)) == {"laplace"}
    assert field.ranks(CRPS) == {"pbp": 1.0, "linear": 2.0, "laplace": 3.0}


def test_ranks_against_scipy():
    values = [3.0, 1.0, 2.0, 1.0]
    field = field_of(**{m: (v,) for m, v in zip(ARENA.methods, values, strict=False)})
    assert list(field.ranks(CRPS).values()) == stats.rankdata(values).tolist()
    assert field_of(pbp=(None,), linear=(1.0,)).ranks(CRPS) == {"linear": 1.0}
    assert field_of().leaders(CRPS) == set()


def test_average_ranks_and_who_is_not_on_every_set():
    first, second, third = ARENA.methods[:3]
    yacht = field_of(**{first: (0.0,), second: (1.0,), third: (2.0,)})
    naval = field_of("naval", **{first: (0.0,), second: (-1.0,)})
    found = standings({"yacht": yacht, "naval": naval}, CRPS)
    assert {m: place.mean for m, place in found.items()} == {first: 1.5, second: 1.5, third: 3.0}
    assert [place.is_complete for place in found.values()] == [True, True, False]


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_critical_difference_of_a_printed_table(k, q):
    """Demšar (2006), Table 5a."""
    expected = q * np.sqrt(k * (k + 1) / (6.0 * 9))
    assert critical_difference(k, 9) == pytest.approx(expected, abs=1e-3 * expected)
    assert np.isnan(critical_difference(1, 9))


def test_better_for_more_time():
    quality = {"a": 5.0, "b": 4.0, "c": 4.5, "d": 1.0, "e": 1.0}
    seconds = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 9.0, "e": 10.0}
    assert undominated(quality, seconds) == ["a", "b", "d"]
