"""One column of a table as numbers: how it is chosen from training data, and how it is applied.

Not by scikit-learn's encoders: an encoding is stored as JSON, and says which values of which column
and row it had to interpret or refuses; what is left for an encoder are two operations on arrays.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl

from bayesprop.table.dates import DateColumn, fit_dates
from bayesprop.table.encoded import Encoded, with_gaps
from bayesprop.table.errors import (
    counted,
    listed,
    quoted,
)
from bayesprop.table.marked_numbers import WRITTEN, Unmarked, reading, unmarked
from bayesprop.table.values import (
    are_codes,
    as_levels,
    as_numbers,
    check_dtype,
    check_text,
    cleaned,
    is_number,
    looks_like_number,
    typed,
)

MAX_LEVELS = 50  # columns that one category column may become
MAX_KNOWN_LEVELS = 1000  # beyond this a text column is dropped
FEW_LEVELS = 10  # text with so few different values is a category whatever it looks like
_ID_NAME = re.compile(r"(unnamed.*|index|idx|id|row|row_?(id|no|nr|number)|.*[_ ]id)", re.I)
_STAND_INS = (-9.0, -99.0, -999.0, -9999.0, 999.0, 9999.0, 99999.0)


class FittedColumn(NamedTuple):
    """How a column is to be encoded (None: dropped), and a sentence where that needs one.

    is_constant
        Whether it is the same wherever it has a value: of use only if its gaps tell something.
    """

    name: str
    column: Column | None
    sentence: str | None = None
    is_constant: bool = False


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers or of true and false (1 and 0); NaN where a value is missing.

    missing
        Whether training data had missing values.
    marked
        Whether a second column is 1 where values are missing.
    fill
        Of older encodings: put where a value is missing.
    written
        How text of numbers is written, one of `WRITTEN`; None: as numbers are.
    """

    name: str
    missing: bool = False
    marked: bool = False
    fill: float | None = None
    written: str | None = None

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded columns."""
        return [self.name, f"{self.name} is missing"] if self.marked else [self.name]

    def encode(self, series: pl.Series) -> Encoded:
        """Return the numbers; TableError on text, dates or infinity."""
        numbers = as_numbers(series, self.written)
        absent = numbers.is_null()
        fill = np.nan if self.fill is None else self.fill
        values = numbers.fill_null(fill).to_numpy().reshape(-1, 1)
        return with_gaps(values, absent, missing=self.missing, marked=self.marked)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        return {"kind": "numeric", **asdict(self)}


@dataclass(frozen=True)
class CategoryColumn:
    """A column of text: one 0/1 column a level.

    levels
        Those with a column of their own, sorted. A row whose level is missing, or was not in the
        training data, is NaN in all of them.
    rare
        Known levels without one: a row that holds one is zero in every column.
    missing, marked, fill
        As those of numbers.
    """

    name: str
    levels: tuple[str, ...]
    rare: tuple[str, ...] = ()
    missing: bool = False
    marked: bool = False
    fill: float | None = None

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded columns."""
        own = [f"{self.name}={level}" for level in self.levels]
        return [*own, f"{self.name} is missing"] if self.marked else own

    def encode(self, series: pl.Series) -> Encoded:
        """Return the 0/1 columns; a level that training did not have counts as missing."""
        text = as_levels(series)
        codes = text.cast(pl.Enum(self.levels), strict=False).to_physical().cast(pl.Int64)
        codes = codes.fill_null(-1).to_numpy()
        absent = text.is_null()
        values = (codes[:, None] == np.arange(len(self.levels))).astype(np.float64)
        is_unseen = ~absent & ~text.is_in((*self.levels, *self.rare))
        unseen = text.filter(is_unseen)
        if self.fill is None:
            values[(absent | is_unseen.fill_null(False)).to_numpy()] = np.nan
        sentences = []
        if len(unseen):
            sentences.append(
                f"column {quoted(self.name)}: {counted(len(unseen), 'row')} with a level that the"
                f" training data did not have ({listed(sorted(unseen.unique()), 3)}): taken for"
                " missing"
            )
        encoded = with_gaps(values, absent, missing=self.missing, marked=self.marked)
        return Encoded(encoded.X, [*sentences, *encoded.warnings])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        lists = {"levels": list(self.levels), "rare": list(self.rare)}
        return {"kind": "category", **asdict(self), **lists}


Column = NumericColumn | CategoryColumn | DateColumn


def column_from_dict(stored: dict[str, Any]) -> Column:
    """Rebuild a column from `to_dict`; ValueError, KeyError or TypeError if it is not one."""
    fields: Any = dict(stored)
    kind, levels = fields.pop("kind"), ()
    if kind != "date" and "marked" not in fields:  # an older encoding, which filled gaps
        fields |= {"marked": fields["missing"], "fill": fields.get("fill", 0.0)}
    if kind == "date":
        column = DateColumn(**fields | {"parts": tuple(fields["parts"])})
        is_good = column.is_good
    elif kind == "numeric":
        column = NumericColumn(**fields)
        is_good = column.written in (None, *WRITTEN)
    elif kind == "category":
        fields |= {name: tuple(fields[name]) for name in ("levels", "rare")}
        column = CategoryColumn(**fields)
        levels = (*column.levels, *column.rare)
        is_good = len(set(levels)) == len(levels) > 0
    else:
        raise ValueError(f"a stored column has an unknown kind: {quoted(kind)}")
    fill = getattr(column, "fill", None)
    is_good = is_good and (fill is None or bool(np.isfinite(fill)))
    is_text = all(isinstance(text, str) for text in (column.name, *levels))
    flags = (column.missing, column.marked)
    if not (is_good and is_text and all(isinstance(flag, bool) for flag in flags)):
        raise ValueError(f"the stored column {quoted(column.name)} has values that none has")
    return column


