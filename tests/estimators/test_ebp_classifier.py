"""EBPClassifier as a user meets it: labels, readouts, streams, weights, files, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

import bayesprop
from bayesprop import EBPClassifier

SETS = {"two": load_breast_cancer, "three": load_iris}


@pytest.mark.parametrize("weights", ["binary", "real"])
@pytest.mark.parametrize("name", SETS)
def test_is_right_saved_and_loaded(name, weights, tmp_path):
    X, y = SETS[name](return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    model = EBPClassifier(weights=weights, random_state=0).fit(X[::2], labels[::2])
    assert model.score(X[1::2], labels[1::2]) > 0.9
    assert model.log_likelihood(X[1::2], labels[1::2]) > -0.3
    predictive = model.predict_dist(X)
    np.testing.assert_allclose(predictive.proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(predictive.mutual_information, predictive.entropy)
    model.save(tmp_path / "m")
    again = bayesprop.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    certain = model.set_params(prediction="map").predict_proba(X[1::2])
    assert set(np.unique(certain)) == {0.0, 1.0}
    assert model.score(X[1::2], labels[1::2]) > 0.75


def test_a_stream_goes_on_from_the_posterior():
    X, y = load_breast_cancer(return_X_y=True)
    stream = EBPClassifier((20,), random_state=0).partial_fit(X[:60], y[:60], classes=[0, 1])
    before = stream.log_likelihood(X[300:], y[300:])
    for first in range(60, 300, 60):
        stream.partial_fit(X[first : first + 60], y[first : first + 60])
    assert stream.n_iter_ == 5
    assert stream.log_likelihood(X[300:], y[300:]) > before
    with pytest.raises(ValueError, match="y must hold classes of the first fit"):
        stream.partial_fit(X[:60], np.full(60, 7))
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        stream.partial_fit(X[:1], y[:1], classes=[7, 8])
    with pytest.raises(ValueError, match="classes must be two labels at least"):
        EBPClassifier().partial_fit(X[:60], y[:60], classes=[0])


def test_weights_count_and_warm_start_goes_on():
    X, y = load_breast_cancer(return_X_y=True)
    params = {"hidden_layer_sizes": (20,), "n_epochs": 2, "random_state": 0}
    plain = EBPClassifier(**params).fit(X, y)
    heavy = EBPClassifier(**params).fit(X, y, np.where(y == 1, 5.0, 0.2))
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    on = EBPClassifier(**params, warm_start=True).fit(X, y).fit(X, y)
    assert on.n_iter_ == 4
    assert on.fit_report_.trace["mean_log_z"][0] > plain.fit_report_.trace["mean_log_z"][0]


@pytest.mark.parametrize("weights", ["binary", "real"])
@pytest.mark.parametrize("case", ["separable", "imbalanced", "constant", "huge"])
def test_hard_tables_end_finite(weights, case):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(3, size=60)
    if case == "separable":
        X = 10.0 * y[:, None] + 0.01 * X
    elif case == "imbalanced":
        y = np.where(np.arange(60) < 2, np.arange(60) + 1, 0)
    elif case == "constant":
        X = np.full((60, 2), 3.0)
    else:
        X = X * np.array([1e12, 1e-12])
    for hidden in ((), (5,)):
        model = EBPClassifier(hidden, 40, weights=weights, random_state=0).fit(X, y)
        for rows in (X, X + 1e3 * X.std(axis=0)):
            assert np.isfinite(model.predict_proba(rows)).all()
        assert model.fit_report_.guards["rows_refused"] == 0


def test_errors_name_the_parameter():
    X, y = load_iris(return_X_y=True)
    for params, message in (
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes must hold ints >= 1"),
        ({"n_epochs": 0}, "n_epochs must be an int >= 1"),
        ({"weights": "ternary"}, "weights must be one of binary, real"),
        ({"prediction": "mean"}, "prediction must be one of posterior, map"),
    ):
        with pytest.raises(ValueError, match=message):
            EBPClassifier(**params).fit(X, y)
