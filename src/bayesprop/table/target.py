"""A target column: whether it asks for a number or a class, for which classes, or how written."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl

from bayesprop.table.date_forms import DURATION_FORMS, check_dates, dated, form_of
from bayesprop.table.encoded import (
    FEW_LEVELS,
    ends_in_words,
    ends_of,
    has_limits,
    limits_as_values,
    sides,
    stray_words,
    within,
)
from bayesprop.table.errors import Message, TableError, at_rows, counted, listed, row_name
from bayesprop.table.values import (
    DURATION,
    MARKS,
    MISSING,
    PLAIN,
    WRITTEN,
    as_numbers,
    check_dtype,
    cleaned,
    is_number,
    is_text,
    looks_like_number,
    reading,
    remedy,
    strays,
    typed,
    unmarked,
    without,
    without_magnitudes,
)

Label = str | bool | int
MAX_CLASSES = 1000  # beyond this a target is no class
_EXACT = 2.0**53
_FEWEST_BINARY = 4  # rows from which two different whole numbers are classes
OFTEN = 10
"""Rows for one from which a few values or words may well be classes."""


class TaskChoice(NamedTuple):
    """What a target asks for, and a remark where that could be seen otherwise."""

    task: str
    remark: Message | None = None


def choose_task(target: pl.Series, task: str | None = None) -> TaskChoice:
    """Say whether a target is to be predicted as a number or as a class.

    Text, categories and true/false are classes. Numbers are numbers, but whole numbers with two
    different values are classes, with a remark. `task` overrides; TableError where it cannot.
    """
    values = known_values(target)
    if target.dtype == pl.Duration:
        if task == "classification":
            raise TableError(Message.of("target.durations_as_classes", target.name))
        return TaskChoice("regression")
    if task == "classification" or (values.dtype == pl.Boolean and task is None):
        return TaskChoice("classification")
    is_category = target.dtype in (pl.Categorical, pl.Enum)
    is_numbers = is_limited(target) or has_stray_words(values)
    if task == "regression" or (is_numbers and not is_category):
        target_numbers(target)
        return TaskChoice("regression")
    if values.dtype == pl.String:
        n_levels, n_known = values.drop_nulls().n_unique(), len(values) - values.null_count()
        if is_category:
            return TaskChoice("classification")
        _check_text(values, allow_numbers=n_levels <= min(FEW_LEVELS, n_known / 2))
        if marks_of(values) is None:
            return TaskChoice("classification")
        own = {"n": n_levels, "example": values.drop_nulls()[0]}
        return TaskChoice("classification", Message.of("target.few_texts", values.name, **own))
    return _choose_for_numbers(values)


def _choose_for_numbers(values: pl.Series) -> TaskChoice:
    known, name = values.drop_nulls(), values.name
    n = known.n_unique()
    if n > FEW_LEVELS:
        return TaskChoice("regression")
    different = [class_of(value) for value in known.unique()]
    are_whole = all(isinstance(value, int) for value in different)
    if n == 2 and are_whole and len(known) >= _FEWEST_BINARY:
        ends = {"low": min(different), "high": max(different)}
        return TaskChoice("classification", Message.of("target.two_numbers", name, **ends))
    if n >= 2 + are_whole and len(known) >= OFTEN * n:
        return TaskChoice("regression", Message.of("target.few_numbers", name, n=n))
    return TaskChoice("regression")


def fit_classes(target: pl.Series) -> tuple[Label, ...]:
    """Return the different values of a target, sorted: text, truth values or whole numbers.

    Numbers of which some have fractions or lie beyond int64 become text: estimators refuse the
    former, arrays round the latter. TableError for fewer than two, or so many that they name rows.
    """
    values = known_values(target)
    known = values.drop_nulls()
    if target.dtype == pl.String and known.dtype == pl.String:
        _check_text(values, allow_numbers=True)
    elif known.dtype.is_numeric():
        as_numbers(values)  # refuses infinity
    classes = {class_of(value) for value in known.unique()}
    has_fractions = any(isinstance(label, float) for label in classes)
    is_beyond = any(isinstance(one, int) and not -(2**63) <= one < 2**63 for one in classes)
    classes = sorted(map(str, classes) if has_fractions or is_beyond else classes)
    if len(classes) == 1:
        own = {"label": str(classes[0]), "n": len(known)}
        raise TableError(Message.of("target.one_class", target.name, **own))
    _check_number_of_classes(target.name, len(classes), known, has_fractions=has_fractions)
    return tuple(classes)


def class_codes(target: pl.Series, classes: tuple[Label, ...]) -> pl.Series:
    """Return the position of every value in `classes`, null where it is missing.

    Numbers and truth values are recognised also where one table spells them as text and the other
    does not. TableError names a class that is not among them.
    """
    values = known_values(target)
    different = values.drop_nulls().unique().to_list()
    if not different:
        return pl.Series(target.name, [None] * len(target), pl.Int64)
    is_loose = len({_meaning(label) for label in classes}) == len(classes)
    key = _meaning if is_loose else str
    place = {key(label): code for code, label in enumerate(classes)}
    codes = [place.get(key(class_of(value))) for value in different]
    pairs = zip(different, codes, strict=True)
    unknown = [value for value, code in pairs if code is None and value not in MISSING]
    if unknown:
        _refuse_unknown(values, unknown, classes)
    return values.replace_strict(different, codes, default=None, return_dtype=pl.Int64)


def class_text(label: Label) -> str:
    """Return a label as a table spells it."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def class_of(value: Any) -> Any:
    """Return a value of a table as the label of a class: 2.0 is 2."""
    if isinstance(value, str):
        return value.rstrip("\0")  # which NumPy drops
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value


