"""A person's frames, of pandas, polars and others: into tables, and back into their own kind."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bayesprop.table.errors import quoted
from bayesprop.table.headers import column_names
from bayesprop.table.read import Check
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.sources import read_source


def from_frame(frame: Any) -> pl.DataFrame:
    """Return a frame of any kind that narwhals knows as a table; the index is no column.

    What pandas calls a category is one, even of numbers; a column of mixed kinds is text.
    InputError where it is no frame.
    """
    import narwhals as nw

    if nw.dependencies.is_pandas_like_dataframe(frame):
        names = column_names([str(column) for column in frame.columns], "table")
        return pl.DataFrame([_column(frame.iloc[:, k], own) for k, own in enumerate(names)])
    try:
        return nw.from_native(frame, eager_only=True).to_polars()
    except TypeError as error:
        raise InputError(
            "table must be a data frame (pandas, polars, ...), a file or the name of a data set,"
            f" got {type(frame).__name__}; estimators such as BayesianMLPRegressor take arrays"
        ) from error


def read_any(table: Any, text: Collection[str] = (), check: Check | None = None) -> pl.DataFrame:
    """Read a file or data set as `read_source` does, or take a frame as it is."""
    if isinstance(table, str | Path):
        return read_source(str(table), text, check)
    return from_frame(table)


def _column(column: Any, name: str) -> pl.Series:
    """Return a column of pandas as polars has it."""
    if str(column.dtype) == "category":
        return _text(column, name).cast(_categories(column.cat))
    if column.dtype == object and column.dropna().map(type).nunique() > 1:
        return _text(column, name)
    if str(column.dtype).startswith("period"):
        return _text(column, name)
    try:
        return pl.from_pandas(column).alias(name)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise InputError(
            f"column {quoted(name)} of type {column.dtype} has no meaning as numbers, text or"
            " dates: convert it, or leave it out"
        ) from error


def _categories(of: Any) -> Any:
    """Return the type of categories: those that are ordered keep their order."""
    return pl.Enum([str(value) for value in of.categories]) if of.ordered else pl.Categorical


def _text(column: Any, name: str) -> pl.Series:
    pairs = zip(column.astype(object), column.isna(), strict=True)
    return pl.Series(name, [None if gone else str(value) for value, gone in pairs], pl.String)


def with_target(table: pl.DataFrame, y: Any) -> pl.DataFrame:
    """Put a target beside its rows, under its own name or "y"; InputError where it does not fit."""
    name = getattr(y, "name", None)
    name = "y" if name is None else str(name)
    if name in table.columns:
        raise InputError(f"X holds a column {quoted(name)}, and y is called so: take it out of X")
    is_pandas = hasattr(y, "dtype") and hasattr(y, "isna")
    try:
        target = _column(y, name) if is_pandas else pl.Series(name, _values(y), strict=False)
    except TypeError as error:
        raise InputError(f"y must be one column, got {type(y).__name__}") from error
    if len(target) != len(table):
        raise InputError(f"y must have a value a row of X: {len(target)} and {len(table)}")
    return table.with_columns(target)


def _values(y: Any) -> Any:
    if isinstance(y, pl.Series | list | tuple):
        return y
    values = np.asarray(y)
    if values.ndim != 1:
        raise InputError(f"y must be one column, got shape {values.shape}")
    return values


def like(frame: Any, columns: pl.DataFrame) -> Any:
    """Return columns as a frame of the kind of another, with its index; of a file, of polars."""
    import narwhals as nw

    if isinstance(frame, str | Path | pl.DataFrame):
        return columns
    backend = nw.from_native(frame, eager_only=True).implementation
    is_pandas = nw.dependencies.is_pandas_like_dataframe(frame)
    values = {  # what is missing among the numbers of pandas is nan, also where all are
        one.name: one.to_numpy() if is_pandas and one.dtype.is_float() else one.to_list()
        for one in columns
    }
    made = nw.from_dict(values, backend=backend).to_native()
    if is_pandas:
        made.index = frame.index
    return made
