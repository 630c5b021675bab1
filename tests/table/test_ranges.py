"""Ranges among numbers, as "1200 - 1350": read as their middle, and only where they are ranges."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesprop.table.columns import fit_column
from bayesprop.table.errors import Message
from bayesprop.table_model.answers import NumberAnswers

PLAIN = [f"{k}.5" for k in range(20, 60)]


@given(
    ends=st.lists(st.tuples(st.integers(1, 9000), st.integers(1, 90)), min_size=1, max_size=40),
    dash=st.sampled_from([" - ", "–", " – ", " to "]),
    decimals=st.integers(0, 2),
)
def test_a_range_is_its_middle(ends, dash, decimals):
    text = [f"{low:.{decimals}f}{dash}{low + wide:.{decimals}f}" for low, wide in ends]
    series = pl.Series("x", [*PLAIN, *text])
    column, remarks = fit_column(series)[1:3]
    middles = [low + wide / 2 for low, wide in ends]
    np.testing.assert_allclose(column.encode(series).X[40:, 0], middles, rtol=1e-12)
    own = {"example": text[0], "n": len(ends)}
    assert remarks == (Message.of("column.ranges", "x", **own),)
    assert column.encode(series).warnings == []
    plain = fit_column(pl.Series("x", PLAIN)).column
    X, warnings = plain.encode(pl.Series("x", text))[:2]
    np.testing.assert_allclose(X[:, 0], middles, rtol=1e-12)
    assert remarks[0] in warnings


@pytest.mark.parametrize(
    "other",
    ["2-1", "1-2", "9 - 3", "080 - 41234", "41 - 2345678", "2024 - 01 - 05", "3 - a", "-5 - 3"],
)
def test_what_else_has_a_dash_is_missing(other):
    column = fit_column(pl.Series("x", [*PLAIN, other])).column
    assert column.words == (other,)


def test_durations_are_written_as_they_were():
    one = {"mean": 5400.0, "std": 90.0, "epistemic_std": 0.0, "noise_std": 90.0}
    assert NumberAnswers(form="h:mm:ss").brief("lap", one) == {"lap": "1:30:00", "±": "0:01:30"}