def _meaning(label: Label | float) -> Label | float:
    """Return a number or truth value for text that reads as one, so that 2, 2.0 and "2" agree."""
    if not isinstance(label, str):
        return label
    if label.lower() in ("true", "false"):
        return label.lower() == "true"
    try:
        number = int(label) if label.isdecimal() else float(label)
    except ValueError:
        return label
    return label if math.isnan(number) else number  # a word such as "Nan" equals itself


def _refuse_unknown(
    values: pl.Series, unknown: list[Label | float], classes: tuple[Label, ...]
) -> None:
    row = int(values.is_in(unknown).fill_null(False).arg_max() or 0)
    others = f" (and {counted(len(unknown) - 1, 'other')} like it)" if len(unknown) > 1 else ""
    known = listed([class_text(label) for label in classes])
    own = {"label": str(class_of(values[row])), "row": row_name(row), "others": others}
    raise TableError(Message.of("target.unknown_class", values.name, known=known, **own))


def _check_number_of_classes(name: str, n: int, known: pl.Series, *, has_fractions: bool) -> None:
    if has_fractions and n > FEW_LEVELS:
        raise TableError(Message.of("target.fractions", name, n=n))
    if n > MAX_CLASSES or (n > FEW_LEVELS and n > len(known) / 2):
        values = "texts" if known.dtype == pl.String else "numbers"
        raise TableError(Message.of(f"target.{values}_name_rows", name, n=n, n_rows=len(known)))


def _check_text(text: pl.Series, *, allow_numbers: bool) -> None:
    """Refuse dates of several forms, and (unless allowed) text that is mostly or nearly numbers."""
    name, known = text.name, text.drop_nulls()
    check_dates(text)
    if allow_numbers:
        return
    plain, marked, stray = is_number(text), looks_like_number(text), strays(text)
    are_nearly_numbers = (marked | plain).sum() >= 0.9 * len(known)
    if plain.sum() >= len(known) / 2 or (are_nearly_numbers and (stray & ~marked).any()):
        code = "target.some_text" + remedy(text, stray)
        raise TableError(Message.of(code, name, n=stray.sum(), where=at_rows(text, stray)))
    if are_nearly_numbers:
        row = int(marked.arg_max() or 0)
        own = {"example": text[row], "row": row_name(row)}
        raise TableError(Message.of("target.numbers_as_text", name, **own))


@dataclass(frozen=True)
class Marks:
    """How the numbers of a target are written, and their unit, such as "$".

    written
        One of `WRITTEN`, or of durations of `DURATION_FORMS`.
    low, high
        The limits below and above which numbers are not told apart, as by "<0.5"; None: none.
    remarks
        Which show how one was read.
    """

    written: str
    unit: str
    low: float | None = None
    high: float | None = None
    remarks: tuple[Message, ...] = field(default=(), compare=False)

    @property
    def limits(self) -> list[float]:
        """Those that there are."""
        return [limit for limit in (self.low, self.high) if limit is not None]

    def validate(self) -> None:
        """Raise ValueError unless they are of a form that is known, and the limits in order."""
        ends = self.limits
        if self.written not in (*WRITTEN, *DURATION_FORMS) or ends != sorted(set(ends)):
            raise ValueError(f"the marks of a target must be a form and its limits, got {self}")
        if not all(map(math.isfinite, ends)):
            raise ValueError(f"the limits of a target must be finite, got {ends}")


def known_values(target: pl.Series, marks: Marks | None = None) -> pl.Series:
    """Return a target with clean text and without NaN; TableError for dates and the like."""
    check_dtype(target)
    is_duration = marks is not None and marks.written in DURATION_FORMS and is_text(target)
    if is_duration or target.dtype == pl.Duration:
        return as_numbers(target, DURATION)
    if target.dtype in (pl.Categorical, pl.Enum):
        return cleaned(target)  # categories by their owner's word, even if they read as numbers
    if target.dtype.is_temporal() or dated(cleaned(target)) is not None:
        raise TableError(Message.of("target.dates", target.name))
    if target.dtype == pl.String:
        if marks is not None:
            return _without_marks(cleaned(target), marks)
        values = typed(cleaned(target))
        is_many = values.dtype == pl.String and values.n_unique() > FEW_LEVELS
        return _without_marks(values) if is_many else values
    if target.dtype == pl.Decimal:
        return target.cast(pl.Float64)
    return target.fill_nan(None) if target.dtype.is_float() else target


