"""PBPClassifier and EBPClassifier as a user meets them: labels, readouts, streams, weights."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris

from bayesprop import ConformalClassifier, EBPClassifier, PBPClassifier, load, metrics
from bayesprop.abstention import uncertainty
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


@pytest.fixture(scope="module")
def labelled():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    labels = np.column_stack([y == 0, y == 2, X[:, 1] > 3.0, y < 0]).astype(int)
    return X[order], labels[order]


def test_several_labels_a_row_are_those_of_one_network(labelled, tmp_path):
    X, labels = labelled
    model = PBPClassifier((10,), 40, random_state=0).fit(X[:90], labels[:90])
    assert model.predict(X).shape == labels.shape
    assert np.mean(model.predict(X[90:]) == labels[90:]) > 0.9
    predicted = model.predict_dist(X)
    np.testing.assert_array_equal(model.predict_proba(X), predicted.proba[..., 1])
    np.testing.assert_allclose(
        model.log_likelihood(X, labels),
        sum(predicted.target(k).log_prob(labels[:, k]).mean() for k in range(4)),
    )
    assert (predicted.mutual_information >= 0.0).all()
    assert [one.tolist() for one in model.classes_] == [[0, 1]] * 4
    model.save(tmp_path / "labels.bayesprop")
    loaded = load(tmp_path / "labels.bayesprop")
    further = [one.partial_fit(X[90:], labels[90:]) for one in (model, loaded)]
    np.testing.assert_array_equal(*(one.predict_proba(X) for one in further))


def test_one_column_of_labels_is_two_classes(labelled):
    X, labels = labelled
    with pytest.warns(Warning, match="column-vector"):
        column = PBPClassifier((5,), 3, random_state=0).fit(X, labels[:, :1])
    two = PBPClassifier((5,), 3, random_state=0).fit(X, labels[:, 0])
    np.testing.assert_array_equal(column.predict_proba(X), two.predict_proba(X))


def test_gaps_uncertain_inputs_and_scores_of_several_labels(labelled):
    from sklearn.model_selection import cross_val_score

    X, labels = labelled
    gaps = np.where(np.arange(4) == np.arange(150)[:, None] % 7, np.nan, X)
    model = PBPClassifier((5,), 5, random_state=0).fit(gaps, labels)
    assert model.predict_dist(gaps).gap_share.shape == labels.shape
    wide = model.predict_dist(X, X_std=1.0)
    assert (wide.entropy.mean(axis=0) > model.predict_dist(X).entropy.mean(axis=0)).all()
    areas = cross_val_score(model, X, labels[:, :3], scoring="roc_auc", cv=3)
    assert areas.mean() > 0.9


def test_what_several_labels_cannot_do_is_refused(labelled):
    from sklearn.multioutput import MultiOutputClassifier

    X, labels = labelled
    small = PBPClassifier((), 1, random_state=0)
    model = clone(small).fit(X, labels)
    ordered = PBPClassifier((), 1, target_kind="ordered")
    for match, ask in (
        (r"hold 0 and 1.*got \[1, 2\]", lambda: small.fit(X, labels + 1)),
        ("target_kind='ordered'", lambda: ordered.fit(X, labels)),
        ("a sparse one: give", lambda: small.fit(X, sparse.csr_array(labels))),
        (
            "has 2 outputs, but the model was fitted with 4",
            lambda: model.partial_fit(X, X[:, :2] > 3),
        ),
        (
            "has 1 outputs, but the model was fitted with 4",
            lambda: model.partial_fit(X, X[:, 0] > 3),
        ),
        ("hold one label a row and column", lambda: model.log_likelihood(X, labels[:, 0])),
        (
            "choose one of several by target",
            lambda: metrics.accuracy(model.predict_dist(X), labels),
        ),
        ("choose it by target", lambda: model.predict_dist(X).plot()),
        ("one label a row, got 4", lambda: ConformalClassifier(model).calibrate(X, labels[:, 0])),
        ("several targets has no single", lambda: uncertainty(model, X)),
        (r"got shape \(150, 4\): .*MultiOutput", lambda: EBPClassifier().fit(X, labels)),
    ):
        with pytest.raises(ValueError, match=match):
            ask()
    each = MultiOutputClassifier(EBPClassifier((10,), random_state=0)).fit(X, labels[:, :3])
    assert np.mean(each.predict(X) == labels[:, :3]) > 0.7
