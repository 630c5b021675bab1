"""The estimator of batch EP: fits, refuses, remembers."""

from __future__ import annotations

import numpy as np
import pytest

from bayesprop import BatchEPRegressor

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (28, 2))
Y = 40.0 + 5.0 * np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=28)


@pytest.fixture(scope="module")
def model():
    return BatchEPRegressor((6,), relevance=True, random_state=0).fit(X, Y)


@pytest.mark.exhaustive
def test_it_fits_and_knows_which_input_matters(model):
    predictive = model.predict_dist(X)
    assert np.corrcoef(predictive.mean, Y)[0, 1] > 0.95
    assert model.state_.input_scale.m[0] > model.state_.input_scale.m[1] + 0.5
    report = model.fit_report_
    assert report.guards["sites_skipped"] == 0
    assert report.step == "sweep"
    assert len(report.trace["mean_log_z"]) == report.n_epochs == model.n_iter_


def test_a_fit_that_did_not_settle_says_so():
    model = BatchEPRegressor((6,), n_epochs=10, n_starts=1, relevance=True, random_state=0)
    with pytest.warns(UserWarning, match=r"predictions still change by .* raise n_epochs"):
        model.fit(X, Y)
    assert model.fit_report_.guards["not_converged"] == 1


def test_skipped_sites_are_counted_and_said():
    weight = np.concatenate([[1e5], np.ones(27)])  # 4 % of the sites; of 1e6, 1 %, by rounding
    with pytest.warns(UserWarning, match="no proper cavity.*weights"):
        model = BatchEPRegressor((6,), n_starts=1, relevance=True, random_state=0).fit(X, Y, weight)
    assert model.fit_report_.guards["sites_skipped"] > 0
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"hidden_layer_sizes": (5, 5)}, "one layer.*PBPRegressor"),
        ({"damping": 1.5}, "damping must be a number > 0 and at most 1"),
        ({"hidden_layer_sizes": (9000,)}, "GiB.*fewer units"),
    ],
)
def test_bad_settings_are_refused_in_words(params, message):
    with pytest.raises(ValueError, match=message):
        BatchEPRegressor(**params).fit(X, Y)
