"""PBPClassifier and EBPClassifier as a user meets them: labels, readouts, streams, weights."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from bayesprop import EBPClassifier, PBPClassifier
from bayesprop.store import estimator_from_stored

SETS = {"two": load_breast_cancer, "three": load_iris}
CASES = [
    (PBPClassifier, {"inference": "adf"}, 0.85, -0.6),
    (PBPClassifier, {"inference": "sep"}, 0.85, -0.6),
    (EBPClassifier, {"weights": "binary"}, 0.9, -0.3),
    (EBPClassifier, {"weights": "real"}, 0.9, -0.3),
]


@pytest.mark.parametrize(("kind", "params", "least_score", "least_log_likelihood"), CASES)
@pytest.mark.parametrize("name", SETS)
def test_is_right(name, kind, params, least_score, least_log_likelihood):
    X, y = SETS[name](return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    model = kind(**params, random_state=0).fit(X[::2], labels[::2])
    assert model.score(X[1::2], labels[1::2]) > least_score
    assert model.log_likelihood(X[1::2], labels[1::2]) > least_log_likelihood
    assert model.fit_report_.guards.get("weights_undone", 0) == 0
    information = model.predict_dist(X).mutual_information
    if kind is PBPClassifier:
        assert (information >= 0.0).all()
        return
    np.testing.assert_array_equal(information, model.predict_dist(X).entropy)
    certain = model.set_params(prediction="map").predict_proba(X[1::2])
    assert set(np.unique(certain)) == {0.0, 1.0}
    assert model.score(X[1::2], labels[1::2]) > 0.75


def test_a_stream_of_single_rows_learns():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], y[order]
    stream = PBPClassifier(random_state=0).partial_fit(X[:3], y[:3], classes=[0, 1, 2, 3])
    before = stream.predict_dist(X[100:]).mutual_information.mean()
    for i in range(3, 100):
        stream.partial_fit(X[i : i + 1], y[i : i + 1])
    assert stream.n_iter_ == 98
    assert stream.score(X[100:], y[100:]) > 0.8
    assert stream.predict_proba(X)[:, 3].max() < 0.2
    assert stream.predict_dist(X[100:]).mutual_information.mean() < before


def test_the_engines_give_the_same_probabilities():
    X, y = load_iris(return_X_y=True)
    fits = [
        PBPClassifier((5,), 2, engine=engine, random_state=0).fit(X[::3], y[::3])
        for engine in ("kernel", "jax")
    ]
    np.testing.assert_allclose(*(fit.predict_proba(X) for fit in fits), atol=1e-8)
    with pytest.raises(ValueError, match="engine='kernel' runs activation='relu'"):
        PBPClassifier(engine="kernel", activation="erf").fit(X, y)


def test_a_file_with_other_classes_is_refused():
    model = PBPClassifier((3,), 1).fit(*load_iris(return_X_y=True))
    header, arrays = model.to_stored()
    header["model"]["fit"]["task"]["Classes"]["labels"] = {"int": [0, 1]}
    with pytest.raises(ValueError, match=r"array state\.m\.1 must be|array m\.1 must be"):
        estimator_from_stored(header, arrays)


def test_several_labels_a_row_are_refused_and_take_a_model_each():
    from sklearn.multioutput import MultiOutputClassifier

    X, y = load_iris(return_X_y=True)
    labels = np.column_stack([y == 0, y == 2]).astype(int)
    with pytest.raises(ValueError, match=r"one label a row, got shape \(150, 2\).*MultiOutput"):
        PBPClassifier().fit(X, labels)
    models = MultiOutputClassifier(PBPClassifier((10,), random_state=0)).fit(X, labels)
    assert np.mean(models.predict(X) == labels) > 0.9
