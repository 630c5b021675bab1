"""Explanations of rows: Shapley values of the columns of a table."""

from __future__ import annotations

import sys
from functools import cache
from itertools import permutations
from math import factorial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import bayesprop
from bayesprop import TableClassifier
from bayesprop.evaluation.shapley import Explainer
from bayesprop.table.errors import InputError

N = 400


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    size, age, weight = rng.normal(10.0, 2.0, N), rng.uniform(0.0, 50.0, N), rng.normal(0.0, 1.0, N)
    town = rng.choice(["Bonn", "Kiel", "Ulm"], N)
    gap = rng.random(N) < 0.1
    y = 3.0 * size - 0.5 * age + 4.0 * (town == "Kiel") + rng.normal(0.0, 1.0, N)
    return pl.DataFrame(
        {
            "size": pl.Series(np.where(gap, np.nan, size)).fill_nan(None),
            "age": age,
            "weight": weight,
            "town": town,
            "price": y,
        }
    )


@pytest.fixture(scope="module")
def model(table):
    return bayesprop.fit(table, target="price", method="linear", test_fraction=0.0, seed=0)


@pytest.fixture(scope="module")
def rows():
    return pl.DataFrame(
        {
            "size": [12.0, None, 9.0],
            "age": [10.0, 20.0, 90.0],
            "weight": [0.0, 1.0, -1.0],
            "town": ["Kiel", "Ulm", "Paris"],
        }
    )


@pytest.fixture(scope="module")
def explained(model, rows):
    with pytest.warns(UserWarning, match="Paris"):
        return model.explain(rows)


