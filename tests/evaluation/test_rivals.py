"""Models of scikit-learn beside a model: what they are given, and differences with their errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss

from bayesprop.evaluation import baselines
from bayesprop.evaluation.baselines import EVERY, Baselines, fit_reference_models, plans
from bayesprop.evaluation.scores import interval_score, rivals, side
from bayesprop.report.contents import collect
from bayesprop.report.page import write_report
from page_reader import Page, plain
from report_fakes import FRAUD, NUMBERS, classifier, given, halves, regressor, rows


def judged(task, estimator):
    train, test = task
    classes = getattr(estimator, "classes_", None)
    fitted = Baselines.fit(train.X, train.y, classes, names=EVERY)
    return {"model": estimator.predict_dist(test.X), **fitted.predict(test.X)}, fitted


@pytest.fixture(scope="module")
def numbers():
    return judged(NUMBERS, regressor())


def test_differences_are_those_of_a_paired_test(numbers):
    models, y = numbers[0], NUMBERS[1].y
    found = {rival.name: rival for rival in rivals(models, y)}
    assert list(found) == ["constant", "linear", "HistGradientBoosting", "GaussianProcess"]
    for name, rival in found.items():
        crps, rmse, score, *_ = rival.leads
        gap = models[name].crps(y) - models["model"].crps(y)
        assert crps.by.gain == pytest.approx(np.mean(gap))
        assert crps.by.error == pytest.approx(stats.sem(gap), rel=1e-6)
        squares = np.stack([(y - models[k].mean) ** 2 for k in (name, "model")])
        assert rmse.by.gain == pytest.approx(np.diff(np.sqrt(squares.mean(axis=1))[::-1])[0])
        drawn = np.random.default_rng(0).integers(0, len(y), (2000, len(y)))
        resampled = np.diff(np.sqrt(squares[:, drawn].mean(axis=2))[::-1], axis=0)
        assert rmse.by.error == pytest.approx(np.std(resampled), rel=0.15)
        assert np.isfinite(score.by.gain)
    assert side(found["constant"].leads) == "ahead"
    by_group = rivals(models, y, np.arange(len(y)) // 2)
    assert by_group[0].leads[0].by.error != found["constant"].leads[0].by.error
    assert rivals({k: p[:9] for k, p in models.items()}, y[:9]) == ()


def test_the_interval_score_by_hand():
    score = interval_score(np.array([[0.0, 2.0]] * 3), np.array([1.0, -1.0, 2.5]), 0.9)
    np.testing.assert_allclose(score, [2.0, 2.0 + 20.0, 2.0 + 10.0])


def test_boosting_of_classes_is_that_of_scikit_learn():
    train, test = FRAUD
    found = fit_reference_models(train.X, train.y, np.array(["absent", "clean", "fraud"]))[0]
    model = HistGradientBoostingClassifier(random_state=0).fit(train.X, train.y)
    predicted = found["HistGradientBoosting"].predict_dist(test.X)
    expected = log_loss(test.y, model.predict_proba(test.X))
    assert -np.mean(predicted.log_prob(test.y)) == pytest.approx(expected, rel=0.01)
    assert np.max(predicted.proba[:, 0]) < 0.01


def test_gaps_are_taken_and_extremes_leave_a_model_out():
    train, test = rows(200), rows(50, seed=1)
    train.X[::3, 1] = np.nan
    test.X[0] = np.nan
    for model in fit_reference_models(train.X, train.y)[0].values():
        assert np.all(model.predict_dist(test.X).is_finite)
    models, notes = fit_reference_models(train.X, np.repeat("a", 200), np.array(["a", "b"]))
    assert models == {}
    assert "HistGradientBoosting is left out" in notes[0]


def test_time_is_bounded_and_what_is_left_out_is_stated():
    assert [plan.model.name for plan in plans(1000, 5).each] == [
        "HistGradientBoosting",
        "GaussianProcess",
    ]
    (boosting,), notes = plans(10**6, 20)
    assert boosting.n_rows == baselines.MAX_ROWS
    assert "50,000 of the 1,000,000 training rows" in notes[0]
    assert "GaussianProcess is left out beyond 1,000" in notes[1]
    (few,), notes = plans(400_000, 500)
    assert few.n_rows * 500 * 6 <= baselines.MAX_VALUES
    for d, classes in ((5, 100), (400, 10)):
        assert plans(1000, d, np.arange(classes)).each == ()


def test_a_page_says_who_is_better(tmp_path, numbers):
    """A line beats boosting where it is the truth, and loses where the truth is a step."""
    x = rows(400, seed=5).X
    steps = np.where(x[:, 0] > 0.0, 8.0, -8.0) + 0.1 * rows(400, seed=5).y
    stepped = halves(x, steps)
    found = {}
    for name, task in (("line", NUMBERS), ("steps", stepped)):
        models, _ = numbers if name == "line" else judged(task, regressor())
        write_report(tmp_path / "r.html", collect(**given(*task, models=models)))
        page = (tmp_path / "r.html").read_text("utf-8")
        assert '<a href="#peers">Comparison with boosting</a>' in page
        found[name] = plain(Page(page).text)
    assert (
        "This model predicts these rows better than HistGradientBoosting (scikit" in found["line"]
    )
    assert "Boosting (scikit-learn) predicts these rows better than this model" in found["steps"]


def test_a_page_of_classes_compares_log_loss(tmp_path):
    estimator = classifier(FRAUD[0])
    models, _ = judged(FRAUD, estimator)
    write_report(tmp_path / "r.html", collect(**given(*FRAUD, estimator=estimator, models=models)))
    text = plain(Page((tmp_path / "r.html").read_text("utf-8")).text)
    assert "This model is better by Log loss, nats" in text
    assert "than HistGradientBoosting" in text
