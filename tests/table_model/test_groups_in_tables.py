"""The column of groups in a table: what a fit learns of it, and how later tables are predicted."""

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop.table_model.model import TableModel

N, PER = 15, 12


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    cow, time = np.repeat(np.arange(N), PER), np.tile(np.arange(PER), N)
    y = rng.standard_normal(N)[cow] + 0.2 * time + 0.3 * rng.standard_normal(len(cow))
    return pl.DataFrame({"cow": [str(100 + k) for k in cow], "time": time, "milk": y})


@pytest.fixture(scope="module")
def model(table):
    settings = {"hidden_layer_sizes": (5,), "n_epochs": 40, "n_members": 2}
    return bayesprop.fit(table, target="milk", group="cow", test_fraction=0.0, **settings)


def test_the_column_is_read_from_a_later_table(model, table, tmp_path, told):
    predicted = model.predict(table)
    rows = model.encode(table)
    expected = model.estimator.predict_dist(rows.X, groups=table["cow"].to_numpy())
    np.testing.assert_array_equal(predicted["mean"], expected.mean)
    np.testing.assert_array_equal(predicted["group_share"], expected.group_share)
    np.testing.assert_array_equal(model.predict_dist(table).mean, expected.mean)
    table.write_csv(tmp_path / "again.csv")
    model.save(tmp_path / "m.bayesprop")
    again: TableModel = bayesprop.load(tmp_path / "m.bayesprop")
    np.testing.assert_array_equal(again.predict(str(tmp_path / "again.csv"))["std"], expected.std)
    assert "new group" not in told


def test_rows_without_a_known_group_are_of_new_ones(model, table, told):
    without = model.predict(table.drop("cow"))
    assert "every row is predicted as one of a new group: the table has no column 'cow'" in told
    strangers = table.with_columns(cow=pl.when(pl.col("time") > 5).then(pl.lit("9")))
    other = model.predict(strangers)
    np.testing.assert_array_equal(other["mean"], without["mean"])
    np.testing.assert_array_equal(other["group_share"], without["group_share"])
    assert (without["group_share"] > model.predict(table)["group_share"]).all()


def test_known_groups_are_evaluated_as_known(model, table):
    with pytest.warns(UserWarning, match="fitted on"):
        known = model.evaluate(table)
    with pytest.warns(UserWarning, match="fitted on"):
        new = model.evaluate(table.drop("cow"))
    gain = known["model"]["log_likelihood"] - new["model"]["log_likelihood"]
    assert gain > 0.3
    assert known["linear"] == new["linear"]


def test_a_table_of_known_groups_judges_the_fit_as_later(model, table):
    early = table.filter(pl.col("time") < 9)
    late = table.filter(pl.col("time") >= 9)
    settings = {"hidden_layer_sizes": (5,), "n_epochs": 5, "n_members": 2}
    fitted = bayesprop.fit(early, target="milk", group="cow", test=late, **settings)
    held_out = fitted.notes.held_out
    assert held_out is not None
    assert held_out["model"] == fitted.evaluate(late)["model"]
    without = fitted.evaluate(late.drop("cow"))["model"]
    assert held_out["model"]["log_likelihood"] > without["log_likelihood"]


def test_explanations_and_calibrated_intervals_are_those_of_new_groups(model, table):
    some = table[:3]
    explained = model.explain(some)
    plain = model.predict(some.drop("cow"))
    assert "group_share" not in model.predict(some, calibrate=table[:40].vstack(table[60:])).columns
    why = model.predict(some, why=True)
    assert why["why"].to_list() == explained.why
    assert plain["mean"].to_list() != why["mean"].to_list()


def test_classes_and_other_methods_know_no_groups(table):
    labels = table.with_columns(
        milk=pl.when(pl.col("milk") > 1.0).then(pl.lit("a")).otherwise(pl.lit("b"))
    )
    settings = {"hidden_layer_sizes": (5,), "n_epochs": 2, "n_members": 2}
    for other in (
        bayesprop.fit(labels, target="milk", group="cow", test_fraction=0.0, **settings),
        bayesprop.fit(table, target="milk", group="cow", method="linear", test_fraction=0.0),
    ):
        assert other.known_group is None
        assert "group_share" not in other.predict(table).columns


@pytest.mark.parametrize(
    ("labels", "later"),
    [
        ([f"{k:02d}" for k in range(N - 1)] + ["A2"], [f"{k:02d}" for k in range(N)]),
        (range(N), [k if k < N - 1 else 3.5 for k in range(N)]),
        ([k / 2 for k in range(N)], [k / 2 if k < N - 1 else 99.0 for k in range(N)]),
    ],
    ids=["zeros in front", "a fraction among integers", "halves"],
)
def test_a_label_is_read_alone_and_together(labels, later, table, tmp_path):
    settings = {"hidden_layer_sizes": (5,), "n_epochs": 2, "n_members": 2, "test_fraction": 0.0}
    named = table.with_columns(cow=pl.Series(np.repeat(list(labels), PER)))
    named.write_csv(tmp_path / "t.csv")
    model = bayesprop.fit(str(tmp_path / "t.csv"), target="milk", group="cow", **settings)
    new = table[::PER].with_columns(cow=pl.Series(list(later), strict=False))
    new.write_csv(tmp_path / "new.csv")
    numbers = model.estimator.encoding_.group_numbers
    for frame in (model.read(str(tmp_path / "new.csv")), new):
        at = numbers(model.encode(frame).group, N)
        alone = [numbers(model.encode(frame[k : k + 1]).group, 1)[0] for k in range(N)]
        np.testing.assert_array_equal(at, alone)
        assert (at >= 0).tolist() == [True] * (N - 1) + [False]
        assert len({*at[:-1]}) == N - 1


def test_a_row_without_a_name_is_evaluated_as_of_a_new_group(model, table):
    some = table.with_columns(cow=pl.when(pl.col("time") > 5).then(pl.col("cow")))
    with pytest.warns(UserWarning, match="fitted on"):
        partly, whole = model.evaluate(some), model.evaluate(table)
    assert partly["model"]["log_likelihood"] < whole["model"]["log_likelihood"]
