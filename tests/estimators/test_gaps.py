"""Rows with gaps (NaN): a line by closed forms; every method, in tests/combinations."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import bayesprop
from bayesprop import BayesianLinearRegressor, BayesianLogisticClassifier, PBPRegressor
from bayesprop.estimators.imputation import drawn_as_learnt
from bayesprop.model.progress import Progress, following
from bayesprop.numerics.rows import Rows
from method_settings import X

GAPS = X.copy()
GAPS[::3, 1] = np.nan
GAPS[::4, 0] = np.nan
RHO, N = 0.6, 3000


@pytest.fixture(scope="module")
def line():
    """Two correlated inputs, both of slope 1, noise of variance .25."""
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([0.0, 0.0], [[1.0, RHO], [RHO, 1.0]], N)
    return X, X.sum(axis=1) + 0.5 * rng.standard_normal(N)


def test_a_gap_at_prediction_widens_the_error_bar_by_what_it_hides(line):
    X, y = line
    model = BayesianLinearRegressor().fit(X, y)
    rows = np.array([[1.0, np.nan], [-2.0, np.nan], [np.nan, np.nan], [1.0, 0.5]])
    p = model.predict_dist(rows)
    # y | x1 ~ N((1 + rho) x1, 1 - rho² + 1/4); y ~ N(0, 2 + 2 rho + 1/4). 32 draws a row.
    np.testing.assert_allclose(p.mean[:3], [1.6, -3.2, 0.0], atol=0.15)
    np.testing.assert_allclose(p.var[:2], 1.0 - RHO**2 + 0.25, rtol=0.15)
    assert p.var[2] == pytest.approx(2.0 + 2.0 * RHO + 0.25, rel=0.2)
    assert p.var[3] == pytest.approx(0.25, rel=0.1)
    np.testing.assert_allclose(p.gap_share[:2], 0.64 / 0.89, rtol=0.1)


def test_gaps_in_training_do_not_bend_the_line(line):
    X, y = line
    gaps = np.where(np.random.default_rng(2).random(X.shape) < 0.3, np.nan, X)
    models = [BayesianLinearRegressor(random_state=seed).fit(gaps, y) for seed in range(5)]
    slopes = models[0].predict(np.eye(2)) - models[0].predict(np.zeros((2, 2)))
    # Means in the gaps give .89 and .9: their column then varies less than it does.
    np.testing.assert_allclose(slopes, 1.0, atol=0.05)
    # That of one fit is .274 with a standard deviation of .006: some of the gaps' spread is in it.
    noise_vars = [model.predict_dist(np.zeros((1, 2))).noise_var[0] for model in models]
    assert np.mean(noise_vars) == pytest.approx(0.25, rel=0.15)


def test_gaps_in_training_leave_the_odds_of_a_class(line):
    X, y = line
    labels = np.random.default_rng(0).random(N) < 1.0 / (1.0 + np.exp(-2.0 * y))
    gaps = np.where(np.random.default_rng(2).random(X.shape) < 0.3, np.nan, X)
    whole = BayesianLogisticClassifier().fit(X, labels).predict_proba(np.eye(2))
    some = BayesianLogisticClassifier().fit(gaps, labels).predict_proba(np.eye(2))
    np.testing.assert_allclose(some, whole, atol=0.04)


def test_features_of_a_row_with_a_gap_are_those_of_its_mean(line):
    X, y = line
    model = BayesianLinearRegressor().fit(X[:40], y[:40])
    row = np.array([[0.7, np.nan], [0.1, 0.2]])
    filled = model.inputs_.model.of_columns(2).completions(row[:1])[0]
    mean = np.stack([filled.mean(axis=0), row[1]])
    np.testing.assert_allclose(
        model.posterior_features(row), model.posterior_features(mean), rtol=1e-9
    )


def test_functions_drawn_differ_by_what_is_missing(line):
    X, y = line
    model = BayesianLinearRegressor().fit(X, y)
    drawn = model.sample_y(np.array([[1.0, np.nan], [1.0, 1.0]]), 4000)
    assert drawn[0].var() == pytest.approx(1.0 - RHO**2, rel=0.2)
    assert drawn[1].var() < 0.01


def test_what_cannot_be_is_said():
    empty = np.where(np.arange(3) == 1, np.nan, X)
    with pytest.raises(ValueError, match=r"a value in every column, got missing ones .* column 1"):
        BayesianLinearRegressor().fit(empty, X[:, 0])
    model = BayesianLinearRegressor().fit(X, X[:, 0] ** 2)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(np.full((1, 3), np.inf))
    model.keep(replace(model.fitted_, inputs=None))  # as an older file leaves it
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(ValueError, match=r"no missing values .* fit it again"):
        model.predict(GAPS)
    online = PBPRegressor(hidden_layer_sizes=(4,), inference="sep").fit(X, X[:, 0])
    with pytest.raises(ValueError, match="no missing values"):
        online.log_evidence(GAPS, X[:, 0])


def test_training_gaps_are_drawn_from_their_posterior(line):
    X, y = line
    model = BayesianLinearRegressor().fit(X, y)
    gap = np.column_stack([np.zeros(N, bool), np.ones(N, bool)])
    drawn = drawn_as_learnt(model.fitted_, Rows(X, y[:, None]), gap, None, None)
    np.testing.assert_array_equal(drawn[:, 0], X[:, 0])
    # x2 | x1, y: prior N(rho x1, 1 - rho²), likelihood N(y - x1; x2, 1/4). Without the likelihood
    # its variance is .64 and the slope in y 0.
    precision = 1.0 / (1.0 - RHO**2) + 4.0
    mean = (RHO * X[:, 0] / (1.0 - RHO**2) + 4.0 * (y - X[:, 0])) / precision
    off = drawn[:, 1] - mean
    # Of 32 candidates a few lie near: importance resampling is a little wide.
    assert abs(off.mean()) < 4.0 * off.std() / np.sqrt(N) + 0.02
    assert off.var() == pytest.approx(1.0 / precision, rel=0.25)
    assert abs(np.polyfit(mean, drawn[:, 1], 1)[0] - 1.0) < 0.05


def test_a_stream_may_begin_with_one_row():
    model = BayesianLogisticClassifier()
    with pytest.raises(ValueError, match="a value in every column"):
        model.partial_fit([[1.0, np.nan]], ["a"], classes=["a", "b"])
    model.partial_fit([[1.0, 2.0]], ["a"], classes=["a", "b"])
    model.partial_fit([[np.nan, 3.0]], ["b"])
    assert np.isfinite(model.predict_proba([[np.nan, np.nan]])).all()


@pytest.mark.parametrize("name", ["Regressor", "Classifier"])
def test_gaps_are_drawn_by_a_draft_where_time_has_no_end(name, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 2)) < 0.2, np.nan, rng.normal(size=(60, 2)))
    y = rng.normal(size=60) if name == "Regressor" else rng.integers(0, 2, 60)
    model = getattr(bayesprop, f"Bayesian{name}")(n_epochs=2, n_members=3, random_state=0)
    learnt, fit = [], model.method_class.fit

    def noted(method, *args):
        learnt.append((method.n_members, method.learns_processes))
        return fit(method, *args)

    monkeypatch.setattr(model.method_class, "fit", noted)
    model.fit(X, y)
    with following(replace(Progress(), deadline=time.monotonic() + 600.0)):
        model.fit(X, y)
    assert learnt == [(2, False), *[(3, True)] * 3]
