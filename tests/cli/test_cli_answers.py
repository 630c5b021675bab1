"""How predictions are written: digits by their own error bars."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import numpy as np
import pytest

from bayesprop.cli import main
from bayesprop.cli.console import duration
from bayesprop.cli.options import seconds_of
from bayesprop.table_model.answers import rounded
from bayesprop.table_model.listener import figure_beside


@pytest.mark.parametrize(
    ("value", "std", "written"),
    [
        (123.456789, 12.34, "123.5"),
        (123.456789, 0.01234, "123.4568"),
        (123456.789, 1234.0, "123,460"),
        (0.0, 0.5, "0.000"),
        (1.5, 0.0, "1.500"),
        (1.5, np.inf, "1.500"),
    ],
)
def test_a_number_is_as_exact_as_the_third_digit_of_its_error_bar(value, std, written):
    assert figure_beside(value, std) == written


def test_text_keeps_seven_digits_and_more_beside_a_small_error_bar():
    values = np.array([1234567.891234, 1234567.891234, 1.2345678912e-9, 0.0, np.nan])
    std = np.array([10.0, 1.234e-3, 1.0, 1.0, 1.0])
    want = [1234567.89, 1234567.891234, 1.234568e-9, 0.0, np.nan]
    np.testing.assert_array_equal(rounded(values, std), want)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("60s", 60.0), ("5m", 300.0), ("1.5h", 5400.0), (".5 min", 30.0)],
)
def test_times_are_read(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "0 s"), (99.4, "99 s"), (100.0, "2 min"), (7200.0, "2.0 h")]
)
def test_durations_are_worded(seconds, words):
    assert duration(seconds) == words


def test_a_column_says_why(cli, house_model, houses):
    rows = cli("predict", house_model, houses, "--why").rows
    assert all(row["why"].startswith("price is predicted as ") for row in rows)


@pytest.mark.parametrize("words", [("predict",), ("predict", "--json"), ("evaluate", "--json")])
def test_output_may_be_text_in_memory(cli, house_model, houses, words):
    verb, *others = words
    expected = cli(verb, house_model, houses, *others).out
    with redirect_stdout(io.StringIO()) as out:
        assert main([verb, str(house_model), str(houses), *others]) == 0
    assert out.getvalue() == expected
