"""Which rows of a table a fit can use, and how they become numbers: stored, and repeated."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int, Shaped

from bayesprop.table.classes import (
    Label,
    choose_task,
    class_codes,
    classes_from_stored,
    fit_classes,
    known_values,
    target_numbers,
)
from bayesprop.table.columns import (
    CategoryColumn,
    Encoded,
    FittedColumn,
    NumericColumn,
    column_from_dict,
    column_of,
    fit_column,
)
from bayesprop.table.errors import TableError, TableWarning, counted, did_you_mean, listed, quoted

VERSION = 1
_LISTED_CONSTANTS = 5


class Rows(NamedTuple):
    """Encoded rows with a target.

    numbers
        Of the rows in their table, from 1.
    weight
        None for equal weights.
    remarks
        Sentences on what was left out, filled or not known.
    """

    X: Float[np.ndarray, "n k"]
    y: Shaped[np.ndarray, " n"]
    numbers: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"] | None = None
    remarks: Sequence[str] = ()

    @property
    def weights(self) -> dict[str, Any]:
        """The keyword of the weights, if there are any."""
        return {} if self.weight is None else {"sample_weight": self.weight}

    def of(self, chosen: np.ndarray) -> Rows:
        """Select rows (a mask or index array)."""
        weight = None if self.weight is None else self.weight[chosen]
        return Rows(self.X[chosen], self.y[chosen], self.numbers[chosen], weight, self.remarks)


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
    classes
        The labels that the target may have, sorted; empty where the target is a number.
    """

    target_name: str
    columns: tuple[NumericColumn | CategoryColumn, ...]
    report: list[str] = field(default_factory=list)
    classes: tuple[Label, ...] = ()

    @classmethod
    def fit(cls, frame: pl.DataFrame, target: str, task: str | None = None) -> TableEncoding:
        """Choose an encoding from training rows.

        task
            "regression" or "classification"; None: as `choose_task` says.
        """
        series = column_of(frame, target)
        fitted = [fit_column(frame[name]) for name in frame.columns if name != target]
        columns = tuple(one.column for one in fitted if one.column is not None)
        report = _sentences(fitted)
        if not columns:
            raise TableError(
                f"no column is left to predict {quoted(target)} from: {'; '.join(report) or 'none'}"
            )
        is_class = (task or choose_task(series).task) == "classification"
        return cls(target, columns, report, fit_classes(series) if is_class else ())

    @property
    def task(self) -> str:
        """What is predicted: "regression" or "classification"."""
        return "classification" if self.classes else "regression"

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of the matrix; unique."""
        names: dict[str, None] = {}
        for name in (name for column in self.columns for name in column.feature_names):
            unique, i = name, 2
            while unique in names:
                unique, i = f"{name} ({i})", i + 1
            names[unique] = None
        return list(names)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns whose levels are known, and the target if its classes are words.

        They are to be read as text: "1.10" is another level than "1.1".
        """
        words = [column.name for column in self.columns if isinstance(column, CategoryColumn)]
        is_word = bool(self.classes) and all(isinstance(label, str) for label in self.classes)
        return (*words, *([self.target_name] if is_word else []))

    def encode(self, frame: pl.DataFrame) -> Encoded:
        """Return a table's rows as numbers, with sentences on unseen levels and filled gaps.

        Columns are found by name; others are ignored. TableError if one is absent or unusable.
        """
        self._check_columns(frame)
        encoded = [column.encode(frame[column.name]) for column in self.columns]
        matrix = np.ascontiguousarray(np.column_stack([one.X for one in encoded]))
        return Encoded(matrix, [text for one in encoded for text in one.warnings])

    def transform(self, frame: pl.DataFrame) -> Float[np.ndarray, "n k"]:
        """Do the same as `encode`, with its sentences as TableWarning."""
        encoded = self.encode(frame)
        for sentence in encoded.warnings:
            warnings.warn(sentence, TableWarning, stacklevel=2)
        return encoded.X

    def target(self, frame: pl.DataFrame) -> Shaped[np.ndarray, " n"]:
        """Return the target of the rows that have one: numbers, or labels out of `classes`.

        TableError if it is absent, no number or an unknown class.
        """
        known = self._targets(frame).drop_nulls().to_numpy()
        return np.array(self.classes)[known] if self.classes else known.astype(np.float64)

    def _targets(self, frame: pl.DataFrame) -> pl.Series:
        """Return numbers or places in `classes`, null where they are missing."""
        series = column_of(frame, self.target_name)
        return class_codes(series, self.classes) if self.classes else target_numbers(series)

    def rows(self, frame: pl.DataFrame) -> Rows:
        """Encode the rows of a whole table that have a target."""
        encoded = self.encode(frame)  # whole, so that messages name rows of the table
        places = np.flatnonzero(self._targets(frame).is_not_null().to_numpy())
        remarks = [*_left_out(len(frame) - len(places), self.target_name), *encoded.warnings]
        return Rows(encoded.X[places], self.target(frame), places + 1, None, remarks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON-ready values."""
        return {
            "version": VERSION,
            "target": self.target_name,
            "columns": [column.to_dict() for column in self.columns],
            "report": list(self.report),
            "classes": list(self.classes),
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
            classes = classes_from_stored(stored.get("classes", ()))  # the first files had none
        except (KeyError, TypeError) as error:
            raise ValueError(f"the table encoding is incomplete: {error!r}") from error
        if not isinstance(target, str) or not all(isinstance(line, str) for line in report):
            raise ValueError("the target and the report of a table encoding must be text")
        if not columns or len({column.name for column in columns}) != len(columns):
            raise ValueError("the columns of a table encoding must be there and differ")
        return cls(target, columns, report, classes)

    def _check_columns(self, frame: pl.DataFrame) -> None:
        absent = [column.name for column in self.columns if column.name not in frame.columns]
        if absent:
            close = did_you_mean(absent[0], frame.columns)
            raise TableError(
                f"the table lacks {counted(len(absent), 'column')} that the model needs:"
                f" {listed(absent)}{close}"
            )


def _left_out(n: int, target: str) -> list[str]:
    if not n:
        return []
    return [f"{counted(n, 'row')} left out: no value of the target {quoted(target)}"]


def _sentences(fitted: list[FittedColumn]) -> list[str]:
    """Return what is to be said of the columns; many constant ones, as of pictures, in one."""
    constant = [one.name for one in fitted if one.is_constant]
    if len(constant) <= _LISTED_CONSTANTS:
        return [one.sentence for one in fitted if one.sentence]
    others = [one.sentence for one in fitted if one.sentence and not one.is_constant]
    return [
        f"{len(constant)} columns dropped, the same in every row: {listed(constant, 3)}",
        *others,
    ]


class Division(NamedTuple):
    """The rows that a fit can use, and which of them are held out.

    frame, numbers, weight
        Of these rows, in the order of the table; numbers count from 1, weight is None for equal
        weights.
    target
        Of every row that has one, by which the table is known again.

    Warnings
    --------
        Sentences on the task and on what was left out.
    """

    task: str
    frame: pl.DataFrame
    numbers: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"] | None
    is_test: Bool[np.ndarray, " n"]
    target: pl.DataFrame
    warnings: list[str]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows there are to learn from and to judge by."""
        return {"train": int(np.sum(~self.is_test)), "held_out": int(np.sum(self.is_test))}

    def encoded(self, encoding: TableEncoding) -> tuple[Rows, Rows]:
        """Return the rows to learn from and those held out as numbers."""
        features, remarks = encoding.encode(self.frame)
        rows = Rows(features, encoding.target(self.frame), self.numbers, self.weight, remarks)
        return rows.of(~self.is_test), rows.of(self.is_test)

    def encoding(self) -> TableEncoding:
        """Choose an encoding from the rows to learn from."""
        return TableEncoding.fit(
            self.frame.filter(~self.is_test), self.target.columns[0], self.task
        )


def divide(
    frame: pl.DataFrame,
    target: str,
    task: str | None,
    *,
    test_fraction: float,
    seed: int,
    weights: str | None = None,
    drop: Collection[str] = (),
    where: str = "the table",
) -> Division:
    """Shuffle with the seed and hold rows out; both parts keep the order of the table.

    Of every class the same share is held out, as nearly as whole rows allow, and at least one row
    of it is always left to learn from. Whatever a fit to a part of the table would refuse is
    refused here, so that messages name rows of the file.

    weights
        Name of the column of row weights; rows of weight 0 teach nothing, and judge nothing.
    drop
        Columns to leave out.
    where
        What messages call the table.
    """
    if not 0.0 <= test_fraction <= 0.9:  # nan passes the parser of an older typer
        raise TableError(f"--test-fraction must be 0 to 0.9, got {test_fraction}")
    for name in drop:
        column_of(frame, name, where)
        if name in (target, weights):
            raise TableError(f"--drop {name}: this column is the target or holds the weights")
    frame = frame.drop(set(drop))
    series = column_of(frame, target)
    task, remark = choose_task(series, task)
    values = target_numbers(series) if task == "regression" else known_values(series)
    for name in frame.columns:
        if name != target:
            fit_column(frame[name])
    weight = weights_of(frame, weights, target, where)
    places = np.flatnonzero(values.is_not_null().to_numpy())
    warnings = [*([] if remark is None else [remark]), *_left_out(len(frame) - len(places), target)]
    target_of_all = frame[places].select(target)
    if weight is not None and not np.all(weighs := weight[places] > 0.0):
        warnings.append(f"{counted(int(np.sum(~weighs)), 'row')} left out: of weight 0")
        places = places[weighs]
    n, n_test = len(places), round(test_fraction * len(places))
    if n - n_test < 2:
        out = f", of which {n_test} would be held out" if n_test else ""
        raise TableError(
            f"{where} has {counted(n, 'row')} with a target{out}; a fit needs 2 or more"
        )
    weight = None if weight is None else weight[places]
    frame = frame.drop(weights or ())[places]
    is_test = held_out(frame[target], task, n_test, seed)
    return Division(task, frame, places + 1, weight, is_test, target_of_all, warnings)


def weights_of(
    frame: pl.DataFrame, name: str | None, target: str, where: str
) -> Float[np.ndarray, " n"] | None:
    """Read the column of row weights, None where there is none."""
    if name is None:
        return None
    column = column_of(frame, name, where)
    if name == target:
        raise TableError(f"--weights {name}: this is the target")
    if not column.dtype.is_numeric():
        raise TableError(f"--weights {name} must hold numbers; it holds {column.dtype}")
    weight = column.cast(float).fill_null(float("nan")).to_numpy().astype(np.float64)
    bad = ~(np.isfinite(weight) & (weight >= 0.0))
    if np.any(bad):
        row = int(np.argmax(bad))
        raise TableError(
            f"--weights {name} must hold finite numbers >= 0; row {row + 1} has {column[row]}"
        )
    if not np.any(weight > 0.0):
        raise TableError(f"--weights {name} must hold at least one number > 0")
    return weight


def held_out(target: pl.Series, task: str, n_test: int, seed: int) -> Bool[np.ndarray, " n"]:
    """Choose `n_test` rows at random; of every class the same share, as nearly as rows allow."""
    order = np.random.default_rng(seed).permutation(len(target))
    is_test = np.zeros(len(target), dtype=bool)
    if task != "classification":
        is_test[order[:n_test]] = True
        return is_test
    codes = class_codes(target, fit_classes(target)).to_numpy()[order]
    for code, n_of_class in enumerate(shares(np.bincount(codes), n_test)):
        is_test[order[codes == code][:n_of_class]] = True
    return is_test


def shares(counts: Int[np.ndarray, " c"], n_test: int) -> Int[np.ndarray, " c"]:
    """Share `n_test` rows out among classes by their size, by largest remainders.

    One row of every class is kept back, so that a class of a single row, which scikit-learn's
    stratified split refuses, is never held out; fewer than `n_test` come out where nothing else is
    left.
    """
    exact = counts * (n_test / counts.sum())
    taken = np.minimum(np.floor(exact).astype(np.int64), counts - 1)
    for code in np.argsort(taken - exact, kind="stable"):
        if taken.sum() < n_test and taken[code] < counts[code] - 1:
            taken[code] += 1
    return taken
