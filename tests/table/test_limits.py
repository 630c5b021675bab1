"""Limits of detection among numbers: the number, and which side of it, in columns beside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from stored_encoding import stored_and_back

from bayesprop.table.columns import CategoryColumn, NumericColumn, fit_column
from bayesprop.table.encoded import ends_of
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import Message, TableError

NUMBERS = [f"{0.5 + 0.13 * k:.2f}" for k in range(40)]


def fitted(values: Sequence[str | None]):
    return fit_column(pl.Series("lead", values, pl.String))


def numeric(values: Sequence[str | None]) -> NumericColumn:
    column = fitted(values).column
    assert isinstance(column, NumericColumn)
    return column


def test_a_limit_is_its_number_and_its_side():
    column = numeric([*NUMBERS, "<0.5", "< 0.2", ">=9.5", None] * 2)
    assert column.feature_names == ["lead", "lead is below a limit", "lead is above a limit"]
    new = pl.Series("lead", ["<0.5", " ≤ 0.1 ", ">12", "3", None, "0.7"])
    expected = [[0.5, 1, 0], [0.1, 1, 0], [12, 0, 1], [3, 0, 0], [np.nan] * 3, [0.7, 0, 0]]
    np.testing.assert_array_equal(column.encode(new).X, expected)
    np.testing.assert_array_equal(column.encode(new.cast(pl.Categorical)).X, expected)
    plain = column.encode(pl.Series("lead", [3.0, None]))
    np.testing.assert_array_equal(plain.X, [[3, 0, 0], [np.nan] * 3])


def test_what_is_read_is_said():
    remarks = fitted([*NUMBERS, "<0.5", "<0.5"]).remarks
    assert remarks == (Message.of("column.limits", "lead", example="<0.5", n=2),)


@pytest.mark.parametrize(
    ("numbers", "limit", "expected"),
    [
        ([f"{1000 + 7 * k:,} mg" for k in range(40)], "<1,000 mg", 1000.0),
        ([f"€ {3 + k}" for k in range(40)], ">€ 90", 90.0),
        ([f"{k},{k % 10}" for k in range(40)], "<0,5", 0.5),
    ],
)
def test_limits_are_written_as_the_numbers_are(numbers, limit, expected):
    column = numeric([*numbers, *[limit] * 12])
    np.testing.assert_array_equal(column.encode(pl.Series("lead", [limit])).X, [[expected, 1.0]])


@pytest.mark.parametrize("values", [["<5", "5", "10", ">10"], ["<18", "18-30", "31-65", ">65"]])
def test_few_levels_stay_levels(values):
    column = fitted(values * 20).column
    assert isinstance(column, CategoryColumn)
    assert set(column.levels) == set(values)


def test_a_side_that_training_did_not_have_is_missing():
    encoded = numeric([*NUMBERS, "<0.5", "<0.5"]).encode(pl.Series("lead", [">7", "<0.3"]))
    np.testing.assert_array_equal(encoded.X, [[np.nan, np.nan], [0.3, 1.0]])
    unknown = Message.of("column.unknown_limits", "lead", example=">7", n=1)
    assert encoded.warnings[0] == unknown
    assert np.isnan(numeric(NUMBERS).encode(pl.Series("lead", ["<0.3"])).X).all()


def test_words_beside_limits_are_missing_still():
    column = numeric([*NUMBERS * 2, "<0.5", "<0.5", "broken", "<LOD"])
    assert column.words == ("<LOD", "broken")
    encoded = column.encode(pl.Series("lead", ["broken", "<LOD", "<0.5"])).X
    np.testing.assert_array_equal(encoded, [[np.nan, np.nan], [np.nan, np.nan], [0.5, 1.0]])


def test_limits_of_a_target_are_kept_for_later_tables():
    numbers = [f"{0.7 + 0.1 * k:.1f} mg" for k in range(30)]
    y = [*numbers, *["<0.6 mg"] * 6, *["<0.8 mg"] * 2, *[">= 3.5 mg"] * 2]
    frame = pl.DataFrame({"x": range(len(y)), "y": y})
    encoding = TableEncoding.fit(frame, "y")
    assert encoding.limits == [0.8, 3.5]
    assert "0.8 stands for 0.8 or less, 3.5 stands for 3.5 or more" in str(encoding.report)
    expected = [np.clip(0.7 + 0.1 * k, 0.8, 3.5) for k in range(30)]
    np.testing.assert_allclose(encoding.target(frame), [*expected, *[0.8] * 8, 3.5, 3.5])
    again = stored_and_back(encoding)
    later = pl.DataFrame({"x": [1, 2, 3], "y": ["<0.3 mg", "0.4 mg", "9 mg"]})
    np.testing.assert_array_equal(again.target(later), [0.8, 0.8, 3.5])


def test_one_wide_limit_does_not_hide_what_was_measured():
    y = [*(f"{0.5 + 0.1 * k:.1f}" for k in range(60)), *["<0.5"] * 9, *["<0.8"] * 2, "<50", ">1"]
    frame = pl.DataFrame({"x": range(len(y)), "y": y})
    encoding = TableEncoding.fit(frame, "y")
    # 0.5 costs the three rows of wider limits, 0.8 three measurements and the one of 50; a limit
    # above at 1 would cost nearly all.
    assert encoding.limits == [0.5]
    assert encoding.marks is not None
    assert "4 rows with another limit left out" in str(encoding.marks.remarks)
    later = pl.DataFrame({"x": [1, 2, 3, 4], "y": ["<0.4", "<0.7", "0.9", ">3"]})
    np.testing.assert_array_equal(encoding.target(later), [0.5, 0.9])


def by_hand(measured: list[float], limits: list[float]) -> float | None:
    """The limit that costs least rows, of equal ones the largest."""
    cost = {a: sum(m < a for m in measured) + sum(b > a for b in limits) for a in limits}
    least = min(cost.values())
    return max(a for a in limits if cost[a] == least) if least < len(limits) else None


def test_the_limit_that_costs_least():
    rng = np.random.default_rng(0)
    for _ in range(50):
        measured, limits = rng.integers(1, 20, 30) / 2.0, rng.integers(1, 20, 8) / 2.0
        numbers = pl.Series([*measured, *limits])
        below, above = (pl.Series([None] * 30 + [one] * 8) for one in ("below", "above"))
        low = by_hand([*measured], [*limits])
        assert ends_of(below, numbers) == (low, None)
        assert ends_of(above, -numbers) == (None, None if low is None else -low)


def test_limits_that_leave_nothing_are_refused():
    side = pl.Series([None, *["below"] * 3, *["above"] * 3], dtype=pl.String)
    numbers = pl.Series("y", [5.0, 8.0, 8.0, 8.0, 2.0, 2.0, 2.0])
    with pytest.raises(
        TableError, match="a lower limit of 8 and an upper limit of 2, and no value"
    ):
        ends_of(side, numbers)
    frame = pl.DataFrame({"x": range(40), "y": [f"<{k}" for k in range(40)]})
    with pytest.raises(TableError, match="target 'y' has only limits: it needs measured values"):
        TableEncoding.fit(frame, "y")
