"""Scores, baselines and doubtful rows of a report, against direct computation and scikit-learn."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn import metrics

from bayesprop import BayesianLinearRegressor
from bayesprop.model.task import Standardiser
from bayesprop.report import of_classes
from bayesprop.report.contents import collect
from bayesprop.table.encoding import TableEncoding
from report_fakes import (
    DIGITS,
    FRAUD,
    METADATA,
    NUMBERS,
    WINE,
    classifier,
    encoding,
    given,
    halves,
    regressor,
    rows,
    slopes,
    table,
)

TRAIN, TEST = FRAUD
both_tasks = pytest.mark.parametrize("task", [NUMBERS, FRAUD], ids=["numbers", "classes"])


def collected(task=NUMBERS, **changes):
    train, test = task
    return collect(**given(train, test, **changes))


def score(contents, name):
    return next(
        s for s in contents.scores if s.metric.name.replace("\N{NO-BREAK SPACE}", " ") == name
    )


def std_of(x):
    return np.sqrt(0.5 + 0.05 * regressor().x_scaler_.transform(x)[:, 0] ** 2)


def test_metrics_of_numbers_equal_direct_computation():
    contents, (train, test) = collected(), NUMBERS
    mean, std = test.X @ slopes(3) + 3.0, std_of(test.X)
    error = test.y - mean
    assert contents.models == ("model", "constant", "linear")
    log_density = stats.norm.logpdf(test.y, mean, std)
    found = score(contents, "Mean log-likelihood")
    assert found.values[0] == pytest.approx(np.mean(log_density))
    assert found.errors[0] == pytest.approx(stats.sem(log_density))
    held = np.abs(error) < stats.norm.ppf(0.95) * std
    assert score(contents, "Coverage of 90 % intervals").values[0] == pytest.approx(np.mean(held))
    width = 2 * stats.norm.ppf(0.95) * np.mean(std)
    assert score(contents, "Width of 90 % intervals").values[0] == pytest.approx(width)
    constant = np.sqrt(np.mean((test.y - np.mean(train.y)) ** 2))
    assert score(contents, "RMSE").values[1] == pytest.approx(constant)
    assert contents.details.median_error == pytest.approx(np.median(np.abs(error)))
    assert contents.epistemic_share == pytest.approx(np.mean((std**2 - 0.49) / std**2))


@pytest.mark.parametrize(("train", "test"), [FRAUD, WINE])
def test_metrics_of_classes_equal_scikit_learn(train, test):
    contents = collected((train, test))
    model = classifier(train).predict_dist(test.X)
    assert contents.models == ("model", "constant", "logistic")
    accuracy = score(contents, "Accuracy")
    assert accuracy.values[0] == pytest.approx(metrics.accuracy_score(test.y, model.label))
    assert accuracy.errors[0] == pytest.approx(stats.sem(model.label == test.y))
    balanced = metrics.balanced_accuracy_score(test.y, model.label)
    assert score(contents, "Balanced accuracy").values[0] == pytest.approx(balanced)
    names = [one.metric.name for one in contents.scores]
    if len(model.classes) == 2:
        p, positive = model.proba[:, 1], test.y == model.classes[1]
        apart = p[positive][:, None] - p[~positive]
        area = np.mean((apart > 0.0) + 0.5 * (apart == 0.0))
        assert score(contents, "Area under the ROC curve").values[0] == pytest.approx(area)
        assert score(contents, "Area under the ROC curve").values[1] == pytest.approx(0.5)
        assert contents.details.positive == "fraud"
    else:
        assert "Area under the ROC curve" not in names
        assert contents.details.positive == ""


@both_tasks
def test_best_follows_the_direction_of_the_metric(task):
    for found in collected(task).scores:
        values = np.array(found.values)
        away = np.abs(values - found.metric.nominal)
        loss = {"lower": values, "higher": -values, "nominal": away}
        if better := found.metric.better:
            assert found.best == tuple(loss[better] == loss[better].min())
        else:
            assert not any(found.best)


@both_tasks
def test_the_kind_of_rows_is_known(task):
    train, test = task
    kinds = {"held-out": (train, test), "training": (train, None), "table": (None, test)}
    for kind, parts in kinds.items():
        contents = collected(parts)
        assert contents.kind == kind
        assert contents.n_rows == len((train if kind == "training" else test).y)
        # Nothing is calibrated on rows of the fit, or compared on them.
        assert bool(contents.conformal) == (kind != "training")
        assert bool(contents.line) == (kind == "held-out")
    assert contents.models == ("model",)
    assert not any(any(one.best) for one in contents.scores), "alone it is best at nothing"


def test_the_least_sure_rows_are_those_of_largest_std():
    _, test = NUMBERS
    contents, std = collected(), std_of(test.X)
    order = np.argsort(-std)[:10]
    assert [r.number for r in contents.unsure] == [test.numbers[i] for i in order]
    first, row = contents.unsure[0], order[0]
    mean, half = test.X[row] @ slopes(3) + 3.0, stats.norm.ppf(0.95) * std[row]
    exact = [mean, mean - half, mean + half, test.y[row]]
    texts = [first.answer.text[0], *first.answer.text[1].split(" to "), first.answer.actual]
    np.testing.assert_allclose([float(t.replace("−", "-")) for t in texts], exact, atol=0.051)
    assert first.answer.is_missed == (abs(mean - test.y[row]) > half)
    assert first.answer.epistemic_share == pytest.approx((std[row] ** 2 - 0.49) / std[row] ** 2)
    assert first.unusual[0].startswith("x1 = ")
    assert first.unusual[0].endswith("std)")


def test_the_least_sure_and_the_most_wrong_classes():
    contents = collected(FRAUD)
    model = classifier(TRAIN).predict_dist(TEST.X)
    order = np.argsort(model.confidence, kind="stable")[:10]
    assert [row.number for row in contents.unsure] == list(TEST.numbers[order])
    first, top = contents.unsure[0], order[0]
    sure, (other, answer) = model.confidence[top], model.classes[np.argsort(model.proba[top])]
    text = f"{answer} ({100 * sure:.0f} %), {other} ({100 * (1 - sure):.0f} %)"
    assert first.answer.text[0].replace("\N{NO-BREAK SPACE}", " ") == text
    share = model.mutual_information[top] / model.entropy[top]
    assert first.answer.epistemic_share == pytest.approx(share)
    wrong = np.flatnonzero(model.label != TEST.y)
    least = wrong[np.argmin(model.log_prob(TEST.y)[wrong])]
    assert contents.wrong[0].number == TEST.numbers[least]
    assert all(row.answer.is_missed for row in contents.wrong)


def test_an_unusual_level_comes_with_its_share_of_the_training_rows():
    frame = pl.DataFrame({"colour": ["red"] * 15 + ["blue"] * 5, "y": np.arange(20.0)})
    encoding = TableEncoding.fit(frame, "y")
    train = encoding.rows(frame)
    estimator = regressor(d=2, x_scaler_=Standardiser.fit(train.X))
    contents = collected((train, None), estimator=estimator, encoding=encoding)
    texts = {r.unusual[0].replace("\N{NO-BREAK SPACE}", " ") for r in contents.unsure}
    assert texts <= {"colour = blue (25 % of rows)", "colour = red (75 % of rows)"}


def test_a_model_that_does_not_standardise_still_says_what_is_unusual():
    train, test = (table(part.X * 100.0, part.y) for part in FRAUD)
    estimator = classifier(train)
    plain, scaler = collected((train, test), estimator=estimator), estimator.x_scaler_

    class AsTheyAre(type(estimator)):
        def predict_dist(self, x):
            self.x_scaler_ = scaler
            predicted = super().predict_dist(x)
            self.x_scaler_ = Standardiser.none(x.shape[1])
            return predicted

    raw = AsTheyAre(estimator.members, Standardiser.none(4), estimator.classes_)
    contents = collected((train, test), estimator=raw)
    assert plain.is_standardised
    assert not contents.is_standardised
    assert contents.unsure == plain.unsure


def test_points_are_drawn_from_large_tables_by_the_seed():
    task = (NUMBERS[0], rows(5000, seed=6))
    one, two = (collected(task).details.cloud.actual for _ in range(2))
    other = collected(task, metadata={**METADATA, "seed": 8}).details.cloud.actual
    assert len(one) == 300
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_error_groups_hold_nine_rows_in_ten():
    test = rows(1000, seed=6)
    contents, std = collected((NUMBERS[0], test)), std_of(test.X)
    error = np.abs(test.y - test.X @ slopes(3) - 3.0)
    assert len(contents.details.groups) == 5
    for group in contents.details.groups:
        inside = (std >= group.low) & (std <= group.high)
        assert np.sum(inside) == 200
        assert np.mean(error[inside] <= group.size) == pytest.approx(0.9, abs=0.006)
    assert not contents.details.is_even
    even = regressor(x_scaler_=Standardiser(np.ones(3), np.zeros(3), np.full(3, 100.0)))
    contents = collected((NUMBERS[0], test), estimator=even)
    assert contents.details.is_even
    assert contents.details.groups == ()


def test_classes_and_confusions_equal_scikit_learn():
    train, test = DIGITS
    found, model = collected(DIGITS).details, classifier(train).predict_dist(test.X)
    counts = found.counts
    precision, recall, _, support = metrics.precision_recall_fscore_support(test.y, model.label)
    np.testing.assert_allclose([one.precision for one in found.class_scores], precision)
    np.testing.assert_allclose([one.recall for one in found.class_scores], recall)
    assert [one.n_actual for one in found.class_scores] == list(support)
    assert sum(one.expected for one in found.class_scores) == pytest.approx(len(test.y))
    off = counts - np.diag(np.diag(counts))
    pairs = found.confused
    assert [pair.n_rows for pair in pairs] == sorted(off.ravel())[::-1][: len(pairs)]
    first = pairs[0]
    assert off[int(first.actual), int(first.answered)] == first.n_rows
    assert first.share == pytest.approx(first.n_rows / np.sum(test.y == int(first.actual)))


def test_of_many_classes_the_worst_are_listed(monkeypatch):
    monkeypatch.setattr(of_classes, "MAX_CLASSES", 30)
    rng = np.random.default_rng(0)
    train, test = halves(rng.standard_normal((400, 3)), np.arange(400) % 40)
    estimator = classifier(train, n_members=1)
    model = estimator.predict_dist(test.X)
    found = collected((train, test), estimator=estimator).details
    assert found.counts is None
    listed = found.class_scores
    assert len(listed) == 30
    missing = {str(k) for k in range(40)} - {one.name for one in listed}
    recall = {k: np.mean(model.label[test.y == k] == k) for k in range(40) if k in test.y}
    worst = max(one.recall for one in listed if one.n_actual)
    assert all(recall.get(int(name), 2.0) >= worst for name in missing)


def test_a_class_that_the_model_excluded_does_not_break_the_figures():
    class Excluding(type(classifier(TRAIN))):
        def predict_dist(self, x):
            predicted = super().predict_dist(x)
            sure = np.eye(2)[predicted.proba.argmax(axis=1)]
            return type(predicted)(sure, np.zeros(len(x)), predicted.classes)

    base = classifier(TRAIN)
    estimator = Excluding(base.members, base.x_scaler_, base.classes_)
    contents = collected(FRAUD, estimator=estimator)
    assert score(contents, "Mean log-likelihood").values[0] == -np.inf
    assert score(contents, "Mean log-likelihood").errors[0] is None
    assert [lead.loss for lead in contents.line.leads] == ["Brier score"]
    assert contents.verdict.tone == "caution"


def test_the_most_uncertain_rows_name_the_columns_that_raise_the_epistemic_part():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, 2))
    y = x[:, 0] + 0.1 * rng.standard_normal(120)
    x[0, 1] = 9.0
    model = BayesianLinearRegressor().fit(x, y)
    judged = table(x, y)
    contents = collect(
        estimator=model,
        encoding=encoding(2),
        train=judged,
        test=None,
        models={"model": model.predict_dist(x)},
        metadata=METADATA,
    )
    assert contents.unsure[0].number == 1
    assert contents.unsure[0].raised_by == ("x2",)
