"""Dates and times of day as numbers: years, season, weekday, hour."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesprop.table.encoded import Encoded, EncodedColumn
from bayesprop.table.errors import CORRECT_IT, TableError, at_rows, one_line, quoted
from bayesprop.table.remarks import Remark

_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y",
    "%B %d, %Y",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S%.f")
_QUARTERS = "%Y Q%q"
_OTHERS = {
    "%Y-%m": ("", "-01", "%Y-%m-%d"),
    "%b %Y": ("1 ", "", "%d %b %Y"),
    "%B %Y": ("1 ", "", "%d %B %Y"),
    "%H:%M": ("1970-01-01 ", "", "%Y-%m-%d %H:%M"),
    "%H:%M:%S": ("1970-01-01 ", "", "%Y-%m-%d %H:%M:%S"),
    _QUARTERS: ("", "-01", "%Y-%m-%d"),
}
"""Forms of less than a day or no day: what stands before and after them, and the form then."""
FORMS = (*(date + time for date in _DATES for time in _TIMES), *_OTHERS)
_QUARTER = r"^(?i:\d{4}[ -]?Q[1-4]|Q[1-4][ -]?\d{4})$"
_MONTH = "(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_WITH_WORDS = (
    rf"^((\d{{1,2}}[ -])?{_MONTH}[ -]\d{{2,4}}|{_MONTH} \d{{1,2}}, \d{{4}})( \d{{1,2}}:.*)?$"
)
_TIME_OF_DAY = r"^\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?$"
_DATE = r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4}))([T ].*)?$"
_MOSTLY = 0.9  # of the values of a column of dates are dates, as they may be misspelt
_LOOKS = r"^(\d{4}|\d{1,2})[-/.]\d{1,2}([-/.](\d{4}|\d{1,2}))?([T ]\d{1,2}:.*)?$"
_DAY, _YEAR = 86_400.0, 365.2425 * 86_400.0
_SEASONS, _ROWS_A_WEEKDAY = 180.0 * _DAY, 3
YEARS, SEASON, WEEKDAY, HOUR = "years", "season", "weekday", "hour"


@dataclass(frozen=True, kw_only=True)
class DateColumn(EncodedColumn):
    """A column of dates, times of day or both.

    form
        How text is read; empty for a table whose column has a type of its own.
    parts
        Which of years (with a fraction), season and hour (sine and cosine, round the year and the
        day) and weekday (seven columns of 0 and 1) it becomes.
    """

    kind: ClassVar = "date"

    form: str
    parts: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether all fields are such as a fit leaves."""
        is_part = bool(self.parts) and all(part in _PARTS for part in self.parts)
        return super().is_good and is_part and self.form in ("", *FORMS)

    @property
    def weekdays(self) -> list[str]:
        """Names of the columns of weekdays, if there are any."""
        return [f"{self.name}={day}" for day in calendar.day_name] if WEEKDAY in self.parts else []

    @property
    def value_names(self) -> list[str]:
        """Names of the encoded columns but that of gaps."""
        names = {
            YEARS: [f"{self.name} (years)"],
            SEASON: [f"{self.name} (season, {side})" for side in ("sine", "cosine")],
            WEEKDAY: self.weekdays,
            HOUR: [f"{self.name} (hour, {side})" for side in ("sine", "cosine")],
        }
        return [name for part in self.parts for name in names[part]]

    def encode(self, series: pl.Series) -> Encoded:
        """Return the encoded columns; TableError for what is no date."""
        moments = read_dates(series, self.form)
        seconds = _seconds(moments)
        columns = np.concatenate([_PARTS[part](seconds) for part in self.parts], axis=1)
        return self.with_gaps(columns, moments.is_null())


