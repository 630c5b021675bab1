"""Which column is predicted, which rows a fit learns from and which are held out to judge it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.cli.actions import Learning
from bayesprop.cli.failures import InputError, listing, one_line
from bayesprop.cli.rows import Rows
from bayesprop.cli.tables import known_set, require_column, table_name
from bayesprop.table.encoding import TableEncoding, UsableRows, usable_rows
from bayesprop.table.split import held_out

if TYPE_CHECKING:
    import polars as pl


class Target(NamedTuple):
    """The column to predict, its unit, and the task where a known data set says it."""

    name: str
    unit: str
    task: str | None


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


def target_of(options: Learning, frame: pl.DataFrame) -> Target:
    """Find the column to predict: the one asked for, or a known data set's own."""
    known = known_set(options.table)
    name = options.target or (known.target if known is not None else None)
    if name is None:
        raise InputError(
            "--target is needed: the column to predict; columns: "
            + one_line(listing(frame.columns))
        )
    require_column(frame, name, options.table)
    own = known if known is not None and known.target == name else None
    return Target(name, "", None) if own is None else Target(name, own.unit, own.task)


def divide(options: Learning, frame: pl.DataFrame, target: str, task: str | None) -> Parts:
    """Shuffle with the seed and hold rows out; both parts keep the order of the table.

    Of every class the same share is held out, as nearly as whole rows allow, and at least one row
    of it is always left to learn from.
    """
    if not 0.0 <= options.test_fraction <= 0.9:  # nan passes the parser of an older typer
        raise InputError(f"--test-fraction must be 0 to 0.9, got {options.test_fraction}")
    for name in options.drop:
        require_column(frame, name, options.table)
        if name in (target, options.weights):
            raise InputError(f"--drop {name}: this column is the target or holds the weights")
    frame = frame.drop(set(options.drop))
    usable = usable_rows(frame, target, task)  # of the whole table: refusals name its rows
    weight = weights_of(options, frame, target)
    frame = frame.drop(options.weights or ())
    target_of_all = usable.frame.select(target)  # by which the table is known again
    usable = _weighing(usable, weight)
    n, n_test = len(usable.places), round(options.test_fraction * len(usable.places))
    if n - n_test < 2:
        rows = f"{n} row{'' if n == 1 else 's'}"
        out = f", of which {n_test} would be held out" if n_test else ""
        raise InputError(
            f"{table_name(options.table)} has {rows} with a target{out}; a fit needs 2 or more"
        )
    is_test = held_out(usable.frame[target], usable.task, n_test, options.seed)
    train, test = (
        Part(frame[rows], rows + 1, None if weight is None else weight[rows])
        for rows in (usable.places[~is_test], usable.places[is_test])
    )
    return Parts(usable.task, train, test, target_of_all, usable.warnings)


def _weighing(usable: UsableRows, weight: Float[np.ndarray, " n"] | None) -> UsableRows:
    """Leave rows of weight zero out: nothing is learnt from them, and nothing judged by them."""
    if weight is None or np.all(weighs := weight[usable.places] > 0.0):
        return usable
    n = int(np.sum(~weighs))
    sentence = f"{n} row{'s' * (n != 1)} left out: of weight 0"
    return usable._replace(
        frame=usable.frame.filter(weighs),
        places=usable.places[weighs],
        warnings=[*usable.warnings, sentence],
    )


def weights_of(
    options: Learning, frame: pl.DataFrame, target: str
) -> Float[np.ndarray, " n"] | None:
    """Read the column of row weights, None where there is none."""
    name = options.weights
    if name is None:
        return None
    require_column(frame, name, options.table)
    if name == target:
        raise InputError(f"--weights {name}: this is the target")
    column = frame[name]
    if not column.dtype.is_numeric():
        raise InputError(f"--weights {name} must hold numbers; it holds {column.dtype}")
    weight = column.cast(float).fill_null(float("nan")).to_numpy().astype(np.float64)
    bad = ~(np.isfinite(weight) & (weight >= 0.0))
    if np.any(bad):
        row = int(np.argmax(bad))
        raise InputError(
            f"--weights {name} must hold finite numbers >= 0; row {row + 1} has {column[row]}"
        )
    if not np.any(weight > 0.0):
        raise InputError(f"--weights {name} must hold at least one number > 0")
    return weight
