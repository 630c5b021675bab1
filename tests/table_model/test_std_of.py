"""Columns with errors in a table: what `std_of` reads, and what it refuses."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop import TableClassifier, TableRegressor
from bayesprop.table.errors import InputError, TableError

RNG = np.random.default_rng(0)
N = 80
TABLE = pl.DataFrame(
    {
        "town": RNG.choice(["Ulm", "Bath"], N),
        "dose": RNG.normal(size=N),
        "share": [f"{k}%" for k in RNG.integers(0, 90, N)],
        "wet": RNG.random(N) < 0.5,
    }
).with_columns(y=pl.col("dose") * 2.0 + pl.Series(RNG.normal(size=N)))
TABLE[7, "dose"] = None
NEW = TABLE[:4].with_columns(
    dose=pl.Series([0.5, None, 1.0, 0.0]),
    dose_sd=pl.Series([0.5, None, 0.0, 1.0]),
    share_sd=pl.Series(["2%", "0%", "1%", "5%"]),
    bad=pl.Series([0.1, 0.1, -0.5, None]),
)


@pytest.fixture(scope="module")
def model() -> bayesprop.TableModel:
    return bayesprop.fit(TABLE, target="y", method="linear", test_fraction=0)


def test_it_is_the_x_std_of_the_encoded_column(model, tmp_path):
    encoded = model.encode(NEW)
    names = model.encoding.feature_names
    std = np.zeros_like(encoded.X)
    std[:, names.index("dose")] = [0.5, 0.0, 0.0, 1.0]
    std[:, names.index("share")] = [2.0, 0.0, 1.0, 5.0]
    expected = model.estimator.predict_dist(encoded.X, X_std=std)
    asked = {"dose": "dose_sd", "share": "share_sd"}
    p = model.predict_dist(NEW, std_of=asked)
    np.testing.assert_array_equal(p.var, expected.var)
    predicted = model.predict(NEW, std_of=asked)
    np.testing.assert_array_equal(predicted["gap_share"], expected.gap_share)
    NEW.write_parquet(tmp_path / "new.parquet")
    again = model.predict(str(tmp_path / "new.parquet"), std_of=asked)
    np.testing.assert_array_equal(again["std"], predicted["std"])


def test_a_number_is_of_every_row_and_nothing_is_left_behind(model):
    complete = NEW.with_columns(dose=pl.Series([0.5, 0.1, 1.0, 0.0]))
    one = model.predict(complete, std_of={"dose": 0.5})
    assert (one["gap_share"] > 0.0).all()
    assert "gap_share" not in model.predict(complete).columns
    exact = model.predict(complete, std_of={"dose": 0.0})
    assert exact.equals(model.predict(complete))


@pytest.mark.parametrize(
    ("std_of", "told"),
    [
        ({"town": 1.0}, "'town' is not an input that holds numbers"),
        ({"wet": 0.1}, "'wet' is not an input that holds numbers"),
        ({"doze": 1.0}, "'doze' is not an input that holds numbers.*such inputs: dose, share"),
        ({"dose": "sd"}, "no column 'sd'"),
        ({"dose": -1.0}, "got -1"),
        ({"dose": float("nan")}, "got nan"),
        ({"dose": "bad"}, "column 'bad' must hold standard deviations of at least 0, got .*row 3"),
        ({"dose": "town"}, "'town' must hold numbers"),
    ],
)
def test_what_has_no_standard_deviation_is_refused(model, std_of, told):
    with pytest.raises((TableError, InputError), match=told):
        model.predict(NEW, std_of=std_of)


def test_estimators_of_tables_take_it():
    X, asked = TABLE.drop("y"), {"dose": 0.5}
    line = TableRegressor(method="linear").fit(X, TABLE["y"])
    p = line.model_.predict_dist(X[:5], std_of=asked)
    for own, expected in (
        (line.predict(X[:5], std_of=asked), p.mean),
        (line.predict(X[:5], return_std=True, std_of=asked)[1], p.std),
        (line.predict_interval(X[:5], 0.8, std_of=asked), p.interval(0.8)),
    ):
        np.testing.assert_array_equal(own, expected)
    classes = np.where(TABLE["y"].to_numpy() > 0.0, "above", "below")
    odds = TableClassifier(method="logistic").fit(X, classes)
    proba = odds.model_.predict_dist(X[:5], std_of=asked).proba
    np.testing.assert_array_equal(odds.predict_proba(X[:5], std_of=asked), proba)
    chosen = odds.classes_[proba.argmax(axis=1)]
    np.testing.assert_array_equal(odds.predict(X[:5], std_of=asked), chosen)


def test_what_is_for_exact_inputs_is_refused(model):
    for other in ({"why": True}, {"calibrate": TABLE}):
        with pytest.raises(InputError, match="std_of is for inputs with errors"):
            model.predict(NEW, std_of={"dose": 1.0}, **other)
