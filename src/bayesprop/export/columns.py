"""Columns of a table as inputs of a graph, encoded as the table's own encoding does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from bayesprop.table.columns import CategoryColumn, NumericColumn
from bayesprop.table.dates import (
    DAY_SECONDS,
    HOUR,
    SEASON,
    WEEKDAY,
    YEAR_SECONDS,
    YEARS,
    DateColumn,
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


def encoded(column: EncodedColumn, given: Node) -> Node:
    """Encode an input (n, 1) as columns, NaN where a value is missing or a level is unknown."""
    if is_text(column):
        return _encoded_text(cast(LevelsColumn, column), given)
    # Infinities are missing, too.
    known = where_less(applied("abs", given), _LARGEST, given, np.nan)
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
    n, missing = len(column.known), ("", *MARKS, *column.words)
    missing = [word for word in missing if word not in column.known]
    # The place -1, of what is not in a list, is the last row.
    flags = np.vstack([np.eye(n), np.full(n, np.nan)])
    gaps = np.vstack([np.full((len(missing), 1), np.nan), np.zeros(1)])
    values, gap = (
        Node(operators().gather(variable(rows), _places(given, words), axis=0))
        for rows, words in ((flags, column.known), (gaps, missing))
    )
    return _marked(column, [values], gap)


def _round(turns: Node) -> Node:
    """Return sine and cosine of turns, as `table.dates` does."""
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


def _places(text: Node, words: Sequence[str]) -> object:
    """Return places of (n, 1) strings in a list, -1 elsewhere, (n,)."""
    import spox.opset.ai.onnx.ml.v3 as ml

    places = ml.label_encoder(
        text.var,
        default_int64=-1,
        keys_strings=[*words],
        values_int64s=list(range(len(words))),
    )
    return operators().squeeze(places, operators().const(np.array([1])))


def _marked(column: EncodedColumn, values: list[Node], gap: Node) -> Node:
    """Mark missing values in a further column, if the encoding does; `gap` is NaN there, else 0."""
    if column.marked:
        values = [*values, where_less(gap, 1.0, 0.0, 1.0)]
    return side_by_side(values)
