"""What is missing in a table: decided one column at a time, or given."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesprop.table.values import MARKS, MISSING, decided, is_missing

NUMBERS = ["1", "2.5", "3"]
WORDS, CODES = ["brick", "stone"], ["EU", "AS", "OC"]


@settings(deadline=None)
@given(st.sampled_from(MISSING[1:]), st.sampled_from([NUMBERS, WORDS, CODES]), st.booleans())
def test_a_mark_is_missing_by_the_others_of_its_column(mark, others, is_typed):
    frame = pl.DataFrame({"a": [*others, mark, None]})
    after, remarks = decided(frame, None, is_typed=is_typed)
    is_value = others is not NUMBERS and (is_typed or (others is CODES and mark == "NA"))
    assert after["a"].to_list() == [*others, mark if is_value else None, None]
    assert len(remarks) == (is_typed or others is not NUMBERS)
    assert all((one.code == "column.kept_words") == is_value for one in remarks)
    assert decided(after, None, is_typed=is_typed)[0].equals(after)


@settings(deadline=None)
@given(st.lists(st.sampled_from([*MARKS, "a", "7"])), st.lists(st.sampled_from(MARKS[1:])))
def test_given_words_are_missing_and_no_others(values, missing):
    column = pl.Series("a", values, pl.String)
    expected = [None if value in missing else value for value in values]
    for kind in (pl.String, pl.Categorical):
        after = is_missing(column.cast(kind).to_frame(), missing)["a"]
        assert after.dtype == kind
        assert after.to_list() == expected


@pytest.mark.parametrize("kind", [pl.Int64, pl.Float64])
def test_given_numbers_are_missing(kind):
    after = is_missing(pl.DataFrame({"a": pl.Series([1, -999, None], dtype=kind)}), ["-999", "NA"])
    assert after["a"].to_list() == [1, None, None]
