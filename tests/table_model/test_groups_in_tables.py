"""The column of groups in a table: what a fit learns of it, and how later tables are predicted."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop.table_model.model import TableModel
from bayesprop.table_model.summary import facts_of

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
    assert "the table has no column 'cow': every row is predicted as one of a new group" in told
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
    assert known.coverage_by_group[0][:2] == ("known groups", len(table))
    assert new.coverage_by_group is None
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


def test_a_linear_model_knows_no_groups(table):
    other = bayesprop.fit(table, target="milk", group="cow", method="linear", test_fraction=0.0)
    assert other.known_groups == ()
    assert "group_share" not in other.predict(table).columns


@pytest.mark.parametrize("order", [None, ["b", "c", "a"]])
def test_classes_of_known_groups_are_predicted_by_what_is_known_of_them(table, order, tmp_path):
    rng = np.random.default_rng(1)
    of_cow = np.repeat(rng.choice(["a", "b", "c"], N), PER)
    drawn = np.where(rng.random(N * PER) < 0.8, of_cow, rng.choice(["a", "b", "c"], N * PER))
    labels = table.with_columns(milk=pl.Series(drawn))
    settings = {"hidden_layer_sizes": (5,), "n_epochs": 20, "n_members": 2, "order": order}
    fitted = bayesprop.fit(labels, target="milk", group="cow", test_fraction=0.0, **settings)
    assert len(fitted.known_groups) == 1
    rows = fitted.encode(labels)
    expected = fitted.estimator.predict_proba(rows.X, groups=labels["cow"].to_numpy())
    known, new = fitted.predict(labels), fitted.predict(labels.drop("cow"))
    classes = fitted.estimator.classes_.tolist()
    np.testing.assert_array_equal(known.select(f"p({c})" for c in classes).to_numpy(), expected)
    at = np.arange(N * PER), [classes.index(c) for c in drawn]
    of_new = new.select(f"p({c})" for c in classes).to_numpy()
    assert np.log(expected[at]).mean() > np.log(of_new[at]).mean() + 0.3
    fitted.save(tmp_path / "m.bayesprop")
    again: TableModel = bayesprop.load(tmp_path / "m.bayesprop")
    assert again.predict(labels).equals(known)


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
        at = numbers(model.encode(frame).groups, N)
        alone = [numbers(model.encode(frame[k : k + 1]).groups, 1)[0] for k in range(N)]
        np.testing.assert_array_equal(at, alone)
        assert (at[:, 0] >= 0).tolist() == [True] * (N - 1) + [False]
        assert len({*at[:-1, 0]}) == N - 1


def test_a_row_without_a_name_is_evaluated_as_of_a_new_group(model, table):
    some = table.with_columns(cow=pl.when(pl.col("time") > 5).then(pl.col("cow")))
    with pytest.warns(UserWarning, match="fitted on"):
        partly, whole = model.evaluate(some), model.evaluate(table)
    assert partly["model"]["log_likelihood"] < whole["model"]["log_likelihood"]


def pupils(nested: bool):
    """Return marks of pupils by classes, 1 to 3 in every school, and by testers."""
    rng = np.random.default_rng(1)
    school, room, tester = (rng.integers(n, size=240) for n in (8, 3, 5))
    own = rng.standard_normal((8, 3)) + 1.5 * rng.standard_normal((8, 1))
    y = own[school, room * nested] + rng.standard_normal(5)[tester] + 0.3 * rng.standard_normal(240)
    named = {"school": [f"0{k}" for k in school], "class": room + 1, "tester": tester / 2}
    hours = rng.standard_normal(240)
    frame = pl.DataFrame({**named, "hours": hours, "mark": y + 0.2 * hours})
    return frame.drop("tester") if nested else frame.drop("class")


SMALL: Any = {"hidden_layer_sizes": (5,), "n_epochs": 20, "n_members": 2}


@pytest.mark.parametrize("nested", [True, False])
def test_columns_are_nested_or_crossed(nested, tmp_path, told):
    table, inner = pupils(nested), "class" if nested else "tester"
    group = "school/class" if nested else ["school", "tester"]
    model = bayesprop.fit(table, target="mark", group=group, test_fraction=0.0, **SMALL)
    factors = (("school",), ("school", "class")) if nested else (("school",), ("tester",))
    assert model.known_groups == factors
    names = model.estimator.encoding_.groups
    assert [*map(len, names)] == ([8, 24] if nested else [8, 5])
    assert model.encoding.feature_names == ["hours"]

    model.save(tmp_path / "m.bayesprop")
    table.write_csv(tmp_path / "t.csv")
    again: TableModel = bayesprop.load(tmp_path / "m.bayesprop")
    held = facts_of(again.saved, again.notes)["known_groups"]
    assert held == {"school": 8, "school/class" if nested else "tester": 24 if nested else 5}
    known, of_file = model.predict_dist(table), again.predict_dist(str(tmp_path / "t.csv"))
    np.testing.assert_array_equal(of_file.mean, known.mean)
    np.testing.assert_array_equal(of_file.var, known.var)

    half = again.predict_dist(table.with_columns(pl.lit("9").alias(inner)))
    without = again.predict(table.drop(inner))
    np.testing.assert_array_equal(without["mean"], half.mean)
    assert f"the table has no column '{inner}': every row" in told
    new = again.predict_dist(table.drop("school", inner))
    fit = [one.log_prob(table["mark"].to_numpy()).mean() for one in (known, half, new)]
    assert fit[0] > fit[1] + 0.2 > fit[2] + 0.4
    assert (known.group_share < half.group_share).all()
    assert (half.group_share < new.group_share).all()
    assert again.evaluate(table)["model"]["log_likelihood"] == pytest.approx(fit[0])


def test_whole_groups_of_the_first_column_are_held_out():
    table = pupils(nested=False)
    model = bayesprop.fit(
        table, target="mark", group=["school", "tester"], test_fraction=0.2, **SMALL
    )
    assert model.fitted is not None
    judged, train = model.fitted.judged.rows, model.fitted.train
    assert judged is not None
    assert not {*judged.groups[:, 0]} & {*train.groups[:, 0]}
    assert {*judged.groups[:, 1]} <= {*train.groups[:, 1]}
    assert "values of school" in model.notes.judged_by
    known = model.estimator.predict_dist(judged.X, groups=judged.groups)
    assert model.notes.held_out is not None
    found = model.notes.held_out["model"]["log_likelihood"]
    assert found == pytest.approx(known.log_prob(judged.y).mean())


def test_what_several_columns_cannot_be_is_refused():
    table = pupils(nested=True)
    gap = table.with_columns(gap=pl.when(pl.col("class") > 1).then(pl.col("class")))
    for group, says in (
        ("school/clas", "no column 'clas'"),
        (["school", "mark"], "group='mark': this column is the target"),
        (["school", "gap"], "group='gap' must have a value in every row"),
    ):
        with pytest.raises(ValueError, match=says):
            bayesprop.fit(gap, target="mark", group=group, **SMALL)
    called = table.rename({"school": "a/b"})
    how: Any = SMALL | {"n_epochs": 2}
    model = bayesprop.fit(called, target="mark", group="a/b", test_fraction=0.0, **how)
    assert model.known_groups == (("a/b",),)
    linear = bayesprop.fit(
        table, target="mark", group="school/class", test_fraction=0.0, method="linear"
    )
    assert any("only the first is used" in one for one in linear.remarks)
