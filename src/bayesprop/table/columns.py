"""One column of a table as numbers: how it is chosen from training data, and how it is applied.

Not by scikit-learn's encoders: an encoding is stored as JSON, and says which values of which column
and row it had to interpret or refuses; what is left for an encoder are two operations on arrays.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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
    check_dates,
    dated,
    days_as_text,
    extents,
    has_offsets,
    in_words,
    parsed,
    read_dates,
    since_1970,
)
from bayesprop.table.encoded import (
    FEW_LEVELS,
    SIDES,
    Encoded,
    EncodedColumn,
    FittedColumn,
    LevelsColumn,
    has_limits,
    has_ranges,
    limits_as_values,
    numbers_rows,
    of_unseen,
    on_limits,
    on_ranges,
    places_of,
    ranges_as_values,
    sides,
    stand_in,
    stray_words,
    taken_for_missing,
)
from bayesprop.table.errors import Message, StrayError, TableError, counted, quoted
from bayesprop.table.values import (
    DURATION,
    WRITTEN,
    are_big_names,
    are_codes,
    as_integers,
    as_levels,
    as_numbers,
    check_dtype,
    cleaned,
    is_number,
    is_text,
    looks_like_number,
    reading,
    typed,
    unmarked,
    without,
)

_LIKE_DURATIONS = ("%H:%M", "%H:%M:%S")
DAY_SECONDS, YEAR_SECONDS = 86_400.0, 365.2425 * 86_400.0
_SEASONS, _ROWS_A_WEEKDAY = 180.0 * DAY_SECONDS, 3
YEARS, SEASON, WEEKDAY, HOUR = "years", "season", "weekday", "hour"
MOSTLY_UNIQUE = 0.8  # levels a row beyond which text names the rows
_POST_NAME = re.compile(r"(zip|post(al)?)[_ ]?(code)?s?|plz|postleitzahl", re.I)


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


@dataclass(frozen=True, kw_only=True)
class NumericColumn(EncodedColumn):
    """A column of numbers or of true and false (1 and 0).

    written
        How text of numbers is written, one of `WRITTEN` or `DURATION`; None: as numbers are.
    unit
        What stands beside each; None: anything.
    limits
        On which sides of a limit, as "<0.5", some lie: those are the limit, and marked beside.
    ranges
        Whether some were ranges, as "10 - 20": any are read as their middle.
    """

    kind: ClassVar = "numeric"

    written: str | None = None
    unit: str | None = None
    limits: tuple[str, ...] = ()
    ranges: bool = False

    @property
    def is_read_as_text(self) -> bool:
        """Whether its marks are to mean what they meant in training."""
        return self.written is not None

    @property
    def is_plain(self) -> bool:
        """Whether numbers stand there and nothing else."""
        return self.written is None and not self.limits

    @property
    def value_names(self) -> list[str]:
        """Names of the encoded columns but that of gaps."""
        return [self.name, *(f"{self.name} is {side} a limit" for side in self.limits)]

    @property
    def is_good(self) -> bool:
        """Whether the fields belong together as a fit leaves them."""
        is_written = self.written in (None, *WRITTEN, DURATION)
        return is_written and set(self.limits) <= {*SIDES}

    def encode(self, series: pl.Series) -> Encoded:
        """Return the numbers, limits marked beside; TableError on text, dates or infinity."""
        numbers = self.numbers(series)
        values = numbers.fill_null(np.nan).to_numpy().reshape(-1, 1)
        if not (self.limits or is_text(series)):
            return self.with_gaps(values, numbers.is_null())
        side = sides(series)
        marks = [(side == one).fill_null(value=False).to_numpy() for one in self.limits]
        gap = np.where(np.isnan(values[:, 0]), np.nan, 0.0)
        unknown = side.set(side.is_in(self.limits).fill_null(value=False), None)
        values = np.column_stack([values, *(mark + gap for mark in marks)])
        on_new = () if self.ranges else on_ranges(series)
        on_unknown = on_limits(series, unknown, "column.unknown_limits")
        said = (*self._read_anew(series, numbers), *on_unknown, *on_new)
        return self.with_gaps(values, numbers.is_null(), said)

    def _read_anew(self, series: pl.Series, numbers: pl.Series) -> tuple[Message, ...]:
        """Say how numbers with marks are read where training had none: "22%" may be its 0.22."""
        text = cleaned(series)
        is_marked = looks_like_number(text) & ~is_number(text) & numbers.is_not_null()
        is_marked &= sides(series).is_null()
        if self.written is not None or not is_marked.any():
            return ()
        return (reading(text.filter(is_marked), numbers.filter(is_marked)),)

    def numbers(self, series: pl.Series) -> pl.Series:
        """Return them as floats, null where they are missing, or limits unlike any before."""
        if not is_text(series):
            return as_numbers(series)
        side = sides(series)
        series = ranges_as_values(limits_as_values(self.without_words(series)))
        numbers = as_numbers(series, self.written, self.unit)
        return numbers.set(side.is_not_null() & ~side.is_in(self.limits), None)


@dataclass(frozen=True, kw_only=True)
class CategoryColumn(LevelsColumn):
    """A column of levels: one 0/1 column for each.

    levels
        Sorted. A row whose level is missing, or was not in the training data, is NaN in all.
    """

    kind: ClassVar = "category"

    levels: tuple[str, ...]

    @property
    def known(self) -> tuple[str, ...]:
        """Levels of the training rows."""
        return self.levels

    @property
    def level_names(self) -> list[str]:
        """Names of the columns that stand for the levels."""
        return [f"{self.name}={level}" for level in self.levels]

    def encode_levels(self, text: pl.Series) -> tuple[Float[np.ndarray, "n k"], list[Message]]:
        """Return the 0/1 columns; a level that training did not have counts as missing."""
        codes = places_of(text, self.levels)
        values = (codes[:, None] == np.arange(len(self.levels))).astype(np.float64)
        values[codes < 0] = np.nan
        return values, of_unseen(text, codes)


Schema = Mapping[str, FittedColumn]
"""What the columns of a table hold, by name."""


def understood(frame: pl.DataFrame) -> Schema:
    """Understand every column of a table."""
    return {one.name: fit_column(one) for one in frame}


def fit_column(series: pl.Series) -> FittedColumn:
    """Choose what a column holds and how it is encoded; one that is not understood is dropped."""
    return _or_left_out(_fit_column, series)


def fit_rows(whole: FittedColumn, rows: pl.Series) -> FittedColumn:
    """Choose the encoding of a column that is understood from some of its rows.

    These may look like something else, such as a date whose day could be a month.
    """
    return whole if whole.column is None else _or_left_out(_fit_rows, rows, whole)


def _or_left_out(
    fit: Callable[..., FittedColumn], series: pl.Series, *whole: FittedColumn
) -> FittedColumn:
    try:
        return fit(finite(series), *whole)
    except TableError as error:
        left_out = error.first.within("column.left_out")
        return FittedColumn(series.name, None, questions=(left_out,))


def finite(series: pl.Series) -> pl.Series:
    """Return a column with nulls for infinities."""
    return series.set(series.is_infinite(), None) if series.dtype.is_float() else series


def infinities(frame: pl.DataFrame) -> dict[str, Message]:
    """Return the columns that hold infinities, each with a remark."""
    found = {one.name: one.is_infinite() for one in frame if one.dtype.is_float()}
    return {
        name: StrayError(frame[name], "finite numbers", which).remark
        for name, which in found.items()
        if which.any()
    }


def _fit_column(series: pl.Series) -> FittedColumn:
    """Understand a column; TableError if it cannot be."""
    check_dtype(series)
    if series.dtype in (pl.Categorical, pl.Enum):  # by their owner's word, even of numbers
        return _fit_text(cleaned(series), is_declared=True)
    if series.dtype == pl.Duration:
        return _fit_numbers(series, NumericColumn(series.name, written=DURATION))
    if series.dtype == pl.String:
        series = typed(cleaned(series))
    if (dates := fit_dates(series)) is not None:
        return dates
    if _are_post_codes(series):
        fitted = _fit_text(as_levels(series))
        as_text = Message.of("column.post_codes", series.name)
        return (
            fitted if fitted.column is None else fitted._replace(remarks=(as_text,), questions=())
        )
    if are_big_names(series, MOSTLY_UNIQUE):
        fitted = _fit_text(as_levels(series))
        as_names = Message.of("column.big_numbers", series.name)
        return fitted if fitted.column is None else fitted._replace(remarks=(as_names,))
    column = _numbers_in(series) if series.dtype == pl.String else NumericColumn(series.name)
    return _fit_text(series) if column is None else _fit_numbers(series, column)


def _fit_rows(rows: pl.Series, whole: FittedColumn) -> FittedColumn:
    """Choose the encoding from some rows of a column."""
    if isinstance(whole.column, CategoryColumn):
        fitted = _fit_text(as_levels(rows), is_declared=True)
        are_names = rows.dtype.is_numeric() or _are_post_codes(rows)
        are_names &= not (fitted.column is None or fitted.is_constant)
        return fitted._replace(remarks=whole.remarks, questions=()) if are_names else fitted
    if rows.dtype == pl.String:
        rows = typed(cleaned(rows))
    dates = fit_dates(rows, whole.column) if isinstance(whole.column, DateColumn) else None
    if dates is not None:
        return dates
    assert isinstance(whole.column, NumericColumn)
    return _fit_numbers(rows, whole.column)


def _numbers_in(text: pl.Series) -> NumericColumn | None:
    """Return how text holds numbers, but for some words; None where it holds levels."""
    side, is_limited = sides(text), has_limits(text)
    limits = tuple(one for one in SIDES if one in side) if is_limited else ()
    text = limits_as_values(text) if is_limited else text
    text = ranges_as_values(text) if (ranges := has_ranges(text)) else text
    words = stray_words(text)
    column = NumericColumn(text.name, words=words, limits=limits, ranges=ranges)
    others = without(text, words)
    if typed(others).dtype.is_numeric():
        return column
    marked = None if are_codes(text.drop_nulls()) else unmarked(others)
    return None if marked is None else replace(column, written=marked.written, unit=marked.unit)


def _fit_numbers(series: pl.Series, column: NumericColumn) -> FittedColumn:
    """Choose whether a column of numbers is used; `column` says how they are written."""
    name, numbers = series.name, column.numbers(series)
    known = numbers.drop_nulls().sort()
    if known.is_empty():
        return FittedColumn.dropped("empty", name)
    column = replace(column, missing=len(known) < len(numbers))
    if known[0] == known[-1]:
        return _constant(column, f"{known[0]:g}")
    if numbers_rows(numbers):
        return FittedColumn.dropped("row_numbers", name)._replace(is_row_number=True)
    is_marked = column.written is not None and series.dtype == pl.String
    read = (reading(series, numbers),) if is_marked else ()
    limits = on_limits(series, sides(series), "column.limits") if column.limits else ()
    asked = (*taken_for_missing(series, column.words, "numbers"), *stand_in(numbers))
    return FittedColumn(name, column, (*read, *limits, *on_ranges(series)), asked)


def _constant(column: NumericColumn | CategoryColumn, value: str) -> FittedColumn:
    """Drop a column, unless its missingness may predict the target."""
    code = "constant_but_for_gaps" if column.missing else "constant"
    dropped = FittedColumn.dropped(code, column.name, value=value)
    return dropped._replace(column=column if column.missing else None, is_constant=True)


def _are_post_codes(series: pl.Series) -> bool:
    """Whether a column of such a name holds whole numbers of four digits or more, or text too."""
    is_one = series.dtype.is_numeric() or series.dtype == pl.String
    if not is_one or not _POST_NAME.fullmatch(series.name.strip()):
        return False
    if series.dtype == pl.String:
        return bool(series.str.contains(r"^[0-9]{4}").any())
    known = as_numbers(series).drop_nulls()
    return len(known) > 0 and bool(((known >= 1000.0) & (known == known.round())).all())


def _fit_text(text: pl.Series, *, is_declared: bool = False) -> FittedColumn:
    name, known = text.name, text.drop_nulls()
    if known.is_empty():
        return FittedColumn.dropped("empty", name)
    n_levels = known.n_unique()
    if not is_declared:
        check_dates(text)
    missing = len(text) - len(known)
    if n_levels == 1:
        return _constant(CategoryColumn(name, missing > 0, levels=(known[0],)), quoted(known[0]))
    if n_levels > FEW_LEVELS and n_levels > MOSTLY_UNIQUE * len(known):
        dropped = FittedColumn.dropped("names", name, n=n_levels, n_rows=len(known))
        return _asked_if_marked(dropped._replace(is_name=True), known)
    column = CategoryColumn(name, missing > 0, levels=tuple(known.unique().sort()))
    return _questioned(column, known)


def _asked_if_marked(dropped: FittedColumn, known: pl.Series) -> FittedColumn:
    """Ask about text that was dropped, where it may be numbers in several units."""
    if is_number(known).all() or not looks_like_number(known).all():
        return dropped
    remark = Message.of("dropped.names_or_numbers", dropped.name, example=known[0])
    return dropped._replace(remarks=(), questions=(remark,), is_name=False)


def _questioned(column: CategoryColumn, known: pl.Series) -> FittedColumn:
    """Say, or ask, why text that looks like numbers is categories."""
    plain = is_number(known)
    n = len(column.levels)
    if plain.sum() >= len(known) / 2 and not plain.all():
        stray = known.filter(~plain)
        words = f"{quoted(stray[0])} in {counted(len(stray), 'row')}"
        remark = Message.of("column.words_among_numbers", column.name, words=words, n=n)
        return FittedColumn(column.name, column, questions=(remark,))
    if not looks_like_number(known).all():
        return FittedColumn(column.name, column)
    remark = Message.of("column.like_numbers", column.name, example=column.levels[0], n=n)
    return FittedColumn(column.name, column, (remark,))
