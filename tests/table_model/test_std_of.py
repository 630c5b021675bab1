"""Columns with errors in a table: what `std_of` reads, and what it refuses."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

import bayesprop
from bayesprop import TableClassifier, TableRegressor
from bayesprop.cli import main
from bayesprop.table.errors import InputError, TableError, TableWarning

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
        ({"dose": "sd"}, "the table lacks 'sd', the column of the standard deviations of dose"),
        ({"dose": -1.0}, "got -1"),
        ({"dose": float("nan")}, "got nan"),
        (
            {"dose": "bad"},
            "'bad' must hold standard deviations of at least 0, one .* got .*row 3",
        ),
        ({"dose": "town"}, "'town' must hold numbers"),
        ("dose_sd", "^std_of must give a column or a number by column, .* got 'dose_sd'$"),
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
        with pytest.raises(InputError, match=r"'dose' have errors, .* by std_of=\{'dose': 0\}$"):
            model.predict(NEW, std_of={"dose": 1.0}, **other)


MEASURED = pl.concat([TABLE] * 4).with_columns(
    dose_sd=pl.Series(RNG.choice([0.0, 0.7], 4 * N)), share_sd=pl.Series(["2%"] * 4 * N)
)
MEASURED = MEASURED.with_columns(
    dose=pl.col("dose") + pl.col("dose_sd") * pl.Series(RNG.normal(size=4 * N))
)
ERRORS = {"dose": "dose_sd", "share": 1.0}
LINE: Any = {"target": "y", "method": "linear", "drop": "share_sd"}


@pytest.fixture(scope="module")
def measured() -> bayesprop.TableModel:
    return bayesprop.fit(MEASURED, std_of=ERRORS, test_fraction=0.2, **LINE)


def test_a_fit_is_that_of_the_estimator(measured):
    assert "dose_sd" not in measured.encoding.feature_names
    assert measured.fitted is not None
    rows = measured.fitted.train
    assert rows.X_std is not None
    of_dose = MEASURED["dose_sd"].to_numpy()[rows.numbers - 1]
    dose = MEASURED["dose"].to_numpy()[rows.numbers - 1]
    names = measured.encoding.feature_names
    expected = np.where(np.isnan(dose), 0.0, of_dose)
    np.testing.assert_array_equal(rows.X_std[:, names.index("dose")], expected)
    np.testing.assert_array_equal(rows.X_std[:, names.index("share")], 1.0)
    line = cast(Any, clone(measured.estimator)).fit(rows.X, rows.y, X_std=rows.X_std)
    np.testing.assert_array_equal(line.weights()["mean"], measured.estimator.weights()["mean"])


def test_errors_of_the_fit_are_those_of_new_tables(measured, tmp_path):
    measured.save(tmp_path / "m.bayesprop")
    again = bayesprop.load(tmp_path / "m.bayesprop")
    for model in (measured, again):
        assert model.predict(NEW).equals(model.predict(NEW, std_of=ERRORS))
    exact = again.predict(NEW[2:], std_of={"dose": 0, "share": 0})
    assert "gap_share" not in exact.columns
    other = again.predict(NEW, std_of={"dose": 0.0})
    assert other.equals(again.predict(NEW, std_of={"dose": 0.0, "share": 1.0}))
    lacks = NEW.drop("dose_sd")
    told = "the table lacks 'dose_sd', .* of dose: add it, 0 where a value is exact"
    with pytest.raises(TableError, match=told):
        again.predict(lacks)
    assert again.predict(lacks, std_of={"dose": 0.3})["gap_share"].min() > 0.0
    encoded = measured.fitted.judged.rows
    p = measured.estimator.predict_dist(encoded.X, X_std=encoded.X_std)
    score = p.log_prob(encoded.y).mean()
    assert measured.notes.held_out["model"]["log_likelihood"] == pytest.approx(score)
    with pytest.warns(TableWarning, match="the figures flatter it"):
        whole = again.evaluate(MEASURED)["model"]["log_likelihood"]
    every = measured.predict_dist(MEASURED).log_prob(MEASURED["y"].to_numpy()).mean()
    assert whole == pytest.approx(every)


def test_a_comparison_hears_errors_of_its_own_test_rows():
    rows: Any = {"target": "y", "drop": "share_sd", "std_of": ERRORS, "test": MEASURED[3 * N :]}
    compared = bayesprop.compare(MEASURED[: 3 * N], method="linear", no_peers=True, **rows)
    fitted = bayesprop.fit(MEASURED[: 3 * N], method="linear", **rows)
    scores = fitted.notes.held_out["model"]
    (found,) = (one for one in compared.methods if one.method == "linear")
    assert found.metrics["crps"] == pytest.approx(scores["crps"])


def test_an_update_needs_all_rows(measured):
    new = MEASURED[:30].with_columns(pl.col("y") + 0.01)
    with pytest.raises(InputError, match="does not learn row by row: name by known"):
        measured.update(new)
    updated = measured.update(new, MEASURED)
    assert updated.saved.fitted.encoding.population is not None
    assert updated.notes.std_of == ERRORS


def test_zeros_are_the_plain_fit():
    zero = MEASURED.with_columns(dose_sd=0.0)
    p = bayesprop.fit(zero, std_of={"dose": "dose_sd", "share": 0}, **LINE).predict(zero)
    plain = bayesprop.fit(zero.drop("dose_sd"), **LINE)
    assert p.equals(plain.predict(zero))


@pytest.mark.parametrize(
    ("std_of", "others", "told"),
    [
        (
            {"dose": "y"},
            {},
            "a number, or a column that is neither dropped nor used otherwise, got 'y'",
        ),
        ({"dose": "dose"}, {}, "used otherwise, got 'dose'"),
        ({"dose": "share_sd"}, {}, "used otherwise, got 'share_sd'"),
        ({"dose": "sd"}, {}, "no column 'sd' in the frame; columns: "),
        ({"doze": 1.0}, {}, "no column 'doze' in the frame; did you mean 'dose'"),
        ({"town": 1.0}, {}, "'town' is not an input that holds numbers"),
        ({"dose": -1.0}, {}, "got -1"),
        (
            {"dose": 9.0},
            {},
            "errors of 'dose' must vary less .* standard deviations are 9 and 1.07",
        ),
        ("dose", {}, "must give a column or a number by column"),
        ({"dose": 0.1}, {"shards": 2}, "std_of needs all rows in one fit"),
    ],
)
def test_what_no_fit_can_take_is_refused(std_of, others, told):
    with pytest.raises((TableError, InputError), match=told):
        bayesprop.fit(MEASURED, std_of=std_of, **LINE, **others)


def test_a_refusal_names_the_row_of_the_table():
    lacks = MEASURED.with_row_index().with_columns(
        y=pl.when(pl.col("index") > 0).then("y"),
        dose_sd=pl.when(pl.col("index") != 5).then("dose_sd"),
    )
    with pytest.raises(TableError, match="got no value in data row 6: "):
        bayesprop.fit(lacks.drop("index"), std_of=ERRORS, **LINE)


def test_estimators_of_tables_are_fitted_with_it():
    X = MEASURED.drop("y", "share_sd")
    line = TableRegressor(method="linear", std_of={"dose": "dose_sd"}).fit(X, MEASURED["y"])
    assert line.model_.saved.fitted.encoding.population is not None
    exact = line.predict_interval(X[:5], std_of={"dose": 0.0})
    assert (np.diff(line.predict_interval(X[:5])) >= np.diff(exact) - 0.1).all()


def test_the_command_line_has_it(capsys, tmp_path):
    MEASURED.write_csv(tmp_path / "t.csv")
    words = "--target", "y", "--method", "linear", "--drop", "share_sd", "--std-of", "dose=dose_sd"
    out, predicted = tmp_path / "m.bayesprop", tmp_path / "p.csv"
    table = str(tmp_path / "t.csv")
    assert main(["fit", table, *words, "--out", str(out)]) == 0
    assert main(["predict", str(out), table, "--out", str(predicted)]) == 0
    told = "have errors as in the fit; --std-of dose=0 takes them as exact"
    assert told in capsys.readouterr().err
    expected = bayesprop.load(out).predict(MEASURED)["std"].to_numpy()
    np.testing.assert_allclose(pl.read_csv(predicted)["std"].to_numpy(), expected, rtol=1e-5)