def fit_dates(series: pl.Series) -> tuple[DateColumn | None, str] | None:
    """Choose how a column of dates is encoded, and say so; None where it does not hold dates.

    The column is None where it is the same in every row.
    """
    form = "" if series.dtype.is_temporal() else form_of(series)
    if form is None:
        return None
    moments = read_dates(series, form)
    seconds = _seconds(moments.drop_nulls())
    parts = _varying(seconds, form)
    if not parts:
        value = quoted(series.drop_nulls()[0])
        gone = f" dropped: it is {value} in every row", "dropped, the same in every row"
        return None, Remark(*gone, series.name)
    column = DateColumn(series.name, len(seconds) < len(series), form=form, parts=parts)
    example = quoted(series.drop_nulls()[0])
    used = ", ".join(parts)
    how = "" if form in ("", "%Y-%m-%d") else f", read as {_in_words(form)}"
    sentence = f" holds dates or times such as {example}{how}: used as {used}"
    shared = f"of dates or times{how}, used as {used}"
    return column, Remark(sentence, shared, series.name, f"such as {example}")


def form_of(series: pl.Series) -> str | None:
    """Return the form in which text holds dates; None where it does not.

    TableError where day and month could be exchanged.
    """
    known = series.drop_nulls()
    if known.dtype != pl.String or known.is_empty():
        return None
    looks = "|".join((_LOOKS, _TIME_OF_DAY, _QUARTER, _WITH_WORDS))
    if not known.str.contains(looks).all():
        return None
    fits = [form for form in FORMS if known.str.contains(_pattern(form)).all()]
    fits = [form for form in fits if not _parsed(known, form).null_count()]
    if not fits:
        return None
    first = _parsed(known, fits[0])
    if any((_parsed(known, form) != first).any() for form in fits[1:]):
        raise TableError(
            f"column {quoted(series.name)} holds dates such as {quoted(known[0])}, in which day and"
            " month could be exchanged: write the year first, as in 2024-01-31"
        )
    return fits[0]


def check_dates(text: pl.Series) -> None:
    """Refuse text that holds dates but for some values, or dates of several forms."""
    looks = text.str.contains("|".join((_DATE, _TIME_OF_DAY, _QUARTER, _WITH_WORDS)))
    n_known, n = len(text) - text.null_count(), int(looks.sum())
    if n < 2 or n < _MOSTLY * n_known:
        return
    fitting = {form: text.str.contains(_pattern(form)).sum() for form in FORMS}
    form = max(FORMS, key=lambda form: (fitting[form], _parsed(text, form).count()))
    moments = _parsed(text, form)
    has_words = text.str.contains(_WITH_WORDS).any()
    if has_words and min(fitting[form], moments.count()) < _MOSTLY * n_known:
        return  # MAR-101 is no date
    usual = quoted(text.filter(moments.is_not_null()).first() or text.filter(looks)[0])
    odd = at_rows(text, moments.is_null() & text.is_not_null())
    name = quoted(text.name)
    if n < n_known or has_words:
        raise TableError(
            f"column {name} holds dates such as {usual}, but {odd}: {CORRECT_IT}, or --drop"
            f" {one_line(text.name)}"
        )
    raise TableError(
        f"column {name} holds dates of several forms, such as {usual}, but {odd}: write them all"
        " as 2024-01-31, or take the column out"
    )


