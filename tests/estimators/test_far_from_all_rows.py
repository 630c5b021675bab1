"""Rows far outside of the training data: every kind of prediction is finite about them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from bayesprop.catalogue import make

X, Y = load_diabetes(return_X_y=True)
MODELS = {
    "mlp": {"n_epochs": 50},
    "closed-form-vi, draws": {
        "noise": "input",
        "prediction": "draws",
        "n_epochs": 30,
        "kl_warm_up": 15,
    },
    "closed-form-vi, input": {"noise": "input", "n_epochs": 30, "kl_warm_up": 15},
    "bayes-by-backprop": {"noise": "input", "n_epochs": 20},
    "network": {"noise": "input", "n_epochs": 20},
    "laplace, input": {"noise": "input", "n_epochs": 20},
    "pbp": {"n_epochs": 5},
    "linear": {},
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", list(MODELS))
def test_far_rows_get_finite_predictions_in_silence(name):
    model = make(name.partition(",")[0], task="regression", random_state=0, **MODELS[name])
    model.fit(X[:200], Y[:200])
    for times in (100.0, 1e4, 1e8):
        far = times * X[:4]
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            said = model.predict_dist(far)
            found = said.mean, said.std, said.interval(0.9), said.log_prob(Y[:4]), said.crps(Y[:4])
            mean, std = model.predict(far, return_std=True)
            drawn = model.sample_y(far, 5, random_state=0, include_noise=True)
        for values in (*found, mean, std, drawn):
            assert np.isfinite(values).all(), times
        assert (said.std > 0).all()
        assert (said.interval(0.9)[:, 0] < said.interval(0.9)[:, 1]).all()
