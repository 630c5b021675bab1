"""Estimators of raw tables: scikit-learn's own checks, and what users put them into."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingRegressor
from sklearn.inspection import PartialDependenceDisplay, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import bayesprop
from bayesprop import TableClassifier, TableRegressor

RNG = np.random.default_rng(0)
N = 90
X = pd.DataFrame(
    {
        "area": RNG.normal(50.0, 10.0, N),
        "town": RNG.choice(["Ulm", "Bonn", "Kiel"], N),
        "sold": pd.date_range("2020-01-01", periods=N),
        "gap": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)),
    }
)
Y = 2.0 * X["area"] + 20.0 * (X["town"] == "Ulm") + RNG.normal(size=N)
KIND = pd.Series(np.where(Y.median() < Y, "dear", "cheap"), name="kind")
LINE = TableRegressor(method="linear")
LOGIT = TableClassifier(method="logistic")


@parametrize_with_checks([LINE, LOGIT])
def test_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def line() -> TableRegressor:
    return clone(LINE).fit(X, Y)


@pytest.fixture(scope="module")
def logit() -> TableClassifier:
    return clone(LOGIT).fit(X, KIND)


def test_arrays_are_predicted_where_an_explainer_removed_the_names(line, logit):
    # As KernelExplainer of shap does to a copy, which it gives arrays.
    for estimator, answer in ((line, line.predict(X)), (logit, logit.predict(X))):
        copied = deepcopy(estimator)
        copied.feature_names_in_ = None
        np.testing.assert_array_equal(copied.predict(X.to_numpy(object)), answer)


def test_predictions_are_those_of_the_model(line, logit):
    model = bayesprop.fit(X, Y.rename("y"), task="regression", method="linear", test_fraction=0.0)
    expected = model.predict(X, interval=0.5)
    mean, std = line.predict(X, return_std=True)
    np.testing.assert_allclose(mean, expected["mean"])
    np.testing.assert_allclose(std, expected["std"])
    bounds = expected[["lower_50", "upper_50"]]
    np.testing.assert_allclose(line.predict_interval(X, 0.5), bounds)
    assert line.score(X, Y) > 0.99
    proba = logit.model_.predict(X)[["p(cheap)", "p(dear)"]]
    np.testing.assert_allclose(logit.predict_proba(X), proba)
    assert [*logit.classes_] == ["cheap", "dear"]
    assert {"area", "town=Ulm", "gap"} <= set(line.get_feature_names_out())


def test_rows_of_every_form_are_the_same_rows(line):
    some, expected = X[:4], line.predict(X[:4])
    rows = some.assign(sold=some["sold"].astype(str)).to_dict("records")
    forms = [
        pl.from_pandas(some),
        pl.from_pandas(some).lazy(),
        some[some.columns[::-1]],
        some.to_numpy(object),
        rows,
    ]
    for form in forms:
        np.testing.assert_allclose(line.predict(form), expected)
    np.testing.assert_allclose(line.predict(rows[0]), expected[:1])
    np.testing.assert_allclose(line.model_.predict(rows)["mean"], expected)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(line)).predict(some), expected)


def test_searches_and_cross_validation():
    grid = {"settings": [None, {"basis": "polynomial", "degree": 2}], "drop": [(), ("town",)]}
    search = GridSearchCV(LINE, grid, cv=3).fit(X, Y)
    assert search.best_params_["drop"] == ()
    proba = cross_val_predict(LOGIT, X, KIND, method="predict_proba", cv=3)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.mean(proba[:, 1] > 0.5) == pytest.approx(0.5, abs=0.15)


def test_importance_and_dependence(line):
    importance = permutation_importance(line, X, Y, n_repeats=3, random_state=0)
    assert [*np.argsort(importance.importances_mean)[::-1][:2]] == [0, 1]
    shown = PartialDependenceDisplay.from_estimator(
        line, X, ["area", "town"], categorical_features=["town"], grid_resolution=5
    )
    of_area, of_town = (one["average"][0] for one in shown.pd_results)
    assert np.all(np.diff(of_area) > 0.0)
    assert of_town[2] - of_town[:2].mean() == pytest.approx(20.0, abs=3.0)  # Bonn, Kiel, Ulm


def test_estimators_of_estimators(line):
    calibrated = CalibratedClassifierCV(LOGIT, cv=3).fit(X, KIND)
    assert calibrated.score(X, KIND) > 0.9
    parts = [("all", LINE), ("few", TableRegressor(method="linear", drop="area"))]
    assert StackingRegressor(parts, cv=3).fit(X, Y).score(X, Y) > 0.99


def test_weights_and_groups_are_routed():
    weights = np.arange(N) % 2
    own = clone(LINE).fit(X, Y, sample_weight=weights).predict(X)
    column = TableRegressor(method="linear", weights="w").fit(X.assign(w=weights), Y)
    np.testing.assert_allclose(own, column.predict(X))
    with config_context(enable_metadata_routing=True):
        routed = clone(LINE).set_fit_request(sample_weight=True, groups=True)
        routed.set_score_request(sample_weight=False)
        params = {"sample_weight": weights, "groups": X["town"]}
        assert np.isfinite(cross_val_score(routed, X, Y, cv=2, params=params)).all()
    with pytest.raises(ValueError, match="weights and sample_weight say the same"):
        column.fit(X.assign(w=weights), Y, sample_weight=weights)


def test_rows_without_a_target_are_left_out_in_every_form():
    gone = Y.where(X["area"] < 55.0)
    expected = clone(LINE).fit(X, gone).predict(X[:3])
    for y in (gone.to_numpy(), gone.tolist(), pl.Series(gone.to_numpy())):
        np.testing.assert_allclose(clone(LINE).fit(X, y).predict(X[:3]), expected)
    with pytest.raises(ValueError, match=r"^no method '3'"):
        TableRegressor(method=3).fit(X, Y)  # pyright: ignore


@pytest.mark.parametrize("labels", [["1", "2"], ["1.0", "2.0"], ["True", "False"], ["01", "02"]])
def test_labels_come_back_as_they_were_given(labels):
    y = np.where(KIND == "dear", *labels)
    for given in (y, y.tolist(), pd.Series(y, name="kind"), pl.Series(y)):
        fitted = clone(LOGIT).fit(X, given)
        assert [*fitted.classes_] == sorted(labels)
        assert fitted.score(X, y) > 0.9
    assert clone(LINE).fit(X, Y.astype(object)).score(X, Y) > 0.9


def test_costs_decide():
    costs = {"fn": 10, "fp": 1}
    careful = TableClassifier(method="logistic", positive="dear", cost=costs).fit(X, KIND)
    flagged = careful.predict_proba(X)[:, 1] > 1.0 / 11.0
    assert [*careful.predict(X)] == [*np.where(flagged, "dear", "cheap")]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("n_epochs=3", "must be a mapping"),
        ({"seed": 3}, "'seed' is an argument"),
        ({"foo": 1}, "no such"),
    ],
)
def test_settings_are_those_of_the_method(settings, says):
    with pytest.raises(ValueError, match=says):
        TableRegressor(method="linear", settings=settings).fit(X, Y)


def test_a_dict_is_one_row(line):
    with pytest.raises(ValueError, match="'area' holds several values"):
        line.predict({"area": [1.0, 2.0], "town": ["Ulm", "Bonn"]})


@pytest.mark.filterwarnings("ignore::bayesprop.table.errors.TableWarning")
def test_an_absent_column_may_count_as_missing(line):
    fewer, forgiving = X.drop(columns="gap"), clone(LINE).set_params(allow_missing_columns=True)
    with pytest.raises(ValueError, match=r"lacks .* 'gap'; allow_missing_columns treats"):
        line.predict(fewer)
    np.testing.assert_allclose(forgiving.fit(X, Y).predict(fewer), line.predict(X.assign(gap=None)))
