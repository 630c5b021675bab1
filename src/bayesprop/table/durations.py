"""Durations: distinguish text such as 1:30:00 from times of day, read and write seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import polars as pl

from bayesprop.table.date_forms import TIMES_OF_DAY, dated
from bayesprop.table.errors import Message, StrayError, TableError, joined
from bayesprop.table.values import (
    DURATION,
    MARKS,
    PARTS_OF_DURATION,
    as_duration,
    cleaned,
    column_of,
    without,
)

TIME_OF_DAY = "time"
KINDS = (DURATION, TIME_OF_DAY)
"""What `--kind` calls durations and times of day."""
HOURS, PADDED_HOURS, MINUTES, DAYS = "h:mm:ss", "hh:mm:ss", "m:ss", "days h:mm:ss"
FORMS = (DURATION, HOURS, PADDED_HOURS, MINUTES, DAYS)
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


def form_of(series: pl.Series) -> str:
    """Return the form in which a column of durations is written, one of `FORMS`."""
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
