"""Dates in the forms that people write, against Python's calendar."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayesprop.table.columns import DateColumn, fit_column, fit_dates
from bayesprop.table.date_forms import Dated, check_dates, dated, parsed
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import Message, TableError

START = datetime.datetime(2022, 11, 3, 6, 30)


def truth(moment):
    """Years, season, weekday and hour of a moment."""
    first = datetime.datetime(moment.year, 1, 1)
    of_year = (moment - first) / (datetime.datetime(moment.year + 1, 1, 1) - first)
    day = datetime.datetime.combine(moment, datetime.time())
    of_day = (moment - day) / datetime.timedelta(days=1)
    flags = [float(day == moment.weekday()) for day in range(7)]
    return moment.year + of_year, of_year, flags, of_day


DAYS = ["%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y"]
DAYS += ["%m-%d-%Y", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y"]
DAYS += ["%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y"]
CLOCKS = ["%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p"]
MONTHS = ["%Y-%m", "%b %Y", "%B %Y", "%b-%y", "%b-%Y", "%B-%Y", "{q} %Y", "%Y-{q}", "%Y{q}"]
BY_PARTS = {
    ("years", "season", "weekday"): [*DAYS, "%Y%m%d"],
    ("years", "season", "weekday", "hour"): [
        *(f"{day}{blanks}{clock}" for day in DAYS for blanks in (" ", "  ") for clock in CLOCKS),
        "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y%m%dT%H%M%S",
    ],
    ("hour",): CLOCKS,
    ("years", "season"): MONTHS,
}  # fmt: skip
OFFSETS = {"": 0, "Z": 0, " UTC": 0, "+00:00": 0, "+05:45": 345, "-0330": -210, " -05": -300}
"""Minutes ahead of UTC, as a time with seconds may say."""


def written(form, case, seed):
    """Sixty moments in a form, and those that Python reads in these words."""
    rng, words, moments = np.random.default_rng(seed), [], []
    for minutes in rng.integers(0, 10**7, 60).tolist():
        moment = datetime.datetime(2001, 1, 1) + datetime.timedelta(minutes=minutes, seconds=7.25)
        quarter = (moment.month + 2) // 3
        word = moment.strftime(form).format(q=f"Q{quarter}")
        if "{q}" in form:
            moment = datetime.datetime(moment.year, 3 * quarter - 2, 1)
        else:
            moment = datetime.datetime.strptime(word, form)
        offset = rng.choice([*OFFSETS]) if form.endswith("%S") and "%Y-" in form else ""
        word = word.replace(" AM", "AM") if rng.random() < 0.5 else word
        words.append((word if "T" in form else case(word)) + offset)
        moments.append(moment - datetime.timedelta(minutes=OFFSETS[offset]))
    return words, moments


@given(
    st.sampled_from([(parts, form) for parts, forms in BY_PARTS.items() for form in forms]),
    st.sampled_from([str, str.lower, str.upper]),
    st.integers(0, 99),
    st.booleans(),
)
def test_dates_of_every_form_tell_what_the_calendar_says(parts_and_form, case, seed, is_number):
    parts, form = parts_and_form
    words, moments = written(form, case, seed)
    words = [int(word) for word in words] if is_number and form == "%Y%m%d" else words
    series = pl.Series("at", words)
    (remark,), column = (fitted := fit_dates(series)).remarks, fitted.column
    assert column.parts == parts
    assert remark.code in ("column.dates", "column.times_of_day")
    rows = dict(zip(column.value_names, column.encode(series).X.T, strict=True))
    years, seasons, weekdays, hours = zip(*map(truth, moments), strict=True)
    found = [*rows.values()]
    if "years" in parts:
        np.testing.assert_allclose(found[0], years, atol=0.004)
        angle = np.arctan2(found[1], found[2]) / (2.0 * np.pi)
        np.testing.assert_allclose((angle - seasons + 0.5) % 1.0, 0.5, atol=0.004)
    if "weekday" in parts:
        np.testing.assert_array_equal(np.array(found[3:10]).T, weekdays)
    if "hour" in parts:
        angle = np.arctan2(found[-2], found[-1]) / (2.0 * np.pi)
        np.testing.assert_allclose((angle - hours + 0.5) % 1.0, 0.5, atol=1e-9)


def test_gaps_are_gaps_and_only_what_varies_is_used():
    series = pl.Series("day", ["2024-01-05", None, "2024-01-06"] * 3)
    column = fit_dates(series).column
    assert column == DateColumn("day", missing=True, form="%Y-%m-%d", parts=("years",))
    assert np.isnan(column.encode(series).X[1]).all()
    times = fit_dates(pl.Series("at", ["7:15", "18:30"])).column
    assert times.parts == ("hour",)
    np.testing.assert_allclose(times.encode(pl.Series("at", ["6:00"])).X, [[1.0, 0.0]], atol=1e-12)
    typed = pl.Series("at", [datetime.time(7), datetime.time(8)])
    assert fit_dates(typed).column.parts == ("hour",)
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
    assert stray.warnings[0].code == "stray.missing"
    assert stray.warnings[0].values["holds"] == "dates or times as day/month/year"
    typed = encoding.encode(pl.DataFrame({"d": [datetime.date(2024, 3, 2)]})).X
    np.testing.assert_array_equal(typed, rows)


def test_ends_of_months_have_no_weekday():
    ends = [datetime.date(2020 + k // 12, k % 12 + 1, 1) - datetime.timedelta(1) for k in range(40)]
    assert fit_dates(pl.Series("d", ends)).column.parts == ("years", "season")


def test_what_is_no_date_in_a_few_rows_is_named_and_codes_stay_words():
    days = [f"{day} March 2020" for day in range(1, 20)]
    for odd in ("7 Marhc 2020", "31 April 2020", "Reagan admin", "2020-03-07"):
        fitted = fit_dates(pl.Series("d", [*days, odd, None]))
        assert fitted.column.words == (odd,)
        own = {"others": "dates such as '1 March 2020'", "words": f"'{odd}' in 1 row"}
        assert fitted.questions == (Message.of("column.words", "d", **own),)
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
    assert fitted.questions[0].values["how"].endswith(f", for {why}")
    few = fit_dates(pl.Series("d", words[:3]), fitted.column)
    assert few.column.form == form


def test_dates_that_a_spreadsheet_wrote_anew_in_part_are_read_together():
    words = ["01-02-07", "12/28/2009", "3/18/2009 10:30", "11.15.99"] * 3
    assert dated(pl.Series(words)) == Dated("%m/%d/%Y*")
    days = [(2007, 1, 2), (2009, 12, 28), (2009, 3, 18, 10, 30), (1999, 11, 15)] * 3
    moments = parsed(pl.Series(words), "%m/%d/%Y*").to_list()
    assert moments == [datetime.datetime(*day) for day in days]


def test_readings_that_are_both_regular_are_asked_about():
    a_year = days_of("%d/%m/%Y", None, 10, datetime.datetime(2019, 1, 1))
    with pytest.raises(TableError, match=r"ambiguous: write the year first.* or drop=\['d'\]"):
        dated(pl.Series("d", a_year))


def test_dates_of_which_some_tell_less():
    """The middle of what is known; parts that few rows lack are missing there, others not used."""
    whole = [(START + datetime.timedelta(days=23 * k)).strftime("%Y-%m-%d") for k in range(60)]
    words = [*whole, "2019", "2020-02", "2021-06"]
    fitted = fit_dates(pl.Series("d", words))
    less = ", in 1 row only the year, in 2 rows only the month"
    assert fitted.remarks[0].values["how"].endswith(less)
    assert fitted.column.parts == ("years", "season", "weekday")
    X = fitted.column.encode(pl.Series("d", [*words, None])).X
    np.testing.assert_array_equal(np.isnan(X).sum(axis=1), [0] * 60 + [9, 7, 7, 10])
    middles = [truth(datetime.datetime(*day))[0] for day in ((2019, 7, 2), (2020, 2, 16))]
    np.testing.assert_allclose(X[60:62, 0], middles, atol=2e-3)
    days = pl.Series("d", whole)
    np.testing.assert_array_equal(X[:60], fit_dates(days).column.encode(days).X)

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
        ([f"2024-1-{day}" for day in range(1, 31)], "%Y-%m-%d"),
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
    reading = dated(pl.Series("d", words * 10))
    assert (reading and reading.form) == form


def test_dates_of_no_form_that_is_read_are_not_of_several_forms():
    with pytest.raises(TableError, match="in an unknown format, '2024-01-01 10-11'"):
        check_dates(pl.Series("at", ["2024-01-01 10-11", "2024-01-02 12-13"]))


@pytest.mark.parametrize("numbers", [[20240131, 20249999] * 9, [1, 20240131] * 9, [20] * 5])
def test_other_whole_numbers_are_no_days(numbers):
    assert fit_dates(pl.Series("n", numbers)) is None


def test_text_that_no_file_was_read_from_may_have_gaps_and_blanks():
    column = fit_dates(pl.Series("d", ["2024-01-31", "2024-09", "2023"] * 9)).column
    plain = column.encode(pl.Series("d", ["2024-01-31", None, None, "2023"])).X
    padded = column.encode(pl.Series("d", [" 2024-01-31", "NaT", "?", "2023 "])).X
    np.testing.assert_array_equal(padded, plain)


def test_categories_tell_as_much_of_a_date_as_text():
    days = [(START + datetime.timedelta(days=17 * k)).strftime("%Y-%m-%d") for k in range(40)]
    words = [*days, "2020-05", "2021"]
    column = fit_dates(pl.Series("d", words)).column
    text, levels = (column.encode(pl.Series("d", words, kind)).X for kind in (None, pl.Categorical))
    np.testing.assert_array_equal(text, levels)


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
