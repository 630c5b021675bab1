"""Text in a table: what counts as missing, as a number, as a date."""

from __future__ import annotations

import polars as pl

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "NULL", "null", "None")
_DATE = r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4}))([T ].*)?$"
_TIME = r"^\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?$"
_MARKED_NUMBER = r"^[<>~$€£]?\s*[+-]?\d[\d.,' ]*\s*[^\d\s]{0,6}$"
_THOUSANDS = r"^[+-]?[1-9]\d{0,2}(\.\d{3})+$"
_DECIMAL_COMMA = r"^[+-]?\d*,?\d+([eE][+-]?\d+)?$"


def cleaned(text: pl.Series) -> pl.Series:
    """Strip spaces and turn the usual marks of a missing value into nulls."""
    stripped = text.cast(pl.String).str.strip_chars()
    return stripped.set(stripped.is_in(MISSING), None)


def typed(text: pl.Series) -> pl.Series:
    """Turn cleaned text into integers, floats or booleans if every value is one, else leave it."""
    known = text.drop_nulls()
    if known.is_empty():
        return text
    for kind in (pl.Int64, pl.Float64):
        numbers = text.cast(kind, strict=False)
        if numbers.null_count() == text.null_count():
            return numbers
    lower = known.str.to_lowercase()
    if lower.is_in(("true", "false")).all():
        return text.str.to_lowercase() == "true"
    return text


def with_decimal_points(text: pl.Series) -> pl.Series | None:
    """Return cleaned text with decimal points for its decimal commas; None: it has none."""
    known = text.drop_nulls()
    if known.is_empty() or not known.str.contains(_DECIMAL_COMMA).all():
        return None
    if not known.str.contains(",", literal=True).any():
        return None
    return text.str.replace(",", ".", literal=True)


def has_thousands_dots(text: pl.Series) -> pl.Series:
    """Say of every value whether it is a number such as "2.593", if numbers have no other dots."""
    dotted = text.str.contains(r"^[+-]?[\d.]*\.[\d.]*$").fill_null(False)
    parted = text.str.contains(_THOUSANDS).fill_null(False)
    return parted if (parted == dotted).all() else pl.repeat(False, len(text), eager=True)


def is_number(text: pl.Series) -> pl.Series:
    """Say of every value whether it is a plain number; false where it is missing."""
    return text.cast(pl.Float64, strict=False).is_not_null()


def looks_like_number(text: pl.Series) -> pl.Series:
    """Say of every value whether it is a number with separators or a unit, as "1,234", "12 kg"."""
    return text.str.contains(_MARKED_NUMBER).fill_null(False)


def looks_like_dates(text: pl.Series) -> bool:
    """Say whether every known value is a date or a time of day."""
    known = text.drop_nulls()
    if known.is_empty():
        return False
    return bool((known.str.contains(_DATE) | known.str.contains(_TIME)).all())
