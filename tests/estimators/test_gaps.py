"""Rows with gaps (NaN): every method learns and predicts them; a line, by closed forms."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from method_settings import ALL, X, predicted, silently, targets, unfitted

import bayesprop
from bayesprop import BayesianLinearRegressor, BayesianLogisticClassifier, PBPRegressor
from bayesprop.estimators.fitting import Rows
from bayesprop.estimators.training_gaps import filled_as_learnt
from bayesprop.model import fitted
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.input_model import COMPLETIONS
from bayesprop.model.progress import Progress, following

GAPS = X.copy()
GAPS[::3, 1] = np.nan
GAPS[::4, 0] = np.nan
RHO, N = 0.6, 3000


@pytest.mark.parametrize(("name", "task"), ALL)
def test_every_method_learns_and_predicts_them(name, task, tmp_path):
    y = targets(task)
    model = silently(unfitted(name, task).fit, GAPS, y)
    gap = np.isnan(GAPS).any(axis=1)
    predictive = model.predict_dist(GAPS)
    assert predictive.is_finite.all()
    assert (predictive.gap_share[~gap] == 0.0).all()
    assert ((predictive.gap_share >= 0.0) & (predictive.gap_share < 1.0)).all()
    assert predictive.gap_share[gap].max() > 0.0
    assert np.isfinite(predictive.log_prob(y)).all()
    # A row is predicted alike in any company, up to rounding.
    alone = predicted(model, GAPS[:1])
    np.testing.assert_allclose(alone[0], predicted(model, GAPS)[0], rtol=1e-4, atol=1e-6)
    complete = np.flatnonzero(~gap)
    np.testing.assert_allclose(
        predicted(model, GAPS[complete]), predicted(model, GAPS)[complete], rtol=1e-4, atol=1e-6
    )
    model.save(tmp_path / "m")
    again = predicted(bayesprop.load(tmp_path / "m"), GAPS)
    np.testing.assert_array_equal(again, predicted(model, GAPS))
    if hasattr(model, "sample_y"):
        assert np.isfinite(model.sample_y(GAPS, 3)).all()
    if hasattr(model, "posterior_features"):
        assert np.isfinite(model.posterior_features(GAPS)).all()
    if hasattr(model, "partial_fit"):
        silently(model.partial_fit, GAPS[:5], y[:5])
        assert model.predict_dist(GAPS).is_finite.all()


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
    model = BayesianLinearRegressor().fit(gaps, y)
    slopes = model.predict(np.eye(2)) - model.predict(np.zeros((2, 2)))
    # Means in the gaps give .89 and .9: their column then varies less than it does.
    np.testing.assert_allclose(slopes, 1.0, atol=0.05)
    assert model.predict_dist(np.zeros((1, 2))).noise_var[0] == pytest.approx(0.25, rel=0.15)


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


def test_several_targets_and_targets_of_their_kind():
    y = np.stack([X[:, 0], X[:, 1]], axis=1)
    model = silently(unfitted("mlp", "regression").fit, GAPS, y)
    p = model.predict_dist(GAPS)
    assert p.gap_share.shape == (24, 2)
    assert model.predict_interval(GAPS).shape == (24, 2, 2)
    for kind, values in (("positive", np.exp(X[:, 0])), ("count", np.floor(np.exp(X[:, 0])))):
        model = silently(unfitted("mlp", "regression", target_kind=kind).fit, GAPS, values)
        p = model.predict_dist(GAPS)
        assert (p.interval(0.9) >= 0.0).all()
        assert np.isfinite(p.crps(values)).all()
        assert p.gap_share.max() > 0.0


def test_groups_and_weights_go_with_gaps():
    model = unfitted("mlp", "regression")
    silently(model.fit, GAPS, X[:, 0], np.ones(24), groups=np.arange(24) // 3)
    assert model.predict_dist(GAPS).is_finite.all()


def test_what_cannot_be_is_said():
    empty = np.where(np.arange(3) == 1, np.nan, X)
    with pytest.raises(ValueError, match=r"a value in every column, got missing ones .* column 1"):
        BayesianLinearRegressor().fit(empty, X[:, 0])
    model = BayesianLinearRegressor().fit(X, X[:, 0] ** 2)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(np.full((1, 3), np.inf))
    model.inputs_ = None  # as an older file leaves it
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
    drawn = filled_as_learnt(model, Rows(X, y[:, None], None, gap))
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
    model = getattr(bayesprop, f"BayesianMLP{name}")(n_epochs=2, n_members=3, random_state=0)
    learnt, fit = [], model.method_class.fit

    def noted(method, *args):
        learnt.append((method.n_members, method.learns_processes))
        return fit(method, *args)

    monkeypatch.setattr(model.method_class, "fit", noted)
    model.fit(X, y)
    with following(replace(Progress(), deadline=time.monotonic() + 600.0)):
        model.fit(X, y)
    assert learnt == [(2, False), *[(3, True)] * 3]


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """Saved and loaded fits of 60 rows without gaps, by what they predict."""
    x = np.random.default_rng(0).standard_normal((60, 3))
    level = np.floor(2.0 + x[:, 0]).clip(0.0, 3.0)
    network = {"hidden_layer_sizes": (3,), "n_epochs": 2, "n_members": 5, "random_state": 0}
    regressor, classifier = bayesprop.BayesianMLPRegressor, bayesprop.BayesianMLPClassifier
    models = {
        "numbers": (BayesianLinearRegressor(), level),
        "positive": (BayesianLinearRegressor(target_kind="positive"), np.exp(level)),
        "count": (BayesianLinearRegressor(target_kind="count"), level),
        "two targets": (BayesianLinearRegressor(), x[:, :2]),
        "default": (regressor(**network), level),
        "classes": (classifier(**network), level),
        "two classes": (BayesianLogisticClassifier(), level > 1.0),
        "ordered": (classifier(**network, target_kind="ordered"), level),
    }
    where = tmp_path_factory.mktemp("fits")
    for name, (model, y) in models.items():
        silently(model.fit, x, y).save(where / name)
    return {name: bayesprop.load(where / name) for name in models}


@pytest.mark.parametrize(
    "kind",
    ["numbers", "positive", "count", "two targets", "default", "classes", "two classes", "ordered"],
)
@pytest.mark.parametrize("at", [[], [0], [8], [4, 5], list(range(9))])
def test_rows_in_blocks_are_predicted_as_rows_together(kind, at, fits, monkeypatch):
    """Gaps in no block, the first, the last, the middle one and all, three rows or one a block."""
    model, new = fits[kind], np.random.default_rng(1).standard_normal((9, 3))
    new[at, 1] = np.nan
    whole = everything_about(model.predict_dist(new))
    for n_rows in (1, 3):
        monkeypatch.setattr(fitted, "MOST_ROWS", n_rows * COMPLETIONS)
        for one, other in zip(everything_about(model.predict_dist(new)), whole, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def everything_about(predictive):
    if isinstance(predictive, ClassPredictive):
        return predictive.proba, predictive.expected_entropy, predictive.gap_share
    y = np.ones(predictive.mean.shape)
    numbers = predictive.mean, predictive.std, predictive.epistemic_var, predictive.gap_share
    return *numbers, predictive.quantile(0.1), predictive.log_prob(y), predictive.crps(y)
