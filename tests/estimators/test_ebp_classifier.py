"""EBPClassifier as a user meets it: labels, readouts, streams, weights, files, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

from bayesprop import EBPClassifier

SETS = {"two": load_breast_cancer, "three": load_iris}


@pytest.mark.parametrize("weights", ["binary", "real"])
@pytest.mark.parametrize("name", SETS)
def test_is_right_by_either_readout(name, weights):
    X, y = SETS[name](return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    model = EBPClassifier(weights=weights, random_state=0).fit(X[::2], labels[::2])
    assert model.score(X[1::2], labels[1::2]) > 0.9
    assert model.log_likelihood(X[1::2], labels[1::2]) > -0.3
    predictive = model.predict_dist(X)
    np.testing.assert_allclose(predictive.proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(predictive.mutual_information, predictive.entropy)
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


def test_weights_count_and_warm_start_goes_on():
    X, y = load_breast_cancer(return_X_y=True)
    params = {"hidden_layer_sizes": (20,), "n_epochs": 2, "random_state": 0}
    plain = EBPClassifier(**params).fit(X, y)
    heavy = EBPClassifier(**params).fit(X, y, np.where(y == 1, 5.0, 0.2))
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
    on = EBPClassifier(**params, warm_start=True).fit(X, y).fit(X, y)
    assert on.n_iter_ == 4
    assert on.fit_report_.trace["mean_log_z"][0] > plain.fit_report_.trace["mean_log_z"][0]
