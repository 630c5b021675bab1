"""Tests of whether new rows are like those of a fit, against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesprop.evaluation.shift import Check, Learnt, least, proportions, with_alarms, worse


def test_numbers_are_compared_as_by_kolmogorov_and_smirnov():
    rng = np.random.default_rng(0)
    knots, now = np.sort(rng.standard_normal(128)), rng.normal(0.3, 1.0, 200)
    check = Learnt(knots, 128).number("x", now)
    distance = stats.ks_2samp(knots, now).statistic
    expected = stats.kstwobign.sf(distance * np.sqrt(128 * 200 / 328))
    assert check.p == pytest.approx(expected, rel=1e-9)
    assert (check.learnt, check.now) == (np.median(knots), np.median(now))


def test_quantiles_of_more_rows_are_off_by_half_a_step_at_most():
    rows = np.sort(np.random.default_rng(1).standard_normal(2000))
    knots = rows[np.floor((np.arange(128) + 0.5) / 128 * 2000).astype(int)]
    assert Learnt(knots, 2000).number("x", rows).p == 1.0


def test_shares_are_compared_with_the_correction_of_yates():
    now = np.arange(150) < 60
    check = proportions("a", 0.3, 400, now)
    counts = [[120, 280], [60, 90]]
    assert check.p == pytest.approx(stats.chi2_contingency(counts, correction=True).pvalue)
    assert proportions("a", 0.0, 400, now & False).p == 1.0


def test_a_share_that_is_known_is_compared_with_it_alone():
    now = np.arange(200) < 165
    z = (abs(0.825 - 0.9) - 0.5 / 200) / np.sqrt(0.9 * 0.1 / 200)
    assert proportions("coverage", 0.9, np.inf, now).p == pytest.approx(2.0 * stats.norm.sf(z))


@pytest.mark.parametrize("higher", [True, False])
def test_scores_are_compared_with_their_standard_errors_on_one_side(higher):
    now = np.random.default_rng(2).normal(1.0, 2.0, 60)
    z = (now.mean() - 0.8) / np.hypot(0.1, stats.sem(now))
    check = worse("crps", 0.8, 0.1, now, higher=higher)
    assert check.p == pytest.approx(stats.norm.cdf(z) if higher else stats.norm.sf(z))


def test_alarms_are_those_of_holm():
    p = [0.01, 0.04, 0.013, 0.2, 0.0001]
    checks = with_alarms([Check(str(k), 0.0, 0.0, one) for k, one in enumerate(p)], 0.05)
    # In order: .0001 < .05 / 5, .01 < .05 / 4, .013 < .05 / 3, .04 is not below .05 / 2.
    assert [check.alarm for check in checks] == [True, False, True, False, True]


def test_of_several_levels_the_least_is_multiplied_by_their_number():
    checks = [Check("a", 0.0, 0.0, 0.02), Check("b", 0.0, 0.0, 0.01), Check("c", 0.0, 0.0, 0.9)]
    assert least(checks) == Check("b", 0.0, 0.0, 0.03)
