"""Dates in the forms that people write, against Python's calendar."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

from bayesprop.table.columns import fit_column
from bayesprop.table.date_forms import check_dates, dated, parsed
from bayesprop.table.dates import DateColumn, fit_dates
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import TableError

START = datetime.datetime(2022, 11, 3, 6, 30)
MOMENTS = [START + datetime.timedelta(days=17 * k, hours=5 * k) for k in range(40)]


def form_of(words):
    """The form in which words hold dates, None where they hold none."""
    found = dated(pl.Series("d", words))
    return None if found is None else found.form


def truth(moment):
    """Years, season, weekday and hour of a moment."""
    first = datetime.datetime(moment.year, 1, 1)
    of_year = (moment - first) / (datetime.datetime(moment.year + 1, 1, 1) - first)
    of_day = (moment.hour + moment.minute / 60.0) / 24.0
    flags = [float(day == moment.weekday()) for day in range(7)]
    return moment.year + of_year, of_year, flags, of_day


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%dT%H:%M:%SZ",
        "%d.%m.%Y %H:%M",
        "%d/%m/%Y %H:%M:%S",
        "%m/%d/%Y %H:%M",
        "%Y/%m/%d %H:%M:%S.%f",
        "%d %b %Y %H:%M",
        "%B %d, %Y %H:%M",
        None,
    ],
)
def test_all_parts_are_those_of_the_calendar(form):
    series = pl.Series("at", MOMENTS if form is None else [m.strftime(form) for m in MOMENTS])
    _, column, (sentence,), *_ = fit_dates(series)
    assert column.parts == ("years", "season", "weekday", "hour")
    assert "holds dates or times such as" in sentence
    rows = column.encode(series).X
    assert rows.shape == (40, len(column.feature_names)) == (40, 12)
    for row, moment in zip(rows, MOMENTS, strict=True):
        years, of_year, flags, of_day = truth(moment)
        assert row[0] == pytest.approx(years, abs=0.004)
        angle = np.arctan2(row[1], row[2]) / (2.0 * np.pi)
        assert abs((angle - of_year + 0.5) % 1.0 - 0.5) < 0.004
        assert row[3:10].tolist() == flags
        assert np.arctan2(row[10], row[11]) / (2.0 * np.pi) % 1.0 == pytest.approx(of_day, abs=1e-9)


def test_gaps_are_gaps_and_only_what_varies_is_used():
    series = pl.Series("day", ["2024-01-05", None, "2024-01-06"] * 3)
    column = fit_dates(series).column
    assert column == DateColumn("day", missing=True, form="%Y-%m-%d", parts=("years",))
    assert np.isnan(column.encode(series).X[1]).all()
    times = fit_dates(pl.Series("at", ["7:15", "18:30"])).column
    assert times.parts == ("hour",)
    np.testing.assert_allclose(times.encode(pl.Series("at", ["6:00"])).X, [[1.0, 0.0]], atol=1e-12)
    assert fit_dates(pl.Series("at", [datetime.time(7), datetime.time(8)])).column.parts == (
        "hour",
    )
    assert fit_dates(pl.Series("day", ["2024-01-05"] * 4)).column is None


def test_one_day_in_every_row_is_constant_whichever_it_is():
    fitted = fit_column(pl.Series("as_of", ["11/6/18", None, "11/6/18"] * 10))
    assert fitted.column is None
    assert fitted.is_constant


def test_a_model_reads_later_dates_as_the_first():
    frame = pl.DataFrame({"d": [f"{k % 28 + 1}/1/2024" for k in range(40)], "y": range(40)})
    encoding = TableEncoding.fit(frame, "y", "regression")
    # 2/3 alone could be two dates; the training table said which.
    rows = encoding.encode(pl.DataFrame({"d": ["2/3/2024"]})).X
    assert rows[0, 0] == pytest.approx(2024 + 61 / 366, abs=0.004)
    stray = encoding.encode(pl.DataFrame({"d": ["2024-03-02"]}))
    assert np.isnan(stray.X).all()
    assert "holds dates or times as day/month/year, but '2024-03-02' in data" in stray.warnings[0]
    typed = encoding.encode(pl.DataFrame({"d": [datetime.date(2024, 3, 2)]})).X
    np.testing.assert_array_equal(typed, rows)


@pytest.mark.parametrize(
    "words",
    [
        ["1956 Q1", "1956Q2", "1957-Q4"],
        ["Q1 1956", "q2-1956", "Q4 1957"],
        ["Jan 1956", "Apr 1956", "oct 1957"],
        ["January 1956", "April 1956", "October 1957"],
        ["Jan-1956", "Apr-1956", "Oct-1957"],
        ["January-1956", "April-1956", "October-1957"],
        ["1956-01", "1956-04", "1957-10"],
        ["1956-01-01", "1956-04-01", "1957-10-01"],
    ],
)
def test_months_and_quarters_have_no_weekday(words):
    column = fit_dates(pl.Series("at", words * 10)).column
    assert column.parts == ("years", "season")
    years = column.encode(pl.Series("at", words)).X[:, 0]
    np.testing.assert_allclose(years, [1956.0, 1956 + 91 / 366, 1957 + 273 / 365], atol=0.004)


def test_ends_of_months_have_no_weekday():
    ends = [datetime.date(2020 + k // 12, k % 12 + 1, 1) - datetime.timedelta(1) for k in range(40)]
    assert fit_dates(pl.Series("d", ends)).column.parts == ("years", "season")


def test_what_is_no_date_in_a_few_rows_is_named_and_codes_stay_words():
    days = [f"{day} March 2020" for day in range(1, 20)]
    for odd in ("7 Marhc 2020", "31 April 2020", "Reagan admin", "2020-03-07"):
        fitted = fit_dates(pl.Series("d", [*days, odd, None]))
        assert fitted.column.words == (odd,)
        assert fitted.questions == (
            f"column 'd' holds dates such as '1 March 2020', but '{odd}' in 1 row: taken for"
            " missing",
        )
        values = fitted.column.encode(pl.Series("d", ["3 March 2020", odd, None])).X
        assert np.isnan(values).tolist() == [[False], [True], [True]]
        with pytest.raises(TableError, match=r"dates or times as day month year, got 'x' in data"):
            fitted.column.encode(pl.Series("d", ["3 March 2020", "x"]))
    quarters = ["1990 Q1", "1990 Q2", "1991 Q4"] * 5
    assert dated(pl.Series("d", [*quarters, "1990 Q7"])).words == ("1990 Q7",)
    assert dated(pl.Series("d", [*quarters, "1990 Q7", "1990 Q8"])) is None
    assert dated(pl.Series("code", [f"MAR-{number}" for number in range(100, 120)])) is None
    for words in (["3 May 2020", "May 4, 2020"] * 10, [f"MAR-{k}" for k in range(100, 120)]):
        check_dates(pl.Series("mixed", words))


def days_of(form, step, n, start=datetime.datetime(2019, 3, 1)):
    """Moments a step apart, written; a step of one month for None."""
    months = [start.replace(year=2019 + k // 12, month=k % 12 + 1) for k in range(2, n + 2)]
    moments = months if step is None else [start + k * step for k in range(n)]
    return [moment.strftime(form) for moment in moments]


@pytest.mark.parametrize(
    ("words", "form", "why"),
    [
        (days_of("%d/%m/%Y", None, 30), "%d/%m/%Y", "all are then of one day of the month"),
        (days_of("%m/%d/%Y", None, 30), "%m/%d/%Y", "all are then of one day of the month"),
        (
            days_of("%m/%d/%y %H:%M", datetime.timedelta(hours=5), 9),
            "%m/%d/%y %H:%M",
            "all are then within half the time",
        ),
        (
            ["12-01-2020", "05-02-2020", "11-03-2020", "02-05-2020", "06-10-2020"],
            "%d-%m-%Y",
            "rows are then in order",
        ),
    ],
)
def test_of_two_readings_the_regular_one_is_meant(words, form, why):
    found = dated(pl.Series("d", words))
    assert (found.form, found.why) == (form, why)
    fitted = fit_dates(pl.Series("d", words))
    assert f", for {why}: used as" in fitted.questions[0]
    few = fit_dates(pl.Series("d", words[:3]), fitted.column)
    assert few.column.form == form


def test_readings_that_are_both_regular_are_asked_about():
    a_year = days_of("%d/%m/%Y", None, 10, datetime.datetime(2019, 1, 1))
    with pytest.raises(TableError, match=r"exchanged: write the year first.* or --drop d"):
        dated(pl.Series("d", a_year))


@pytest.mark.parametrize(
    ("words", "hours"),
    [
        (["6/13/2001  11:00:00 AM", "6/14/2001  1:30:00 PM"], [11.0, 13.5]),
        (["13/6/2001 12:15 am", "14/6/2001 12:15PM"], [0.25, 12.25]),
        (["2001-06-13 11:00:00+00:00", "2001-06-14T13:30:00 UTC"], [11.0, 13.5]),
        (["9:00 PM", "10:30 am"], [21.0, 10.5]),
    ],
)
def test_hours_of_the_clock(words, hours):
    series = pl.Series("at", words)
    rows = DateColumn("at", form=dated(series).form, parts=("hour",)).encode(series).X
    found = np.arctan2(rows[:, 0], rows[:, 1]) / (2.0 * np.pi) % 1.0 * 24.0
    np.testing.assert_allclose(found, hours, atol=1e-9)


def test_dates_of_which_some_tell_less():
    """The middle of what is known; parts that few rows lack are missing there, others not used."""
    whole = [(START + datetime.timedelta(days=23 * k)).strftime("%Y-%m-%d") for k in range(60)]
    words = [*whole, "2019", "2020-02", "2021-06"]
    fitted = fit_dates(pl.Series("d", words))
    assert "in 1 row only the year, in 2 rows only the month: used as" in fitted.sentences[0]
    assert fitted.column.parts == ("years", "season", "weekday")
    X = fitted.column.encode(pl.Series("d", [*words, None])).X
    np.testing.assert_array_equal(np.isnan(X).sum(axis=1), [0] * 60 + [9, 7, 7, 10])
    middles = [truth(datetime.datetime(*day))[0] for day in ((2019, 7, 2), (2020, 2, 16))]
    np.testing.assert_allclose(X[60:62, 0], middles, atol=2e-3)
    np.testing.assert_array_equal(X[:60], fit_dates(pl.Series("d", whole)).column.encode(
        pl.Series("d", whole)).X)  # fmt: skip

    halves = fit_dates(pl.Series("d", [*whole[:30], *(day[:7] for day in whole[30:])]))
    assert halves.column.parts == ("years", "season")
    times = [day + "T14:30" for day in whole]
    assert fit_dates(pl.Series("d", [*times, *whole[:3]])).column.parts[-1] == "hour"
    assert fit_dates(pl.Series("d", [*times, *whole])).column.parts[-1] == "weekday"
    with pytest.raises(TableError, match=r"year-month-day or less, with a time or without, got '2"):
        fitted.column.encode(pl.Series("d", ["2020-13"]))


@pytest.mark.parametrize(
    ("words", "form"),
    [
        (["31/01/2024", "30/01/2024 10:30"], "%d/%m/%Y~"),
        (["June 3, 2020", "June 4, 2020 9:00 PM"], "%B %d, %Y~"),
        (["2020", "2021"], None),
        (["2020", "2020-05", "2021-07"], None),
        (["4521", "4521-3", "4621-11"], None),
        (["01/02/2024", "13/04/2024"], "%d/%m/%Y"),
        (["01/02/2024", "03/14/2024"], "%m/%d/%Y"),
        (["01.02.2024"], "%d.%m.%Y"),
        (["Jan 1 2000", "Feb 1 2000"], "%b %d %Y"),
        (["01.02.24"], "%d.%m.%y"),
        (["2024-03"], "%Y-%m"),
        ([f"2024-1-{day}" for day in range(1, 31)], "%Y-%m-%d"),
        (["3-Feb-19", "17-Mar-19"], "%d-%b-%y"),
        (["Feb-89", "Mar-91"], "%b-%y"),
        (["1.2", "3.4"], None),
        (["2024", "2023"], None),
        (["31.02.2024"], None),
        (["", "a"], None),
        (["12-34"], None),
        (["1-2-3", "4-5-6"], None),
        (["May", "June"], None),
        (["Q1", "Q2"], None),
        (["Mar 5", "Jan 7"], None),
        (["1956 Q5"], None),
        (["May Smith"], None),
        (["10:00-11:00", "12:00-13:30"], None),
        (["2024-01-01 10:00-11:00", "2024-01-02 12:00-12:30"], None),
    ],
)
def test_the_form_of_words_that_are_dates_or_none(words, form):
    """What tells less than a day is a date beside dates; a span of hours is no time."""
    assert form_of(words * 10) == form


@pytest.mark.parametrize(
    ("words", "moments"),
    [
        (
            ["2024-01-01T10:00:00+01:00", "2024-07-01T10:00:00+02:00"],
            ["2024-01-01T09:00:00", "2024-07-01T08:00:00"],
        ),
        (
            ["2024-01-01T10:00-0330", "2024-01-01T23:30:00Z"],
            ["2024-01-01T13:30", "2024-01-01T23:30"],
        ),
        (
            ["2024-01-01 10:00:00.5 -05", "2024-01-02 10:00:00.25"],
            ["2024-01-01T15:00:00.5", "2024-01-02T10:00:00.25"],
        ),
        (
            ["31.12.2023 20:00:00-08:00", "01.07.2024 00:00:00+05:45"],
            ["2024-01-01T04:00", "2024-06-30T18:15"],
        ),
    ],
)
def test_times_with_an_offset_are_moments_in_utc(words, moments):
    text = pl.Series("at", words)
    expected = [datetime.datetime.fromisoformat(moment) for moment in moments]
    assert parsed(text, form_of(words)).to_list() == expected


def test_dates_of_no_form_that_is_read_are_not_of_several_forms():
    with pytest.raises(TableError, match="in a form that is not read, '2024-01-01 10-11'"):
        check_dates(pl.Series("at", ["2024-01-01 10-11", "2024-01-02 12-13"]))


@pytest.mark.parametrize(
    ("form", "parts"),
    [("%Y%m%d", ("years", "season", "weekday")), ("%Y%m%dT%H%M%S", ("years", "season", "hour"))],
)
def test_days_without_separators(form, parts):
    words = [moment.strftime(form) for moment in MOMENTS]
    for column in [words, list(map(int, words))] if form == "%Y%m%d" else [words]:
        fitted = fit_column(pl.Series("day", column))
        assert set(parts) <= set(fitted.column.parts)
        years = [truth(datetime.datetime.strptime(word, form))[0] for word in words]
        X = fitted.column.encode(pl.Series("day", column)).X
        np.testing.assert_allclose(X[:, 0], years, atol=2e-3)
    gaps = pl.Series("day", [20240131.0, None, 20240902.0, float("nan"), 20231224.0])
    column, dates = fit_dates(gaps).column, [datetime.date(2024, 1, 31), None]
    np.testing.assert_array_equal(column.encode(gaps[:2]).X, column.encode(pl.Series(dates)).X)


@pytest.mark.parametrize("numbers", [[20240131, 20249999] * 9, [1, 20240131] * 9, [20] * 5])
def test_other_whole_numbers_are_no_days(numbers):
    assert fit_dates(pl.Series("n", numbers)) is None


def test_text_that_no_file_was_read_from_may_have_gaps_and_blanks():
    column = fit_dates(pl.Series("d", ["2024-01-31", "2024-09", "2023"] * 9)).column
    plain = column.encode(pl.Series("d", ["2024-01-31", None, None, "2023"])).X
    padded = column.encode(pl.Series("d", [" 2024-01-31", "NaT", "?", "2023 "])).X
    np.testing.assert_array_equal(padded, plain)


def test_categories_tell_as_much_of_a_date_as_text():
    words = [moment.strftime("%Y-%m-%d") for moment in MOMENTS] + ["2020-05", "2021"]
    column = fit_dates(pl.Series("d", words)).column
    text, levels = (column.encode(pl.Series("d", words, kind)).X for kind in (None, pl.Categorical))
    np.testing.assert_array_equal(text, levels)


@pytest.mark.parametrize(("name", "unit"), [("timestamp", 1), ("created_at", 1000)])
def test_seconds_since_1970_of_a_clock_are_moments(name, unit):
    seconds = 1_600_000_000 + 7_919 * np.arange(3000)
    fitted = fit_dates(pl.Series(name, seconds * unit))
    assert fitted.column.parts == ("years", "season", "weekday", "hour")
    assert "seconds since 1970, in UTC" in str(fitted.sentences[0])
    moments = [datetime.datetime.fromtimestamp(int(one), datetime.UTC) for one in seconds]
    values = fitted.column.encode(pl.Series(name, seconds * unit)).X
    first = fitted.column.value_names.index(f"{name}=Monday")
    weekdays = values[:, first : first + 7].argmax(axis=1)
    np.testing.assert_array_equal(weekdays, [one.weekday() for one in moments])
    hours = np.array([one.hour + one.minute / 60.0 + one.second / 3600.0 for one in moments])
    np.testing.assert_allclose(values[:, -2], np.sin(hours * np.pi / 12.0), atol=1e-9)


@pytest.mark.parametrize("unit", [1, 1000])
def test_seconds_since_1970_may_have_gaps_and_fractions(unit):
    moments = [datetime.datetime(2021, 1, 1 + k % 28, k % 24, 5, 30, 250_000) for k in range(60)]
    seconds = [one.replace(tzinfo=datetime.UTC).timestamp() for one in moments]
    numbers = np.array([*seconds, np.nan]) * unit
    expected = fit_dates(pl.Series("time", [*moments, None])).column.encode
    for rows in (numbers, np.floor(numbers / unit) * unit):
        column = fit_dates(pl.Series("time", rows)).column
        assert column.form == {1: "%s", 1000: "%s%.f"}[unit]
        for kind in (pl.Float64, pl.String):
            values = column.encode(pl.Series("time", rows).cast(kind)).X
            truth = expected(pl.Series("time", [*moments, None])).X
            np.testing.assert_allclose(values, truth, atol=1e-4)
    with pytest.raises(TableError, match=r"as seconds since 1970, got '\d{13}' in data row 1"):
        fit_dates(pl.Series("time", seconds)).column.encode(pl.Series("time", [1_609_958_050_000]))


def test_other_large_numbers_are_no_moments():
    assert fit_dates(pl.Series("stats", 1_600_000_000 + 7_919 * np.arange(3000))) is None
