"""Which rows of a table a fit learns from, and which are held out to judge it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesprop.table.classes import class_codes, fit_classes
from bayesprop.table.columns import column_of
from bayesprop.table.encoding import Rows, TableEncoding, UsableRows, usable_rows
from bayesprop.table.errors import TableError, counted

if TYPE_CHECKING:
    import polars as pl


class Part(NamedTuple):
    """Some rows of the table; `numbers` count from 1, `weight` is None for equal weights."""

    frame: pl.DataFrame
    numbers: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"] | None

    def encoded(self, encoding: TableEncoding) -> Rows:
        """Return the rows as numbers."""
        features, remarks = encoding.encode(self.frame)
        return Rows(features, encoding.target(self.frame), self.numbers, self.weight, remarks)


class Parts(NamedTuple):
    """Training and held-out rows; `target` is that of every row which has one, in their order."""

    task: str
    train: Part
    test: Part
    target: pl.DataFrame
    warnings: list[str]


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
) -> Parts:
    """Shuffle with the seed and hold rows out; both parts keep the order of the table.

    Of every class the same share is held out, as nearly as whole rows allow, and at least one row
    of it is always left to learn from.

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
    usable = usable_rows(frame, target, task)  # of the whole table: refusals name its rows
    weight = weights_of(frame, weights, target, where)
    frame = frame.drop(weights or ())
    target_of_all = usable.frame.select(target)  # by which the table is known again
    usable = _weighing(usable, weight)
    n, n_test = len(usable.places), round(test_fraction * len(usable.places))
    if n - n_test < 2:
        out = f", of which {n_test} would be held out" if n_test else ""
        raise TableError(
            f"{where} has {counted(n, 'row')} with a target{out}; a fit needs 2 or more"
        )
    is_test = held_out(usable.frame[target], usable.task, n_test, seed)
    train, test = (
        Part(frame[rows], rows + 1, None if weight is None else weight[rows])
        for rows in (usable.places[~is_test], usable.places[is_test])
    )
    return Parts(usable.task, train, test, target_of_all, usable.warnings)


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


def _weighing(usable: UsableRows, weight: Float[np.ndarray, " n"] | None) -> UsableRows:
    """Leave rows of weight zero out."""
    if weight is None or np.all(weighs := weight[usable.places] > 0.0):
        return usable
    sentence = f"{counted(int(np.sum(~weighs)), 'row')} left out: of weight 0"
    return usable._replace(
        frame=usable.frame.filter(weighs),
        places=usable.places[weighs],
        warnings=[*usable.warnings, sentence],
    )


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
