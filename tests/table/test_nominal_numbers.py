"""Whole numbers that name things: told from those that count, and used for what they tell."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest
from stored_encoding import stored_and_back

from bayesprop.table.columns import fit_column
from bayesprop.table.division import HoldOut, divide
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import Message
from bayesprop.table.supervised import (
    explained_by_curve,
    is_nominal,
    may_be_nominal,
    nominal_columns_of,
    residuals_without,
)
from bayesprop.table.target_encoded import TargetEncodedColumn
from bayesprop.table.values import are_codes

N = 720
OF_PLOT = ["plot", "plot (mean crop)", "plot (log rows)"]


def plots(seed, spread=1.0, n_plots=60):
    """Rows of plots whose levels differ by `spread`, with noise of 1."""
    rng = np.random.default_rng(seed)
    place = rng.permutation(np.arange(N) % n_plots)
    level = spread * rng.standard_normal(n_plots)
    return 1.0 + place, level[place] + rng.standard_normal(N)


def by_hand(x, y):
    """Gain of each row from the others of its number beyond a line, one sum at a time."""
    y = (y - y.mean()) / y.std()
    left = y - np.polyval(np.polyfit(x, y, 1), x)
    rows = [np.flatnonzero(x == number) for number in np.unique(x)]
    n, n_numbers = len(x), len(rows)
    within = sum(len(own) * left[own].var() for own in rows) / (n - n_numbers)
    between = sum(len(own) * left[own].mean() ** 2 for own in rows) / n - within * n_numbers / n
    gains = np.empty(n)
    for own in rows:
        for i in own:
            others = left[own[own != i]]
            predicted = others.sum() / (len(others) + within / max(between, 1e-12))
            gains[i] = left[i] ** 2 - (left[i] - predicted) ** 2
    sums = [np.sum(gains[own] - gains.mean()) for own in rows]
    return gains.mean(), np.sqrt(np.sum(np.square(sums))) / n


@pytest.mark.parametrize(
    ("spread", "possible"), [(0.2, {False}), (0.4, {False, True}), (1.0, {True})]
)
def test_what_the_rows_of_a_number_tell_is_that_by_hand(spread, possible, monkeypatch):
    monkeypatch.setattr("bayesprop.table.supervised._MOST_KNOTS", 2)  # a line
    answers = set()
    for seed in range(10):
        x, y = plots(seed, spread)
        gain, error = by_hand(x, y)
        expected = bool(gain - 1.5 * error > 0.05)
        told = np.corrcoef(x, y)[0, 1] ** 2
        assert is_nominal(x, y[:, None]) == (expected and gain > told)
        answers.add(expected)
    assert answers == possible


def test_chance_and_curves_name_nothing():
    rng = np.random.default_rng(0)
    for _ in range(200):
        x, noise = rng.integers(18, 80, N).astype(float), rng.standard_normal((N, 1))
        assert not is_nominal(x, noise)
        assert not is_nominal(x, np.sin(x[:, None] / 10.0) + 0.1 * noise)
        assert not is_nominal(x, np.exp(2.0 * noise))


def test_what_may_name():
    x, _ = plots(0)
    assert may_be_nominal(x)
    assert may_be_nominal(np.where(np.arange(N) % 9, x, np.nan))
    assert not may_be_nominal(x + 0.5)
    assert not may_be_nominal(x + 2.0**53)
    assert not may_be_nominal(np.arange(N) % 5.0)
    assert not may_be_nominal(np.arange(N) + 0.0)
    assert not may_be_nominal(np.full(N, np.nan))


def test_gaps_and_constant_targets_are_no_trouble():
    x, y = plots(0, spread=2.0)
    assert is_nominal(np.where(np.arange(N) % 9, x, np.nan), y[:, None])
    assert not is_nominal(x, np.zeros((N, 1)))


def test_what_other_columns_leave():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((N, 4)), rng.standard_normal((N, 2))
    away = (X - X.mean(axis=0)) / X.std(axis=0)
    # Ridge regression is least squares with a row more a column.
    centred = (y - y.mean(axis=0)) / y.std(axis=0)
    longer = np.vstack([away[:, :3], 2.0 * np.eye(3)])
    slopes = np.linalg.lstsq(longer, np.vstack([centred, np.zeros((3, 2))]))[0]
    encoded = {"two": X[:, :2], "one": X[:, 2:3], "own": X[:, 3:]}
    left = residuals_without(encoded, y, ["own"])["own"]
    np.testing.assert_allclose(left, centred - away[:, :3] @ slopes)
    gap = np.where(np.arange(N) < 5, np.nan, X[:, 2])
    filled = np.where(np.arange(N) < 5, X[5:, 2].mean(), X[:, 2])
    with_gaps, without = (encoded | {"one": one[:, None]} for one in (gap, filled))
    left = [residuals_without(one, y, ["own"])["own"] for one in (with_gaps, without)]
    np.testing.assert_allclose(*left)
    alone = residuals_without({"own": X[:, 3:]}, y, ["own"])["own"]
    np.testing.assert_allclose(alone, centred)
    many = {"own": X, "many": rng.standard_normal((N, 301))}
    np.testing.assert_allclose(residuals_without(many, y, ["own"])["own"], centred)


def test_a_size_in_few_steps_names_nothing():
    size = np.array([30, 45, 60, 75, 90, 120] * 10)
    town = ["Bath", "Ulm", None] * 20
    rent = [k % 7 + 10 * size for k, size in enumerate([3, 4, 6, 7, 9, 12] * 10)]
    frame = pl.DataFrame({"size": size, "town": town, "rent": rent})
    assert TableEncoding.fit(frame, "rent").nominal_columns == ()


def test_what_other_columns_say_hides_no_names():
    x, y = plots(1, n_plots=20)
    day = np.arange(N) % 36
    frame = pl.DataFrame({"plot": x, "day": day.astype(float)})
    fitted = [fit_column(column) for column in frame]
    grown = (y + 2.0 * day)[:, None]
    assert not is_nominal(x, grown)
    assert nominal_columns_of(fitted, frame, grown) == {"plot"}
    assert nominal_columns_of(fitted, frame, np.full((N, 1), np.nan)) == set()


@pytest.fixture(scope="module")
def frame():
    return table_of(60)


def table_of(n_plots):
    x, y = plots(3, n_plots=n_plots)
    plot = pl.Series("plot", x).cast(pl.Int64)
    return pl.DataFrame({"plot": plot, "dose": np.arange(N) % 10, "crop": y})


def test_a_number_stands_beside_what_it_tells(frame):
    encoding = TableEncoding.fit(frame, "crop")
    assert encoding.feature_names == [*OF_PLOT, "dose"]
    own = {"n": 60, "labels": "mean crop"}
    assert encoding.report == [Message.of("column.many_names", "plot", **own)]
    assert encoding.text_columns == ()
    new = pl.DataFrame({"plot": [7.0, 39.0, 7.5, 99.0, None], "dose": 0})
    X, warnings = encoding.encode(new)[:2]
    words = frame.with_columns(pl.col("plot").cast(pl.String))
    one = TargetEncodedColumn.fit(words["plot"], frame[["crop"]].to_numpy(), ["mean crop"])
    told = one.encode(pl.Series("plot", ["7", "39", "x", "y", None])).X
    np.testing.assert_array_equal(X[:, 1:3], told)
    np.testing.assert_array_equal(X[:, 0], [7.0, 39.0, 7.5, 60.0, np.nan])
    assert warnings == [
        Message.of("column.unknown_levels", "plot", n=2, levels="'7.5', '99'"),
        Message.of("column.new_gaps", "plot", n=1),
    ]


def test_few_numbers_stand_beside_a_column_for_each():
    encoding = TableEncoding.fit(table_of(30), "crop")
    names = [f"plot={number}" for number in sorted(map(str, range(1, 31)))]
    assert encoding.feature_names == ["plot", *names, "dose"]
    assert [one.code for one in encoding.report] == ["column.names"]
    assert encoding.text_columns == ()
    X = encoding.encode(pl.DataFrame({"plot": [7.0, 31.0], "dose": 0})).X
    assert X[0, 0] == 7.0
    np.testing.assert_array_equal(X[0, 1:31], np.array(names) == "plot=7")
    assert X[1, 0] == 30.0
    assert np.isnan(X[1, 1:31]).all()


@pytest.mark.parametrize("n_plots", [30, 60])
@pytest.mark.parametrize("kind", [pl.Float32, pl.UInt8, pl.Decimal(10, 2), pl.Int128])
def test_numbers_of_any_type_are_the_same_levels(n_plots, kind):
    frame = table_of(n_plots)
    encoding = TableEncoding.fit(frame, "crop")
    other = frame.with_columns(pl.col("plot").cast(kind))
    assert TableEncoding.fit(other, "crop") == encoding
    np.testing.assert_array_equal(encoding.encode(other).X, encoding.encode(frame).X)


def test_means_need_ten_rows_of_each_number_or_a_thousand_in_all(frame):
    assert TableEncoding.fit(frame[:600], "crop").feature_names == [*OF_PLOT, "dose"]
    assert TableEncoding.fit(frame[:590], "crop").feature_names == ["plot", "dose"]
    x = np.repeat(np.arange(500), 3)
    y = np.random.default_rng(0).standard_normal(500)[x]
    long = pl.DataFrame({"plot": x, "crop": y + 0.1 * np.arange(len(x)) % 3})
    assert len(TableEncoding.fit(long, "crop").feature_names) == 3
    assert len(TableEncoding.fit(long[:990], "crop").feature_names) == 1


def test_a_fold_without_other_rows_tells_nothing(frame):
    column = TableEncoding.fit(frame, "crop").columns[0]
    plot = pl.Series("plot", np.where(np.arange(N) < 600, np.nan, frame["plot"]))
    values = column.cross_fitted(plot, frame[["crop"]].to_numpy(), np.arange(N) // 600)
    np.testing.assert_array_equal(values[:, 0], plot)
    assert np.isnan(values[:, 1:]).all()


def test_marked_gaps_and_money_stay_what_they_are(frame):
    gap = np.arange(N) % 6 == 0
    plot = pl.Series("plot", np.where(gap, np.nan, frame["plot"]), nan_to_null=True)
    with_gaps = frame.with_columns(plot, crop=frame["crop"] + 5.0 * gap)
    encoding = TableEncoding.fit(with_gaps, "crop")
    assert encoding.feature_names[:4] == [*OF_PLOT, "plot is missing"]
    X = encoding.encode(with_gaps).X
    assert np.isnan(X[gap, :3]).all()
    np.testing.assert_array_equal(X[:, 3], gap)
    money = frame.with_columns(plot="€ " + pl.col("plot").cast(pl.String))
    assert TableEncoding.fit(money, "crop").feature_names == ["plot", "dose"]


@pytest.mark.parametrize("asked", [{}, {"time": "plot"}, {"exposure": "plot"}, {"group": "dose"}])
def test_time_and_exposure_name_nothing_nor_do_numbers_of_new_groups(frame, asked):
    encoding = divide(frame, "crop", None, HoldOut(0.1, **asked)).encoding()
    assert ("plot (mean crop)" in encoding.feature_names) == (not asked)
    assert "plot" in encoding.feature_names


def test_a_number_of_rows_that_tells_is_asked_about():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"id": range(N), "x": rng.standard_normal(N)})
    noise = rng.standard_normal(N)
    silent = TableEncoding.fit(frame.with_columns(y=noise), "y")
    assert silent.report == [Message.of("dropped.row_numbers", "id")]
    assert silent.questions == []
    telling = TableEncoding.fit(frame.with_columns(y=noise + np.arange(N) / 200.0), "y")
    share = explained_by_curve(np.arange(N) + 0.0, (noise + np.arange(N) / 200.0)[:, None])
    assert telling.feature_names == ["x"]
    assert telling.questions == telling.report
    (asked,) = telling.report
    assert (asked.code, asked.columns) == ("dropped.telling_row_numbers", ("id",))
    assert asked.values["share"] == pytest.approx(share)


def test_a_curve_is_least_squares_on_hat_functions():
    rng = np.random.default_rng(0)
    x = rng.permutation(N) + 0.0
    y = np.sin(x / 100.0) + rng.standard_normal(N)
    knots = np.array([0, 89, 179, 269, 359, 449, 539, 629, 719])
    hats = np.column_stack([np.interp(x, knots, one) for one in np.eye(9)])
    rest = y - hats @ np.linalg.lstsq(hats, y)[0]
    expected = 1.0 - np.sum(rest**2) / np.sum((y - y.mean()) ** 2)
    np.testing.assert_allclose(explained_by_curve(x, y[:, None]), expected, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1.0, 1e20, 1e200])
def test_units_change_nothing(frame, scale):
    moved = frame.with_columns(crop=scale * pl.col("crop"), dose=scale * pl.col("dose"))
    with np.errstate(all="raise", under="ignore"):
        assert TableEncoding.fit(moved, "crop").nominal_columns == ("plot",)
        share = explained_by_curve(np.arange(N) + 0.0, scale * np.arange(N)[:, None])
    np.testing.assert_allclose(share, 1.0)


def test_what_a_curve_tells():
    rng = np.random.default_rng(0)
    x = rng.permutation(N) + 0.0
    line = np.column_stack([rng.standard_normal(N), 3.0 * x / N + rng.standard_normal(N)])
    slope, start = np.polyfit(x, line[:, 1], 1)
    by_line = 1.0 - np.var(line[:, 1] - start - slope * x) / np.var(line[:, 1])
    assert by_line < explained_by_curve(x, line) < by_line + 0.03
    assert explained_by_curve(x, line[:, :1]) == 0.0
    assert explained_by_curve(x[:9], line[:9]) == 0.0
    assert explained_by_curve(x, np.ones((N, 2))) == 0.0
    by_chance = [explained_by_curve(x, rng.standard_normal((N, 3))) for _ in range(300)]
    assert not any(by_chance)


@pytest.mark.parametrize("n_plots", [30, 60])
def test_words_beside_numbers_that_name_are_missing(n_plots):
    rng = np.random.default_rng(5)
    plot = rng.integers(0, n_plots, 1200)
    crop = rng.normal(size=n_plots)[plot] + 0.3 * rng.normal(size=1200)
    words = pl.Series(plot).cast(pl.String).set(pl.Series(np.arange(1200) % 40 == 0), "lost")
    frame = pl.DataFrame({"plot": words, "dose": rng.normal(size=1200), "crop": crop})
    encoding = TableEncoding.fit(frame, "crop")
    assert encoding.nominal_columns == ("plot",)
    again = stored_and_back(encoding)
    X = again.encode(frame).X
    n_own = len(again.columns[0].value_names)
    averaged = again.rows(frame, averages_unseen=True).X
    for matrix in (X, again.cross_fitted(X, frame, None), averaged):
        assert (np.isnan(matrix[:, :n_own]).all(axis=1) == (words == "lost").to_numpy()).all()
    for stray in ([-np.inf, np.inf], ["soon", "lost"], [[1], [2]], [b"1", None]):
        odd = frame.head(2).with_columns(pl.Series("plot", stray))
        assert np.isnan(again.rows(odd, averages_unseen=True).X[:, :n_own]).all()


@pytest.mark.parametrize(
    ("first", "kind"),
    [*product((2**53, 2**63), (pl.UInt64, pl.String)), (10**25, pl.String)],
)
def test_whole_numbers_that_floats_merge_are_names_of_their_own(first, kind):
    assert are_codes(pl.Series(["0123", "9" * 25, "9" * 24 + "8"]))
    places = np.random.default_rng(0).integers(0, 4, 80)
    ids = pl.Series("id", [str(first + int(k)) for k in places]).cast(kind)
    frame = pl.DataFrame({"id": ids, "y": 10.0 * places})
    encoding = TableEncoding.fit(frame, "y")
    same = stored_and_back(encoding).encode(frame.head(20)).X
    assert np.array_equal(np.argmax(same, axis=1), places[:20])
