from __future__ import annotations

import numpy as np
import pytest
from report_class_fakes import classifier, halves, imbalanced
from report_fakes import METADATA
from scipy import stats
from sklearn import metrics
from sklearn.datasets import load_digits, load_wine

from bayesprop.report.baselines import Baselines
from bayesprop.report.confusion import class_scores, matrix, most_confused
from bayesprop.report.contents import collect
from bayesprop.report.rows import Rows
from bayesprop.report.tasks import CLASSES

TRAIN, TEST = halves(*imbalanced())
WINE = halves(load_wine().data, load_wine().target_names[load_wine().target])


def collected(train=TRAIN, test=TEST, **changes):
    settings = {
        "estimator": classifier(TRAIN if train is None else train),
        "encoding": None,
        "train": train,
        "test": test,
        "metadata": METADATA,
    }
    return collect(CLASSES, **(settings | changes))


def score(contents, name):
    return next(one for one in contents.scores if one.name == name)


@pytest.mark.parametrize(("train", "test"), [(TRAIN, TEST), WINE])
def test_metrics_equal_scikit_learn(train, test):
    contents = collected(train, test)
    model = classifier(train).predict_dist(test.X)
    right = model.label == test.y
    assert contents.models == ("model", "logistic", "constant")
    accuracy = score(contents, "Accuracy")
    assert accuracy.values[0] == pytest.approx(metrics.accuracy_score(test.y, model.label))
    assert accuracy.errors[0] == pytest.approx(stats.sem(right))
    balanced = metrics.balanced_accuracy_score(test.y, model.label)
    assert score(contents, "Balanced accuracy").values[0] == pytest.approx(balanced)
    loss = metrics.log_loss(test.y, model.proba, labels=model.classes)
    assert score(contents, "Mean log-likelihood").values[0] == pytest.approx(-loss)
    truth = (test.y[:, None] == model.classes).astype(float)
    brier = np.mean(np.sum((model.proba - truth) ** 2, axis=1))
    assert score(contents, "Brier score").values[0] == pytest.approx(brier)
    names = [one.name for one in contents.scores]
    if len(model.classes) == 2:
        p, positive = model.proba[:, 1], test.y == model.classes[1]
        apart = p[positive][:, None] - p[~positive]
        area = np.mean((apart > 0.0) + 0.5 * (apart == 0.0))
        assert score(contents, "Area under the ROC curve").values[0] == pytest.approx(area)
        assert score(contents, "Area under the ROC curve").values[2] == pytest.approx(0.5)
        assert contents.details.positive == "fraud"
    else:
        assert "Area under the ROC curve" not in names
        assert contents.details.positive == ""


def test_classes_and_confusions_equal_scikit_learn():
    train, test = halves(*load_digits(return_X_y=True), share=0.2)
    model = classifier(train).predict_dist(test.X)
    found = matrix(model, test.y)
    assert found is not None
    counts = metrics.confusion_matrix(test.y, model.label)
    np.testing.assert_array_equal(found.counts, counts)
    np.testing.assert_allclose(found.share.sum(axis=1), 1.0)
    by_class = class_scores(model, test.y)
    precision, recall, _, support = metrics.precision_recall_fscore_support(test.y, model.label)
    np.testing.assert_allclose([one.precision for one in by_class], precision)
    np.testing.assert_allclose([one.recall for one in by_class], recall)
    assert [one.n_actual for one in by_class] == list(support)
    assert sum(one.expected for one in by_class) == pytest.approx(len(test.y))
    off = counts - np.diag(np.diag(counts))
    pairs = most_confused(model, test.y)
    assert [pair.count for pair in pairs] == sorted(off.ravel())[::-1][: len(pairs)]
    first = pairs[0]
    assert off[int(first.actual), int(first.answered)] == first.count
    assert first.share == pytest.approx(first.count / np.sum(test.y == int(first.actual)))
    for row in first.examples:
        assert test.y[row] == int(first.actual)
        assert model.label[row] == int(first.answered)


def test_of_many_classes_the_worst_are_listed():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((400, 3)), np.arange(400) % 40
    train, test = halves(x, y)
    model = classifier(train, n_members=1).predict_dist(test.X)
    assert matrix(model, test.y) is None
    listed = class_scores(model, test.y)
    assert len(listed) == 30
    missing = {str(k) for k in range(40)} - {one.name for one in listed}
    recall = {k: np.mean(model.label[test.y == k] == k) for k in range(40) if k in test.y}
    worst = max(one.recall for one in listed if one.n_actual)
    assert all(recall.get(int(name), 2.0) >= worst for name in missing)


def test_baselines_of_a_stored_model():
    fresh = collected()
    stored = Baselines.fit(TRAIN.X, TRAIN.y, np.unique(TRAIN.y)).to_dict()
    for train in (None, TRAIN):
        kept = collected(train, TEST, metadata={**METADATA, "baselines": stored})
        assert kept.scores == fresh.scores
    none = collected(None, TEST)
    assert none.models == ("model",)
    assert none.baseline_note
    wine = Baselines.fit(WINE[0].X, WINE[0].y, np.unique(WINE[0].y)).to_dict()
    with pytest.raises(ValueError, match="do not belong together"):
        collected(None, TEST, metadata={**METADATA, "baselines": wine})


