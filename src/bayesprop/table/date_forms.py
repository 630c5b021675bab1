"""Text that holds dates, times of day and durations: in which form, and what it means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import time, timedelta
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Int

from bayesprop.table.errors import Message, StrayError, TableError, at_rows, joined
from bayesprop.table.values import (
    DURATION,
    MARKS,
    PARTS_OF_DURATION,
    as_duration,
    as_integers,
    cleaned,
    column_of,
    without,
)

_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y",
    "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y",
    "%B %d, %Y", "%b %d %Y", "%B %d %Y",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S%.f", " %I:%M %p", " %I:%M:%S %p")
QUARTERS = "%Y Q%q"
TIMES_OF_DAY = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
_MIDNIGHT, _ON_A_DAY = ("1970-01-01 ", ""), "%Y-%m-%d "
_OTHERS = {
    "%Y-%m": ("", "-01", "%Y-%m-%d"),
    "%b %Y": ("1 ", "", "%d %b %Y"),
    "%B %Y": ("1 ", "", "%d %B %Y"),
    "%b-%y": ("1-", "", "%d-%b-%y"),
    "%b-%Y": ("1-", "", "%d-%b-%Y"),
    "%B-%Y": ("1-", "", "%d-%B-%Y"),
    **{form: (*_MIDNIGHT, _ON_A_DAY + form) for form in TIMES_OF_DAY},
    QUARTERS: ("", "-01", "%Y-%m-%d"),
    "%Y%m%d": ("", "", "%Y%m%d"),
    "%Y%m%dT%H%M%S": ("", "", "%Y%m%d %H%M%S"),
}
"""Forms without separators, of less than a day or no day: what stands before and after them, and
the form then."""
_SINCE_1970 = {"%s": 1, "%s%.f": 1000}
"""Forms of seconds and milliseconds since 1970: how many a second."""
_A_CLOCK = re.compile(r"time|stamp|date|epoch|unix|created|updated|(\b|_)(ts|at)$", re.IGNORECASE)
_FIRST_SECOND, _LAST_SECOND = 631_152_000, 2_208_988_800  # of 1990 and of 2040
_OR_LESS = "~"
"""After a date: or less of it, with a time of day or without."""
_ANYHOW = "*"
"""After a date: with any separators, years of two digits or four, as spreadsheets leave them."""
_MIXED = ("%d/%m/%Y" + _ANYHOW, "%m/%d/%Y" + _ANYHOW)
_SEPARATED = r"^([0-9]{1,2})[-/.]([0-9]{1,2})[-/.]([0-9]{4}|[0-9]{2})([T ].*)?$"
_WHOLE = (*(date + time for date in _DATES for time in _TIMES), *_OTHERS)
_SHORTER = tuple(date + _OR_LESS for date in _DATES)
FORMS = (*_WHOLE, *_SINCE_1970, *_SHORTER, *_MIXED)
_YEAR, _YEAR_AND_MONTH = r"^[0-9]{4}$", r"^[0-9]{4}-[0-9]{1,2}$"
_MIDDLES = {_YEAR: "-07-02", _YEAR_AND_MONTH: "-16"}
"""What less than a day lacks to be the middle of its year or month."""
YEAR, MONTH, DAY, TIME = range(4)
"""How much of a moment is known."""
_QUARTER = r"^(?i:[0-9]{4}[ -]?Q[1-4]|Q[1-4][ -]?[0-9]{4})$"
_MONTH = "(?i:(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*)"
_WITH_WORDS = (
    rf"^(([0-9]{{1,2}}[ -])?{_MONTH}[ -][0-9]{{2,4}}|{_MONTH} [0-9]{{1,2}},? [0-9]{{4}})"
    r"( +[0-9]{1,2}:.*)?$"
)
_TIME_OF_DAY = r"^[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?( ?[AaPp][Mm])?$"
_DATE = (
    r"^([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.]([0-9]{2}|[0-9]{4}))"
    r"([T ].*)?$"
)
_LOOKS = (
    r"^([0-9]{4}|[0-9]{1,2})[-/.][0-9]{1,2}([-/.]([0-9]{4}|[0-9]{1,2}))?([T ] *[0-9]{1,2}:.*)?$"
)
_FIRST_DAY, _LAST_DAY = 19_000_101, 21_001_231
_COMPACT = r"^(19|20)[0-9][0-9](0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])(T[0-9]{6})?$"
_ZONE = r"(:[0-9]{2}(?:\.[0-9]+)?) ?(?:Z|UTC|GMT|\+00:?00)$"
_OFFSET = (
    r"(T[0-9]{1,2}:[0-9]{2}|[T ][0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?)"
    r"( ?([+-])(0[0-9]|1[0-4])(?::?(00|15|30|45))?)$"
)
"""From UTC, of a time of day with its T or its seconds: "10:00-11:00" is likelier a span."""
MOSTLY = 0.9
"""Share of the values of a column of dates that are dates; of no more is less than a day known."""
TIME_OF_DAY = "time"
KINDS = (DURATION, TIME_OF_DAY)
"""What `--kind` calls durations and times of day."""
HOURS, PADDED_HOURS, MINUTES, DAYS = "h:mm:ss", "hh:mm:ss", "m:ss", "days h:mm:ss"
DURATION_FORMS = (DURATION, HOURS, PADDED_HOURS, MINUTES, DAYS)
"""How durations are written: by a type of their own, or as text."""
_CLOCK = r"^([01]?[0-9]|2[0-3]):[0-9]{2}(:[0-9]{2})?$"
_NAME = re.compile(
    r"(.*[^a-z])?(dur(ation)?s?|elapsed|laps?|splits?|pace|run[ _-]?times?"
    r"|(time|hours|minutes)[ _-]?(taken|spent|needed|worked)|(lap|split|elapsed)[ _-]?times?)"
    r"([^a-z].*)?",
    re.I,
)
_MOSTLY = 0.9
"""Share of the values of a column of durations that are some; the others are missing."""


class Dated(NamedTuple):
    """The form in which text holds dates; words in some rows; why it is not another form."""

    form: str
    words: tuple[str, ...] = ()
    why: str = ""


def dated(text: pl.Series) -> Dated | None:
    """Return how text holds dates, but for words in at most a tenth of its rows; None: it does not.

    TableError where nothing tells day and month apart.
    """
    known = text.drop_nulls()
    if known.dtype != pl.String or known.is_empty():
        return None
    forms = (_LOOKS, _TIME_OF_DAY, _QUARTER, _WITH_WORDS, _YEAR, _COMPACT)
    looks = known.str.contains("|".join(forms))
    least = len(known) * (MOSTLY if len(known) > 1 else 1.0)
    if looks.sum() < least:
        return None
    moments = _readings(known, _WHOLE, least)
    n_less = known.str.contains(f"{_YEAR}|{_YEAR_AND_MONTH}").sum()
    if _most_read(moments) < len(known) and n_less <= MOSTLY * len(known):
        moments |= _readings(known, _SHORTER, least)
    if _most_read(moments) < least:
        moments = _readings(known, _MIXED, least)
    most = _most_read(moments)
    if most < least:
        return None
    fits = [form for form, one in moments.items() if one.count() == most]
    first = moments[fits[0]]
    words = tuple(known.filter(first.is_null()).unique().sort())
    others = [form for form in fits[1:] if not moments[form].equals(first)]
    if not others or known.n_unique() == 1:  # one day, whichever it is
        return Dated(fits[0], words)
    return _likelier(text, {form: moments[form] for form in (fits[0], others[0])}, words)


def days_as_text(series: pl.Series) -> pl.Series:
    """Return whole numbers as text if all are days such as 20240131; others as they are."""
    ends = _ends(series)
    if ends is None or ends[0] < _FIRST_DAY or ends[1] > _LAST_DAY:
        return series
    text = as_integers(series).cast(pl.String)
    return text if parsed(text, "%Y%m%d").null_count() == text.null_count() else series


def since_1970(series: pl.Series) -> str | None:
    """Return the form of seconds or milliseconds since 1970; None: no such numbers.

    Their column must be called after a clock: other large numbers are as large.
    """
    ends = _ends(series)
    if ends is None or not _A_CLOCK.search(series.name):
        return None
    for form, unit in _SINCE_1970.items():
        if _FIRST_SECOND * unit <= ends[0] and ends[1] <= _LAST_SECOND * unit:
            return form
    return None


def _ends(series: pl.Series) -> tuple[float, float] | None:
    """Return the least and the largest number; None where there is none."""
    if not series.dtype.is_numeric():
        return None
    known = series.cast(pl.Float64).fill_nan(None).drop_nulls().to_numpy()
    return (known.min(), known.max()) if len(known) else None


def _readings(known: pl.Series, forms: Iterable[str], least: float) -> dict[str, pl.Series]:
    """Read text in every form that enough of it looks like, whatever its digits."""
    shapes = known.str.replace_all(r"[0-9]", "1").value_counts(name="n").rows()
    fits = [
        form
        for form in forms
        if sum(n for shape, n in shapes if re.match(_pattern(form), shape)) >= least
    ]
    return {form: parsed(known, form) for form in fits}


def _most_read(moments: dict[str, pl.Series]) -> int:
    """Return the largest number of values that one form reads."""
    return max((one.count() for one in moments.values()), default=0)


def _likelier(text: pl.Series, moments: dict[str, pl.Series], words: tuple[str, ...]) -> Dated:
    """Choose between two readings of dates by which makes the more regular column."""
    known = {form: one.drop_nulls() for form, one in moments.items()}
    longest = max(map(_span, known.values()))
    tests: tuple[tuple[str, Callable[[pl.Series], bool]], ...] = (
        ("all are then of one day of the month", _are_monthly),
        ("rows are then in order", lambda one: one.is_sorted() or one.is_sorted(descending=True)),
        ("all are then within half the time", lambda one: 2 * _span(one) <= longest),
    )
    passing = {why: [form for form, one in known.items() if test(one)] for why, test in tests}
    votes = {forms[0]: why for why, forms in passing.items() if len(forms) == 1}
    if len(votes) == 1 and max(one.n_unique() for one in known.values()) > 2:
        form, why = votes.popitem()
        return Dated(form, words, why)
    raise TableError(Message.of("date.exchanged", text.name, example=text.drop_nulls()[0]))


def _are_monthly(moments: pl.Series) -> bool:
    return moments.dt.day().n_unique() == 1 and bool((moments.dt.time() == time()).all())


def _span(moments: pl.Series) -> float:
    ends: Any = moments.max(), moments.min()
    return (ends[0] - ends[1]).total_seconds()


def check_dates(text: pl.Series) -> None:
    """Refuse text that holds dates of several forms."""
    looks = text.str.contains("|".join((_DATE, _TIME_OF_DAY, _QUARTER)))
    n_known, n = len(text) - text.null_count(), int(looks.sum())
    if n < 2 or n < MOSTLY * n_known:
        return
    form = max(FORMS, key=lambda form: parsed(text, form).count())
    moments = parsed(text, form)
    usual = text.filter(moments.is_not_null()).first() or text.filter(looks)[0]
    odd = at_rows(text, moments.is_null() & text.is_not_null())
    if moments.null_count() == len(text):
        raise TableError(Message.of("date.unread", text.name, where=odd))
    raise TableError(Message.of("date.several", text.name, example=usual, where=odd))


def read_dates(series: pl.Series, form: str) -> pl.Series:
    """Return moments, null where missing; TableError names a row that holds none."""
    if series.dtype == pl.Time:
        return (series.to_physical() // 1000).cast(pl.Datetime("us"))
    if series.dtype == pl.Duration:
        raise TableError(Message.of("date.duration", series.name))
    if series.dtype.is_temporal():
        return series.cast(pl.Datetime("us"))
    text = without(cleaned(as_integers(series)), MARKS)
    if not form:
        reading = dated(text)
        form = FORMS[0] if reading is None else reading.form
    moments = parsed(text, form)
    wrong = moments.is_null() & text.is_not_null()
    if wrong.any():
        raise StrayError(text, f"dates or times as {in_words(form)}", wrong)
    return moments


def parsed(text: pl.Series, form: str) -> pl.Series:
    """Read text in one form; null for anything else. Less than a day is the middle of its span.

    A time with an offset from UTC is the moment in UTC.
    """
    if form.endswith(_OR_LESS):
        return _or_less(text, form.removesuffix(_OR_LESS))
    if form.endswith(_ANYHOW):
        plain, date = text.str.replace(_SEPARATED, "$1/$2/$3$4"), form.removesuffix(_ANYHOW)
        dates = date.replace("%Y", "%y"), date  # "%Y" would take 24 for a year
        return _first_of([_or_less(plain, one) for one in dates])
    if form in _SINCE_1970:
        seconds = text.cast(pl.Float64, strict=False) / _SINCE_1970[form]
        seconds = seconds.set(~seconds.is_between(_FIRST_SECOND, _LAST_SECOND), None)
        return (1e6 * seconds).round().cast(pl.Int64).cast(pl.Datetime("us"))
    plain, ahead = text, timedelta()
    if has_offsets(text):
        plain, ahead = text.str.replace(_OFFSET, "$1"), _ahead_of_utc(text)
    plain = plain.str.replace(r"([0-9])T([0-9])", "$1 $2").str.replace(_ZONE, "$1")
    plain = plain.str.replace_all(" +", " ")
    if form == QUARTERS:
        month = 3 * text.str.extract(r"(?i)Q([1-4])").cast(pl.Int64) - 2
        plain = text.str.extract(r"([0-9]{4})") + "-" + month.cast(pl.String)
    if form.endswith("%p"):
        plain = plain.str.replace(r" ?([AaPp][Mm])$", " $1")
    if form in _OTHERS:
        before, after, form = _OTHERS[form]
        plain = pl.select(before + plain + after).to_series()
    if "%H" in form or "%I" in form:
        return plain.str.to_datetime(form, strict=False, time_unit="us") - ahead
    return plain.str.to_date(form, strict=False).cast(pl.Datetime("us"))


def has_offsets(text: pl.Series) -> bool:
    """Whether some times in text have an offset from UTC."""
    return bool(text.str.contains(_OFFSET).any())


def _ahead_of_utc(text: pl.Series) -> pl.Series:
    """Return how far ahead of UTC the times in text are; 0 where it does not say."""
    parts = text.str.extract_groups(_OFFSET).struct.unnest()
    minutes = 60 * parts["4"].cast(pl.Int64) + parts["5"].cast(pl.Int64).fill_null(0)
    sign = pl.when(parts["3"] == "-").then(-1).otherwise(1)
    return parts.select(pl.duration(minutes=(sign * minutes).fill_null(0))).to_series()


def _or_less(text: pl.Series, date: str) -> pl.Series:
    """Read text as a date with any time of day, or of a form that begins with the year, less."""
    if date == "%Y-%m-%d":
        for less, rest in _MIDDLES.items():
            text = text.str.replace(less, "$0" + rest)
    return _first_of([parsed(text, date + time) for time in _TIMES])


def _first_of(readings: list[pl.Series]) -> pl.Series:
    return pl.select(pl.coalesce(readings)).to_series()


def extents(series: pl.Series, form: str) -> Int[np.ndarray, " n"]:
    """Return how much every row of a column tells: a year, a month, a day or a time."""
    if not form.endswith(_OR_LESS) or series.dtype.is_temporal():
        return np.full(len(series), TIME)
    tells = {_YEAR: YEAR, _YEAR_AND_MONTH: MONTH, ":": TIME}
    text, extent = cleaned(series).fill_null(""), np.full(len(series), DAY)
    for pattern, much in tells.items():
        extent[text.str.contains(pattern).to_numpy()] = much
    return extent


@cache
def _pattern(form: str) -> str:
    """Return a pattern of text in a form, whose years have as many digits as they say."""
    if form == QUARTERS:
        return _QUARTER
    if form.endswith(_ANYHOW):
        return _SEPARATED
    if form.endswith(_OR_LESS):
        date = form.removesuffix(_OR_LESS)
        less = [_YEAR, _YEAR_AND_MONTH] if date == "%Y-%m-%d" else []
        return "|".join([_pattern(date + time) for time in _TIMES] + less)
    digits = {"%Y": r"[0-9]{4}", "%y": r"[0-9]{2}", "%.f": r"\.[0-9]+", "%b": _MONTH, "%B": _MONTH}
    digits |= {" %p": " ?[AaPp][Mm]"}
    parts = re.split("(%Y|%y|%m|%b|%B|%d|%H|%I|%M|%S|%\\.f| %p)", form)
    pieces = [digits.get(part, r"[0-9]{1,2}") if "%" in part else re.escape(part) for part in parts]
    zone = r"( ?(Z|UTC|GMT|[+-][0-9][0-9](:?[0-9][0-9])?))?" if "%H" in form else ""
    return "^" + "".join(pieces).replace(r"\ ", "(T| +)") + zone + "$"


def in_words(form: str) -> str:
    """Return a form as people say it: "day/month/year"."""
    names = {"%Y": "year", "%y": "year", "%m": "month", "%d": "day", "%H": "hour", "%M": "minute"}
    names |= {"%S": "second", "%.f": "", "%b": "month", "%B": "month", "Q%q": "quarter"}
    names |= {"%I": "hour", "%p": "AM or PM"}
    names |= {_OR_LESS: " or less, with a time or without", _ANYHOW: ", with any separators"}
    form = form.replace("%Y%m%dT%H%M%S", "%Y%m%d and time").replace("%Y%m%d", "year, month, day")
    if form in _SINCE_1970:
        return f"{'milli' if form.endswith('f') else ''}seconds since 1970"
    for code, word in names.items():
        form = form.replace(code, word)
    return form


def form_of(series: pl.Series) -> str:
    """Return the form in which a column of durations is written, one of `DURATION_FORMS`."""
    if series.dtype != pl.String:
        return DURATION
    text = cleaned(series)
    if text.str.contains(" day").any():
        return DAYS
    if not text.str.contains(":.*:").any():
        return MINUTES
    return HOURS if text.str.contains(r"^[+-]?[0-9]:").any() else PADDED_HOURS


def durations_as(form: str, seconds: pl.Series, std: np.ndarray) -> pl.Series:
    """Write seconds in a form, text to a hundredth of their std or finer; null where not finite.

    Minutes beyond an hour, as 75:30, stay minutes where the form has no hours.
    """
    micro = (1e6 * seconds).fill_nan(None).round().cast(pl.Int64, strict=False)
    if form == DURATION:
        return micro.cast(pl.Duration("us"))
    with np.errstate(divide="ignore", invalid="ignore"):
        n_decimals = np.nan_to_num(2.0 - np.floor(np.log10(std)), nan=6.0).clip(0.0, 6.0)
    each = zip(micro, (10.0 ** (6.0 - n_decimals)).tolist(), strict=True)
    texts = [None if one is None else _text(int(round(one / u) * u), form) for one, u in each]
    return pl.Series(seconds.name, texts, pl.String)


def _text(micro: int, form: str) -> str:
    days, micro = divmod(micro, 86_400_000_000) if form == DAYS else (0, micro)
    whole, rest = divmod(abs(micro), 1_000_000)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    end = f"{second:02}" + (f".{rest:06}".rstrip("0") if rest else "")
    if form == DAYS:
        return f"{days} days {'+' * (days < 0)}{hours:02}:{minute:02}:{end}"
    hour = f"{hours:02}" if form == PADDED_HOURS else f"{hours}"
    return "-" * (micro < 0) + (
        f"{minutes}:{end}" if form == MINUTES else f"{hour}:{minute:02}:{end}"
    )


def with_durations(
    frame: pl.DataFrame, kinds: Mapping[str, str], target: str | None, aside: Iterable[str | None]
) -> tuple[pl.DataFrame, list[Message]]:
    """Give columns of durations a type of their own; also remarks on words in them.

    kinds
        Columns that hold durations or times of day, whatever they look like.
    target
        A column in which times of day can only be durations; None: there is none.
    aside
        Columns that stay as they are.
    """
    for name, kind in kinds.items():
        column_of(frame, name)
        if kind not in KINDS or name in aside:
            code = "kind.impossible" if kind in KINDS else "kind.unknown"
            raise TableError(Message.of(code, name, kind=kind, kinds=" or ".join(KINDS)))
    columns, remarks = [], []
    for series in frame.drop(name for name in aside if name is not None):
        name, kind = series.name, kinds.get(series.name)
        text = without(cleaned(series), MARKS) if series.dtype == pl.String else series
        if kind == TIME_OF_DAY:
            _check_times_of_day(text)
        elif kind == DURATION or _are_durations(text, is_target=name == target):
            durations = as_duration(text)
            stray = durations.is_null() & text.is_not_null()
            error = StrayError(series, "durations", stray, code="stray.duration")
            if stray.sum() > (1.0 - _MOSTLY) * (len(text) - text.null_count()):
                raise error
            remarks += [error.remark] if stray.any() else []
            if kind is None and name != target:
                example = text.filter(~stray).drop_nulls().first()
                remarks.append(Message.of("column.durations", name, example=example))
            columns.append(durations)
    return frame.with_columns(columns), joined(remarks)


def _check_times_of_day(text: pl.Series) -> None:
    """Refuse what is no text of times of day."""
    reading = dated(text)
    if text.dtype != pl.Time and (reading is None or reading.form not in TIMES_OF_DAY):
        raise TableError(Message.of("kind.no_times", text.name))


def _are_durations(text: pl.Series, *, is_target: bool) -> bool:
    """Whether text is durations, by what no time of day is, or by its name."""
    known = text.drop_nulls()
    if known.dtype != pl.String or known.is_empty():
        return False
    read = known.filter(known.str.contains(PARTS_OF_DURATION))
    if len(read) < _MOSTLY * len(known):
        return False
    are_times = read.str.contains(_CLOCK).all() and read.str.count_matches(":").n_unique() == 1
    return is_target or not are_times or bool(_NAME.fullmatch(text.name))
