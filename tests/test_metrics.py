"""Scores of numbers against closed forms, of classes against scikit-learn."""

import numpy as np
import pytest
import sklearn.metrics
from scipy import stats

from bayesprop import metrics
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.predictive import GaussianPredictive

RNG = np.random.default_rng()  # tolerances come from standard errors, so that no seed is needed
LABELS = (
    np.array(["ant", "bee", "cow", "dog"]),
    np.array([-3, 0, 7, 9]),
    np.array(["x", "y"], dtype=object),
    np.array([False, True]),
)


def prediction(n, *outputs):
    shape = (n, *outputs)
    return GaussianPredictive(
        RNG.normal(3.0, 5.0, shape), RNG.uniform(0.1, 2.0, shape), RNG.uniform(0.1, 4.0, shape)
    )


def observed(pred):
    return pred.mean + pred.std * RNG.standard_normal(pred.mean.shape)


def test_log_likelihood_of_several_outputs_adds_them_up():
    pred = prediction(40, 3)
    y = observed(pred)
    expected = stats.norm(pred.mean, pred.std).logpdf(y).sum(axis=1).mean()
    assert metrics.mean_log_likelihood(pred, y) == pytest.approx(expected, rel=1e-12)
    assert metrics.pit(pred, y).shape == (40, 3)
    assert 0.0 <= metrics.coverage(pred, y, 0.5) <= 1.0


@pytest.mark.parametrize("level", [0.05, 0.5, 0.9, 0.99])
def test_coverage_and_width_of_an_honest_prediction(level):
    n = 20_000
    pred = prediction(n)
    se = np.sqrt(level * (1.0 - level) / n)
    assert abs(metrics.coverage(pred, observed(pred), level) - level) < 5 * se
    half = stats.norm.ppf(0.5 + level / 2.0)
    assert metrics.mean_width(pred, level) == pytest.approx(2 * half * pred.std.mean(), rel=1e-9)


def test_calibration_error_is_the_mean_gap_between_nominal_and_actual_coverage():
    pred = prediction(300)
    y = pred.mean + 2.0 * pred.std * RNG.standard_normal(300)
    level = np.linspace(0.05, 0.95, 19)
    gaps = [abs(metrics.coverage(pred, y, one) - one) for one in level]
    assert metrics.calibration_error(pred, y) == pytest.approx(np.mean(gaps), abs=1e-12)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(4), r"shape of the prediction, \(5,\), got \(4,\)"),
        (np.zeros((5, 1)), r"got \(5, 1\)"),
        (np.array([1.0, np.nan, 1.0, 1.0, 1.0]), "must be finite"),
    ],
)
def test_observations_that_do_not_fit_are_refused(y, message):
    pred = prediction(5)
    for metric in (metrics.rmse, metrics.mae, metrics.mean_crps, metrics.pit):
        with pytest.raises(ValueError, match=message):
            metric(pred, y)
    with pytest.raises(ValueError, match="at least one observation"):
        metrics.rmse(prediction(0), np.zeros(0))
    with pytest.raises(ValueError, match="between 0 and 1"):
        metrics.coverage(pred, pred.mean, 1.0)


def classified(classes, n=400, sharpness=1.5, seed=0):
    rng = np.random.default_rng(seed)
    logits = sharpness * rng.standard_normal((n, len(classes)))
    proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = classes[rng.integers(0, len(classes), n)]
    return ClassPredictive(proba, np.zeros(n), classes), y


@pytest.fixture(params=LABELS, ids=lambda labels: str(labels.dtype))
def case(request):
    return classified(request.param)


def test_scores_of_classes_are_those_of_scikit_learn(case):
    pred, y = case
    labels, c = list(pred.classes), len(pred.classes)
    assert metrics.accuracy(pred, y) == sklearn.metrics.accuracy_score(list(y), list(pred.label))
    expected = -sklearn.metrics.log_loss(list(y), pred.proba, labels=labels)
    assert metrics.mean_log_likelihood(pred, y) == pytest.approx(expected, rel=1e-12)
    per_class = [np.mean((pred.proba[:, k] - (y == pred.classes[k])) ** 2) for k in range(c)]
    assert metrics.brier(pred, y) == pytest.approx(sum(per_class), rel=1e-12)
    if c == 2:
        is_second = (y == pred.classes[1]).astype(int)
        one_sided = sklearn.metrics.brier_score_loss(is_second, pred.proba[:, 1])
        assert metrics.brier(pred, y) == pytest.approx(2.0 * one_sided, rel=1e-12)
    expected = sklearn.metrics.confusion_matrix(list(y), list(pred.label), labels=labels)
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


