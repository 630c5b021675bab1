"""PBPClassifier as a user meets it: labels, streams, weights, hard tables, engines, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from bayesprop import PBPClassifier

SETS = {"two": load_breast_cancer, "three": load_iris}


@pytest.mark.parametrize("inference", ["adf", "sep"])
@pytest.mark.parametrize("name", SETS)
def test_is_right(name, inference):
    X, y = SETS[name](return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    model = PBPClassifier(inference=inference, random_state=0).fit(X[::2], labels[::2])
    assert model.score(X[1::2], labels[1::2]) > 0.85
    assert model.log_likelihood(X[1::2], labels[1::2]) > -0.6
    assert model.fit_report_.guards["weights_undone"] == 0
    predictive = model.predict_dist(X)
    np.testing.assert_allclose(predictive.proba.sum(axis=1), 1.0)
    assert (predictive.mutual_information >= 0.0).all()


def test_the_engines_give_the_same_probabilities():
    X, y = load_iris(return_X_y=True)
    fits = [
        PBPClassifier((5,), 2, engine=engine, random_state=0).fit(X[::3], y[::3])
        for engine in ("kernel", "jax")
    ]
    np.testing.assert_allclose(*(fit.predict_proba(X) for fit in fits), atol=1e-8)
    with pytest.raises(ValueError, match="engine='kernel' runs activation='relu'"):
        PBPClassifier(engine="kernel", activation="erf").fit(X, y)


def test_a_stream_learns_and_names_its_classes_first():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], y[order]
    stream = PBPClassifier(random_state=0).partial_fit(X[:3], y[:3], classes=[0, 1, 2, 3])
    assert list(stream.classes_) == [0, 1, 2, 3]
    before = stream.predict_dist(X[100:]).mutual_information.mean()
    for i in range(3, 100):
        stream.partial_fit(X[i : i + 1], y[i : i + 1])
    assert stream.n_iter_ == 98
    assert stream.score(X[100:], y[100:]) > 0.8
    assert stream.predict_proba(X)[:, 3].max() < 0.2
    assert stream.predict_dist(X[100:]).mutual_information.mean() < before


def test_weights_and_warm_start():
    X, y = load_breast_cancer(return_X_y=True)
    weight = np.where(np.arange(len(X)) % 2, 0.0, 1.0)
    left_out = PBPClassifier((5,), 3, random_state=0).fit(X, y, sample_weight=weight)
    without = PBPClassifier((5,), 3, random_state=0).fit(X[::2], y[::2])
    np.testing.assert_allclose(left_out.predict_proba(X), without.predict_proba(X), atol=0.1)
    healthy = PBPClassifier((5,), 3, random_state=0).fit(X, y, np.where(y == 1, 20.0, 1.0))
    assert healthy.predict_proba(X)[:, 1].mean() > without.predict_proba(X)[:, 1].mean()
    on = PBPClassifier((5,), 3, random_state=0, warm_start=True).fit(X, y)
    first = on.fit_report_.trace["mean_log_z"][0]
    assert on.fit(X, y).fit_report_.trace["mean_log_z"][0] > first
    assert on.n_iter_ == 6


def test_doubt_grows_off_the_data():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-2, 1, (40, 2)), rng.normal(2, 1, (40, 2))])
    y = np.repeat([0, 1], 40)
    model = PBPClassifier((), inference="sep", random_state=0).fit(X, y)
    rows = np.array([[3.0, 3.0], [300.0, -290.0]])
    near, far = model.predict_dist(rows).proba.max(axis=1)
    assert near > 0.95
    assert far < 0.9


def test_a_file_with_other_classes_is_refused():
    model = PBPClassifier((3,), 1).fit(*load_iris(return_X_y=True))
    header, arrays = model.to_stored()
    with pytest.raises(ValueError, match="the network has 4 inputs and 3 outputs, the header 4"):
        PBPClassifier.from_stored(header | {"classes": [0, 1]}, arrays)