@pytest.mark.filterwarnings("ignore:.*Paris")
def test_contributions_add_up_to_the_prediction(model, rows, explained):
    predictive = model.predict_dist(rows)
    for name in ("mean", "epistemic_var", "noise_var"):
        predicted = getattr(predictive, name)
        of = explained.contributions[name]
        np.testing.assert_allclose(of.sum(axis=1) + explained.base[name], predicted, rtol=1e-9)
        in_lines = explained.frame.group_by("row", maintain_order=True).agg(pl.col(name).sum())
        np.testing.assert_allclose(in_lines[name].to_numpy(), predicted, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*Paris")
def test_contributions_are_those_of_all_orders_of_a_linear_function(model, rows, explained):
    estimator, encoding = model.estimator, model.encoding
    explainer = Explainer(model.saved.fitted, encoding)
    x = encoding.encode(rows).X[0]
    intercept, *slopes = estimator.weights()["mean"]
    p = len(explainer.columns)

    def value(known):
        own = np.where(np.isin(explainer.place, list(known)), x, np.nan)
        filled = explainer.inputs.completions(own[None], explainer.n_completions)[0]
        return float(np.mean(filled @ np.array(slopes) + intercept))

    orders, expected = list(permutations(range(p))), np.zeros(p)
    for order in orders:
        for k, j in enumerate(order):
            expected[j] += (value(order[: k + 1]) - value(order[:k])) / len(orders)
    np.testing.assert_allclose(explained.contributions["mean"][0], expected, atol=1e-9)


def test_contributions_are_those_of_the_conditional_means_of_eight_columns():
    # The mean of a missing column given the known ones is an integral over its quantiles, a step
    # function, by the conditional normal distribution of its score.
    rng, p = np.random.default_rng(6), 8
    X = rng.standard_normal((N, p)) @ np.linalg.cholesky(0.4 + 0.6 * np.eye(p)).T
    frame = pl.DataFrame({f"x{j}": X[:, j] for j in range(p)})
    y = X @ np.arange(1.0, 1.0 + p)
    model = bayesprop.fit(frame, y, method="linear", test_fraction=0.0)
    intercept, *slopes = model.estimator.weights()["mean"]
    copula, x = model.saved.fitted.known_inputs.of_columns(p), X[0]
    corr = copula.loadings @ copula.loadings.T
    np.fill_diagonal(corr, 1.0)
    n_knots = len(copula.knots)
    ranks = (copula.knots[:, None] < copula.knots).sum(axis=1) + 0.5
    spread = stats.norm.ppf(ranks / n_knots).std(axis=0)
    place = ((copula.knots < x).sum(axis=0) + (copula.knots <= x).sum(axis=0)) / (2 * n_knots)
    z = stats.norm.ppf(np.clip(place, 0.5 / n_knots, 1.0 - 0.5 / n_knots)) / spread
    ends = stats.norm.ppf(np.arange(n_knots + 1) / n_knots)

    @cache
    def value(known):
        mean, known = np.array(x), sorted(known)
        for j in {*range(p)} - {*known}:
            gain = np.linalg.solve(corr[np.ix_(known, known)], corr[known, j])
            std = np.sqrt(1.0 - gain @ corr[known, j])
            mean[j] = np.diff(stats.norm.cdf((ends - gain @ z[known]) / std)) @ copula.knots[:, j]
        return mean @ slopes + intercept

    expected = np.zeros(p)
    for order in permutations(range(p)):
        for k, j in enumerate(order):
            expected[j] += value(frozenset(order[: k + 1])) - value(frozenset(order[:k]))
    expected /= factorial(p)
    many, average = Explainer(model.saved.fitted, model.encoding, 1024).of_row(x)
    np.testing.assert_allclose(many["mean"], expected, atol=0.01 * y.std())
    assert abs(average["mean"] - value(frozenset())) < 0.01 * y.std()
    few = model.explain(frame.head(1)).contributions["mean"][0]
    np.testing.assert_allclose(few, expected, atol=0.05 * y.std())


def test_independent_columns_contribute_their_slope_times_the_distance_to_the_mean(table, model):
    # E[x_j | x_S] is the mean of x_j where columns are independent, as the copula learns them up to
    # correlations of 1 / sqrt(400): within three of these, times a row two std away, of a std of y.
    row = pl.DataFrame({"size": [14.0], "age": [5.0], "weight": [2.0], "town": ["Bonn"]})
    contributions = model.explain(row).contributions["mean"][0]
    expected = (
        3.0 * (14.0 - table["size"].mean()),
        -0.5 * (5.0 - table["age"].mean()),
        0.0,
        -4.0 * (table["town"] == "Kiel").mean(),
    )
    tolerance = 3.0 * 2.0 * table["price"].std() / np.sqrt(N)
    np.testing.assert_allclose(contributions, expected, atol=tolerance)


def test_a_missing_value_contributes_nothing_and_says_what_measuring_it_would_remove(explained):
    size = explained.columns.index("size")
    assert explained.contributions["mean"][1, size] == 0.0
    # Of the variance 3² 2² + 1 of the row the size makes 36 parts of 37.
    assert "measuring size would remove 9" in explained.why[1].replace("\N{NO-BREAK SPACE}", " ")
    lines = explained.frame.filter(pl.col("column") == "(missing values)")
    assert lines["row"].to_list() == [2, 3]  # Paris is not known
    average = explained.frame.filter(pl.col("column") == "(average)")["mean"]
    assert average[0] == explained.base["mean"][0]  # with what rounding leaves


def test_measuring_one_of_many_missing_values_removes_its_own_share():
    # Of independent columns the shares of the variance are those of their squared slopes.
    rng, p = np.random.default_rng(8), 11
    X = rng.standard_normal((N, p))
    y = 2.0 * X[:, 9] + X[:, 10] + 0.5 * rng.standard_normal(N)
    model = bayesprop.fit(pl.DataFrame(X), y, method="linear", test_fraction=0.0)
    removed = Explainer(model.saved.fitted, model.encoding).removed(np.full(p, np.nan))
    expected = np.array([0.0] * 9 + [4.0, 1.0]) / 5.25
    np.testing.assert_allclose([removed[j] for j in range(p)], expected, atol=0.06)
    codes = (y > 0.0).astype(int)
    model = bayesprop.fit(pl.DataFrame(X), codes, method="logistic", task="classification")
    removed = Explainer(model.saved.fitted, model.encoding).removed(np.full(p, np.nan))
    assert max(removed[j] for j in range(9)) < 0.05 < removed[10] < removed[9] < 1.0


def test_sentences_name_values_beyond_what_was_learnt(explained):
    assert explained.why[0].startswith("price is predicted as ")
    assert "age = 90 (nearly all rows: 0." in explained.why[2]
    assert explained.why[2].endswith(" and town = Paris lie beyond the training rows.")
    assert "beyond" not in explained.why[0]


@pytest.mark.filterwarnings("ignore:.*Paris")
def test_predictions_say_why(model, rows, explained):
    assert model.predict(rows, why=True)["why"].to_list() == explained.why
    with pytest.raises(InputError, match="why"):
        model.predict(rows.with_columns(why=1), why=True, columns="why")


def test_frames_keep_their_kind_and_index(model):
    row = pd.DataFrame({"size": [14.0], "age": [5.0], "weight": [2.0], "town": ["Bonn"]}, index=[7])
    frame = model.explain(row).frame
    assert isinstance(frame, pd.DataFrame)
    assert frame.index.tolist() == [7] * 5
    assert model.explain(row.iloc[0].to_dict()).frame["column"].to_list() == (
        frame["column"].tolist()
    )


def test_values_of_any_kind_are_written_and_names_may_be_those_of_our_lines():
    rng, hours = np.random.default_rng(7), np.arange(60)
    table = pd.DataFrame(
        {
            "took": pd.to_timedelta(rng.integers(1, 9999, 60), unit="s"),
            "at": pd.date_range("2024-01-01", periods=60, freq="7h", tz="Europe/Berlin"),
            "day": pd.date_range("2024-01-01", periods=60),
            "(missing values)": rng.standard_normal(60),
            "(average)": rng.standard_normal(60),
            "y": hours + rng.standard_normal(60),
        }
    )
    table.loc[0, "took"] = pd.Timedelta(hours=30, seconds=5)
    model = bayesprop.fit(table, target="y", method="linear", test_fraction=0.0)
    explained = model.explain(table.head(1))
    assert explained.values[0][:3] == ["30:00:05", "2024-01-01 00:00:00+01:00", "2024-01-01"]
    total = explained.frame["mean"].sum()
    assert total == pytest.approx(model.predict_dist(table.head(1)).mean[0], rel=1e-9)


def test_frames_with_double_names_are_explained_and_predicted(table, model):
    row = table.drop("price").head(1).to_pandas()
    double = pd.concat([row, row[["age"]] + 1.0], axis=1)
    with pytest.warns(UserWarning, match="more than one column called 'age'"):
        assert model.explain(double).frame.equals(model.explain(row).frame)
    with pytest.warns(UserWarning, match="more than one column called 'age'"):
        assert model.predict(double).equals(model.predict(row))


def test_a_table_without_rows_is_refused(model, rows):
    with pytest.raises(InputError, match="no rows"):
        model.explain(rows.head(0))


def test_classes_are_explained_by_their_probabilities(table):
    frame = table.with_columns(dear=pl.col("price") > 20.0).drop("price")
    classifier = TableClassifier(method="logistic", test_fraction=0.0)
    classifier.fit(frame.drop("dear"), frame["dear"].cast(pl.String))
    some = frame.drop("dear").head(3)
    explained, predictive = classifier.explain(some), classifier.predict_dist(some)
    total = {
        name: of.sum(axis=1) + explained.base[name] for name, of in explained.contributions.items()
    }
    np.testing.assert_allclose(total["p(true)"], predictive.proba[:, 1], rtol=1e-9)
    np.testing.assert_allclose(
        total["mutual_information"], predictive.mutual_information, atol=1e-9
    )
    both = explained.contributions["p(true)"] + explained.contributions["p(false)"]
    np.testing.assert_allclose(both, 0.0, atol=1e-9)
    assert " with probability " in explained.why[0]


def test_contributions_are_given_to_the_plots_of_shap(explained, monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", SimpleNamespace(Explanation=_Explanation))
    made = explained.shap("epistemic_var")
    assert made.values.shape == (3, 4)
    assert made.base_values.shape == (3,)
    assert made.data[0].tolist() == ["12", "10", "0", "Kiel"]
    assert made.feature_names == ["size", "age", "weight", "town"]
    with pytest.raises(ValueError, match=r"quantity must be one of mean, .*; got 'median'"):
        explained.shap("median")


class _Explanation(SimpleNamespace):
    def __init__(self, values, **others):
        super().__init__(values=values, **others)


def test_rows_without_a_prediction_have_no_reasons_for_it(model, rows):
    predicted = model.predict(rows.head(1), why=True, abstain_above=0.01)
    assert predicted["why"].to_list() == [None]
    assert predicted["abstained"][0].startswith("std ")
