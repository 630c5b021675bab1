"""Areas against scikit-learn; standard errors and bands against tables drawn anew."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics
from scipy import stats

from bayesprop.metrics import Ranked, areas, curves


def drawn(n: int, seed: int, share: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Scores N(0, 1), of positive rows N(1, 1)."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < share
    return rng.standard_normal(n) + positive, positive


@pytest.mark.parametrize("digits", [0, 1, 12])
def test_areas_are_those_of_scikit_learn(digits):
    score, positive = drawn(400, seed=0)
    score = score.round(digits)
    values = areas(score, positive).values
    exact = sklearn.metrics.average_precision_score(positive, score)
    assert values["average_precision"] == pytest.approx(exact, rel=1e-12)
    exact = sklearn.metrics.roc_auc_score(positive, score)
    assert values["roc_auc"] == pytest.approx(exact, rel=1e-12)
    times = np.random.default_rng(1).integers(0, 3, 400)
    order = np.argsort(-score, kind="stable")
    counts = Ranked.of(score, positive).counts(times[order])
    exact = sklearn.metrics.average_precision_score(positive, score, sample_weight=times)
    assert counts.average_precision == pytest.approx(exact, rel=1e-12)
    exact = sklearn.metrics.roc_auc_score(positive, score, sample_weight=times)
    assert counts.roc_auc == pytest.approx(exact, rel=1e-12)


def test_equal_scores_give_chance_and_one_class_nothing():
    positive = np.arange(10) < 3
    found = areas(np.ones(10), positive).values
    assert found == pytest.approx({"average_precision": 0.3, "roc_auc": 0.5})
    assert all(map(math.isnan, areas(np.ones(10), np.ones(10, bool)).values.values()))
    assert curves(np.arange(10.0), positive) is None
    assert areas(np.arange(10.0), np.arange(10) == 4).errors == {}


def test_standard_errors_are_the_spread_over_tables():
    counts = [Ranked.of(*drawn(500, seed=s)).counts() for s in range(300)]
    spread = np.std([(one.average_precision, one.roc_auc) for one in counts], axis=0, ddof=1)
    found = [areas(*drawn(500, seed=s)).errors for s in range(40)]
    error = np.mean([[*one.values()] for one in found], axis=0)
    # A std of 300 values is right to 1 / sqrt(600); the bootstrap itself is off by a few %.
    np.testing.assert_allclose(error, spread, rtol=4 / np.sqrt(600) + 0.05)


def test_standard_errors_of_groups_are_the_spread_over_tables_of_groups():
    """Each row five times over is a group of five, and its scores are those of one."""

    def repeated(seed):
        return [np.repeat(one, 5) for one in (*drawn(500, seed=seed), np.arange(500))]

    for seed in range(3):
        # Two bootstraps of 200 draws: each std is right to 1 / sqrt(400).
        alone = pytest.approx(areas(*drawn(500, seed=seed)).errors, rel=4 / np.sqrt(200))
        assert areas(*repeated(seed)).errors == alone
    score, positive = drawn(500, seed=0)
    assert areas(score, positive, np.zeros(500)).errors == {}
    assert curves(score, positive, np.arange(500) % 4) is None


def test_bands_hold_the_true_curve():
    n_tables, inside = 100, np.zeros(3)
    fallout = np.array([0.1, 0.3, 0.5])
    truth = stats.norm.sf(stats.norm.isf(fallout) - 1.0)
    for seed in range(n_tables):
        found = curves(*drawn(600, seed=seed))
        assert found is not None
        at = np.searchsorted(found.roc.x, fallout - 1e-9)
        inside += (found.roc.low[at] <= truth) & (truth <= found.roc.high[at])
    # Percentiles of the bootstrap hold a little less than they say.
    assert np.all(inside / n_tables > 0.92 - 4.0 * np.sqrt(0.95 * 0.05 / n_tables))