def test_rows_of_classes_that_training_lacked_are_left_out_and_said():
    y = TEST.y.astype(object)
    y[:3] = "unheard of"
    contents = collected(TRAIN, Rows(TEST.X, y.astype(str), TEST.row_ids))
    without = collected(TRAIN, Rows(TEST.X[3:], TEST.y[3:], TEST.row_ids[3:]))
    assert contents.n_rows == len(TEST.y) - 3
    assert contents.scores == without.scores
    assert [row.row_id for row in contents.unsure] == [row.row_id for row in without.unsure]
    assert "unheard of" in contents.about.remarks[0]
    assert without.about.remarks == ()
    strange = Rows(TEST.X, np.full(len(TEST.y), "no such"), TEST.row_ids)
    with pytest.raises(ValueError, match="no such"):
        collected(TRAIN, strange)


def test_rows_that_cannot_be_judged_are_refused():
    with pytest.raises(ValueError, match="got neither"):
        collected(None, None)
    with pytest.raises(ValueError, match="row_ids"):
        collected(TRAIN, Rows(TEST.X, TEST.y, ["1"]))
    broken = classifier(TRAIN, sharpness=np.nan)
    with pytest.raises(ValueError, match=f"row {TEST.row_ids[0]} is not finite"):
        collected(estimator=broken)


def test_a_class_that_the_model_excluded_does_not_break_the_figures():
    class Excluding(type(classifier(TRAIN))):
        def predict_dist(self, x):
            found = super().predict_dist(x)
            sure = np.eye(2)[found.proba.argmax(axis=1)]
            return type(found)(sure, np.zeros(len(x)), found.classes)

    base = classifier(TRAIN)
    contents = collected(estimator=Excluding(base.members, base.x_scaler_, base.classes_))
    assert score(contents, "Mean log-likelihood").values[0] == -np.inf
    assert score(contents, "Mean log-likelihood").errors[0] is None
    assert contents.comparisons == ()
    assert contents.verdict.tone == "caution"


def test_the_least_sure_and_the_most_wrong_rows():
    contents = collected()
    model = classifier(TRAIN).predict_dist(TEST.X)
    order = np.argsort(model.confidence, kind="stable")[:10]
    assert [row.row for row in contents.unsure] == list(order)
    first = contents.unsure[0]
    assert first.row_id == TEST.row_ids[order[0]]
    sure, (other, answer) = (
        model.confidence[order[0]],
        model.classes[np.argsort(model.proba[order[0]])],
    )
    text = f"{answer} ({100 * sure:.0f} %), {other} ({100 * (1 - sure):.0f} %)"
    assert first.answer.text[0].replace("\N{NO-BREAK SPACE}", " ") == text
    share = model.mutual_information[order[0]] / model.entropy[order[0]]
    assert first.answer.epistemic_share == pytest.approx(share)
    assert first.unusual
    wrong = np.flatnonzero(model.label != TEST.y)
    least = wrong[np.argmin(model.log_prob(TEST.y)[wrong])]
    assert contents.wrong[0].row == least
    assert all(row.answer.is_missed for row in contents.wrong)


def test_effects_are_averages_of_the_positive_class():
    estimator = classifier(TRAIN)
    contents = collected(estimator=estimator)
    assert {effect.curve.of for effect in contents.effects.shown} == {"fraud"}
    effect = contents.effects.shown[0]
    assert effect.name == "x1"
    x = np.repeat(TRAIN.X, 1, axis=0)
    x[:, 0] = effect.grid[-1]
    whole = estimator.predict_dist(x).proba[:, 1]
    # 200 of the rows are averaged over.
    error = np.std(whole) / np.sqrt(200)
    assert effect.curve.mean[-1] == pytest.approx(np.mean(whole), abs=4 * error)
    assert effect.curve.std is None


def test_of_several_classes_an_effect_shows_the_one_that_moves_most():
    train, test = WINE
    estimator = classifier(train)
    contents = collected(train, test, estimator=estimator)
    effect = contents.effects.shown[0]
    column = int(effect.name[1:]) - 1
    moved = {}
    for k, name in enumerate(estimator.classes_):
        means = []
        for value in (effect.grid[0], effect.grid[-1]):
            x = train.X.copy()
            x[:, column] = value
            means.append(np.mean(estimator.predict_dist(x).proba[:, k]))
        moved[name] = abs(means[1] - means[0])
    assert effect.curve.of == max(moved, key=lambda name: moved[name])
    assert effect.curve.movement == pytest.approx(max(moved.values()), rel=0.02)


def test_a_model_that_does_not_standardise_still_says_what_is_unusual():
    from bayesprop.model.task import Standardiser

    train = Rows(TRAIN.X * 100.0, TRAIN.y, TRAIN.row_ids)
    test = Rows(TEST.X * 100.0, TEST.y, TEST.row_ids)
    estimator = classifier(train)
    plain = collected(train, test, estimator=estimator)
    scaler = estimator.x_scaler_

    class AsTheyAre(type(estimator)):
        def predict_dist(self, x):
            self.x_scaler_ = scaler
            found = super().predict_dist(x)
            self.x_scaler_ = Standardiser.none(x.shape[1])
            return found

    raw = AsTheyAre(estimator.members, Standardiser.none(4), estimator.classes_)
    contents = collected(train, test, estimator=raw)
    assert plain.is_standardised
    assert not contents.is_standardised
    assert contents.unsure == plain.unsure


def test_pictures_of_the_rows_that_are_shown():
    train, test = halves(*load_digits(return_X_y=True), share=0.2)
    contents = collected(train, test, metadata={**METADATA, "image_shape": [8, 8]})
    shown = {row.row for row in (*contents.unsure, *contents.wrong)}
    shown |= {row for pair in contents.details.confused for row in pair.examples}
    assert set(contents.pictures) == shown
    assert contents.effects.shown == ()
    assert contents.unsure[0].unusual == ()
