"""Text of many levels: what they tell of the target, never by the row's own target."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from bayesprop.table.columns import fit_column
from bayesprop.table.division import HoldOut, divide
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import Message
from bayesprop.table.supervised import N_FOLDS, folds_of

N, N_TOWNS = 400, 60


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    town = rng.integers(0, N_TOWNS, N)
    return pl.DataFrame(
        {
            "x": rng.normal(size=N),
            "town": [f"T{k:02d}" if row % 40 else None for row, k in enumerate(town)],
            "price": rng.normal(size=N_TOWNS)[town] + rng.normal(size=N),
        }
    )


def by_hand(frame, level):
    """Shrink the mean of a level by empirical Bayes (Micci-Barreca 2001, eq. 3 and 8)."""
    known = frame.filter(pl.col("town").is_not_null())
    y, own = known["price"].to_list(), known.filter(town=level)["price"].to_list()
    prior = sum(y) / len(y)
    prior_var = sum((one - prior) ** 2 for one in y) / len(y)
    mean = sum(own) / len(own)
    own_var = sum((one - mean) ** 2 for one in own) / len(own)
    weight = prior_var * len(own) / (prior_var * len(own) + own_var)
    return weight * mean + (1.0 - weight) * prior


def test_levels_are_shrunken_means_and_log_rows(frame):
    encoding = TableEncoding.fit(frame, "price")
    assert encoding.feature_names == ["x", "town (mean price)", "town (log rows)"]
    assert encoding.text_columns == ("town",)
    own = {"n": 60, "labels": "mean price"}
    assert encoding.report[0] == Message.of("column.many_levels", "town", **own)
    new = pl.DataFrame({"x": 0.0, "town": ["T07", "T31", "Paris", None]})
    X, warnings = encoding.encode(new)[:2]
    means = [by_hand(frame, "T07"), by_hand(frame, "T31"), np.nan, np.nan]
    np.testing.assert_allclose(X[:, 1], means, rtol=1e-12)
    n = [frame["town"].eq(level).sum() for level in ("T07", "T31")]
    np.testing.assert_allclose(X[:, 2], [*np.log1p(n), np.nan, np.nan])
    assert warnings == [Message.of("column.unknown_levels", "town", n=1, levels="'Paris'")]


@pytest.mark.parametrize("group", [None, "who"])
def test_the_own_target_of_a_row_and_its_fold_never_reaches_it(frame, group):
    frame = frame.with_columns(who=np.arange(N) // 7).drop("x" if group else "who")
    parts = divide(frame, "price", None, HoldOut(0.2, 0, group))
    encoding = parts.encoding()
    train, test = parts.encoded(encoding)
    learnt = parts.frame.filter(~parts.is_test)
    labels = None if parts.group is None else parts.group[~parts.is_test]
    fold = folds_of(len(learnt), labels)
    assert len(np.unique(fold)) == N_FOLDS
    if labels is not None:
        assert all(len(np.unique(fold[labels == one])) == 1 for one in labels)
    place = encoding.feature_names.index("town (mean price)")
    for row in np.flatnonzero(learnt["town"].is_not_null())[[0, 17, 200]].tolist():
        others = learnt.filter(fold != fold[row])
        level = learnt["town"][row]
        np.testing.assert_allclose(train.X[row, place], by_hand(others, level), rtol=1e-12)
    level = parts.frame.filter(parts.is_test)["town"][0]
    np.testing.assert_allclose(test.X[0, place], by_hand(learnt, level), rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_have_a_share_each(frame, n_classes):
    kinds = pl.Series("kind", np.array(["a", "b", "c"])[np.arange(N) % n_classes])
    encoding = TableEncoding.fit(frame.drop("price").with_columns(kinds), "kind")
    shares = [f"town (share of {kind})" for kind in ("abc"[:n_classes], "b")[n_classes == 2]]
    assert encoding.feature_names == ["x", *shares, "town (log rows)"]
    known = encoding.columns[1].encode(frame["town"].drop_nulls()).X
    is_b = (kinds == "b").cast(pl.Float64)
    one = TableEncoding.fit(frame.with_columns(price=is_b), "price", "regression")
    places = shares.index("town (share of b)")
    expected = one.columns[1].encode(frame["town"].drop_nulls()).X[:, 0]
    np.testing.assert_allclose(known[:, places], expected, rtol=1e-12)


def test_a_column_whose_rows_are_all_in_one_group_is_missing_where_nothing_tells():
    town = [f"T{k % 60}" if k < 240 else None for k in range(300)]
    frame = pl.DataFrame({"x": range(300), "town": town, "y": np.arange(300.0)})
    encoding = TableEncoding.fit(frame, "y")
    groups = np.array(["a"] * 240 + ["b"] * 60)
    X = encoding.cross_fitted(encoding.encode(frame).X, frame, groups)
    assert np.isnan(X[:, 1:3]).all()


def test_few_rows_a_level_are_too_few_for_columns_of_their_own():
    levels = [f"T{k % 20}" for k in range(30)]
    frame = pl.DataFrame({"town": levels, "y": np.arange(30.0)})
    assert TableEncoding.fit(frame, "y").feature_names == ["town (mean y)", "town (log rows)"]
    frame = pl.DataFrame({"town": levels * 2, "y": np.arange(60.0)})
    assert len(TableEncoding.fit(frame, "y").feature_names) == 20


@pytest.mark.parametrize(
    ("name", "values", "is_text"),
    [
        ("zip", [95815, 95823, 1002] * 9, True),
        ("Postal Code", [95815.0, None, 1002.0] * 9, True),
        ("PLZ", ["10115", "80331"] * 9, True),
        ("zip_code", ["01752-4603", "94105", "02111"] * 9, True),
        ("zip", [1, 2, 3] * 9, False),
        ("postcode", [1000.5, 2000.0] * 9, False),
        ("ship", [95815, 95823] * 9, False),
    ],
)
def test_codes_of_post_are_text(name, values, is_text):
    fitted = fit_column(pl.Series(name, values))
    assert hasattr(fitted.column, "levels") == is_text
    if is_text:
        assert fitted.remarks == (Message.of("column.post_codes", name),)
        assert not fitted.questions


def test_codes_of_post_that_name_the_rows_are_dropped_as_other_text():
    fitted = fit_column(pl.Series("plz", np.arange(10115, 99999, 700)))
    assert fitted.remarks == (Message.of("dropped.names", "plz", n=129, n_rows=129),)
    assert not fitted.questions


def test_levels_that_are_learnt_beside_a_sample_are_average_ones(frame):
    encoding = TableEncoding.fit(frame, "price")
    new = pl.DataFrame({"x": 0.0, "town": ["T07", "Paris", None], "price": 1.0})
    X = encoding.rows(new, averages_unseen=True).X
    np.testing.assert_array_equal(X[[0, 2]], encoding.rows(new).X[[0, 2]])
    np.testing.assert_allclose(X[1], [0.0, frame.drop_nulls("town")["price"].mean(), 0.0])
