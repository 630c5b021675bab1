"""Durations: read in every form that they are written in, and told from times of day."""

import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesprop.table.columns import DateColumn
from bayesprop.table.date_forms import DURATION, DURATION_FORMS, durations_as, form_of
from bayesprop.table.division import HoldOut, divide
from bayesprop.table.errors import TableError
from bayesprop.table.values import as_numbers

N = 40
HOURS = np.random.default_rng(0).uniform(0.5, 20.0, N)


def clock(hours, form="{:02d}:{:02d}:00"):
    return [form.format(int(hour), int(hour % 1 * 60)) for hour in hours]


def fitted(values, name="x", **asked):
    frame = pl.DataFrame([pl.Series(name, values), pl.Series("y", HOURS**1.5)])
    parts = divide(frame, "y", None, HoldOut(**asked))
    return parts, parts.encoding().columns[0]


@given(
    st.lists(st.integers(-(10**14), 10**14), min_size=1),
    st.integers(0, 6),
    st.sampled_from(DURATION_FORMS),
)
def test_what_is_written_is_read_back(micro, n_decimals, form):
    seconds = np.round(np.array(micro) / 1e6, n_decimals)
    std = np.full(len(micro), 10.0 ** (2 - n_decimals))
    text = durations_as(form, pl.Series("x", seconds), std)
    np.testing.assert_allclose(as_numbers(text, DURATION), seconds, rtol=0.0, atol=1e-6)
    if form != DURATION:
        assert durations_as(form_of(text), pl.Series(seconds), std).equals(text)


@pytest.mark.parametrize(
    ("text", "of_pandas"),
    [
        ("-1 days +22:30:00", datetime.timedelta(hours=-1.5)),
        ("1 day, 2:03:04.5", datetime.timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("-1:30:00", datetime.timedelta(hours=-1.5)),
        ("75:30", datetime.timedelta(minutes=75.5)),
    ],
)
def test_forms_of_other_programs_are_read(text, of_pandas):
    assert as_numbers(pl.Series([text]), DURATION)[0] == of_pandas.total_seconds()


@pytest.mark.parametrize(
    ("values", "name", "asked"),
    [
        ([*clock(HOURS[:-1]), "25:30:00"], "x", {}),
        ([*clock(HOURS[:-1]), "75:30"], "x", {}),
        (clock(HOURS), "lap_time", {}),
        (clock(HOURS), "x", {"kinds": {"x": "duration"}}),
        ([datetime.timedelta(hours=hour) for hour in HOURS], "x", {}),
    ],
)
def test_durations_are_seconds_as_feature_and_as_target(values, name, asked):
    parts, column = fitted(values, name, **asked)
    if isinstance(values[0], str):
        parts_of = [list(map(int, value.split(":"))) for value in values]
        own = [sum(60**k * one for k, one in enumerate(reversed(three))) for three in parts_of]
        assert any(one.code == "column.durations" for one in parts.remarks) == (not asked)
    else:
        own = [value.total_seconds() for value in values]
    assert column.written == DURATION
    np.testing.assert_allclose(column.encode(pl.Series(name, values)).X[:, 0], own, rtol=1e-9)
    target = divide(pl.DataFrame({"t": values, "x": HOURS}), "t", None, HoldOut())
    assert target.task == "regression"
    np.testing.assert_allclose(target.frame["t"], own, rtol=1e-9)


@pytest.mark.parametrize("asked", [{}, {"kinds": {"x": "time"}}])
def test_what_may_be_times_of_day_is_and_remarks_say_what_else(asked):
    parts, column = fitted(clock(HOURS), **asked)
    assert isinstance(column, DateColumn)
    assert any(one.code == "column.times_of_day" for one in parts.encoding().report)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"z": "duration"}, "no column 'z'"),
        ({"x": "clock"}, "a kind is duration or time"),
        ({"x": "time"}, "requires times such as 14:30:00"),
        ({"y": "duration"}, "must hold durations, got"),
    ],
)
def test_kinds_that_cannot_be_are_refused(kinds, message):
    with pytest.raises(TableError, match=message):
        fitted([*["25:00:00"] * 9, *clock(HOURS[9:])], kinds=kinds)


def test_words_among_durations_are_missing():
    parts, column = fitted(["DNF", "30:00:00", *clock(HOURS[2:])])
    assert column.missing
    assert ("stray.missing", "'DNF' in data row 1") in (
        (one.code, one.values.get("where")) for one in parts.remarks
    )
    later = column.encode_known(pl.Series("x", ["DNF", "1:00:00"])).X[:, 0]
    np.testing.assert_array_equal(later, [np.nan, 3600.0])
