"""What columns say about how a table came about: rows that belong together, targets given away."""

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from bayesprop.table.column_checks import (
    explained,
    giveaways,
    likely_group,
    log_chance,
    telling,
)
from bayesprop.table.columns import fit_column
from bayesprop.table.encoding import TableEncoding


def patients(n=40, visits=6, seed=0):
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(n), visits)
    age, sex = rng.integers(20, 80, n), rng.choice(["f", "m"], n)
    return pl.DataFrame(
        {
            "patient": [f"P{k:03d}" for k in who],
            "age": age[who],
            "sex": sex[who],
            "dose": rng.uniform(0.0, 1.0, len(who)),
            "y": rng.standard_normal(n)[who] + 0.1 * rng.standard_normal(len(who)),
        }
    )


WEIGHT = np.repeat(np.random.default_rng(4).uniform(50.0, 100.0, 40), 6)
OTHERS = [pl.Series(f"c{k}", np.arange(240) * 0.5) for k in range(120)]


@pytest.mark.parametrize(
    ("frame", "column", "why"),
    [
        (patients(), "patient", "40 values, 6 rows of each, within which 'age'"),
        # Of many columns the first are looked at, wherever the target stands.
        (patients().select("y", "patient", "age", "sex").with_columns(OTHERS), "patient", "'age'"),
        # Without the name, columns that repeat together.
        (
            patients().drop("patient").with_columns(weight=WEIGHT),
            "weight",
            "'age' and 1 other column stay the same",
        ),
    ],
    ids=["named", "wide", "unnamed"],
)
def test_a_column_that_names_patients_is_found_with_what_stays_the_same(frame, column, why):
    found = likely_group(frame, "y")
    assert found is not None
    assert found.column == column
    assert why in found.why


def test_a_sum_in_two_currencies_is_no_group_nor_is_a_word_that_only_begins_as_one():
    rng = np.random.default_rng(5)
    dollars = rng.integers(1, 30, 300)
    frame = pl.DataFrame(
        {
            "Personal": rng.integers(0, 40, 300),
            "dollars": dollars,
            "euros": 0.9 * dollars,
            "debt": -dollars,
            "y": rng.standard_normal(300),
        }
    )
    assert likely_group(frame, "y") is None
    county = frame.with_columns(county=pl.Series([f"c{k}" for k in dollars]))
    found = likely_group(county.rename({"county": "place"}), "y")
    assert found is not None
    assert found.column == "place"


@pytest.mark.parametrize("seed", range(5))
def test_columns_of_independent_rows_are_no_groups(seed):
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "month": rng.integers(1, 13, 300),
            "town": rng.choice(["Ulm", "Bath", "Nice", "Rome", "Oslo", "Bonn"], 300),
            "flag": rng.integers(0, 2, 300),
            "humid": rng.integers(0, 40, 300),
            "y": rng.standard_normal(300),
        }
    )
    assert likely_group(frame, "y") is None
    named = likely_group(frame, "y", ["humid"])
    assert named is not None
    assert (named.column, named.why[:9]) == ("humid", "40 values")


def test_the_chance_of_constant_groups_is_that_of_shuffled_rows():
    rng = np.random.default_rng(1)
    column, sizes = pl.Series("a", [0] * 6 + [1] * 4), np.array([2, 1, 3])
    drawn = rng.choice([0, 1], p=[0.6, 0.4], size=(200_000, 6))
    constant = (drawn[:, 0] == drawn[:, 1]) & (np.ptp(drawn[:, 3:], axis=1) == 0)
    share = constant.mean()
    error = np.sqrt(share * (1.0 - share) / len(drawn))
    assert abs(np.exp(log_chance(column, sizes)) - share) < 4.0 * error


def test_scores_of_single_columns_are_those_of_other_libraries():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((80, 3)), rng.standard_normal(80)
    x[:, 0] += np.exp(y)
    for column, score in zip(x.T, explained(x, y), strict=True):
        both = stats.pearsonr(column, y)[0], stats.spearmanr(column, y)[0]
        assert score == pytest.approx(max(np.square(both)))
    labels = np.where(y > 0.3, "b", "a")
    for column, area in zip(x.T, telling(x, labels), strict=True):
        expected = roc_auc_score(labels == "a", column)
        assert area == pytest.approx(max(expected, 1.0 - expected))
    assert explained(np.ones((5, 1)), np.arange(5.0))[0] == 0.0
    assert np.isfinite(explained(1e200 * x, 1e200 * y)).all()


def named(frame, target="y"):
    encoding = TableEncoding.fit(frame, target)
    return giveaways(encoding, frame, encoding.rows(frame))


def test_columns_that_almost_are_the_target_are_named_and_others_not():
    rng = np.random.default_rng(3)
    y = np.exp(rng.standard_normal(100))
    honest = {"a": y + rng.standard_normal(100), "b": rng.standard_normal(100), "y": y}
    assert named(pl.DataFrame(honest)) == []
    close = y + 0.01 * rng.standard_normal(100)
    (one,) = named(pl.DataFrame({"net": close, **honest}))
    assert (one.code, one.columns) == ("column.explains", ("net",))
    assert "explains 100 % of 'y'" in str(one)
    (one,) = named(pl.DataFrame({"is low": np.where(y < 1.0, "yes", "no"), **honest}))
    assert (one.code, one.columns) == ("column.divides", ("is low",))
    assert one.terminal.endswith("--drop 'is low'")
    assert str(one).endswith("drop=['is low']")
    (one,) = named(pl.DataFrame({"net": close, "gross": 2.0 * close, **honest}))
    assert (one.code, one.columns) == ("column.explains", ("net", "gross"))
    three = np.where(y < 0.7, "low", np.where(y < 1.4, "usual", "high"))
    codes = pl.DataFrame({"code": pl.Series(three).str.slice(0, 1), "b": honest["b"], "y": three})
    assert [one.code for one in named(codes)] == ["column.tells_classes"]
    labels = np.where(y < 1.0, "ill", "well")
    (one,) = named(pl.DataFrame({"net": close, "b": honest["b"], "y": labels}))
    assert (one.code, one.columns) == ("column.tells_classes", ("net",))


@pytest.mark.parametrize(
    ("name", "is_named"),
    [("site", 1), ("Site_ID", 1), ("website", 0), ("number_customer_service_calls", 0)],
)
def test_names_of_what_rows_belong_to(name, is_named):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({name: np.repeat(np.arange(10), 20), "y": rng.standard_normal(200)})
    assert (likely_group(frame, "y") is not None) == is_named


def test_identifiers_of_which_some_come_back_are_no_numbers():
    ids = [1_000_000 + 37 * k % 9973 for k in range(100)]
    assert fit_column(pl.Series("Id", [*ids, *ids[:5]])).is_row_number
    assert not fit_column(pl.Series("Id", [*ids, *ids[:50]])).is_row_number
    assert not fit_column(pl.Series("weight", [*ids, *ids[:5]])).is_row_number
