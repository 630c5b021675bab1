"""Explanations of rows: Shapley values of the columns of a table."""

from __future__ import annotations

import sys
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayesprop
from bayesprop import TableClassifier
from bayesprop.evaluation.shapley import Explainer
from bayesprop.table_model.refusals import InputError

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


def test_sentences_name_values_beyond_what_was_learnt(explained):
    assert explained.why[0].startswith("price is predicted as ")
    assert "age = 90 [usual: 0." in explained.why[2]


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
