"""Columns of a table as inputs of a graph, encoded as the table's own encoding does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import cast

import numpy as np

from bayesprop.numerics.graphs import (
    Node,
    applied,
    larger,
    operators,
    side_by_side,
    smaller,
    variable,
    where_less,
)
from bayesprop.table.columns import (
    DAY_SECONDS,
    HOUR,
    SEASON,
    WEEKDAY,
    YEAR_SECONDS,
    YEARS,
    CategoryColumn,
    DateColumn,
    NumericColumn,
)
from bayesprop.table.encoded import EncodedColumn, LevelsColumn
from bayesprop.table.values import DURATION, MARKS

_LARGEST = float(np.finfo(np.float64).max)
_SAME = 1e-300  # a distance that only equal numbers have


def check_column(column: EncodedColumn) -> None:
    """Raise ValueError for a column that no graph can encode."""
    is_numeric = isinstance(column, NumericColumn) and not column.limits
    if is_numeric or isinstance(column, CategoryColumn | DateColumn):
        return
    raise ValueError(
        f"ONNX takes columns of numbers, true and false, dates, durations and categories of up "
        f"to 50 levels, and column {column.name!r} is none of them: fit again without it (drop)"
    )


def is_text(column: EncodedColumn) -> bool:
    """Whether the input of a column is a string; else it is a double."""
    return isinstance(column, LevelsColumn) and not column.is_numbers


def unit_of(column: EncodedColumn) -> str:
    """Say what the numbers of an input are."""
    if is_text(column):
        return "a level as text, without spaces around it; empty: missing"
    if isinstance(column, DateColumn):
        return "seconds since 1970-01-01, or since midnight of a time of day; NaN: missing"
    of_durations = isinstance(column, NumericColumn) and column.written == DURATION
    return "seconds" if of_durations else "a number as in training, true 1, false 0; NaN: missing"


def matrix(columns: Sequence[EncodedColumn], given: Sequence[Node]) -> Node:
    """Encode all inputs (n, 1), NaN where a value is missing or a level is unknown."""
    plain = [isinstance(one, NumericColumn) and not one.marked for one in columns]
    parts = []
    for is_plain, run in groupby(zip(plain, columns, given, strict=True), itemgetter(0)):
        # Fewer operators serve columns of numbers together.
        nodes = [node if is_plain else _encoded(column, node) for _, column, node in run]
        parts += [_finite(side_by_side(nodes))] if is_plain else nodes
    return side_by_side(parts)


def _finite(given: Node) -> Node:
    """Return numbers; infinities are missing, too."""
    return where_less(applied("abs", given), _LARGEST, given, np.nan)


def _encoded(column: EncodedColumn, given: Node) -> Node:
    if is_text(column):
        return _encoded_text(cast(LevelsColumn, column), given)
    known = _finite(given)
    gap = known - known
    if isinstance(column, DateColumn):
        return _marked(column, [_PARTS[part](known) for part in column.parts], gap)
    if not isinstance(column, LevelsColumn):
        return _marked(column, [known], gap)
    numbers = np.array(column.known, np.float64)
    within = smaller(larger(known, numbers.min()), numbers.max()) + gap
    flags = where_less(applied("abs", known - numbers), _SAME, 1.0, 0.0)
    # 0 / 0 where no level is the number.
    return _marked(column, [within, flags + (flags.sum() / flags.sum() - 1.0)], gap)


def _encoded_text(column: LevelsColumn, given: Node) -> Node:
    import spox.opset.ai.onnx.ml.v3 as ml

    n, missing = len(column.known), ("", *MARKS, *column.words)
    missing = [word for word in missing if word not in column.known]
    # The last row, the place -1, is of words that no list has: only missing ones are marked.
    rows = np.vstack([np.eye(n), np.full((2, n), np.nan)])
    if column.marked:
        rows = np.column_stack([rows, np.arange(n + 2) == n])
    places = ml.label_encoder(
        given.var,
        default_int64=-1,
        keys_strings=[*column.known, *missing],
        values_int64s=[*range(n), *[n] * len(missing)],
    )
    return Node(operators().gather(variable(rows), places, axis=0)).reshape(-1, rows.shape[1])


def _round(turns: Node) -> Node:
    """Return sine and cosine of turns, as `table.columns` does."""
    angle = (turns - applied("floor", turns)) * (2.0 * np.pi)
    return side_by_side([applied("sin", angle), applied("sin", angle + 0.5 * np.pi)])


def _weekday(seconds: Node) -> Node:
    days = applied("floor", seconds / DAY_SECONDS) + 3.0  # 1970 began on a Thursday
    day = days - applied("floor", days / 7.0) * 7.0
    return where_less(applied("abs", day - np.arange(7.0)), 0.5, 1.0, 0.0) + (seconds - seconds)


_PARTS: dict[str, Callable[[Node], Node]] = {
    YEARS: lambda seconds: seconds / YEAR_SECONDS + 1970.0,
    SEASON: lambda seconds: _round(seconds / YEAR_SECONDS),
    WEEKDAY: _weekday,
    HOUR: lambda seconds: _round(seconds / DAY_SECONDS),
}


def _marked(column: EncodedColumn, values: list[Node], gap: Node) -> Node:
    """Mark missing values in a further column, if the encoding does; `gap` is NaN there, else 0."""
    if column.marked:
        values = [*values, where_less(gap, 1.0, 0.0, 1.0)]
    return side_by_side(values)