def test_certainty_falls_into_the_last_bin():
    pred = ClassPredictive(np.eye(2), np.zeros(2), np.array([0, 1]))
    groups = metrics.reliability(pred, np.array([0, 0]), n_bins=15)
    np.testing.assert_array_equal(groups.count, [2])
    assert groups.accuracy[0] == 0.5


def test_summaries_hold_the_scores():
    numbers = prediction(100)
    y = observed(numbers)
    gap, half = y - numbers.mean, stats.norm.ppf(0.95) * numbers.std
    by_hand = {
        "rmse": np.sqrt(np.mean(gap**2)),
        "mae": np.mean(np.abs(gap)),
        "crps": numbers.crps(y).mean(),
        "log_likelihood": numbers.log_prob(y).mean(),
        "coverage_90": np.mean(np.abs(gap) <= half),
        "width_90": 2.0 * half.mean(),
        "epistemic_share": numbers.epistemic_share,
    }
    assert metrics.rmse(numbers, y) == pytest.approx(by_hand["rmse"])
    assert metrics.mae(numbers, y) == pytest.approx(by_hand["mae"])
    assert metrics.mean_crps(numbers, y) == pytest.approx(by_hand["crps"])
    classes, labels = classified(LABELS[0])
    of_classes = {
        "accuracy": metrics.accuracy(classes, labels),
        "brier": metrics.brier(classes, labels),
        "log_likelihood": metrics.mean_log_likelihood(classes, labels),
        "mean_confidence": classes.proba.max(axis=1).mean(),
        "epistemic_share": 1.0,  # no expected entropy
    }
    for predicted, truth, expected in ((numbers, y, by_hand), (classes, labels, of_classes)):
        summary = metrics.summarise(predicted, truth)
        assert {name: summary[name] for name in expected} == pytest.approx(expected)


def test_labels_that_do_not_fit_are_refused():
    pred, y = classified(np.arange(3), n=4)
    with pytest.raises(ValueError, match="classes of the first fit"):
        metrics.accuracy(pred, y + 5)
    with pytest.raises(ValueError, match="one label a row"):
        metrics.accuracy(pred, y[:3])
    with pytest.raises(ValueError, match="at least one observation"):
        metrics.brier(pred[:0], y[:0])
    with pytest.raises(ValueError, match=r"n_bins .* got 0"):
        metrics.reliability(pred, y, n_bins=0)


def test_standard_errors_are_those_of_means_and_of_clusters():
    pred = prediction(60)
    y, group = observed(pred), np.arange(60) // 4
    errors = metrics.summary(pred, y).errors
    assert errors["crps"] == pytest.approx(stats.sem(pred.crps(y)))
    assert errors["log_likelihood"] == pytest.approx(stats.sem(pred.log_prob(y)))
    square = (y - pred.mean) ** 2
    assert errors["rmse"] == pytest.approx(stats.sem(square) / (2.0 * np.sqrt(square.mean())))
    clustered = metrics.summary(pred, y, group).errors
    means = pred.crps(y).reshape(15, 4).mean(axis=1)  # groups of one size: those of their means
    assert clustered["crps"] == pytest.approx(stats.sem(means))
    assert metrics.summary(pred[:4], y[:4], group[:4]).errors == {}
    assert "calibration_error" not in errors


def test_standard_errors_of_repeated_groups_do_not_shrink():
    pred = prediction(30)
    y = observed(pred)
    again = np.tile(np.arange(30), 5)
    once, five = (
        metrics.summary(pred[rows], y[rows], group).errors["mae"]
        for rows, group in ((np.arange(30), None), (again, again))
    )
    assert five == pytest.approx(once)
