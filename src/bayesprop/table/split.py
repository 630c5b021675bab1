"""Which rows of a table a fit learns from, and which are held out to judge it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int

from bayesprop.table.classes import (
    choose_task,
    class_codes,
    fit_classes,
    known_values,
    target_numbers,
)
from bayesprop.table.columns import column_of, fit_column
from bayesprop.table.encoding import Rows, TableEncoding, left_out
from bayesprop.table.errors import TableError, counted


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
    warnings = [*([] if remark is None else [remark]), *left_out(len(frame) - len(places), target)]
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
