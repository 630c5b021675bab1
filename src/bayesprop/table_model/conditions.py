"""Conditions on the rows to measure: on their columns, and on further outputs of them."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, time
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import polars as pl
from jaxtyping import Bool, Float

from bayesprop.active_learning.goal import Goal, log_probability, score
from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.estimators.any_estimator import predictives_of
from bayesprop.table.date_forms import DAY, dated, extents, parsed, read_dates
from bayesprop.table.errors import InputError, Message, one_line
from bayesprop.table.target import Label, class_of, class_text
from bayesprop.table.values import MARKS, cleaned, unmarked, without
from bayesprop.table_model.model import TableModel, open_model
from bayesprop.table_model.predict import refusals_by_name
from bayesprop.table_model.sources import Table, column

_CONDITION = re.compile(r"(?P<column>.+?)\s*(?P<sign><=|>=|==|!=|<|>|=)\s*(?P<value>.*)")
_COMPARE = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
}
_EQUAL = ("==", "=", "!=")
_FLAGS = {"true": True, "false": False}
Needed = str | tuple[TableModel, str, Label | float]
"""A condition on a further output, as it is written or with the model that predicts it."""


class Condition(NamedTuple):
    """A condition as it is written, "temperature <= 80"."""

    name: str
    sign: str
    value: str

    @classmethod
    def of(cls, text: str, code: str = "where.form") -> Self:
        """Read a condition; InputError, in the words of a code, where it is none."""
        parts = _CONDITION.fullmatch(text.strip()) if isinstance(text, str) else None
        if parts is None:
            own = {"signs": " ".join(_COMPARE), "got": one_line(str(text))}
            raise InputError(Message.of(code, **own))
        return cls(parts["column"], parts["sign"], parts["value"].strip("'\""))


def meets(frame: pl.DataFrame, text: str, source: Table) -> Bool[np.ndarray, " n"]:
    """Return which rows meet a condition, such as "temperature <= 80"."""
    name, sign, value = Condition.of(text)
    values, given, kind = column(frame, name, source), None, "number"
    is_ordered = sign not in _EQUAL
    if is_ordered and values.dtype == pl.String:
        marked = unmarked(without(cleaned(values), MARKS))
        values = values if marked is None else marked.numbers
    if values.dtype.is_numeric():
        with suppress(ValueError):
            given = float(value)
    elif values.dtype == pl.Boolean and not is_ordered:
        given, kind = _FLAGS.get(value.lower()), "truth value"
    elif (moments := _moments(values, value)) is not None:
        values, given, kind = *moments, "date"
    elif not is_ordered:
        values, given = values.cast(pl.String), value
    else:
        own = {"text": one_line(text), "got": "text" if values.dtype == pl.String else values.dtype}
        raise InputError(Message.of("where.order", name, **own))
    if given is None:
        own = {"text": one_line(text), "kind": kind, "got": one_line(value)}
        raise InputError(Message.of("where.value", name, **own))
    return _COMPARE[sign](values, given).fill_null(False).to_numpy()


def _moments(values: pl.Series, value: str) -> tuple[pl.Series, date | time | None] | None:
    """Return dates and the one that they are compared with, None if it is not one day or time.

    None where the column holds no dates.
    """
    text, form = values, ""
    if values.dtype == pl.String:
        text = without(cleaned(values), MARKS)
        reading = dated(text)
        if reading is None:
            return None
        form = reading.form
    elif not values.dtype.is_temporal() or values.dtype == pl.Duration:
        return None
    given = pl.Series([value])
    own = dated(given)
    forms = [form, "" if own is None else own.form]
    moments = [parsed(given, one)[0] for one in forms if one and extents(given, one)[0] >= DAY]
    moment = next((one for one in moments if one is not None), None)
    return parsed(text, form) if form else read_dates(values, ""), moment


class Requirement(NamedTuple):
    """A condition on a further output, such as purity >= 0.95, which a second model predicts.

    value
        A number of the output's unit, or the place of a class.
    """

    model: TableModel
    sign: str
    value: float
    words: str

    @classmethod
    def of(cls, given: Needed, models: Mapping[str, TableModel] | None = None) -> Self:
        """Read "purity.bayesprop >= 0.95", or (model, ">=", 0.95).

        models
            Models by names that stand for them instead of their files.
        """
        if isinstance(given, str):
            name, sign, value = Condition.of(given, "requires.form")
            model = (models or {}).get(name) or open_model(Path(name))
        else:
            try:
                model, sign, value = given
                encoding, sign = model.encoding, str(sign)
            except (TypeError, ValueError, AttributeError):
                got = type(given).__name__
                raise InputError(Message.of("requires.form", got=got)) from None
        encoding, text = model.encoding, class_text(class_of(value))
        words = f"{encoding.target_name} {sign} {text}"
        labels = [class_text(label) for label in encoding.classes or ()]
        signs, place = _EQUAL if labels else ("<=", ">=", "<", ">"), None
        if labels:
            text = text if text in labels else text.lower()  # true and false, which have no case
            place = labels.index(text) if text in labels else None
        else:
            with suppress(TypeError, ValueError):
                place = float(value) if np.isfinite(float(value)) else None
        if sign not in signs or place is None:
            what = f"one of {', '.join(labels)}" if labels else "a finite number"
            own = {"signs": " ".join(signs), "what": what, "text": one_line(words)}
            raise InputError(Message.of("requires.value", encoding.target_name, **own))
        return cls(model, sign, place, words)

    def log_probability(self, frame: pl.DataFrame) -> Float[np.ndarray, " n"]:
        """Logarithm of the probability that each row meets it, of numbers their noise left out."""
        X = self.model.encode(self.model.read(frame)).X
        with refusals_by_name(X, self.model.encoding, range(1, 1 + len(X))):
            parts = [*predictives_of(self.model.estimator, X)]
        return np.concatenate([self._of(part) for part in parts])

    def _of(self, part: Distribution) -> Float[np.ndarray, " n"]:
        if isinstance(part, ClassPredictive):
            p = np.minimum(part.proba[:, int(self.value)], 1.0)
            with np.errstate(divide="ignore"):
                return np.log1p(-p) if self.sign == "!=" else np.log(p)
        goal = Goal("max" if ">" in self.sign else "min", self.value)
        return score(log_probability, part, goal)


def requirements(
    given: Needed | Sequence[Needed], models: Mapping[str, TableModel] | None = None
) -> tuple[Requirement, ...]:
    """Read one requirement or several, as `Requirement.of` does."""
    return tuple(Requirement.of(one, models) for one in one_or_several(given))


def one_or_several(given: Any) -> tuple:
    """Return conditions as a tuple: one text, one (model, sign, value), or several of either."""
    is_triple = isinstance(given, tuple) and len(given) == 3
    is_one = isinstance(given, str) or (is_triple and str(given[1]) in _COMPARE)
    return (given,) if is_one or not isinstance(given, Sequence) else tuple(given)


def log_probability_of_all(
    required: Sequence[Requirement], frame: pl.DataFrame
) -> Float[np.ndarray, " n"]:
    """Logarithm of the probability that each row meets all, taken for independent."""
    return np.sum([np.zeros(len(frame)), *(one.log_probability(frame) for one in required)], axis=0)
