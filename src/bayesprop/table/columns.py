"""One column of a table as numbers: how it is chosen from training data, and how it is applied.

Not by scikit-learn's encoders: an encoding is stored as JSON, and says which values of which column
and row it had to interpret or refuses; what is left for an encoder are two operations on arrays.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesprop.table.errors import (
    TableError,
    counted,
    did_you_mean,
    listed,
    listing,
    one_line,
    quoted,
)

MAX_LEVELS = 50  # columns that one category column may become
MAX_KNOWN_LEVELS = 1000  # beyond this a text column is dropped
FEW_LEVELS = 10  # text with so few different values is a category whatever it looks like
_ID_NAME = re.compile(r"(unnamed.*|index|idx|id|row|row_?(id|no|nr|number)|.*[_ ]id)", re.I)
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "NULL", "null", "None")
_DATE = r"^(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4}))([T ].*)?$"
_TIME = r"^\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?$"
_MARKED_NUMBER = r"^[<>~$€£]?\s*[+-]?\d[\d.,' ]*\s*[^\d\s]{0,6}$"
_CENSORED = r"^\s*[<>]=?\s*[+-]?[\d.]"
_DATE_ADVICE = "turn it into a number, such as an age in days, or take the column out"


class Encoded(NamedTuple):
    """Columns as numbers, and sentences about values that had to be interpreted."""

    X: Float[np.ndarray, "n k"]
    warnings: list[str]


class FittedColumn(NamedTuple):
    """How a column is to be encoded (None: dropped), and a sentence where that needs one.

    is_constant
        Whether it is the same wherever it has a value: of use only if its gaps tell something.
    """

    name: str
    column: NumericColumn | CategoryColumn | None
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
    """

    name: str
    missing: bool = False
    marked: bool = False
    fill: float | None = None

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded columns."""
        return [self.name, f"{self.name} is missing"] if self.marked else [self.name]

    def encode(self, series: pl.Series) -> Encoded:
        """Return the numbers; TableError on text, dates or infinity."""
        numbers = as_numbers(series)
        absent = numbers.is_null()
        fill = np.nan if self.fill is None else self.fill
        values = numbers.fill_null(fill).to_numpy().reshape(-1, 1)
        values = _marked(values, absent) if self.marked else values
        return Encoded(values, [] if self.missing else _gaps(absent))

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
        values = _marked(values, absent) if self.marked else values
        return Encoded(values, [*sentences, *([] if self.missing else _gaps(absent))])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        lists = {"levels": list(self.levels), "rare": list(self.rare)}
        return {"kind": "category", **asdict(self), **lists}


def _marked(values: np.ndarray, absent: pl.Series) -> Float[np.ndarray, "n k"]:
    return np.column_stack([values, absent.to_numpy().astype(np.float64)])


def _gaps(absent: pl.Series) -> list[str]:
    if not absent.any():
        return []
    return [
        f"column {quoted(absent.name)}: {counted(int(absent.sum()), 'value')} missing, where the"
        " training data had none: error bars are wider there"
    ]


def column_from_dict(stored: dict[str, Any]) -> NumericColumn | CategoryColumn:
    """Rebuild a column from `to_dict`; ValueError, KeyError or TypeError if it is not one."""
    fields: dict[str, Any] = dict(stored)
    kind, levels = fields.pop("kind"), ()
    if "marked" not in fields:  # an older encoding, which filled gaps
        fields |= {"marked": fields["missing"], "fill": fields.get("fill", 0.0)}
    if kind == "numeric":
        column = NumericColumn(**fields)
        is_good = True
    elif kind == "category":
        fields |= {name: tuple(fields[name]) for name in ("levels", "rare")}
        column = CategoryColumn(**fields)
        levels = (*column.levels, *column.rare)
        is_good = len(set(levels)) == len(levels) > 0
    else:
        raise ValueError(f"a stored column has an unknown kind: {quoted(kind)}")
    is_good = is_good and (column.fill is None or bool(np.isfinite(column.fill)))
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
    if series.dtype in (pl.String, pl.Categorical, pl.Enum):
        series = cleaned(series) if is_text else typed(cleaned(series))
    return _fit_text(series) if series.dtype == pl.String else _fit_numbers(series)


def _fit_numbers(series: pl.Series) -> FittedColumn:
    name, numbers = series.name, as_numbers(series)
    known = numbers.drop_nulls().sort()
    if known.is_empty():
        return _dropped(name, "it has no values")
    column = NumericColumn(name, len(known) < len(numbers))
    if known[0] == known[-1]:
        return _constant(column, f"{known[0]:g}")
    if _is_row_number(name, known):
        return _dropped(name, "it numbers the rows (rename it to keep it)")
    return FittedColumn(name, column)


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


def _fit_text(text: pl.Series) -> FittedColumn:
    name, known = text.name, text.drop_nulls()
    if known.is_empty():
        return _dropped(name, "it has no values")
    n_levels = known.n_unique()
    is_few = n_levels <= FEW_LEVELS and (n_levels <= len(known) / 2 or n_levels <= 2)
    check_text(text, allow_numbers=is_few)
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


def column_of(frame: pl.DataFrame, name: str, where: str = "the table") -> pl.Series:
    """Return a column; TableError says which ones a table has if it has none of that name."""
    if name not in frame.columns:
        hint = did_you_mean(name, frame.columns) or ";"
        raise TableError(
            f"no column {one_line(name)!r} in {where}{hint} columns: "
            f"{one_line(listing(frame.columns))}"
        )
    return frame[name]


def check_dtype(series: pl.Series) -> None:
    """Refuse what has no one meaning as a number or category."""
    kind, name = series.dtype, quoted(series.name)
    if kind.is_temporal():
        raise TableError(f"column {name} holds dates or times ({kind}): {_DATE_ADVICE}")
    is_text = kind in (pl.String, pl.Categorical, pl.Enum)
    if not (is_text or kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
        raise TableError(
            f"column {name} must hold numbers, true/false or text, got {kind}: take the column out"
            " or split it into plain columns"
        )


def check_text(text: pl.Series, *, allow_numbers: bool) -> None:
    """Refuse dates, and (unless allowed) text that is mostly or nearly numbers."""
    name, known = quoted(text.name), text.drop_nulls()
    if len(known) and (known.str.contains(_DATE) | known.str.contains(_TIME)).all():
        raise TableError(f"column {name} holds dates, such as {quoted(known[0])}: {_DATE_ADVICE}")
    if allow_numbers:
        return
    plain = is_number(text)
    if plain.sum() >= len(known) / 2:
        row = _first_row(~plain & text.is_not_null())
        n_stray = len(known) - int(plain.sum())
        raise TableError(
            f"column {name} holds numbers, but text in {counted(n_stray, 'row')}, first"
            f" {quoted(text[row])} in data row {row + 1}: {_remedy(text[row])}"
        )
    if (looks_like_number(text) | plain).sum() >= 0.9 * len(known):
        row = _first_row(looks_like_number(text))
        raise TableError(
            f"column {name} holds numbers written as text, such as {quoted(text[row])} in data row"
            f" {row + 1}: write plain numbers without units or thousands separators"
        )


def as_numbers(series: pl.Series) -> pl.Series:
    """Return a column as floats, nulls where missing; TableError names the row that is none."""
    check_dtype(series)
    name = quoted(series.name)
    if series.dtype in (pl.String, pl.Categorical, pl.Enum):
        text = cleaned(series)
        series = typed(text)
        if series.dtype == pl.String and series.null_count() < len(series):
            row = _first_row(~is_number(text) & text.is_not_null())
            raise TableError(
                f"column {name} must hold numbers, got {quoted(text[row])} in data row {row + 1}:"
                f" {_remedy(text[row])}"
            )
    numbers = series.cast(pl.Float64, strict=False).fill_nan(None)
    if numbers.is_infinite().any():
        row = _first_row(numbers.is_infinite())
        raise TableError(
            f"column {name} must be finite, got {numbers[row]:g} in data row {row + 1}: correct it,"
            " or leave it empty if it is missing"
        )
    return numbers


def _remedy(text: str) -> str:
    """Say what to do about text among numbers."""
    if re.match(_CENSORED, text):
        return (
            "it is censored, known to lie beyond a bound only, which is not done yet: put a number,"
            " or leave it empty, and both bend the fit"
        )
    return "correct it, or leave it empty if it is missing"


def as_levels(series: pl.Series) -> pl.Series:
    """Return a column as cleaned text; whole numbers are written without a decimal point."""
    check_dtype(series)
    if series.dtype.is_float():
        series = series.fill_nan(None)
        known = series.drop_nulls()
        if (known.is_finite() & (known == known.round()) & (known.abs() < 2**53)).all():
            series = series.cast(pl.Int64)
    return cleaned(series.cast(pl.String))


def _first_row(mask: pl.Series) -> int:
    return int(mask.fill_null(False).arg_max() or 0)


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
    is_flag = known.str.to_lowercase().is_in(("true", "false")).all()
    return text.str.to_lowercase() == "true" if is_flag else text


def is_number(text: pl.Series) -> pl.Series:
    """Say of every value whether it is a plain number; false where it is missing."""
    return text.cast(pl.Float64, strict=False).is_not_null()


def looks_like_number(text: pl.Series) -> pl.Series:
    """Say of every value whether it is a number with separators or a unit, as "1,234", "12 kg"."""
    return text.str.contains(_MARKED_NUMBER).fill_null(False)