def fit_column(series: pl.Series, *, is_text: bool = False) -> FittedColumn:
    """Choose the encoding of a column from training data; TableError if there is no honest one.

    is_text
        Whether it is known to be text, though these values could be numbers.
    """
    check_dtype(series)
    if series.dtype in (pl.Categorical, pl.Enum):  # by their owner's word, even of numbers
        return _fit_text(cleaned(series), is_declared=True)
    if series.dtype == pl.String:
        series = cleaned(series) if is_text else typed(cleaned(series))
    if not is_text and (dates := fit_dates(series)) is not None:
        column, sentence = dates
        return FittedColumn(series.name, column, sentence, is_constant=column is None)
    if series.dtype != pl.String:
        return _fit_numbers(series)
    found = None if is_text or are_codes(series.drop_nulls()) else unmarked(series)
    return _fit_text(series) if found is None else _fit_marked(series, found)


def _fit_marked(text: pl.Series, found: Unmarked) -> FittedColumn:
    fitted = _fit_numbers(found.numbers.alias(text.name))
    if not isinstance(fitted.column, NumericColumn):
        return fitted
    said = "; ".join(filter(None, (reading(text, found.numbers), fitted.sentence)))
    column = replace(fitted.column, written=found.written)
    return fitted._replace(column=column, sentence=said)


def _fit_numbers(series: pl.Series) -> FittedColumn:
    name, numbers = series.name, as_numbers(series)
    known = numbers.drop_nulls().sort()
    if known.is_empty():
        return _dropped(name, "it has no values")
    column = NumericColumn(name, len(known) < len(numbers))
    sentence = _stand_in(numbers)
    if known[0] == known[-1]:
        return _constant(column, f"{known[0]:g}")
    if _is_row_number(name, known):
        return _dropped(name, "it numbers the rows (rename it to keep it)")
    return FittedColumn(name, column, sentence)


def _stand_in(numbers: pl.Series) -> str | None:
    """Ask about a number that people write for a missing value, where it is far from all others."""
    for value in _STAND_INS:
        n = int((numbers == value).sum())
        others = numbers.filter(numbers != value)
        if n < 2 or others.is_empty():
            continue
        low, high = float(cast(float, others.min())), float(cast(float, others.max()))
        if (value < 0.0 <= low) or (value > 0.0 and 5.0 * max(abs(low), abs(high)) < value):
            return (
                f"column {quoted(numbers.name)} holds {value:g} in {counted(n, 'row')}, far from"
                " all others: if that stands for a missing value, leave it empty"
            )
    return None


def _constant(column: NumericColumn | CategoryColumn, value: str) -> FittedColumn:
    """Drop a column, or leave it to whoever knows whether its gaps tell something."""
    where = "wherever it has a value" if column.missing else "in every row"
    dropped = _dropped(column.name, f"it is {value} {where}", is_constant=True)
    return dropped._replace(column=column if column.missing else None)


def _dropped(name: str, reason: str, *, is_constant: bool = False) -> FittedColumn:
    return FittedColumn(name, None, f"column {quoted(name)} dropped: {reason}", is_constant)


def _is_row_number(name: str, known: pl.Series) -> bool:
    """Say whether a column named like an identifier holds a different whole number in each row."""
    if not _ID_NAME.fullmatch(name) or len(known) <= FEW_LEVELS:
        return False
    return known.n_unique() == len(known) and bool((known == known.round()).all())


def _fit_text(text: pl.Series, *, is_declared: bool = False) -> FittedColumn:
    name, known = text.name, text.drop_nulls()
    if known.is_empty():
        return _dropped(name, "it has no values")
    n_levels = known.n_unique()
    is_few = n_levels <= FEW_LEVELS and (n_levels <= len(known) / 2 or n_levels <= 2)
    if not is_declared:
        check_text(text, allow_numbers=is_few or are_codes(known))
    missing = len(text) - len(known)
    if n_levels == 1:
        return _constant(CategoryColumn(name, (known[0],), missing=missing > 0), quoted(known[0]))
    is_free = n_levels > FEW_LEVELS and n_levels > len(known) / 2
    if is_free or n_levels > MAX_KNOWN_LEVELS:
        return _dropped(
            name,
            f"{n_levels} different texts in {len(known)} rows name the rows rather than describe"
            " them",
        )
    counts = known.alias("level").value_counts()  # a column may itself be called "count"
    ordered = counts.sort(["count", "level"], descending=[True, False])["level"].to_list()
    column = CategoryColumn(
        name, tuple(sorted(ordered[:MAX_LEVELS])), tuple(sorted(ordered[MAX_LEVELS:])), missing > 0
    )
    return FittedColumn(name, column, _category_sentence(column, known))


def _category_sentence(column: CategoryColumn, known: pl.Series) -> str | None:
    name, plain = quoted(column.name), is_number(known)
    if plain.sum() >= len(known) / 2 and not plain.all():
        stray = known.filter(~plain)
        return (
            f"column {name} holds numbers, but {quoted(stray[0])} in"
            f" {counted(len(stray), 'row')}: used as {len(column.levels)} categories; leave the"
            " field empty if the number is missing"
        )
    if column.rare:
        return (
            f"column {name}: its {len(column.levels)} commonest levels have a column each, the"
            f" other {len(column.rare)} share one code"
        )
    if looks_like_number(known).all():
        return (
            f"column {name} is text such as {quoted(column.levels[0])}: used as"
            f" {len(column.levels)} categories, not as numbers"
        )
    return None
