"""From the columns of a table to a matrix of numbers, in a way that can be stored and repeated."""

from __future__ import annotations

import difflib
import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesprop.data.columns import (
    CategoryColumn,
    NumericColumn,
    as_numbers,
    check_dtype,
    column_from_dict,
    fit_column,
)
from bayesprop.data.errors import TableError, TableWarning, counted, listed, quoted
from bayesprop.data.text import cleaned, typed

VERSION = 1


class EncodedRows(NamedTuple):
    """Rows as numbers, and sentences about values that had to be interpreted."""

    X: Float[np.ndarray, "n k"]
    warnings: list[str]


class UsableRows(NamedTuple):
    """The rows whose target is known, and a sentence about those that were left out."""

    frame: pl.DataFrame
    warnings: list[str]


@dataclass(frozen=True)
class TableEncoding:
    """How the columns of a training table become numbers; the same way for every later table.

    Numbers stay as they are, and true and false become 1 and 0. Text becomes one 0/1 column a
    level (the 50 commonest); a level that the training table did not have is zero in all of them.
    Missing values are filled with the training median, or form a level of their own, and are
    marked in a column if the training table had any. Columns that are constant or that number or
    name the rows are dropped. Dates, infinities and numbers written with units are refused.

    columns
        The columns that are used, in the order of the training table.
    report
        Sentences on what was filled, grouped or dropped.
    """

    target_name: str
    columns: tuple[NumericColumn | CategoryColumn, ...]
    report: list[str] = field(default_factory=list)

    @classmethod
    def fit(cls, frame: pl.DataFrame, target: str) -> TableEncoding:
        """Choose an encoding from training data; rows without a target are not looked at."""
        rows, report = _rows_with_target(frame, target)
        if len(rows) < 2:
            raise TableError(
                f"a fit needs at least 2 rows with a value of {quoted(target)}, got {len(rows)}"
            )
        fitted = [fit_column(rows[name]) for name in rows.columns if name != target]
        columns = tuple(one.column for one in fitted if one.column is not None)
        report = [*report, *(one.sentence for one in fitted if one.sentence)]
        if not columns:
            raise TableError(
                f"no column is left to predict {quoted(target)} from: {'; '.join(report) or 'none'}"
            )
        return cls(target, columns, report)

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of the matrix; unique."""
        names: dict[str, None] = {}
        for name in (name for column in self.columns for name in column.feature_names):
            candidates = (name, *(f"{name} ({i})" for i in range(2, len(names) + 3)))
            names[next(one for one in candidates if one not in names)] = None
        return list(names)

    def encode(self, frame: pl.DataFrame) -> EncodedRows:
        """Return a table's rows as numbers, with sentences on unseen levels and filled gaps.

        Columns are found by name; others are ignored. TableError if one is absent or unusable.
        """
        self._check_columns(frame)
        encoded = [column.encode(frame[column.name]) for column in self.columns]
        matrix = np.column_stack([one.values for one in encoded])
        return EncodedRows(
            np.ascontiguousarray(matrix), [text for one in encoded for text in one.warnings]
        )

    def transform(self, frame: pl.DataFrame) -> Float[np.ndarray, "n k"]:
        """Do the same as `encode`, with its sentences as TableWarning."""
        encoded = self.encode(frame)
        for sentence in encoded.warnings:
            warnings.warn(sentence, TableWarning, stacklevel=2)
        return encoded.X

    def target(self, frame: pl.DataFrame) -> Float[np.ndarray, " n"]:
        """Return the target of every row; TableError if it is absent, text or missing anywhere."""
        numbers = _target_numbers(frame, self.target_name)
        if numbers.null_count():
            row = int(numbers.is_null().arg_max() or 0)
            raise TableError(
                f"target {quoted(self.target_name)} is missing in"
                f" {counted(numbers.null_count(), 'row')}, first in data row {row + 1}: fill it in"
                " or leave the row out"
            )
        return numbers.to_numpy().astype(np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        return {
            "version": VERSION,
            "target": self.target_name,
            "columns": [column.to_dict() for column in self.columns],
            "report": list(self.report),
        }

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> TableEncoding:
        """Rebuild from `to_dict`; ValueError if it is not one."""
        if stored.get("version") != VERSION:
            raise ValueError(
                f"the table encoding must have version {VERSION}, got {stored.get('version')!r}"
            )
        try:
            columns = tuple(column_from_dict(column) for column in stored["columns"])
            target, report = stored["target"], list(stored["report"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"the table encoding is incomplete: {error!r}") from error
        if not isinstance(target, str) or not all(isinstance(line, str) for line in report):
            raise ValueError("the target and the report of a table encoding must be text")
        if not columns or len({column.name for column in columns}) != len(columns):
            raise ValueError("the columns of a table encoding must be there and differ")
        return cls(target, columns, report)

    def _check_columns(self, frame: pl.DataFrame) -> None:
        absent = [column.name for column in self.columns if column.name not in frame.columns]
        if absent:
            close = _close_match(absent[0], frame.columns)
            raise TableError(
                f"the table lacks {counted(len(absent), 'column')} that the model needs:"
                f" {listed(absent)}{close}"
            )


def usable_rows(frame: pl.DataFrame, target: str) -> UsableRows:
    """Leave out rows without a target, and refuse now what a fit on part of the table would.

    Called on a whole table, before it is divided, so that messages name rows of the file.
    """
    rows = _rows_with_target(frame, target)
    for name in frame.columns:
        if name != target:
            fit_column(frame[name])
    return rows


def _rows_with_target(frame: pl.DataFrame, target: str) -> UsableRows:
    numbers = _target_numbers(frame, target)
    n_absent = numbers.null_count()
    if not n_absent:
        return UsableRows(frame, [])
    sentence = f"{counted(n_absent, 'row')} left out: no value of the target {quoted(target)}"
    return UsableRows(frame.filter(numbers.is_not_null()), [sentence])


def _target_numbers(frame: pl.DataFrame, target: str) -> pl.Series:
    """Return the target as floats, nulls where it is missing; TableError if it is not numeric."""
    if target not in frame.columns:
        close = _close_match(target, frame.columns) or f"; it has {listed(frame.columns, 12)}"
        raise TableError(f"the table has no column {quoted(target)}{close}")
    series = frame[target]
    check_dtype(series)
    if series.dtype in (pl.String, pl.Categorical, pl.Enum):
        series = typed(cleaned(series))
    if series.dtype == pl.Boolean or _is_text(series):
        found = quoted(series.drop_nulls()[0])
        raise TableError(
            f"target {quoted(target)} must be a number, got {found}: choose another column, or code"
            " it as a number if its values have an order and a size"
        )
    return as_numbers(series)


def _is_text(series: pl.Series) -> bool:
    """Say whether no known value, or too few, is a number; a stray word is named by its row."""
    if series.dtype != pl.String or series.null_count() == len(series):
        return False
    return series.cast(pl.Float64, strict=False).null_count() > len(series) / 2


def _close_match(name: str, names: list[str]) -> str:
    found = difflib.get_close_matches(name, names, n=1)
    return f"; is it {quoted(found[0])}?" if found else ""
