"""Curves against brute force over orders, areas against closed forms, scores and their parts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process import GaussianProcessRegressor

from bayesprop import BayesianLinearRegressor, BayesianLogisticClassifier
from bayesprop.abstention import ood_auroc, risk_coverage, uncertainty, uncertainty_of
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import GaussianPredictive


def test_the_curve_is_the_mean_over_all_orders_of_ties():
    unsure = np.array([0.2, 0.5, 0.5, 0.1, 0.5, 0.9])
    loss = np.array([1.0, 0.0, 4.0, 0.5, 2.0, 3.0])
    curves = []
    for order in itertools.permutations(range(6)):
        if np.all(np.diff(unsure[list(order)]) >= 0.0):
            kept = loss[list(order)]
            curves.append([kept[:k].mean() for k in range(1, 7)])
    assert len(curves) == 6  # of three tied rows
    found = risk_coverage(unsure, loss)
    np.testing.assert_allclose(found.risk, np.mean(curves, axis=0))
    np.testing.assert_allclose(found.coverage, np.arange(1, 7) / 6)
    np.testing.assert_array_equal(found.threshold, np.sort(unsure))
    shuffled = np.random.default_rng(0).permutation(6)
    np.testing.assert_allclose(risk_coverage(unsure[shuffled], loss[shuffled]).risk, found.risk)


def test_chance_and_the_best_order_bound_the_area():
    """Over all orders the mean area is the mean loss and the least is the oracle's."""
    loss = np.array([0.0, 1.0, 0.3, 1.0, 0.0])
    areas = [risk_coverage(order, loss).area for order in itertools.permutations(range(5))]
    found = risk_coverage(np.arange(5), loss)
    assert np.mean(areas) == pytest.approx(found.random_area)
    assert min(areas) == pytest.approx(found.oracle_area)
    best = risk_coverage(loss, loss)
    assert best.gain == pytest.approx(1.0)
    assert risk_coverage(np.zeros(5), loss).gain == pytest.approx(0.0)
    assert risk_coverage(np.arange(5), np.full(5, 2.0)).gain == 0.0


def test_auroc_is_mann_and_whitneys_count_of_pairs():
    rng = np.random.default_rng(0)
    inside, outside = rng.integers(0, 6, 40), rng.integers(2, 9, 30)
    count = stats.mannwhitneyu(outside, inside).statistic
    assert ood_auroc(inside, outside) == pytest.approx(count / (40 * 30))


def test_scores_of_numbers_and_of_classes():
    numbers = GaussianPredictive(np.zeros(2), np.array([9.0, 1.0]), np.array([16.0, 0.0]))
    np.testing.assert_allclose(uncertainty_of(numbers), [5.0, 1.0])
    np.testing.assert_allclose(uncertainty_of(numbers, "epistemic"), [3.0, 1.0])
    proba = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    classes = ClassPredictive(proba, np.array([0.4, 0.0]), np.arange(3))
    entropy = [1.5 * np.log(2.0), 0.0]
    np.testing.assert_allclose(uncertainty_of(classes), entropy)
    np.testing.assert_allclose(
        uncertainty_of(classes, "mutual-information"), [entropy[0] - 0.4, 0.0]
    )
    np.testing.assert_allclose(uncertainty_of(classes, "error-probability"), [0.5, 0.0])
    with pytest.raises(ValueError, match="one of std, epistemic for numbers, got 'entropy'"):
        uncertainty_of(numbers, "entropy")
    with pytest.raises(ValueError, match="for classes, got 'std'"):
        uncertainty_of(classes, "std")
    two = GaussianPredictive(*np.ones((3, 2, 2)))
    with pytest.raises(ValueError, match="several targets"):
        uncertainty_of(two)


def test_any_estimator_is_asked_in_parts(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 2))
    y = X[:, 0] + 0.1 * rng.standard_normal(40)
    far = np.vstack([X, 8.0 + X])
    line = BayesianLinearRegressor(noise=0.1, prior_prec=1.0).fit(X, y)
    monkeypatch.setattr("bayesprop.estimators.any_estimator.rows_at_once", lambda *_: 7)
    np.testing.assert_allclose(uncertainty(line, far), line.predict_dist(far).std)
    doubt = uncertainty(line, far, "epistemic")
    assert ood_auroc(doubt[:40], doubt[40:]) == 1.0
    kinds = BayesianLogisticClassifier().fit(X, X[:, 0] > 0.0)
    np.testing.assert_allclose(
        uncertainty(kinds, X, "error-probability"), 1.0 - kinds.predict_proba(X).max(axis=1)
    )
    process = GaussianProcessRegressor(alpha=0.01, optimizer=None).fit(X, y)
    np.testing.assert_allclose(uncertainty(process, X), process.predict(X, return_std=True)[1])
    with pytest.raises(ValueError, match="tells epistemic doubt from noise"):
        uncertainty(process, X, "epistemic")


@pytest.mark.parametrize(
    ("unsure", "loss", "words"),
    [
        ([], [], r"uncertainty must have the shape \(any\), got \(0,\)"),
        ([1.0, 2.0], [1.0, np.inf], "loss must be finite"),
        ([1.0, 2.0], [1.0], r"loss must have the shape \(2\), got \(1,\)"),
    ],
)
def test_what_makes_no_curve_is_refused(unsure, loss, words):
    with pytest.raises(ValueError, match=words):
        risk_coverage(unsure, loss)
