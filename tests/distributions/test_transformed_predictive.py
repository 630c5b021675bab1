"""Predictions through a map, against integration, sums, draws and closed forms of scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesprop.distributions.mixture import BROAD_SHARE, MixturePredictive
from bayesprop.distributions.predictive import GaussianPredictive
from bayesprop.distributions.transformed import TransformedPredictive
from bayesprop.targets.bijectors import (
    NONNEGATIVE,
    Arsinh,
    Logit,
    SoftplusInverse,
)
from bayesprop.targets.censoring import CensoredMap
from bayesprop.targets.kinds import CountScores
from latent_predictives import EPISTEMIC, FEW, LATENTS, MEAN, NOISE, N, from_zero, limited

SMOOTH = {"positive": SoftplusInverse(1.5), "share": Logit()}
COUNTS = {
    "few": FEW,
    "many": CountScores(np.array([100.5, 900.5, 4000.5]), np.array([-2.0, 0.0, 2.0])),
    "heaps": CountScores(
        np.array([3.5, 19.5, 20.5, 499.5, 500.5, 900.5, 1999.5, 2000.5, 2001.5]),
        np.array([-1.5, -1.4, -0.7, -0.4, 0.3, 0.5, 0.502, 2.0, 2.01]),
    ),
    "rates": CountScores(
        np.array([-0.2, 0.7, 3.1]),
        np.array([-1.0, 0.2, 1.8]),
        None,
        np.array([0.3, 1.0, 4.0, 20.0]),
    ),
}
FROM_ZERO = {
    "some zeros": CensoredMap(
        NONNEGATIVE, Arsinh(least=0.3, scale=1.0, largest=40.0, gap=0.02), 0.0, np.inf
    ),
    "share": from_zero(1.0, least=0.12, scale=0.5, largest=0.9, gap=0.02),
    "a log": CensoredMap(
        NONNEGATIVE, Arsinh(least=20.0, scale=0.5, largest=9000.0, gap=0.2), 0.0, np.inf
    ),
}
LIMITED = {
    "above": limited(-0.5, np.inf),
    "below": limited(-np.inf, 0.8),
    "between": limited(-0.5, 0.8),
    "positive, above": limited(0.4, np.inf, SoftplusInverse(1.5)),
    "positive, below": limited(-np.inf, 2.0, SoftplusInverse(1.5)),
}
T = np.sinh(np.linspace(-7.0, 7.0, 40_001))[:, None]


def pairs(maps):
    every = [(latent, map) for latent in LATENTS for map in maps]
    return pytest.mark.parametrize(("latent", "map"), every, ids=lambda name: name)


def on_grid(latent, map):
    """A dense grid of z, of y, and the probability between neighbours, row by row in columns."""
    p = LATENTS[latent]
    z = p.mean + p.std * T
    return SMOOTH[map].inverse(z[::10]), p.cdf(z[::10])


@pairs(SMOOTH)
def test_moments_are_integrals(latent, map):
    p = TransformedPredictive.of(LATENTS[latent], SMOOTH[map])
    y, below = on_grid(latent, map)
    middle, mass = 0.5 * (y[1:] + y[:-1]), np.diff(below, axis=0)
    mean = np.sum(middle * mass, axis=0)
    np.testing.assert_allclose(p.mean, mean, rtol=2e-5)
    np.testing.assert_allclose(p.var, np.sum((middle - mean) ** 2 * mass, axis=0), rtol=2e-3)


@pytest.mark.parametrize("at", [-6.0, 0.1, 3.0])
@pytest.mark.parametrize("std", [3e-4, 0.03])
@pytest.mark.parametrize("map", [*SMOOTH, *FROM_ZERO])
def test_variance_of_a_narrow_distribution_with_a_broad_share_far_from_it(map, std, at):
    narrow = MixturePredictive.of_networks(
        f_mean=np.full((1, 1), at),
        f_var=np.full((1, 1), std**2),
        log_noise_mean=np.full((1, 1), -60.0),
        log_noise_var=np.zeros((1, 1)),
        dof=np.full((1, 1), 1e6),
    )
    one, score = (SMOOTH | FROM_ZERO)[map], np.linspace(-9.0, 9.0, 400_001)
    weight = stats.norm.pdf(score) / np.sum(stats.norm.pdf(score))
    shares, y = (1.0 - BROAD_SHARE, BROAD_SHARE), [at + std * score, score]
    y = [np.clip(one.inverse(z), *one.support) for z in y]
    mean = sum(share * (weight @ part) for share, part in zip(shares, y, strict=True))
    var = sum(s * (weight @ (part - mean) ** 2) for s, part in zip(shares, y, strict=True))
    p = TransformedPredictive.of(narrow, one)
    np.testing.assert_allclose(p.mean, mean, atol=2e-3 * np.sqrt(var))
    np.testing.assert_allclose(p.std, np.sqrt(var), rtol=2e-3)


@pairs(SMOOTH)
def test_density_is_the_slope_of_the_distribution_and_sums_to_one(latent, map):
    p = TransformedPredictive.of(LATENTS[latent], SMOOTH[map])
    for level in (0.02, 0.4, 0.97):
        y = p.quantile(level)
        step = 1e-5 * y * (1.0 - y if map == "share" else 1.0)
        slope = (p.cdf(y + step) - p.cdf(y - step)) / (2.0 * step)
        np.testing.assert_allclose(np.exp(p.log_prob(y)), slope, rtol=1e-5)
        np.testing.assert_allclose(p.cdf(y), level, rtol=1e-6)
    y, below = on_grid(latent, map)
    density = np.exp(p.log_prob(y))
    np.testing.assert_allclose(np.trapezoid(density, y, axis=0), below[-1] - below[0], atol=2e-4)


@pairs(SMOOTH)
def test_crps_is_the_integral_of_squared_differences(latent, map):
    p = TransformedPredictive.of(LATENTS[latent], SMOOTH[map])
    grid, below = on_grid(latent, map)
    for level in (0.01, 0.5, 0.9):
        y = p.quantile(level)
        exact = np.trapezoid((below - (grid >= y)) ** 2, grid, axis=0)
        np.testing.assert_allclose(p.crps(y), exact, rtol=5e-3)


def test_a_share_as_good_as_one_has_a_spread_of_its_rounding():
    p = TransformedPredictive.of(
        GaussianPredictive(np.array([50.0]), np.full(1, 5e-7), np.full(1, 5e-7)), Logit()
    )
    assert p.mean[0] == pytest.approx(1.0, rel=1e-15)
    assert 1e-17 < p.std[0] < 1e-14


def test_a_log_map_of_a_gaussian_is_log_normal():
    std = np.sqrt(EPISTEMIC + NOISE)
    exact = stats.lognorm(std, scale=1e9 * np.exp(MEAN - 16.0))
    p = TransformedPredictive.of(
        GaussianPredictive(MEAN - 16.0, EPISTEMIC, NOISE), SoftplusInverse(1e9)
    )
    np.testing.assert_allclose(p.mean, exact.mean(), rtol=1e-5)
    np.testing.assert_allclose(p.std, exact.std(), rtol=1e-5)
    y = exact.ppf(0.7)
    np.testing.assert_allclose(p.log_prob(y), exact.logpdf(y), rtol=1e-6)
    np.testing.assert_allclose(p.quantile(0.05), exact.ppf(0.05), rtol=1e-5)
    # Var E[y | f] of a log-normal: exp(2 m + v) times exp(v_n) (exp(v_e) - 1).
    share = np.exp(NOISE) * np.expm1(EPISTEMIC) / np.expm1(EPISTEMIC + NOISE) / np.exp(NOISE)
    np.testing.assert_allclose(p.epistemic_var / p.var, share, rtol=1e-5)


@pairs(LIMITED | FROM_ZERO)
def test_numbers_with_limits_are_integrated_over_a_dense_grid(latent, map):
    learnt = (LIMITED | FROM_ZERO)[map]
    p = TransformedPredictive.of(LATENTS[latent], learnt)
    z = p.latent.mean + p.latent.std * T
    y, mass = learnt.inverse(0.5 * (z[1:] + z[:-1])), np.diff(p.latent.cdfs(z), axis=0)
    mean = np.sum(y * mass, axis=0)
    np.testing.assert_allclose(p.mean, mean, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(p.var, np.sum((y - mean) ** 2 * mass, axis=0), rtol=5e-3)
    (low, high), (first, last) = learnt.support, learnt.thresholds
    below = p.latent.cdf(np.full(N, first)) if np.isfinite(first) else np.zeros(N)
    above = 1.0 - p.latent.cdf(np.full(N, last)) if np.isfinite(last) else np.zeros(N)
    for limit, chance in ((low, below), (high, above)):
        if chance.any():
            np.testing.assert_allclose(np.exp(p.log_prob(limit + np.zeros(N))), chance, rtol=1e-3)
    np.testing.assert_allclose(p.cdf(np.full(N, min(high, 1e12))), 1.0, atol=1e-6)
    t = np.clip(learnt.inverse(z), *np.clip(learnt.support, -1e9, 1e9))
    places = np.array([low, 0.1, 0.5, 0.7, 2.5, 25.0, 700.0, high])
    for at in places[(places >= low) & (places <= high) & np.isfinite(places)]:
        grid = np.sort(np.vstack([t, np.full((2, N), [[np.nextafter(at, -np.inf)], [at]])]), axis=0)
        cdf = np.where(grid >= high, 1.0, p.latent.cdfs(learnt.forward(np.clip(grid, low, high))))
        cdf = np.where(grid < low, 0.0, cdf)
        exact = np.trapezoid((cdf - (grid >= at)) ** 2, grid, axis=0)
        np.testing.assert_allclose(p.crps(np.full(N, at)), exact, rtol=5e-3, atol=1e-9)
        if low < at < high:
            step = 1e-5 * at
            slope = p.cdf(np.full(N, at + step)) - p.cdf(np.full(N, at - step))
            density = slope / (2.0 * step)
            np.testing.assert_allclose(
                np.exp(p.log_prob(np.full(N, at))), density, rtol=1e-4, atol=1e-9
            )
    for level in (0.03, 0.5, 0.9):
        want = np.clip(learnt.inverse(p.latent.quantile(level)), low, high)
        np.testing.assert_allclose(p.quantile(level), want, rtol=1e-9)


@pairs(LIMITED)
def test_what_lies_beyond_a_limit_is_seen_as_it(latent, map):
    p = TransformedPredictive.of(LATENTS[latent], LIMITED[map])
    for limit in filter(np.isfinite, LIMITED[map].support):
        at, beyond = np.full(N, limit), limit + np.sign(limit - p.mean)
        np.testing.assert_array_equal(p.log_prob(beyond), p.log_prob(at))


@pairs(FROM_ZERO)
def test_what_cannot_be_is_as_far_off_as_the_nearest_number_and_more(latent, map):
    p = TransformedPredictive.of(LATENTS[latent], FROM_ZERO[map])
    np.testing.assert_allclose(p.crps(np.full(N, -3.0)), p.crps(np.zeros(N)) + 3.0)
    if np.isfinite(most := FROM_ZERO[map].support[1]):
        end = np.full(N, most)
        np.testing.assert_allclose(p.crps(end + 3.0), p.crps(end) + 3.0)


def test_a_zero_that_can_hardly_be_has_the_log_of_its_probability():
    far = GaussianPredictive(np.array([9.0, 30.0]), np.full(2, 0.5), np.full(2, 0.5))
    p = TransformedPredictive.of(far, FROM_ZERO["some zeros"])
    exact = stats.norm.logcdf(FROM_ZERO["some zeros"].thresholds[0], far.mean, 1.0)
    np.testing.assert_allclose(p.log_prob(np.zeros(2)), exact, rtol=1e-3)


@pairs(COUNTS)
def test_probabilities_sum_to_the_distribution_and_the_moments(latent, map):
    p = TransformedPredictive.of(LATENTS[latent], COUNTS[map])
    k = np.arange(60_000.0 if map in ("many", "heaps") else 4000.0)
    below = p.cdf(np.repeat(k[:, None], N, axis=1))
    mass = np.diff(below, axis=0, prepend=0.0)
    some = np.unique(np.geomspace(1, len(k) - 1, 40).astype(int))
    listed = np.exp(p.log_prob(np.repeat(k[some, None], N, axis=1)))
    np.testing.assert_allclose(listed, mass[some], rtol=2e-2, atol=1e-9)
    np.testing.assert_allclose(np.exp(p.log_prob(np.zeros(N))), mass[0], rtol=1e-6)
    assert (below[-1] > 1.0 - 1e-4).all()
    mean = np.sum(k[:, None] * mass, axis=0) / below[-1]
    np.testing.assert_allclose(p.mean, mean, rtol=3e-3)
    var = np.sum((k[:, None] - mean) ** 2 * mass, axis=0) / below[-1]
    np.testing.assert_allclose(p.var, var, rtol=5e-2)
    for y in (0.0, 3.0, 700.0):
        exact = np.sum((below - (k[:, None] >= y)) ** 2, axis=0)
        np.testing.assert_allclose(p.crps(np.full(N, y)), exact, rtol=5e-3)


@pairs(COUNTS)
def test_quantiles_are_the_least_counts_that_hold_their_level(latent, map):
    p = TransformedPredictive.of(LATENTS[latent], COUNTS[map])
    for level in (0.01, 0.3, 0.9, 0.999):
        k = p.quantile(level)
        np.testing.assert_array_equal(k, np.maximum(np.rint(k), 0.0))
        assert (p.cdf(k) >= level - 1e-7).all()
        assert (p.cdf(k - 1.0) < level + 1e-7).all()


@pairs(COUNTS | FROM_ZERO)
def test_the_slope_is_that_of_the_line_nearest_to_the_function(latent, map):
    learnt = (COUNTS | FROM_ZERO)[map]
    p = TransformedPredictive.of(LATENTS[latent], learnt)
    mean, std = p.latent.mean, np.sqrt(p.latent.epistemic_var)
    f = mean + std * np.random.default_rng(2).normal(size=(200_000, N))
    rise = (f - mean) / std**2 * (learnt.inverse(f) - learnt.inverse(mean))
    error = rise.std(axis=0) / np.sqrt(len(f))
    # Twelve nodes of a quadrature step over the jumps of heaps.
    tolerance = 0.25 if map == "heaps" else 0.05
    assert (np.abs(p.slope - rise.mean(axis=0)) < 5.0 * error + tolerance * p.slope).all()


@pairs(COUNTS | FROM_ZERO)
def test_the_randomised_pit_of_draws_is_uniform(latent, map):
    one = TransformedPredictive.of(LATENTS[latent], (COUNTS | FROM_ZERO)[map])[[1]]
    draws = one.sample(np.random.default_rng(1), 3000)[:, 0]
    assert map in COUNTS or 0.0 < np.mean(draws == 0.0) < 1.0
    many = type(one).joined([one] * 3000)
    assert stats.kstest(many.pit(draws), "uniform").pvalue > 1e-4
    np.testing.assert_array_equal(many.pit(draws), many.pit(draws))


def test_the_crps_between_whole_numbers_is_linear_and_below_zero_a_distance():
    p = TransformedPredictive.of(LATENTS["gaussian"], COUNTS["few"])
    at = {y: p.crps(np.full(N, y)) for y in (-0.7, 0.0, 2.0, 2.3, 3.0)}
    np.testing.assert_allclose(at[2.3], 0.7 * at[2.0] + 0.3 * at[3.0], rtol=1e-9)
    np.testing.assert_allclose(at[-0.7], at[0.0] + 0.7, rtol=1e-12)


@pytest.mark.parametrize("latent", LATENTS)
def test_what_cannot_be_has_no_probability(latent):
    positive = TransformedPredictive.of(LATENTS[latent], SMOOTH["positive"])
    count = TransformedPredictive.of(LATENTS[latent], COUNTS["few"])
    for p, outside in ((positive, [-1.0, 0.0]), (count, [-1.0, 2.5])):
        for y in outside:
            assert (p.log_prob(np.full(N, y)) == -np.inf).all()
            assert np.isfinite(p.crps(np.full(N, y))).all()
    share = TransformedPredictive.of(LATENTS[latent], Logit(100.0))
    assert (share.log_prob(np.full(N, 100.5)) == -np.inf).all()
    assert (positive.cdf(np.full(N, -1.0)) == 0.0).all()
    assert (count.cdf(np.full(N, -1.0)) == 0.0).all()
    far = count.log_prob(np.full(N, 1e6))
    assert np.isfinite(far).all()


def test_bounds_come_into_the_support():
    interval = np.array([[-3.2, 4.7], [0.4, 2.5]])
    positive = TransformedPredictive.of(LATENTS["gaussian"], SMOOTH["positive"])
    count = TransformedPredictive.of(LATENTS["gaussian"], COUNTS["few"])
    np.testing.assert_array_equal(positive.limited(interval), [[0.0, 4.7], [0.4, 2.5]])
    np.testing.assert_array_equal(count.limited(interval), [[0.0, 4.0], [1.0, 2.0]])
