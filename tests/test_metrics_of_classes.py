"""Scores of class probabilities against scikit-learn's, and against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics

from bayesprop import metrics
from bayesprop.model.class_predictive import ClassPredictive

LABELS = (
    np.array(["ant", "bee", "cow", "dog"]),
    np.array([-3, 0, 7, 9]),
    np.array(["x", "y"], dtype=object),
    np.array([False, True]),
)


def prediction(classes, n=400, sharpness=1.5, seed=0):
    rng = np.random.default_rng(seed)
    logits = sharpness * rng.standard_normal((n, len(classes)))
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = classes[rng.integers(0, len(classes), n)]
    return ClassPredictive(proba, np.zeros(n), classes), y


@pytest.fixture(params=LABELS, ids=lambda labels: str(labels.dtype))
def case(request):
    return prediction(request.param)


def test_accuracy(case):
    pred, y = case
    labels = pred.classes[pred.proba.argmax(axis=1)]
    assert metrics.accuracy(pred, y) == sklearn.metrics.accuracy_score(list(y), list(labels))


def test_log_likelihood(case):
    pred, y = case
    expected = -sklearn.metrics.log_loss(list(y), pred.proba, labels=list(pred.classes))
    assert metrics.mean_log_likelihood(pred, y) == pytest.approx(expected, rel=1e-12)


def test_brier(case):
    pred, y = case
    c = len(pred.classes)
    per_class = [np.mean((pred.proba[:, k] - (y == pred.classes[k])) ** 2) for k in range(c)]
    assert metrics.brier(pred, y) == pytest.approx(sum(per_class), rel=1e-12)
    if c == 2:
        one_sided = sklearn.metrics.brier_score_loss(
            (y == pred.classes[1]).astype(int), pred.proba[:, 1]
        )
        assert metrics.brier(pred, y) == pytest.approx(2.0 * one_sided, rel=1e-12)


def test_confusion(case):
    pred, y = case
    expected = sklearn.metrics.confusion_matrix(
        list(y), list(pred.label), labels=list(pred.classes)
    )
    np.testing.assert_array_equal(metrics.confusion(pred, y), expected)


def test_calibration_error_by_hand():
    """Three rows in (0.6, 0.8], one right; two rows in (0.8, 1], both right."""
    top = np.array([0.65, 0.7, 0.75, 0.9, 0.95])
    pred = ClassPredictive(np.stack([top, 1.0 - top], axis=1), np.zeros(5), np.array([0, 1]))
    y = np.array([0, 1, 1, 0, 0])
    groups = metrics.reliability(pred, y, n_bins=5)
    np.testing.assert_allclose(groups.confidence, [0.7, 0.925])
    np.testing.assert_allclose(groups.accuracy, [1 / 3, 1.0])
    np.testing.assert_array_equal(groups.count, [3, 2])
    expected = (3 * abs(1 / 3 - 0.7) + 2 * abs(1.0 - 0.925)) / 5
    assert metrics.expected_calibration_error(pred, y, n_bins=5) == pytest.approx(expected)


def test_honest_probabilities_are_calibrated_and_boasting_is_not():
    """Labels drawn from the probabilities: the error is what finite groups leave by chance."""
    n, n_bins = 20_000, 10
    classes = np.arange(3)
    pred, _ = prediction(classes, n=n, seed=1)
    y = pred.sample(np.random.default_rng(2), 1)[0]
    chance = np.sqrt(n_bins / n)
    assert metrics.expected_calibration_error(pred, y, n_bins) < chance
    sharper = pred.proba**3
    boasting = ClassPredictive(sharper / sharper.sum(axis=1, keepdims=True), np.zeros(n), classes)
    assert metrics.expected_calibration_error(boasting, y, n_bins) > 5 * chance


def test_certainty_falls_into_the_last_bin():
    pred = ClassPredictive(np.eye(2), np.zeros(2), np.array([0, 1]))
    groups = metrics.reliability(pred, np.array([0, 0]), n_bins=15)
    np.testing.assert_array_equal(groups.count, [2])
    assert groups.accuracy[0] == 0.5


def test_summary_holds_the_scores(case):
    pred, y = case
    found = metrics.summarise(pred, y)
    assert found["accuracy"] == metrics.accuracy(pred, y)
    assert found["brier"] == metrics.brier(pred, y)
    assert found["mean_confidence"] == pytest.approx(pred.proba.max(axis=1).mean())
    assert found["epistemic_share"] == pytest.approx(1.0)  # no expected entropy: all epistemic


def test_what_cannot_be_scored_is_refused():
    pred, y = prediction(np.arange(3), n=4)
    with pytest.raises(ValueError, match="classes that the model knows"):
        metrics.accuracy(pred, y + 5)
    with pytest.raises(ValueError, match="one label a row"):
        metrics.accuracy(pred, y[:3])
    with pytest.raises(ValueError, match="at least one observation"):
        metrics.brier(pred[:0], y[:0])
    with pytest.raises(ValueError, match=r"n_bins .* got 0"):
        metrics.reliability(pred, y, n_bins=0)
