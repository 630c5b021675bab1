"""Monitoring: alarms where rows have changed, next to none where they have not."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import time

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop import TableRegressor
from bayesprop.table.errors import InputError
from bayesprop.table.target_encoded import TargetEncodedColumn
from bayesprop.table_model.model import TableModel

N = 600


def rows(rng, n, shift=0.0):
    size = rng.normal(10.0 + 2.0 * shift, 2.0, n)
    town = rng.choice(["Bonn", "Kiel", "Ulm"], n, p=[0.5, 0.3, 0.2])
    return pl.DataFrame(
        {
            "size": pl.Series(np.where(rng.random(n) < 0.1, np.nan, size)).fill_nan(None),
            "age": rng.exponential(20.0, n).round(),
            "town": town,
            "garden": rng.random(n) < 0.4,
            "price": 3.0 * size + 4.0 * (town == "Kiel") + rng.normal(0.0, 1.0, n),
        }
    )


@pytest.fixture(scope="module")
def model():
    return fitted(np.random.default_rng(0))


def fitted(rng):
    return bayesprop.fit(rows(rng, N), target="price", method="linear", test_fraction=0.3)


def changed(found):
    return {check.what for check in found.checks if check.alarm}


@pytest.mark.exhaustive
@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_false_alarms_of_two_hundred_weeks_are_within_their_rate(rate):
    rng, n_alarms, n_weeks = np.random.default_rng(1), 0, 200
    for _ in range(20):
        model = fitted(rng)
        weeks = (model.monitor(rows(rng, 80), rate) for _ in range(n_weeks // 20))
        n_alarms += sum(bool(week.alarms) for week in weeks)
    assert n_alarms <= rate * n_weeks + 3.0 * np.sqrt(rate * (1.0 - rate) * n_weeks)


def test_a_shift_by_half_a_standard_deviation_is_seen(model):
    rng = np.random.default_rng(2)
    seen = [changed(model.monitor(rows(rng, 200, shift=0.5))) for _ in range(20)]
    assert sum("size" in names for names in seen) >= 19
    assert not any(names - {"size"} for names in seen)


def test_levels_missing_values_and_truth_values_are_compared(model):
    table = rows(np.random.default_rng(3), 300).with_columns(
        size=pl.when(pl.int_range(300) % 2 == 0).then("size"),
        town=pl.when(pl.int_range(300) % 3 == 0).then(pl.lit("Ulm")).otherwise("town"),
        garden=True,
    )
    found = model.monitor(table.drop("price"))
    names = changed(found)
    assert names == {"missing values of size", "town=Ulm", "garden"}
    assert found.n_outcomes == 0
    assert any(text.startswith("town=Ulm changed: 0.2") for text in found.alarms)


def test_outcomes_that_are_noisier_lose_coverage_and_score(model):
    rng = np.random.default_rng(4)
    table = rows(rng, 200)
    noisy = table.with_columns(pl.col("price") + rng.normal(0.0, 3.0, 200))
    assert changed(model.monitor(table)) == set()
    assert changed(model.monitor(noisy)) == {"coverage_90", "crps"}
    sparse = noisy.with_columns(pl.when(pl.int_range(200) < 10).then("price").alias("price"))
    with pytest.warns(UserWarning, match="10 rows with a target: coverage and scores"):
        assert changed(model.monitor(sparse)) == set()


def test_classes_whose_labels_are_wrong_lose_accuracy_and_likelihood():
    rng = np.random.default_rng(5)
    table = rows(rng, N).with_columns(dear=(pl.col("price") > 30.0).cast(pl.String)).drop("price")
    model = bayesprop.fit(table, target="dear", method="logistic", test_fraction=0.3)
    new = rows(rng, 200).with_columns(dear=(pl.col("price") > 30.0).cast(pl.String)).drop("price")
    turned = new.with_columns(dear=pl.when(pl.int_range(200) % 3 == 0).then(
        pl.when(pl.col("dear") == "true").then(pl.lit("false")).otherwise(pl.lit("true"))
    ).otherwise("dear"))  # fmt: skip
    assert changed(model.monitor(new)) == set()
    assert changed(model.monitor(turned)) == {"accuracy", "log_likelihood"}


def of_towns(rng, n, bounds=(0, 60)):
    """Return rows of many towns whose names and numbers of rows tell nothing."""
    town = rng.integers(*bounds, n)
    y = town % 7 + rng.normal(0.0, 1.0, n)
    return pl.DataFrame({"town": [f"t{one}" for one in town], "y": y})


@pytest.mark.filterwarnings("ignore:.*not in the training data")
def test_many_levels_are_compared_by_what_the_fit_knows_of_them():
    rng = np.random.default_rng(13)
    models = [bayesprop.fit(of_towns(rng, 400), target="y", method="linear") for _ in range(4)]
    weeks = [model.monitor(of_towns(rng, 150), 0.05) for model in models for _ in range(5)]
    assert sum(bool(week.alarms) for week in weeks) <= 3  # one is expected, at most
    assert "town (mean y)" in {check.what for check in weeks[0].checks}
    low = of_towns(rng, 600).filter(pl.col("town").str.slice(1).cast(pl.Int64) % 7 < 4)
    assert "town (mean y)" in changed(models[0].monitor(low))


def test_quantiles_of_many_levels_are_those_of_their_rows():
    table = of_towns(np.random.default_rng(14), 300)
    model = bayesprop.fit(table, target="y", method="linear", test_fraction=0.0)
    column = model.encoding.columns[0]
    assert isinstance(column, TargetEncodedColumn)
    rows = np.sort(column.encode(table["town"]).X[:, 0])
    np.testing.assert_array_equal(column.quantiles(300)[:, 0], rows)


def test_words_that_stand_for_missing_values_are_no_new_levels():
    table = rows(np.random.default_rng(15), 300).with_columns(
        town=pl.when(pl.int_range(300) % 5 == 0).then(pl.lit("none")).otherwise("town")
    )
    model = bayesprop.fit(table, target="price", method="linear", missing=["none"])
    found = model.monitor(table.drop("price"))
    assert changed(found) == set()
    shares = {check.what: check.now for check in found.checks}
    assert shares["missing values of town"] == pytest.approx(0.2)
    assert shares["new levels of town"] == 0.0


def test_times_of_day_are_compared_and_dates_are_not():
    rng = np.random.default_rng(16)

    def week(n, first):
        hour = rng.integers(first, first + 6, n)
        day = pl.date(2024, 1, 1) + pl.duration(days=pl.int_range(n))
        table = pl.DataFrame(
            {"at": [time(one, 30) for one in hour], "y": hour + rng.normal(size=n)}
        )
        return table.with_columns(day=day)

    model = bayesprop.fit(week(200, 6), target="y", method="linear")
    new = week(50, 12).drop("y")
    assert changed(model.monitor(new)) == {"at (hour, sine)"}
    assert "day (years)" not in {check.what for check in model.monitor(new).checks}


def test_levels_that_are_new_and_values_too_far_are_alarms(model):
    table = rows(np.random.default_rng(11), 100)
    with pytest.warns(UserWarning, match="Rom"):
        found = model.monitor(table.with_columns(town=pl.lit("Rom")).drop("price"))
    assert changed(found) == {"new levels of town"}
    one = table.with_columns(
        town=pl.when(pl.int_range(100) == 3).then(pl.lit("Rom")).otherwise("town")
    )
    with pytest.warns(UserWarning, match="Rom"):
        assert changed(model.monitor(one)) == set()
    with pytest.warns(UserWarning, match="coverage and scores are not compared"):
        assert changed(model.monitor(table.with_columns(age=pl.lit(1e300)))) == {"age"}


def test_updated_models_compare_with_the_rows_that_their_inputs_are_known_from():
    rng = np.random.default_rng(17)
    first, more = rows(rng, 300), rows(rng, 900).with_columns(size=None)
    new = rows(rng, 60, shift=0.3).drop("price")
    model = bayesprop.fit(first, target="price", method="linear", test_fraction=0.0)
    streamed, refitted = model.update(more), model.update(more, known=first)
    assert streamed.monitor(new).checks == model.monitor(new).checks
    shares = {check.what: check.learnt for check in refitted.monitor(new).checks}
    assert shares["missing values of size"] == pytest.approx(0.77, abs=0.02)


def test_notes_that_say_nothing_or_nonsense_compare_with_the_nominal(model):
    notes = model.saved.metadata
    for figure in (None, 7.0):
        held_out = {"model": {"coverage_90": figure, "crps": figure}}
        forged = notes | {"held_out": held_out, "missing": {"size": -1.0}}
        other = TableModel.of(replace(model.saved, metadata=forged))
        found = other.monitor(rows(np.random.default_rng(12), 60))
        assert all(0.0 <= check.p <= 1.0 for check in found.checks)


def test_rows_outside_the_range_are_counted(model):
    table = rows(np.random.default_rng(6), 50).with_columns(
        age=pl.when(pl.int_range(50) < 5).then(1e4).otherwise("age")
    )
    assert model.monitor(table).n_outside >= 5


def test_estimators_and_the_command_line_monitor(model, tmp_path, capfd):
    from bayesprop.cli import main

    new = rows(np.random.default_rng(7), 100, shift=1.0)
    estimator = TableRegressor(method="linear").fit(new.drop("price"), new["price"].to_pandas())
    assert changed(estimator.monitor(new.drop("price"))) == set()
    assert estimator.monitor(rows(np.random.default_rng(8), 100)).n_outcomes == 100
    path, table, same = tmp_path / "m.bayesprop", tmp_path / "new.csv", tmp_path / "same.csv"
    model.save(path)
    new.write_csv(table)
    rows(np.random.default_rng(8), 100).write_csv(same)
    assert main(["monitor", str(path), str(same), "--quiet"]) == 0
    assert "no change found" in capfd.readouterr().out
    assert main(["monitor", str(path), str(table), "--json"]) == 3
    printed = json.loads(capfd.readouterr().out)
    assert printed["alarms"][0].startswith("size changed: ")
    assert printed["checks"][1]["what"] == "size"
    assert main(["monitor", str(path), str(table)]) == 3
    assert "ALARM" in capfd.readouterr().out


def test_a_report_on_later_rows_names_the_changes(model, tmp_path):
    page, rng = tmp_path / "page.html", np.random.default_rng(10)
    model.report(page, rows(rng, 100))
    assert "Compared with the fit" not in page.read_text()
    model.report(page, rows(rng, 100, shift=1.5))
    assert "Compared with the fit, size changed: " in page.read_text()


@pytest.mark.parametrize(
    ("n", "rate", "message"),
    [
        (50, "0.1", "alarm_rate must be between 0 and 1, got 0.1"),
        (5, 0.01, "the frame has 5 rows, and at least 20 are required"),
        (50, 1.0, "alarm_rate must be between 0 and 1, got 1"),
    ],
)
def test_what_cannot_be_compared_is_refused(model, n, rate, message):
    with pytest.raises(InputError, match=message):
        model.monitor(rows(np.random.default_rng(9), n), rate)