def read_dates(series: pl.Series, form: str) -> pl.Series:
    """Return moments, null where missing; TableError names a row that holds none."""
    if series.dtype == pl.Time:
        return (series.to_physical() // 1000).cast(pl.Datetime("us"))
    if series.dtype.is_temporal():
        return series.cast(pl.Datetime("us"))
    text = series.cast(pl.String).replace("None", None)  # as a whole column of them is read
    form = form or form_of(text) or FORMS[0]
    moments = _parsed(text, form)
    wrong = moments.is_null() & text.is_not_null()
    if wrong.any():
        raise TableError(
            f"column {quoted(series.name)} must hold dates or times as {_in_words(form)}, got"
            f" {at_rows(text, wrong)}: {CORRECT_IT}"
        )
    return moments


def _parsed(text: pl.Series, form: str) -> pl.Series:
    """Read text in one form; null for anything else."""
    plain = text.str.replace(r"(\d)T(\d)", "$1 $2").str.strip_suffix("Z")
    if form == _QUARTERS:
        month = 3 * text.str.extract(r"(?i)Q([1-4])").cast(pl.Int64) - 2
        plain = text.str.extract(r"(\d{4})") + "-" + month.cast(pl.String)
    if form in _OTHERS:
        before, after, form = _OTHERS[form]
        plain = pl.select(before + plain + after).to_series()
    if "%H" in form:
        return plain.str.to_datetime(form, strict=False, time_unit="us")
    return plain.str.to_date(form, strict=False).cast(pl.Datetime("us"))


def _pattern(form: str) -> str:
    """Return a pattern of text in a form, whose years have as many digits as they say."""
    if form == _QUARTERS:
        return _QUARTER
    digits = {"%Y": r"\d{4}", "%y": r"\d{2}", "%.f": r"\.\d+", "%b": _MONTH, "%B": _MONTH}
    parts = re.split("(%Y|%y|%m|%b|%B|%d|%H|%M|%S|%\\.f)", form)
    pieces = [
        digits.get(part, r"\d{1,2}") if part.startswith("%") else re.escape(part) for part in parts
    ]
    return "^" + "".join(pieces).replace(r"\ ", "[ T]") + "Z?$"


def _in_words(form: str) -> str:
    names = {"%Y": "year", "%y": "year", "%m": "month", "%d": "day", "%H": "hour", "%M": "minute"}
    names |= {"%S": "second", "%.f": "", "%b": "month", "%B": "month", "Q%q": "quarter"}
    for code, word in names.items():
        form = form.replace(code, word)
    return form


def _seconds(moments: pl.Series) -> Float[np.ndarray, " n"]:
    micro = moments.to_physical().cast(pl.Float64).fill_null(float("nan"))
    return micro.to_numpy() / 1e6


def _varying(seconds: Float[np.ndarray, " n"], form: str) -> tuple[str, ...]:
    """Return the parts that tell rows apart."""
    if not len(seconds) or np.ptp(seconds) == 0.0:
        return ()
    parts = []
    is_date = form not in ("%H:%M", "%H:%M:%S") and np.ptp(np.floor(seconds / _DAY)) > 0.0
    if is_date:
        parts.append(YEARS)
        if np.ptp(seconds) >= _SEASONS:
            parts.append(SEASON)
        days = np.unique(_weekdays(seconds))
        has_days = len(days) > 1 and not _are_of_months(seconds)
        if has_days and len(seconds) >= _ROWS_A_WEEKDAY * 7:
            parts.append(WEEKDAY)
    if np.ptp(seconds % _DAY) > 0.0:
        parts.append(HOUR)
    return tuple(parts)


def _weekdays(seconds: np.ndarray) -> np.ndarray:
    return (np.floor(seconds / _DAY) + 3.0) % 7.0  # 1970 began on a Thursday


def _are_of_months(seconds: np.ndarray) -> bool:
    """Whether all are first or all last days of months, which stand for the month."""
    days = np.floor(seconds / _DAY).astype("datetime64[D]")
    each = (days, days + 1)
    return any((one == one.astype("datetime64[M]")).all() for one in each)


def _round(turns: np.ndarray) -> np.ndarray:
    angle = 2.0 * np.pi * turns
    return np.column_stack([np.sin(angle), np.cos(angle)])


def _flags(seconds: np.ndarray) -> np.ndarray:
    days = _weekdays(seconds)[:, None]
    return np.where(np.isnan(days), np.nan, days == np.arange(7.0))


_PARTS = {
    YEARS: lambda seconds: (1970.0 + seconds / _YEAR)[:, None],
    SEASON: lambda seconds: _round(seconds / _YEAR),
    WEEKDAY: _flags,
    HOUR: lambda seconds: _round(seconds / _DAY),
}