def target_numbers(target: pl.Series, marks: Marks | None = None) -> pl.Series:
    """Return a target as floats, nulls where it is missing; TableError if it is not numeric.

    What lies beyond a limit is that limit, of several the one that costs least rows.

    marks
        How an earlier table wrote its numbers, in what unit and limits; None: found out.
    """
    target = without(cleaned(target), MARKS) if is_text(target) else target
    ends = (None, None) if marks is None else (marks.low, marks.high)
    if ends == (None, None) and not is_limited(target):
        return _numbers_of(target, marks)
    numbers, side = _numbers_of(limits_as_values(target), marks), sides(target)
    return within(numbers, side, ends_of(side, numbers) if ends == (None, None) else ends)


def is_limited(target: pl.Series) -> bool:
    """Whether a target has numbers and limits."""
    if not has_limits(target):
        return False
    values = limits_as_values(cleaned(target))
    return typed(values).dtype.is_numeric() or unmarked(values) is not None


def _numbers_of(target: pl.Series, marks: Marks | None) -> pl.Series:
    values = known_values(target, marks)
    if values.dtype == pl.String:
        values = _without_marks(values, marks)
    is_words = values.dtype == pl.String and values.null_count() < len(values)
    if is_words and marks is not None and looks_like_number(values).any():
        _refuse_mixed(values, marks)
    if values.dtype == pl.Boolean or (is_words and not has_stray_words(values)):
        example = str(values.drop_nulls()[0])
        raise TableError(Message.of("target.no_number", target.name, example=example))
    return as_numbers(values)


def marks_of(target: pl.Series) -> Marks | None:
    """Return how the numbers of a target are written; None where they are plain or none."""
    if target.dtype != pl.String:
        return None
    text, has_ends = cleaned(target), is_limited(target)
    text = limits_as_values(text) if has_ends else text
    marked = unmarked(text) if typed(text).dtype == pl.String else None
    if marked is None and not has_ends:
        return None
    numbers = _numbers_of(text, None) if has_ends else text
    ends = ends_of(sides(target), numbers) if has_ends else (None, None)
    remarks = [] if marked is None else [reading(text, marked.numbers)]
    remarks += [ends_in_words(target, numbers, ends)] if has_ends else []
    written, unit = (PLAIN, "") if marked is None else (marked.written, marked.unit)
    return Marks(written, without_magnitudes(unit), *ends, remarks=tuple(remarks))


def duration_marks(target: pl.Series) -> Marks:
    """Return how a target of durations is written, and that its numbers are seconds."""
    told = Message.of("target.durations", target.name, example=str(target.drop_nulls().first()))
    return Marks(form_of(target), "s", remarks=(told,))


def _without_marks(text: pl.Series, marks: Marks | None = None) -> pl.Series:
    """Return numbers for text of one unit or none; else the text. TableError on another unit."""
    marked = None if marks is None else unmarked(text, marks.written)
    marked = unmarked(text) if marked is None and typed(text).dtype == pl.String else marked
    if marked is None:
        return typed(text)
    unit = without_magnitudes(marked.unit)
    if marks is not None and unit and marks.unit not in ("", unit):
        row = int(text.is_not_null().arg_max() or 0)
        own = {"example": text[row], "row": row_name(row), "unit": marks.unit}
        raise TableError(Message.of("target.other_unit", text.name, **own))
    return marked.numbers.alias(text.name)


def _refuse_mixed(text: pl.Series, marks: Marks) -> None:
    known = text.drop_nulls().unique(maintain_order=True)
    others = (v for v in known if unmarked(pl.Series([known[0], v])) is None)
    other = next(others, known[0])
    row = int((text == other).fill_null(False).arg_max() or 0)
    own = {"example": known[0], "other": other, "row": row_name(row), "unit": marks.unit}
    code = "target.mixed_units" if marks.unit else "target.mixed"
    raise TableError(Message.of(code, text.name, **own))


def has_stray_words(values: pl.Series) -> bool:
    """Say whether text would be numbers but for a few words, which a message then names.

    Not so where few different values occur, and the words often: "1", "2", "3 or more".
    """
    if values.dtype != pl.String or values.null_count() == len(values):
        return False
    if stray_words(values):
        return True
    known = values.drop_nulls()
    n_words = known.cast(pl.Float64, strict=False).null_count()
    is_often = known.n_unique() <= FEW_LEVELS and n_words * OFTEN >= len(known)
    return n_words <= len(known) / 2 and not is_often
