"""Real tables, as people have them: targets, splits, and rows as ours and as others read them.

They lie in `tables/` below `BAYESPROP_DATA`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from bayesprop.catalogue import CLASSIFICATION, REGRESSION
from bayesprop.datasets.registry import FOLDER_VARIABLE
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.errors import TableError
from bayesprop.table.read import read_table
from papers.arena import Data, Size
from papers.protocol import NothingToRun


class Table(NamedTuple):
    """Name of the target, rows in which it is known, and columns beside it."""

    target: str
    n: int
    d: int


CLASSES = {
    "Vehicle": Table("Class", 846, 18),
    "Glass": Table("Type", 214, 9),
    "PimaIndiansDiabetes2": Table("diabetes", 768, 8),
    "BreastCancer": Table("Class", 699, 10),
    "Sonar": Table("Class", 208, 60),
    "Vowel": Table("Class", 990, 10),
    "credit_data": Table("Status", 4454, 13),
    "mlc_churn": Table("churn", 5000, 19),
    "spam": Table("type", 4601, 57),
    "Satellite": Table("classes", 6435, 36),
    "HMDA": Table("deny", 2380, 13),
    "scat": Table("Species", 110, 18),
}
NUMBERS = {
    "car_prices": Table("Price", 804, 17),
    "Sacramento": Table("price", 932, 8),
    "ames": Table("Sale_Price", 2930, 73),
    "HousePrices": Table("price", 546, 11),
    "Ozone": Table("V4", 361, 12),
    "DoctorVisits": Table("visits", 5190, 11),
    "CPS1988": Table("wage", 28155, 6),
    "diamonds": Table("price", 53940, 9),
}
_TABLES = CLASSES | NUMBERS
MOST_ROWS = 8_000
_SMALL_ROWS, _SPLITS, _SPLITS_OF_LARGE = 5_000, 5, 2
_QUICK_ROWS, _QUICK_SPLITS = 1_000, 2
_MISSING = "missing"


@dataclass(frozen=True)
class TableRows:
    """Rows of a table, with their target.

    table
        As people have them.
    target
        Name of the target's column.
    matrix
        Inputs as `bayesprop fit` encodes them; NaN: a gap.
    kept
        Columns that the encoding does not drop.
    levels
        Training levels of kept columns that are not numbers, by name.
    """

    table: pl.DataFrame
    target: str
    matrix: np.ndarray
    kept: tuple[str, ...]
    levels: dict[str, list[str]]

    @classmethod
    def of_numbers(cls, matrix: np.ndarray) -> TableRows:
        """Return rows of numbers without names."""
        table = pl.DataFrame(matrix, [f"x{i}" for i in range(matrix.shape[1])])
        return cls(table, "", matrix, tuple(table.columns), {})

    @cached_property
    def frame(self) -> Any:
        """Return kept columns for pandas: floats, and categories of which one is "missing"."""
        columns = [
            pl.col(name).cast(pl.String).cast(pl.Enum(levels), strict=False).fill_null(_MISSING)
            if (levels := self.levels.get(name))
            else pl.col(name).cast(pl.Float64)
            for name in self.kept
        ]
        frame = self.table.select(columns).to_pandas()
        frame.columns = [f"x{i}" for i in range(frame.shape[1])]  # LightGBM refuses odd names
        return frame


def at_hand(tables: Sequence[str], *, quick: bool) -> list[str]:
    """Return the tables that can be had, small ones only if `quick`; warn of the others.

    Raises NothingToRun where none is left.
    """
    there = [name for name in tables if _file(name) is not None]
    if missing := [name for name in tables if name not in there]:
        warnings.warn(
            f"left out, no file in {_folder()} ({FOLDER_VARIABLE}): {', '.join(missing)}",
            stacklevel=3,
        )
    chosen = [name for name in there if not quick or size(name).n <= _QUICK_ROWS]
    if not chosen:
        raise NothingToRun(f"no table in {_folder()}: set {FOLDER_VARIABLE} to where tables/ lies")
    return chosen


def _folder() -> Path:
    return Path(os.environ.get(FOLDER_VARIABLE, ".")) / "tables"


def _file(name: str) -> Path | None:
    return next(iter(_folder().glob(f"{name}.csv*")), None)


@lru_cache(maxsize=1)
def _table(name: str) -> pl.DataFrame:
    if (file := _file(name)) is None:
        raise TableError(f"no {name}.csv in {_folder()}: set {FOLDER_VARIABLE}")
    return rows_with(_TABLES[name].target, file)


def rows_with(target: str, file: Path) -> pl.DataFrame:
    """Read the rows of a table whose target is known."""
    table = read_table(str(file)) if file.suffix == ".csv" else pl.read_csv(file)
    return table.filter(pl.col(target).is_not_null())


def size(name: str) -> Size:
    """Return the rows that are used, and the columns beside the target."""
    table = _TABLES[name]
    return Size(min(table.n, MOST_ROWS), table.d)


def n_splits(name: str, *, quick: bool) -> int:
    """Count the splits: five, two of tables above 5000 rows."""
    if quick:
        return _QUICK_SPLITS
    return _SPLITS if size(name).n <= _SMALL_ROWS else _SPLITS_OF_LARGE


@lru_cache(maxsize=1)
def train_test(name: str, split: int) -> Data:
    """Return a split of a table."""
    train, test = divided(_table(name), split)
    if name in CLASSES:
        return of_classes(train, test, CLASSES[name].target)
    return encoded(train, test, NUMBERS[name].target, REGRESSION)


def divided(
    table: pl.DataFrame, split: int, most: int = MOST_ROWS
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return 80 % of the rows, by a permutation of `default_rng(split)`, and the others."""
    order = np.random.default_rng(split).permutation(len(table))[:most]
    n_test = round(0.2 * len(order))
    return table[order[n_test:]], table[order[:n_test]]


def of_classes(train: pl.DataFrame, test: pl.DataFrame, target: str) -> Data:
    """Encode both; test rows of a class that no training row has are left out."""
    test = test.filter(pl.col(target).is_in(train[target].unique().to_list()))
    return encoded(train, test, target, CLASSIFICATION)


def encoded(train: pl.DataFrame, test: pl.DataFrame, target: str, task: str) -> Data:
    """Encode both as `bayesprop fit` does."""
    encoding = TableEncoding.fit(train, target, task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, x_test = encoding.encode(train).X, encoding.encode(test).X
        x = encoding.cross_fitted(x, train, None)
    kept = tuple(column.name for column in encoding.columns)
    words = [column for column in kept if not train.schema[column].is_numeric()]
    levels = {
        column: sorted({*train[column].cast(pl.String).drop_nulls(), _MISSING}) for column in words
    }
    return Data(
        TableRows(train, target, x, kept, levels),
        encoding.target(train),
        TableRows(test, target, x_test, kept, levels),
        encoding.target(test),
    )
