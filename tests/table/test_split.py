"""Which rows are held out."""

import datetime
from collections import Counter

import numpy as np
import polars as pl
import pytest

import bayesprop
from bayesprop.table import columns
from bayesprop.table.division import HoldOut, divide, moments_of, shares
from bayesprop.table.errors import TableError


def test_shares_of_classes_by_largest_remainders():
    rng = np.random.default_rng(0)
    assert shares(np.array([1, 1, 8]), 2).tolist() == [0, 0, 2]
    assert shares(np.array([5, 5]), 1).tolist() == [1, 0]
    for _ in range(200):
        counts = rng.integers(1, 40, size=rng.integers(2, 8))
        n_test = int(rng.integers(0, counts.sum() - 1))
        taken = shares(counts, n_test)
        assert np.all((taken >= 0) & (taken < counts))
        assert taken.sum() == min(n_test, counts.sum() - len(counts))


def visits(n=60):
    rng = np.random.default_rng(1)
    days = [f"2024-{1 + k // 28 % 12:02d}-{1 + k % 28:02d}" for k in range(n)]
    order = rng.permutation(n)
    return pl.DataFrame(
        {
            "patient": [f"P{k % 12}" for k in order],
            "day": [days[k] for k in order],
            "year": 2000 + order // 6,
            "x": rng.standard_normal(n),
            "y": rng.standard_normal(n),
        }
    )


def test_whole_groups_are_held_out_and_their_column_is_no_feature():
    frame = visits().drop("day")
    parts = divide(frame, "y", None, HoldOut(0.25, seed=3, group="patient"))
    assert parts.counts == {"train": 45, "held_out": 15}
    assert parts.group is not None
    train, test = (set(parts.group[at]) for at in (~parts.is_test, parts.is_test))
    assert not train & test
    assert len(train | test) == 12
    encoding = parts.encoding()
    assert "patient" not in " ".join(encoding.feature_names)
    learnt, judged = parts.encoded(encoding)
    assert set(learnt.group) == train
    assert set(judged.group) == test
    other = divide(frame, "y", None, HoldOut(0.25, seed=4, group="patient"))
    assert not np.array_equal(parts.is_test, other.is_test)


@pytest.mark.parametrize("time", ["day", "year"])
def test_the_latest_rows_are_held_out_and_no_moment_is_on_both_sides(time):
    frame = visits() if time == "day" else visits().drop("day")
    parts = divide(frame, "y", None, HoldOut(0.2, time=time))
    times = frame[time].to_numpy()
    assert times[~parts.is_test].max() < times[parts.is_test].min()
    assert parts.counts["held_out"] == 12
    assert (time in parts.encoding().feature_names) == (time == "year")


DAYS = [datetime.date(2024, 1, 3), datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)]


@pytest.mark.parametrize(
    "times",
    [
        ["2024-01-03", "2024-01-01", "2024-02-01"],
        ["2024-01-01 10:30", "2024-01-01 09:00", "2024-01-02 00:00"],
        ["31.12.2023", "30.06.2023", "01.02.2024"],
        ["2", "1", "3"],
        [3.5, 1.0, 7.0],
        DAYS,
    ],
    ids=str,
)
def test_numbers_and_dates_order_rows(times):
    moments = moments_of(pl.Series("t", times))
    np.testing.assert_array_equal(np.argsort(np.argsort(moments)), [1, 0, 2])


@pytest.mark.parametrize(
    ("hold_out", "message"),
    [
        (HoldOut(0.1, group="nobody"), "no column 'nobody'"),
        (HoldOut(0.1, group="y"), "group='y': this column is the target"),
        (HoldOut(0.1, group="patient", time="year"), "give one of them"),
        (HoldOut(0.1, time="patient"), "must hold numbers or dates"),
        (HoldOut(0.1, group="gap"), "got no value in data row"),
        (HoldOut(0.1, time="gap"), "got no value in data row"),
        (HoldOut(0.1, group="two"), "must have at least 3 different values, got 2"),
        (HoldOut(0.1, time="same"), "must differ between rows"),
        (HoldOut(0.95), "0 to 0.9, got 0.95"),
    ],
    ids=str,
)
def test_what_cannot_hold_rows_out_is_refused(hold_out, message):
    gap = [1, 2, None, *range(57)]
    frame = visits().with_columns(
        gap=pl.Series(gap), two=pl.Series(["a", "b"] * 30), same=pl.lit(1)
    )
    with pytest.raises(TableError, match=message):
        divide(frame.drop("day"), "y", None, hold_out)


def test_a_class_that_only_held_out_groups_have_is_refused():
    frame = pl.DataFrame({"g": np.arange(30) // 3, "x": np.arange(30.0), "y": ["a", "b"] * 15})
    frame = frame.with_columns(y=pl.when(pl.col("g") == 4).then(pl.lit("c")).otherwise("y"))
    messages = set()
    for seed in range(30):
        try:
            divide(frame, "y", None, HoldOut(0.1, seed=seed, group="g"))
        except TableError as error:
            messages.add(str(error))
    (message,) = messages
    assert "no training row of 'c' of 'y' is left" in message


def test_columns_to_leave_out_stand_in_a_list_unless_one_is_called_so():
    frame = visits().with_columns(pl.lit(1.0).alias("year,x"))
    for drop, others in (
        (("patient, day", "x"), ["year", "y", "year,x"]),
        (("year,x",), ["patient", "day", "year", "x", "y"]),
    ):
        assert divide(frame, "y", None, HoldOut(drop=drop)).frame.columns == others
    with pytest.raises(TableError, match="no column 'yeer' in the table; did you mean 'year'"):
        divide(frame, "y", None, HoldOut(drop=("x,yeer",)))


def test_folds_hold_every_row_out_once():
    frame = visits().drop("day").with_columns(y=pl.Series(["a", "b", "a"] * 19 + ["c", "c", "d"]))
    parts = divide(frame, "y", None, HoldOut(0.0))
    folds = parts.in_folds(5, 0)
    held = np.sum([fold.is_test for fold in folds], axis=0)
    np.testing.assert_array_equal(held, [1] * 59 + [0])  # the only row of d is always learnt
    grouped = divide(visits().drop("day"), "y", None, HoldOut(0.0, group="patient")).in_folds(5, 0)
    assert len(grouped) == 5
    for fold in grouped:
        assert fold.group is not None
        assert not set(fold.group[fold.is_test]) & set(fold.group[~fold.is_test])


@pytest.mark.parametrize("asked", [{}, {"group": "patient"}, {"test_fraction": 0.2}])
def test_a_column_is_understood_once_in_a_fit_however_often_it_is_judged(asked, monkeypatch):
    counts, understand = Counter(), columns.fit_column

    def counted(series):
        counts[series.name] += 1
        return understand(series)

    monkeypatch.setattr(columns, "fit_column", counted)
    bayesprop.fit(visits().drop("day"), target="y", method="linear", **asked)
    aside = {"y", asked.get("group")}
    assert counts == dict.fromkeys({*visits().drop("day").columns} - aside, 1)
