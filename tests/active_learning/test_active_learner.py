"""Ask and tell: what is learnt, kept, saved, and when to stop."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor

import bayesprop
from bayesprop import (
    ActiveLearner,
    BayesianLinearRegressor,
    BayesianLogisticClassifier,
    PBPClassifier,
    PBPRegressor,
)
from bayesprop.active_learning.stopping import BudgetSpent, EnoughRows, LittleToLearn, Step
from bayesprop.sealed import ModelFileError


def rows(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, X[:, 0] - 2.0 * X[:, 1] + 0.1 * rng.standard_normal(n)


def pbp(**settings):
    return PBPRegressor((6,), n_epochs=5, random_state=0, **settings)


def test_refitting_is_one_fit_to_all_rows():
    X, y = rows()
    learner = ActiveLearner(pbp()).teach(X[:20], y[:20]).teach(X[20:], y[20:])
    np.testing.assert_array_equal(learner.estimator_.predict(X), pbp().fit(X, y).predict(X))
    assert [(step.n_new, step.n_rows) for step in learner.history_] == [(20, 20), (20, 40)]


def test_streaming_is_partial_fit():
    X, y = rows()
    learner = ActiveLearner(pbp(), update="stream").teach(X[:20], y[:20]).teach(X[20:], y[20:])
    model = pbp().partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    np.testing.assert_array_equal(learner.estimator_.predict(X), model.predict(X))
    assert learner.X_ is None


def test_a_stream_of_classes_knows_them_all():
    X, y = rows()
    model = PBPClassifier((6,), n_epochs=5, random_state=0)
    learner = ActiveLearner(model, update="stream", classes=["a", "b", "c"])
    learner.teach(X[:10], np.where(y[:10] > 0.0, "a", "b")).teach(X[10:12], ["c", "c"])
    assert learner.estimator_.classes_.tolist() == ["a", "b", "c"]


def test_the_learner_leaves_the_estimator_alone():
    X, y = rows()
    given = pbp().fit(X[:20], y[:20])
    before = given.predict(X)
    learner = ActiveLearner(given, X=X[:20], y=y[:20]).teach(X[20:], y[20:])
    np.testing.assert_array_equal(given.predict(X), before)
    np.testing.assert_array_equal(learner.estimator_.predict(X), pbp().fit(X, y).predict(X))
    assert learner.history_[0].n_rows == 40


def test_the_history_holds_the_score_of_new_rows_before_they_were_learnt():
    X, y = rows()
    learner = ActiveLearner(pbp()).teach(X[:20], y[:20])
    before = learner.estimator_.log_likelihood(X[20:], y[20:])
    top = learner.scores(X).max()
    learner.query(X)
    learner.teach(X[20:], y[20:], cost=7.5)
    step = learner.history_[1]
    assert (step.log_likelihood, step.cost) == (pytest.approx(before), 7.5)
    assert step.top_score == pytest.approx(top)
    first = learner.history_[0]
    assert (first.log_likelihood, first.top_score, first.cost) == (None, None, 20.0)


def test_a_teaching_that_fails_changes_nothing():
    X, y = rows()
    learner = ActiveLearner(pbp()).teach(X, y)
    before = learner.estimator_
    for wrong in (np.full((1, 2), np.inf), np.ones((1, 3))):
        with pytest.raises(ValueError):  # noqa: PT011
            learner.teach(wrong, [1.0])
    assert learner.estimator_ is before
    assert len(learner.history_) == 1
    assert len(learner.X_) == 40


@pytest.mark.parametrize("update", ["refit", "stream"])
def test_save_and_resume_as_if_never_interrupted(tmp_path, update):
    X, y = rows()
    pool = np.random.default_rng(1).standard_normal((30, 2))
    rules = (EnoughRows(22), LittleToLearn(1e-9, 2), BudgetSpent(1e6))
    learner = ActiveLearner(pbp(), update=update, stop=rules, n_draws=8, random_state=3)
    learner.teach(X[:20], y[:20])
    learner.query(pool)
    path = tmp_path / "learner"
    learner.save(path)
    resumed = ActiveLearner.load(path)
    assert (resumed.history_, resumed.stop) == (learner.history_, learner.stop)
    for one in (learner, resumed):
        one.teach(X[20:22], y[20:22])
    assert learner.history_[1].top_score == resumed.history_[1].top_score is not None
    np.testing.assert_array_equal(learner.query(pool, 3).indices, resumed.query(pool, 3).indices)
    np.testing.assert_array_equal(
        learner.estimator_.predict(pool), resumed.estimator_.predict(pool)
    )
    assert resumed.stop_reason() == "22 rows are learnt, 22 were asked for"
    assert bayesprop.load(path).predict(pool).shape == (30,)


def test_labels_and_initial_rows_come_back(tmp_path):
    X, y = rows()
    labels = np.where(y > 0.0, "up", "down")
    given = BayesianLogisticClassifier().fit(X, labels)
    learner = ActiveLearner(given, X=X, y=labels)
    learner.save(tmp_path / "l")
    resumed = ActiveLearner.load(tmp_path / "l").teach(X[:2], ["up", "down"])
    assert resumed.history_[0].n_rows == 42
    assert resumed.y_.tolist()[:2] == labels.tolist()[:2]


def test_several_targets_of_a_row_are_saved(tmp_path):
    X, y = rows()
    targets = np.column_stack([y, np.roll(y, 1)])
    for estimator, y in (
        (BayesianLinearRegressor(), targets),
        (PBPClassifier((6,), n_epochs=5, random_state=0), (targets > 0).astype(int)),
    ):
        learner = ActiveLearner(estimator).teach(X[:30], y[:30])
        learner.save(tmp_path / "learner")
        resumed = ActiveLearner.load(tmp_path / "learner").teach(X[30:], y[30:])
        learner.teach(X[30:], y[30:])
        np.testing.assert_array_equal(resumed.y_, y)
        predicted = resumed.estimator_.predict(X)
        np.testing.assert_array_equal(predicted, learner.estimator_.predict(X))


def test_what_cannot_be_saved_says_so(tmp_path):
    X, y = rows()
    path = tmp_path / "l"
    with pytest.raises(NotFittedError, match="before the first teach"):
        ActiveLearner(pbp()).save(path)
    with pytest.raises(TypeError, match="named acquisition"):
        ActiveLearner(pbp(), lambda doubt: doubt.entropy).teach(X, y).save(path)
    with pytest.raises(TypeError, match="a file holds no function"):
        ActiveLearner(pbp(), stop=(lambda _: None,)).teach(X, y).save(path)
    with pytest.raises(TypeError, match="only estimators of bayesprop"):
        ActiveLearner(GaussianProcessRegressor(optimizer=None), "predictive-variance").teach(
            X, y
        ).save(path)
    model = pbp().fit(X, y)
    model.save(path)
    with pytest.raises(ModelFileError, match="no learner"):
        ActiveLearner.load(path)


def test_several_targets_and_plain_lists():
    X, y = rows()
    learner = ActiveLearner(pbp()).teach(X.tolist(), np.column_stack([y, X[:, 0]]).tolist())
    pool = np.random.default_rng(4).standard_normal((20, 2))
    chosen = learner.query(pool.tolist(), 3)
    assert chosen.indices[0] == np.argmax(learner.scores(pool))
    assert (np.diff(chosen.scores) <= 0.0).all()
    learner.teach(pool[chosen.indices], np.zeros((3, 2)))
    assert learner.history_[1].log_likelihood is not None
    with pytest.raises(ValueError, match="one candidate at least"):
        learner.query(pool[:0])


def test_frames_keep_their_columns():
    X, y = rows()
    frame = pd.DataFrame(X, columns=["heat", "time"])
    learner = ActiveLearner(BayesianLinearRegressor()).teach(frame[:20], y[:20])
    learner.teach(frame[20:], y[20:])
    assert learner.estimator_.feature_names_in_.tolist() == ["heat", "time"]
    assert len(learner.query(frame, 3).indices) == 3
    with pytest.raises(ValueError, match=r"columns \['heat', 'time'\], in order"):
        learner.teach(frame[["time", "heat"]], y)


def test_stopping_rules():
    steps = [Step(2, 2 + 2 * i, 1.5, score, None, 0.0) for i, score in enumerate([None, 3.0, 0.5])]
    assert EnoughRows(6)(steps) == "6 rows are learnt, 6 were asked for"
    assert EnoughRows(7)(steps) is EnoughRows(1)([]) is None
    assert BudgetSpent(4.5)(steps) == "4.5 of 4.5 are spent"
    assert BudgetSpent(4.6)(steps) is None
    assert LittleToLearn(1.0)(steps) == "no candidate of the last 1 scored above 1"
    assert LittleToLearn(1.0, patience=2)(steps) is LittleToLearn(9.0, patience=3)(steps) is None


def test_random_choices_need_no_fit_and_differ():
    pool = np.arange(40.0).reshape(20, 2)
    learner = ActiveLearner(pbp(), "random")
    first, second = learner.query(pool, 5).indices, learner.query(pool, 5).indices
    assert len(set(first)) == 5
    assert first.tolist() != second.tolist()
    again = ActiveLearner(pbp(), "random").query(pool, 5).indices
    np.testing.assert_array_equal(first, again)
    with pytest.raises(NotFittedError, match="teach the first rows"):
        ActiveLearner(pbp()).query(pool)


PROCESS = GaussianProcessRegressor()
DATA = rows()


def taught(*settings, **how):
    return ActiveLearner(pbp(), *settings, **how).teach(*DATA)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda X, y: ActiveLearner(pbp(), batch="best"), "batch must be one of auto, fantasy"),
        (lambda X, y: ActiveLearner(pbp(), update="both"), "update must be one of refit, stream"),
        (lambda X, y: ActiveLearner(pbp(), X=X), "given together"),
        (lambda X, y: ActiveLearner(pbp(), X=X, y=y), "a fitted estimator has learnt"),
        (lambda X, y: ActiveLearner(pbp(), classes=[0, 1]), "classes are for a classifier"),
        (lambda X, y: ActiveLearner(pbp(), n_draws=1), "n_draws must be an int >= 2, got 1"),
        (lambda X, y: ActiveLearner(pbp(), random_state=None), "random_state must be an int >= 0"),
        (lambda X, y: ActiveLearner(pbp(), "predictive-entropy"), "of numbers; got 'predictive-en"),
        (
            lambda X, y: ActiveLearner(PROCESS, "predictive-variance", update="stream"),
            "GaussianProcessRegressor lacks",
        ),
        (
            lambda X, y: ActiveLearner(PROCESS, "mutual-information"),
            "an estimator of numbers that does not tell epistemic .* got 'mutual-information'",
        ),
        (lambda X, y: ActiveLearner(pbp().fit(X, y)).teach(X, y), "that the learner does not have"),
        (lambda X, y: ActiveLearner(pbp().fit(X, y), X=X[:, 0], y=y), "X must be 2-d"),
        (lambda X, y: taught().query(X, 0), "n must be an int >= 1, got 0"),
        (lambda X, y: taught().query(X, reference=X), "reference rows are for expected-entropy-re"),
        (lambda X, y: taught("expected-entropy-reduction").query(X), "which needs them"),
        (
            lambda X, y: taught("expected-entropy-reduction").query(X, reference=X[0]),
            "reference must be 2-d",
        ),
        (lambda X, y: taught().scores(X[0]), "pool must be 2-d, one row a candidate"),
    ],
)
def test_wrong_settings_and_questions_are_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask(*DATA)


def test_rows_and_costs_that_cannot_be_taught_are_refused():
    (X, y), learner = DATA, taught(update="stream")
    for wrong, how, message in (
        ((X, y), {"cost": -1.0}, "cost must be a finite number >= 0, got -1"),
        ((X, ["high"] * len(X)), {}, "y must hold numbers for a regressor"),
        ((X[0], y[:1]), {}, r"X must be 2-d, .* got shape \(2,\): reshape\(1, -1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            learner.teach(*wrong, **how)
    assert len(learner.history_) == 1
    assert learner.teach(X, y, cost=np.int64(0)).history_[1].cost == 0.0
