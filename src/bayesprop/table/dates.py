"""Dates and times of day as numbers: years, season, weekday, hour."""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from bayesprop.table.date_forms import (
    DAY,
    FORMS,
    MONTH,
    MOSTLY,
    TIME,
    TIMES_OF_DAY,
    YEAR,
    Dated,
    dated,
    days_as_text,
    extents,
    has_offsets,
    in_words,
    parsed,
    read_dates,
    since_1970,
)
from bayesprop.table.encoded import Encoded, EncodedColumn, FittedColumn
from bayesprop.table.errors import Message, counted, quoted
from bayesprop.table.unmeasured import taken_for_missing
from bayesprop.table.values import as_integers

_LIKE_DURATIONS = ("%H:%M", "%H:%M:%S")
DAY_SECONDS, YEAR_SECONDS = 86_400.0, 365.2425 * 86_400.0
_SEASONS, _ROWS_A_WEEKDAY = 180.0 * DAY_SECONDS, 3
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
        """Whether the fields belong together as a fit leaves them."""
        is_part = bool(self.parts) and all(part in _PARTS for part in self.parts)
        return is_part and self.form in ("", *FORMS)

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
        series = self.without_words(series)
        moments, extent = read_dates(series, self.form), extents(series, self.form)
        tells = {part: extent >= _LEAST[part] for part in self.parts}
        seconds = _seconds(moments)
        columns = [_PARTS[part](np.where(tells[part], seconds, np.nan)) for part in self.parts]
        return self.with_gaps(np.concatenate(columns, axis=1), moments.is_null())


def fit_dates(series: pl.Series, whole: DateColumn | None = None) -> FittedColumn | None:
    """Choose how a column of dates is encoded, and say so; None where it does not hold dates.

    whole
        What the whole column was found to be, where these are some of its rows.
    """
    seconds_form = since_1970(series)
    series = as_integers(series).cast(pl.String) if seconds_form else days_as_text(series)
    name, is_text = series.name, not series.dtype.is_temporal()
    if whole is not None:
        reading = Dated(whole.form, whole.words)
    elif seconds_form:
        reading = Dated(seconds_form)
    else:
        reading = dated(series) if is_text else Dated("")
    if reading is None:
        return None
    form, words, why = reading
    moments = parsed(series, form) if is_text else read_dates(series, form)
    if moments.null_count() == len(moments):
        return FittedColumn.dropped("empty", name)
    known = moments.is_not_null()
    seconds, extent = _seconds(moments.filter(known)), extents(series.filter(known), form)
    example = str(series.filter(moments.is_not_null())[0])
    if not (parts := _varying(seconds, extent, form)):
        gone = FittedColumn.dropped("constant", name, value=quoted(example))
        return gone._replace(is_constant=True)
    column = DateColumn(name, len(seconds) < len(series), words=words, form=form, parts=parts)
    how = "" if form in ("", "%Y-%m-%d", "%Y-%m-%d~") else f", read as {in_words(form)}"
    how += ", in UTC" if seconds_form or (is_text and form and has_offsets(series)) else ""
    how += f", for {why}" if why else ""
    how += _shortened(extent)
    are_maybe_durations = is_text and form in _LIKE_DURATIONS
    code = "column.times_of_day" if are_maybe_durations else "column.dates"
    remark = Message.of(code, name, example=example, how=how, parts=", ".join(parts))
    asked = taken_for_missing(series, words, f"dates such as {quoted(example)}")
    if why:
        return FittedColumn(name, column, questions=(remark, *asked))
    return FittedColumn(name, column, (remark,), questions=asked)


def _shortened(extent: Int[np.ndarray, " n"]) -> str:
    lacks = {YEAR: "only the year", MONTH: "only the month", DAY: "no time"}
    counts = {lack: (extent == much).sum() for much, lack in lacks.items() if much < extent.max()}
    return "".join(f", in {counted(n, 'row')} {lack}" for lack, n in counts.items() if n)


def _seconds(moments: pl.Series) -> Float[np.ndarray, " n"]:
    micro = moments.to_physical().cast(pl.Float64).fill_null(float("nan"))
    return micro.to_numpy() / 1e6


def _varying(
    seconds: Float[np.ndarray, " n"], extent: Int[np.ndarray, " n"], form: str
) -> tuple[str, ...]:
    """Return the parts that tell rows apart, and that most rows tell."""
    tells = [part for part in _PARTS if (extent >= _LEAST[part]).mean() >= MOSTLY]
    if not len(seconds) or np.ptp(seconds) == 0.0:
        return ()
    parts = []
    is_date = form not in TIMES_OF_DAY and np.ptp(np.floor(seconds / DAY_SECONDS)) > 0.0
    if is_date:
        parts.append(YEARS)
        if np.ptp(seconds) >= _SEASONS:
            parts.append(SEASON)
        days = np.unique(_weekdays(seconds))
        has_days = len(days) > 1 and not _are_of_months(seconds)
        if has_days and len(seconds) >= _ROWS_A_WEEKDAY * 7:
            parts.append(WEEKDAY)
    if np.ptp(seconds % DAY_SECONDS) > 0.0:
        parts.append(HOUR)
    return tuple(part for part in parts if part in tells)


def _weekdays(seconds: np.ndarray) -> np.ndarray:
    return (np.floor(seconds / DAY_SECONDS) + 3.0) % 7.0  # 1970 began on a Thursday


def _are_of_months(seconds: np.ndarray) -> bool:
    """Whether all are first or all last days of months, which stand for the month."""
    days = np.floor(seconds / DAY_SECONDS).astype("datetime64[D]")
    each = (days, days + np.timedelta64(1, "D"))
    return any((one == one.astype("datetime64[M]")).all() for one in each)


def _round(turns: np.ndarray) -> np.ndarray:
    angle = 2.0 * np.pi * turns
    return np.column_stack([np.sin(angle), np.cos(angle)])


def _flags(seconds: np.ndarray) -> np.ndarray:
    days = _weekdays(seconds)[:, None]
    return np.where(np.isnan(days), np.nan, days == np.arange(7.0))


_PARTS = {
    YEARS: lambda seconds: (1970.0 + seconds / YEAR_SECONDS)[:, None],
    SEASON: lambda seconds: _round(seconds / YEAR_SECONDS),
    WEEKDAY: _flags,
    HOUR: lambda seconds: _round(seconds / DAY_SECONDS),
}
_LEAST = {YEARS: YEAR, SEASON: MONTH, WEEKDAY: DAY, HOUR: TIME}
"""How much of a moment a part needs."""
