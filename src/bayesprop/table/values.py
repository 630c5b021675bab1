"""Values of one column: what is missing, what is a number, a level, or neither, by row.

Words that stand for missing values are decided one column at a time, or given.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import polars.selectors as cs

from bayesprop.table.errors import (
    Message,
    StrayError,
    TableError,
    close_to,
    counted,
    joined,
    listing,
    one_line,
    quoted,
)

MISSING = (
    "", "NA", "N/A", "n/a", "N.A.", "n.a.", "#N/A", "<NA>", "NaN", "nan", "NAN", "NaT", "NULL",
    "null", "?", "\\N", "#VALUE!", "#REF!", "#DIV/0!", "#NUM!", "#NAME?",
)  # fmt: skip
DOUBTFUL = (
    "None", "none", "NONE", "Unknown", "unknown", "UNKNOWN", "Not available", "not available",
    "missing", "n.d.", "-", "--", "---", "'-", "–", "—", ".", "..", "...", "*", "**", "***",
)  # fmt: skip
"""Missing values among numbers and dates, levels among words: "None", "Some", "Marked"."""
MARKS = (*MISSING, *DOUBTFUL)
_CODE, _LONG_CODE = r"^[0-9]{4,}$", r"^[0-9]{20,}$"
_UNIT = r"[^\d\s_+-]{0,6}"
_CURRENCY = (
    r"(?:\p{Sc}|R\$|Rs\.?|kr\.?|USD|EUR|GBP|CHF|JPY|CNY|RMB|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF"
    r"|RUB|TRY|BRL|MXN|ZAR|KRW|SGD|HKD|TWD|THB|IDR|MYR|PHP|ILS)?"
)
_MARKED_NUMBER = rf"^[<>~]?[+-]?{_CURRENCY}\s*[+-]?[0-9][0-9.,' ]*\s*{_UNIT}[+-]?$"
_CENSORED = r"^\s*[<>]=?\s*[+-]?[0-9.]"
_NUMBER = rf"^({_CURRENCY})\s*([+-]?)\s*({_CURRENCY})\s*([0-9][0-9.,' ]*)\s*({_UNIT})$"
_DIGITS = re.compile(r"[+-]?[0-9](?:[0-9.,' ]*[0-9])?")
_UNBROKEN = "[\u00a0\u2009\u202f]"
"""Blanks that keep a line together, as word processors and spreadsheets part thousands."""
_NEGATIVE = rf"^({_CURRENCY}\s*)\(\s*([^()+-]*[0-9][^()+-]*?)\s*\)(\s*{_UNIT})$"
"""As accountants write it: "(132.10)", "$ (5)"."""
_SCALES = {"": 1.0, "K": 1e3, "k": 1e3, "M": 1e6, "B": 1e9}
_MAGNITUDES = "(K, M, B)"
THOUSANDS, DECIMAL_COMMA, BOTH, PLAIN = "thousands", "decimal comma", "1.234,5", ""
_FORMS = {
    PLAIN: r"^[0-9]+\.?[0-9]*$",
    THOUSANDS: r"^([0-9]+|[1-9][0-9]{0,2}([,' ][0-9]{3})+)(\.[0-9]+)?$",
    DECIMAL_COMMA: r"^[0-9]+(,[0-9]+)?$",
    BOTH: r"^([0-9]+|[1-9][0-9]{0,2}([.' ][0-9]{3})+)(,[0-9]+)?$",
}
WRITTEN, _WITH_COMMA = tuple(_FORMS), (DECIMAL_COMMA, BOTH)
DURATION = "duration"
"""How numbers are written that are seconds: as 1:30:00, 75:30, 2 days 01:30:00, or by a type."""
PARTS_OF_DURATION = (
    r"^(?:([+-]?[0-9]{1,7}) days?,?\s+\+?)?([+-]?)"
    r"(?:([0-9]{1,8}):([0-5]?[0-9])|([0-9]{1,9})):([0-5][0-9](?:\.[0-9]+)?)$"
)
"""Days, sign, hours and their minutes, or minutes alone, and seconds."""
_TWO_LETTERS, _MAY_BE_CODE = r"^[A-Z]{2}$", "NA"
_SHARE_OF_NUMBERS = 0.5
_FEWEST_CODES = 2
TAKEN_FOR_MISSING = "column.missing_words"
"""Code of the remark on words that count as missing."""


def column_of(frame: pl.DataFrame, name: str, where: str = "the table") -> pl.Series:
    """Return a column; TableError says which ones a table has if it has none of that name."""
    if name not in frame.columns:
        others = {"meant": close_to(name, frame.columns), "names": one_line(listing(frame.columns))}
        raise TableError(Message.of("column.absent", name, where=where, **others))
    return frame[name]


def names_in(texts: Iterable[str], columns: Sequence[str]) -> list[str]:
    """Return names; a text may list several with commas, unless it is the name of a column."""
    return [
        name.strip() for text in texts for name in ([text] if text in columns else text.split(","))
    ]


def is_text(series: pl.Series) -> bool:
    """Whether a column is of text or categories."""
    return series.dtype in (pl.String, pl.Categorical, pl.Enum)


def check_dtype(series: pl.Series) -> None:
    """Refuse what has no one meaning as a number or category."""
    kind = series.dtype
    is_plain = kind.is_temporal() or kind.is_numeric() or kind in (pl.Boolean, pl.Null)
    if not (is_plain or is_text(series)):
        raise TableError(Message.of("column.type", series.name, got=kind))


def as_numbers(series: pl.Series, written: str | None = None, unit: str | None = None) -> pl.Series:
    """Return a column as floats, nulls where missing; TableError names the row that is none.

    written, unit
        How numbers with marks are written, and in what unit; None: found out.
    """
    check_dtype(series)
    if series.dtype == pl.Duration or (written == DURATION and is_text(series)):
        return _seconds(without(cleaned(series), MARKS) if is_text(series) else series)
    if series.dtype.is_temporal():
        raise TableError(Message.of("column.times", series.name, got=series.dtype))
    if is_text(series):
        text = without(cleaned(series), MARKS)
        plain = None if written in _WITH_COMMA else typed(text)
        if plain is not None and plain.dtype != pl.String:
            series = plain
        elif (marked := unmarked(text, written, unit)) is not None:
            series = marked.numbers.alias(text.name)
        else:
            series = typed(text)
        if series.dtype == pl.String and series.null_count() < len(series):
            stray = strays(text) if unit is None else ~has_unit(text, unit) & text.is_not_null()
            raise StrayError(text, "numbers", stray, "stray" + remedy(text, stray))
    numbers = series.cast(pl.Float64, strict=False).fill_nan(None)
    if numbers.is_infinite().any():
        raise StrayError(numbers, "finite numbers", numbers.is_infinite())
    return numbers


def _seconds(series: pl.Series) -> pl.Series:
    """Return durations in seconds; StrayError where cleaned text is none."""
    durations = as_duration(series)
    stray = durations.is_null() & series.is_not_null()
    if stray.any():
        raise StrayError(series, "durations", stray)
    micro = durations.dt.total_microseconds().to_numpy()
    return pl.Series(series.name, micro / 1e6).fill_nan(None)


def as_duration(series: pl.Series) -> pl.Series:
    """Return cleaned text, or durations, as durations of microseconds; null for anything else."""
    if series.dtype == pl.Duration:
        return series.cast(pl.Duration("us"))
    parts = series.cast(pl.String).str.extract_groups(PARTS_OF_DURATION).struct.unnest()
    days, hours, of_hour, minutes, second = (
        parts[place].cast(pl.Float64).fill_null(0.0) for place in ("1", "3", "4", "5", "6")
    )
    sign = 1.0 - 2.0 * (parts["2"] == "-").cast(pl.Float64)
    seconds = 86400.0 * days + sign * (3600.0 * hours + 60.0 * (of_hour + minutes) + second)
    micro = (1e6 * seconds).round().cast(pl.Int64, strict=False).set(parts["6"].is_null(), None)
    return micro.cast(pl.Duration("us")).alias(series.name)


def strays(text: pl.Series) -> pl.Series:
    """Say which values keep text from being numbers: those that are none, or else their marks."""
    plain = is_number(text)
    is_none = ~(plain | looks_like_number(text)) & text.is_not_null()
    return is_none if is_none.any() else ~plain & text.is_not_null()


def remedy(text: pl.Series, stray: pl.Series) -> str:
    """Return how the code of a message on text among numbers ends, where most are limits."""
    words = text.filter(stray)
    are_limits = words.filter(words.str.contains(_CENSORED)).len() > words.len() / 2
    return ".limit" if are_limits else ""


def as_levels(series: pl.Series) -> pl.Series:
    """Return a column as cleaned text; whole numbers are written without a decimal point."""
    check_dtype(series)
    series = series.to_physical() if series.dtype == pl.Duration else series
    return cleaned(as_integers(series).cast(pl.String))


def levels_known(series: pl.Series, known: Collection[str]) -> pl.Series:
    """Return a column as levels, nulls for marks of missing values that are none of those known."""
    return without(as_levels(series), [word for word in MARKS if word not in known])


def as_integers(series: pl.Series) -> pl.Series:
    """Return floats as integers if all are whole, without NaN; anything else as it is."""
    if not series.dtype.is_float():
        return series
    series = series.fill_nan(None)
    known = series.drop_nulls()
    is_whole = known.is_finite() & (known == known.round()) & (known.abs() < 2**53)
    return series.cast(pl.Int64) if is_whole.all() else series


def cleaned(text: pl.Series) -> pl.Series:
    """Strip spaces; nulls for what is empty then."""
    return without(text.cast(pl.String).str.strip_chars(), ("",))


def without(text: pl.Series, words: Collection[str]) -> pl.Series:
    """Return text with nulls for some words."""
    return text.set(text.is_in(list(words)).fill_null(value=False), None) if words else text


def typed(text: pl.Series) -> pl.Series:
    """Turn cleaned text into integers, floats or booleans if every value is one, else leave it.

    Codes stay text: see `are_codes`.
    """
    known = text.drop_nulls()
    if known.is_empty() or are_codes(known):
        return text
    for kind in (pl.Int64, pl.UInt64, pl.Float64):
        numbers = text.cast(kind, strict=False)
        if numbers.null_count() == text.null_count():
            return numbers
    is_flag = known.str.to_lowercase().is_in(("true", "false")).all()
    return text.str.to_lowercase() == "true" if is_flag else text


def are_codes(known: pl.Series) -> bool:
    """Whether text is digits: of one length, some with a leading 0, or so many that floats merge.

    Postal codes are the one, identifiers of 20 digits and more the other.
    """
    if not known.str.contains(_CODE).all():
        return False
    if known.str.starts_with("0").any() and known.str.len_chars().n_unique() == 1:
        return True
    are_long = bool(known.str.contains(_LONG_CODE).any())
    return are_long and known.cast(pl.Float64).n_unique() < known.n_unique()


def are_big_names(series: pl.Series, most_unique: float) -> bool:
    """Whether whole numbers, some beyond 2^53, are names.

    So where floats would merge some of them, or where they occur again.

    most_unique
        Share of different numbers up to which they occur again.
    """
    known = series.drop_nulls()
    if not known.dtype.is_integer() or not (known.cast(pl.Float64).abs() >= 2**53).any():
        return False
    n = known.n_unique()
    return known.cast(pl.Float64).n_unique() < n or n <= most_unique * len(known)


def is_number(text: pl.Series) -> pl.Series:
    """Say of every value whether it is a plain number; false where it is missing."""
    return text.cast(pl.Float64, strict=False).is_not_null()


def looks_like_number(text: pl.Series) -> pl.Series:
    """Say of every value whether it is a number with separators or a unit, as "1,234", "12 kg"."""
    return _usual(text).str.contains(_MARKED_NUMBER).fill_null(False)


def _usual(text: pl.Series, *, are_numbers: bool = False) -> pl.Series:
    """Return text with plain blanks, and with a minus for the brackets of accountants.

    are_numbers
        Whether an earlier table held numbers here; else brackets around every value are none.
    """
    text = text.str.replace_all(_UNBROKEN, " ")
    is_negative = text.str.contains(_NEGATIVE)
    if not is_negative.any() or (is_negative.all() and not are_numbers):
        return text
    return text.str.replace(_NEGATIVE, "${1}-${2}${3}")


class Unmarked(NamedTuple):
    """Numbers, null where missing, how they were written (one of `WRITTEN`), and their unit."""

    numbers: pl.Series
    written: str
    unit: str


def unmarked(
    text: pl.Series, written: str | None = None, unit: str | None = None
) -> Unmarked | None:
    """Read cleaned text in which every value is a number with marks; None where that is not so.

    One unit for all: rows in euros do not stand beside rows in dollars, nor "3 kg" beside "7 lb",
    but "$545K" beside "$1.2M". Where three digits follow each comma it parts thousands, else it is
    a decimal comma, and then dots and blanks may part thousands.

    written, unit
        As the numbers of an earlier table had; None: found out.
    """
    text = _usual(text, are_numbers=written is not None)
    known = text.drop_nulls()
    if known.is_empty() or not known.str.contains(_NUMBER).all():
        return None
    parts = known.str.extract_groups(_NUMBER).struct.unnest()
    unit = _unit_of(parts, unit)
    if unit is None:
        return None
    digits = parts["4"].str.strip_chars()
    forms = WRITTEN if written is None else (written,)
    form = next((one for one in forms if digits.str.contains(_FORMS[one]).all()), None)
    if form is None:
        return None
    plain = text.str.extract(_NUMBER, 4).str.strip_chars()
    if form in _WITH_COMMA:
        plain = plain.str.replace_all("[.' ]", "").str.replace(",", ".")
    else:
        plain = plain.str.replace_all("[,' ]", "")
    numbers = (text.str.extract(_NUMBER, 2) + plain).cast(pl.Float64, strict=False)
    if unit.endswith(_MAGNITUDES):
        numbers *= text.str.extract(_NUMBER, 5).replace_strict(_SCALES, return_dtype=pl.Float64)
    return Unmarked(numbers, form, unit) if numbers.null_count() == text.null_count() else None


def as_written(numbers: pl.Series, text: pl.Series, written: str) -> pl.Series:
    """Write numbers as text has them, with its currency and unit; no thousands are parted."""
    before, after = _DIGITS.split(text.drop_nulls()[0], maxsplit=1)
    digits = [np.format_float_positional(one, trim="-") for one in numbers.cast(pl.Float64)]
    digits = [one.replace(".", ",") for one in digits] if written in _WITH_COMMA else digits
    return pl.Series(numbers.name, [f"{before}{one}{after}" for one in digits])


def _unit_of(parts: pl.DataFrame, unit: str | None) -> str | None:
    """Return the one unit of all numbers, with `_MAGNITUDES` where there are thousands; or None."""
    currencies = (parts["1"] + parts["3"]).unique().to_list()
    suffixes = parts["5"].unique().to_list()
    are_scaled = set(suffixes) <= set(_SCALES)
    if len(currencies) > 1 or (len(suffixes) > 1 and not are_scaled):
        return None
    scaled, plain = currencies[0] + _MAGNITUDES, currencies[0] + suffixes[0]
    own = scaled if are_scaled and (suffixes != [""] or unit == scaled) else plain
    return own if unit in (None, own) else None


def has_unit(text: pl.Series, unit: str | None = None) -> pl.Series:
    """Say of every value whether it is a number with a unit; None: with that of most numbers."""
    parts = _usual(text).str.extract_groups(_NUMBER).struct.unnest()
    currency, suffix = parts["1"] + parts["3"], parts["5"]
    if unit is not None and unit.endswith(_MAGNITUDES):
        suffix = suffix.replace(dict.fromkeys(_SCALES, _MAGNITUDES))
    units = currency + suffix
    usual = (units.drop_nulls().mode().sort().first() or "") if unit is None else unit
    return (units == usual).fill_null(value=False)


def without_magnitudes(unit: str) -> str:
    """Return a unit without thousands or millions, which numbers are multiplied out of."""
    return unit.removesuffix(_MAGNITUDES)


def reading(text: pl.Series, numbers: pl.Series) -> Message:
    """Say how such text was read, by its longest value."""
    row = int(text.set(numbers.is_null(), None).str.len_chars().fill_null(0).arg_max() or 0)
    return Message.of("column.marks", text.name, example=text[row], number=numbers[row])


def is_missing(frame: pl.DataFrame, missing: Collection[str]) -> pl.DataFrame:
    """Return a table with nulls for given words, also of categories, and for given numbers."""
    numbers = pl.Series([*missing], dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
    gone = []
    for column in frame:
        if column.dtype.is_numeric():
            is_gap = column.cast(pl.Float64).is_in(numbers.implode())
        elif is_text(column):
            is_gap = cleaned(column).is_in([*missing])
        else:
            continue
        if is_gap.any():
            gone.append(pl.when(~is_gap.fill_null(value=False)).then(column).alias(column.name))
    return frame.with_columns(gone)


def decided(
    frame: pl.DataFrame,
    missing: Collection[str] | None,
    keep: Collection[str] = (),
    *,
    is_typed: bool,
) -> tuple[pl.DataFrame, list[Message]]:
    """Return a table with nulls for the words that stand for missing values, and remarks.

    `MARKS` among numbers and dates are missing. Among words those of a table with types are values,
    for it has nulls of its own; in a text file `MISSING` are missing, but for "NA" where all others
    are codes of two capital letters, as those of continents.

    missing
        Words that stand for missing values, and no others; None: decided so.
    keep
        Columns that a model knows, which decides itself.
    """
    if missing is not None:
        return is_missing(frame, missing), []
    columns, remarks = [], []
    texts = frame.select(cs.string() - cs.by_name(*keep, require_all=False))
    has_marks = texts.select(pl.all().str.strip_chars().is_in(MARKS).any())  # of all at once
    for name in [one.name for one in has_marks if one.any()]:
        text = cleaned(frame[name])
        gone = _missing_in(text, is_typed=is_typed)
        columns.append(without(text, gone))
        remarks += _said(text, gone, is_typed=is_typed)
    return frame.with_columns(columns), joined(remarks)


def _missing_in(text: pl.Series, *, is_typed: bool) -> list[str]:
    """Return the words of a column that stand for missing values."""
    others = text.filter(~text.is_in(MARKS))
    is_like_number = others.str.contains(r"\d") | others.str.to_lowercase().is_in(("true", "false"))
    n = int(is_like_number.sum())
    if n and n >= _SHARE_OF_NUMBERS * len(others):
        return [*MISSING, *(DOUBTFUL if n == len(others) else ())]
    if is_typed:
        return []
    are_codes = others.n_unique() >= _FEWEST_CODES and others.str.contains(_TWO_LETTERS).all()
    return [word for word in MISSING if not (are_codes and word == _MAY_BE_CODE)]


def _said(text: pl.Series, gone: Collection[str], *, is_typed: bool) -> list[Message]:
    """Say which words are missing values, and which are none, where both could be meant."""
    others = text.filter(~text.is_in(MARKS))
    is_of_numbers = is_number(others).all()
    found = text.filter(text.is_in(MISSING))
    if found.is_empty() or (is_of_numbers and not is_typed):
        return []
    words = listing([quoted(word, 30) for word in found.unique().sort()], 3)
    shown = f"{words} in {counted(len(found), 'row')}"
    kept = found.filter(~found.is_in([*gone]))
    code = TAKEN_FOR_MISSING if kept.is_empty() else "column.kept_words"
    beside = f" and {quoted(others[0], 30)}" if len(others) else ""
    return [Message.of(code, text.name, words=shown, beside=beside)]
