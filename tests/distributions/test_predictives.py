"""Every distribution that a row is predicted by: against scipy, scoringrules and integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from bayesprop.distributions.imputed import completed
from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.distributions.pooled import pooled
from bayesprop.distributions.predictive import GaussianPredictive, StudentTPredictive
from latent_predictives import noise_mixture

RNG = np.random.default_rng(0)
SHAPE = (5, 2)
MEAN, EPISTEMIC, NOISE = RNG.normal(size=SHAPE), *RNG.uniform(0.1, 1.0, (2, *SHAPE))
DOF = np.linspace(2.5, 40.0, 10).reshape(SHAPE)
MEANS, NOISES = 3.0 * RNG.normal(size=(7, *SHAPE)), RNG.uniform(0.05, 2.0, (7, *SHAPE))
GAUSSIAN = GaussianPredictive(MEAN, EPISTEMIC, NOISE)
STUDENT = StudentTPredictive(MEAN, EPISTEMIC, NOISE, DOF)
MIXTURE = MixturePredictive.of(MEANS, NOISES)
NOISY = noise_mixture(RNG, 3, *SHAPE)
TWICE = GaussianPredictive(*RNG.uniform(0.5, 1.5, (3, 10, 2)))
PLACES = [np.array([3, 0]), np.array([1, 2, 4])]
POOLED = pooled([GAUSSIAN[:2], NOISY[2:]], PLACES)
ALL = {
    "gaussian": GAUSSIAN,
    "student": STUDENT,
    "mixture": MIXTURE,
    "noise mixture": NOISY,
    "pooled": POOLED,
    "completed": completed(TWICE, 2),
    "completed ensemble": completed(noise_mixture(RNG, 4, 10, 2), 2),
}
LEVELS = [1e-4, 0.025, 0.3, 0.5, 0.9, 0.999]
EVERY = pytest.mark.parametrize("p", ALL.values(), ids=ALL)


def around(p, function):
    """Values of a function of one row and target of p at many places, and the places."""
    grid = p.mean[0, 0] + np.sinh(np.linspace(-6.5, 6.5, 4001))
    one = p.target(0)[[0]]
    return function(type(one).joined([one] * len(grid)), grid), grid


def is_heavy(p):
    """Whether tails are heavy, or a share is broad."""
    return any(map(is_heavy, p.parts)) if hasattr(p, "parts") else len(getattr(p, "dof", ())) > 0


@EVERY
def test_distribution_and_moments_are_integrals_of_the_density(p):
    density, grid = around(p, lambda rows, y: np.exp(rows.log_prob(y)))
    below = integrate.cumulative_trapezoid(density, grid, initial=0.0)
    np.testing.assert_allclose(around(p, lambda rows, y: rows.cdf(y))[0], below, atol=3e-4)
    if not is_heavy(p):
        assert integrate.simpson(grid * density, x=grid) == pytest.approx(p.mean[0, 0], abs=1e-5)
        square = integrate.simpson((grid - p.mean[0, 0]) ** 2 * density, x=grid)
        assert square == pytest.approx(p.var[0, 0], rel=1e-4)


@EVERY
def test_quantiles_invert_the_distribution(p):
    for level in LEVELS:
        np.testing.assert_allclose(p.cdf(p.quantile(level)), level, rtol=1e-7)
    np.testing.assert_array_equal(p.interval(0.8)[..., 0], p.quantile((1.0 - 0.8) / 2.0))


@EVERY
def test_crps_is_the_integral_of_squared_differences(p):
    for y in (p.mean[0, 0], p.mean[0, 0] + 2.0):
        gap, grid = around(p, lambda rows, at, y=y: (rows.cdf(at) - (at >= y)) ** 2)
        exact = integrate.trapezoid(gap, grid)
        assert float(p.target(0)[[0]].crps(np.array([y]))[0]) == pytest.approx(exact, abs=3e-3)


@EVERY
@pytest.mark.parametrize("scale", [np.array([1e-12, 3.0]), 1e12])
def test_units_come_back(p, scale):
    y, there = p.mean + 0.3, p.rescaled(-2.0 * scale, scale)
    y_there = scale * y - 2.0 * scale
    np.testing.assert_allclose(there.log_prob(y_there), p.log_prob(y) - np.log(scale), atol=1e-8)
    np.testing.assert_allclose(there.cdf(y_there), p.cdf(y), atol=1e-9)
    quantile = scale * p.quantile(0.1) - 2.0 * scale
    np.testing.assert_allclose(there.quantile(0.1), quantile, rtol=1e-6)
    np.testing.assert_allclose(there.crps(y_there), scale * p.crps(y), rtol=1e-6)
    np.testing.assert_allclose(there.epistemic_var, scale**2 * p.epistemic_var, rtol=1e-9)
    np.testing.assert_allclose(there.noise_var, scale**2 * p.noise_var, rtol=1e-9)


@EVERY
def test_rows_and_targets_are_selected_and_joined(p):
    y, whole = p.mean + 0.1, p.log_prob(p.mean + 0.1)
    assert (len(p), len(p[2:4])) == (5, 2)
    np.testing.assert_allclose(p[2:4].log_prob(y[2:4]), whole[2:4], rtol=1e-10)
    np.testing.assert_allclose(p.target(1).log_prob(y[:, 1]), whole[:, 1], rtol=1e-10)
    np.testing.assert_allclose(type(p).joined([p[:4], p[4:]]).log_prob(y), whole, rtol=1e-10)
    with pytest.raises(ValueError, match=r"shape of the prediction, \(5, 2\), got \(2,\)"):
        p.log_prob(np.zeros(2))
    for level in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match="level must be between 0 and 1"):
            p.quantile(level)


def test_densities_are_those_of_scipy():
    y, near = MEAN + np.linspace(-30.0, 30.0, 10).reshape(SHAPE), MIXTURE.mean + 0.7
    t = stats.t(DOF, MEAN, STUDENT.scale)
    np.testing.assert_allclose(GAUSSIAN.log_prob(y), stats.norm(MEAN, GAUSSIAN.std).logpdf(y))
    np.testing.assert_allclose(t.var(), STUDENT.var)
    np.testing.assert_allclose(STUDENT.log_prob(y), t.logpdf(y))
    np.testing.assert_allclose(STUDENT.cdf(y), t.cdf(y))
    density = stats.norm.pdf(near, MEANS, np.sqrt(NOISES)).mean(axis=0)
    np.testing.assert_allclose(MIXTURE.log_prob(near), np.log(density), rtol=1e-12)


@pytest.mark.exhaustive
def test_scores_are_those_of_scoringrules():
    import scoringrules  # seconds

    y, near = MEAN + np.linspace(-30.0, 30.0, 10).reshape(SHAPE), MIXTURE.mean + 0.7
    means, stds = np.moveaxis(MEANS, 0, -1), np.moveaxis(np.sqrt(NOISES), 0, -1)
    np.testing.assert_allclose(GAUSSIAN.crps(y), scoringrules.crps_normal(y, MEAN, GAUSSIAN.std))
    exact = scoringrules.crps_t(y, DOF, MEAN, STUDENT.scale)
    np.testing.assert_allclose(STUDENT.crps(y), exact, rtol=1e-8)
    exact = scoringrules.crps_mixnorm(near, means, stds)
    np.testing.assert_allclose(MIXTURE.crps(near), exact, rtol=1e-9)


def test_of_pooled_predictions_every_row_is_predicted_by_its_own_fit():
    y = POOLED.mean + 0.2
    for part, at in zip((GAUSSIAN[:2], NOISY[2:]), PLACES, strict=True):
        for name in ("log_prob", "cdf", "crps"):
            np.testing.assert_array_equal(getattr(POOLED, name)(y)[at], getattr(part, name)(y[at]))
        for name in ("mean", "epistemic_var", "noise_var"):
            np.testing.assert_array_equal(getattr(POOLED, name)[at], getattr(part, name))
        np.testing.assert_array_equal(POOLED.interval(0.9)[at], part.interval(0.9))


def test_many_degrees_of_freedom_are_a_gaussian():
    t, y = StudentTPredictive(MEAN, EPISTEMIC, NOISE, np.full(SHAPE, 1e9)), MEAN + 1.5
    for name in ("log_prob", "cdf", "crps"):
        np.testing.assert_allclose(getattr(t, name)(y), getattr(GAUSSIAN, name)(y), rtol=1e-6)


def test_a_mixture_far_out_does_not_underflow():
    far = MIXTURE.mean + 1e4
    widest = stats.norm.logpdf(far, MEANS, np.sqrt(NOISES)).max(axis=0) - np.log(len(MEANS))
    np.testing.assert_allclose(MIXTURE.log_prob(far), widest, rtol=1e-9)


def test_noise_may_be_shared_by_draws():
    p = MixturePredictive.of(MEANS, np.full(SHAPE, 0.5))
    np.testing.assert_array_equal(p.noise_var, 0.5)
    assert p.noise_vars.shape == MEANS.shape
    np.testing.assert_array_equal(MixturePredictive.of(MEANS[:1], NOISES[:1]).epistemic_var, 0.0)
