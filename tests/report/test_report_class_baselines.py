import json

import numpy as np
import pytest
from report_class_fakes import halves, imbalanced
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression

from bayesprop.report import class_baselines
from bayesprop.report.class_baselines import ClassBaselines, FrequencyBaseline, LogisticBaseline


# The softmax has a vector of weights for each class. Two classes need one, and halving it into two
# opposite ones halves the penalty: that is C = 2 of the one-vector form.
@pytest.mark.parametrize(
    ("load", "strength"), [(load_wine, 1.0), (load_digits, 1.0), (load_breast_cancer, 2.0)]
)
def test_logistic_baseline_equals_scikit_learn(load, strength):
    x, y = (part[:400] for part in load(return_X_y=True))
    ours = LogisticBaseline.fit(x, y, np.unique(y))
    spread = np.where(x.std(0) > 0, x.std(0), 1.0)
    z = (x - x.mean(0)) / spread
    other = LogisticRegression(C=strength, tol=1e-6, solver="newton-cg").fit(z, y)
    np.testing.assert_allclose(ours.predict_dist(x).proba, other.predict_proba(z), atol=1e-3)


def test_class_frequencies():
    y = np.array(["b", "a", "b", "b"])
    found = FrequencyBaseline.fit(y, np.array(["a", "b", "c"])).predict_dist(np.zeros((2, 5)))
    np.testing.assert_allclose(found.proba, [[1.5 / 5.5, 3.5 / 5.5, 0.5 / 5.5]] * 2)
    assert list(found.label) == ["b", "b"]
    np.testing.assert_allclose(found.mutual_information, 0.0)


@pytest.mark.parametrize("classes", [[False, True], ["no", "yes"], [3, 7], [0.5, 1.5]])
def test_round_trip_through_json(classes):
    x, y = imbalanced(200)
    labels = np.array(classes)[(y == "fraud").astype(int)]
    fitted = ClassBaselines.fit(x, labels, np.array(classes))
    back = ClassBaselines.from_dict(json.loads(json.dumps(fitted.to_dict())))
    assert fitted.logistic is not None
    assert back.logistic is not None
    np.testing.assert_array_equal(back.constant.share, fitted.constant.share)
    np.testing.assert_array_equal(back.constant.classes, np.array(classes))
    np.testing.assert_array_equal(
        back.logistic.predict_dist(x).proba, fitted.logistic.predict_dist(x).proba
    )


def test_what_is_not_a_stored_baseline_is_refused():
    x, y = imbalanced(100)
    stored = ClassBaselines.fit(x, y, np.unique(y)).to_dict()
    for damage in (
        {"task": "regression"},
        {"share": [0.2, 0.3, 0.5]},
        {"share": [0.2, None]},
        {"logistic": {**stored["logistic"], "weight": [[1.0, 2.0]]}},
    ):
        with pytest.raises((ValueError, TypeError)):
            ClassBaselines.from_dict({**stored, **damage})


def test_wide_tables_and_many_classes_say_why_there_is_no_logistic_baseline():
    y = np.array(["a", "b"] * 5)
    wide = ClassBaselines.fit(np.zeros((10, 1001)), y, np.unique(y))
    assert wide.logistic is None
    assert "1,001 features" in wide.note
    many = ClassBaselines.fit(np.zeros((300, 99)), np.arange(300), np.arange(300))
    assert many.logistic is None
    assert "300 classes" in many.note
    assert ClassBaselines.from_dict(many.to_dict()).note == many.note


def test_long_tables_are_sampled_and_say_so(monkeypatch):
    x, y = imbalanced(600)
    monkeypatch.setattr(class_baselines, "_MAX_VALUES", 5 * 400)
    found = ClassBaselines.fit(x, y, np.unique(y))
    assert found.note == "The logistic baseline was fitted to 400 of the 600 training rows."
    assert found.logistic is not None
    assert np.mean(found.logistic.predict_dist(x).label == y) > 0.85


@pytest.mark.parametrize("extreme", [1e300, 1e-300])
def test_extreme_constant_and_separable_columns_stay_finite(extreme):
    x, y = imbalanced(200)
    x[:, 1] *= extreme / np.max(np.abs(x[:, 1]))
    x[:, 2] = 4.0
    x[:, 3] = y == "fraud"
    train, test = halves(x, y)
    found = ClassBaselines.fit(train.X, train.y, np.unique(y)).logistic
    assert found is not None
    predicted = found.predict_dist(test.X)
    assert np.all(np.isfinite(predicted.proba))
    assert np.mean(predicted.label == test.y) == 1.0
