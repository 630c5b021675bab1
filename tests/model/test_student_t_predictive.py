"""The Student-t predictive against scipy and scoringrules."""

from __future__ import annotations

import numpy as np
import pytest
import scoringrules
from scipy import stats

from bayesprop.model.predictive import GaussianPredictive, StudentTPredictive

MEAN, EPISTEMIC, NOISE = np.array([0.0, 3.0, -1e6]), np.array([0.1, 2.0, 1e8]), np.ones(3)
DOF = np.array([2.5, 7.0, 400.0])
PREDICTIVE = StudentTPredictive(MEAN, EPISTEMIC, NOISE, DOF)
Y = MEAN + np.array([2.0, -0.3, 5e4])
ORACLE = stats.t(DOF, MEAN, PREDICTIVE.scale)


def test_against_scipy():
    np.testing.assert_allclose(ORACLE.var(), PREDICTIVE.var)
    np.testing.assert_allclose(PREDICTIVE.log_prob(Y), ORACLE.logpdf(Y))
    np.testing.assert_allclose(PREDICTIVE.cdf(Y), ORACLE.cdf(Y))
    np.testing.assert_allclose(PREDICTIVE.quantile(0.03), ORACLE.ppf(0.03))
    np.testing.assert_allclose(PREDICTIVE.cdf(PREDICTIVE.interval(0.8)[:, 0]), 0.1)


def test_crps_against_scoringrules():
    expected = scoringrules.crps_t(Y, DOF, MEAN, PREDICTIVE.scale)
    np.testing.assert_allclose(PREDICTIVE.crps(Y), expected, rtol=1e-8)


def test_many_degrees_of_freedom_are_a_gaussian():
    t = StudentTPredictive(MEAN, EPISTEMIC, NOISE, np.full(3, 1e9))
    gaussian = GaussianPredictive(MEAN, EPISTEMIC, NOISE)
    for name in ("log_prob", "cdf", "crps"):
        np.testing.assert_allclose(getattr(t, name)(Y), getattr(gaussian, name)(Y), rtol=1e-6)


def test_rows_units_and_draws():
    np.testing.assert_array_equal(PREDICTIVE[1:].dof, DOF[1:])
    moved = PREDICTIVE.rescaled(5.0, 2.0)
    np.testing.assert_allclose(moved.log_prob(5.0 + 2.0 * Y), PREDICTIVE.log_prob(Y) - np.log(2.0))
    drawn = PREDICTIVE.sample(np.random.default_rng(0), 4000)
    assert drawn.shape == (4000, 3)
    assert stats.kstest(PREDICTIVE.cdf(drawn[0:1].T[:, 0]), "uniform").pvalue > 1e-6
    ranks = ORACLE.cdf(drawn)
    assert all(stats.kstest(column, "uniform").pvalue > 1e-5 for column in ranks.T)
    with pytest.raises(ValueError, match="shape of the prediction"):
        PREDICTIVE.log_prob(Y[:2])
    with pytest.raises(ValueError, match="between 0 and 1"):
        PREDICTIVE.quantile(1.0)
