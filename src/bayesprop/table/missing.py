"""What is missing in a table: words that stand for it, decided one column at a time, or given."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl
import polars.selectors as cs

from bayesprop.table.errors import Message, counted, joined, listing, quoted
from bayesprop.table.values import DOUBTFUL, MARKS, MISSING, cleaned, is_number, without

_CODE, _MAY_BE_CODE = r"^[A-Z]{2}$", "NA"
_SHARE_OF_NUMBERS = 0.5
_FEWEST_CODES = 2
TAKEN_FOR_MISSING = "column.missing_words"
"""Code of the remark on words that count as missing."""


def is_missing(frame: pl.DataFrame, missing: Collection[str]) -> pl.DataFrame:
    """Return a table with nulls for given words, also of categories, and for given numbers."""
    numbers = pl.Series([*missing], dtype=pl.String).cast(pl.Float64, strict=False).drop_nulls()
    gone = []
    for column in frame:
        if column.dtype.is_numeric():
            is_gap = column.cast(pl.Float64).is_in(numbers.implode())
        elif column.dtype in (pl.String, pl.Categorical, pl.Enum):
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
    are_codes = others.n_unique() >= _FEWEST_CODES and others.str.contains(_CODE).all()
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
