"""Numbers as people write them: with a currency, a percent sign, thousands or a decimal comma."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from bayesprop.table.errors import quoted

_NUMBER = r"^([$€£¥]?)\s*([+-]?)\s*([$€£¥]?)\s*(\d[\d.,' ]*)\s*([%$€£¥]?)$"
THOUSANDS, DECIMAL_COMMA, PLAIN = "thousands", "decimal comma", ""
_FORMS = {
    PLAIN: r"^\d+\.?\d*$",
    THOUSANDS: r"^(\d+|[1-9]\d{0,2}([,' ]\d{3})+)(\.\d+)?$",
    DECIMAL_COMMA: r"^\d+(,\d+)?$",
}
WRITTEN = tuple(_FORMS)


class Unmarked(NamedTuple):
    """Numbers, null where missing, and how they were written: one of `WRITTEN`."""

    numbers: pl.Series
    written: str


def unmarked(text: pl.Series, written: str | None = None) -> Unmarked | None:
    """Read cleaned text in which every value is a number with marks; None where that is not so.

    One currency for all: rows in euros do not stand beside rows in dollars. Where three digits
    follow each comma it parts thousands, else it is a decimal comma.

    written
        As the numbers of an earlier table were; None: found out.
    """
    known = text.drop_nulls()
    if known.is_empty() or not known.str.contains(_NUMBER).all():
        return None
    parts = known.str.extract_groups(_NUMBER).struct.unnest()
    if (parts["1"] + parts["3"] + parts["5"]).n_unique() > 1:
        return None
    digits = parts["4"].str.strip_chars()
    forms = WRITTEN if written is None else (written,)
    form = next((one for one in forms if digits.str.contains(_FORMS[one]).all()), None)
    if form is None:
        return None
    plain = text.str.extract(_NUMBER, 4).str.strip_chars()
    plain = (
        plain.str.replace(",", ".") if form == DECIMAL_COMMA else plain.str.replace_all("[,' ]", "")
    )
    numbers = (text.str.extract(_NUMBER, 2) + plain).cast(pl.Float64, strict=False)
    return Unmarked(numbers, form) if numbers.null_count() == text.null_count() else None


def reading(text: pl.Series, numbers: pl.Series) -> str:
    """Say how such text was read, by its longest value."""
    row = int(text.str.len_chars().fill_null(0).arg_max() or 0)
    return f"column {quoted(text.name)}: {quoted(text[row])} is read as {numbers[row]:.15g}"
