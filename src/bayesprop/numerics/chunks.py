"""Rows some at a time, so that temporary arrays stay small."""

from __future__ import annotations

_VALUES = 4_000_000


def chunks(n_rows: int, values_a_row: int) -> list[slice]:
    """Slices of rows that keep temporary arrays within some 32 MB."""
    step = max(1, _VALUES // max(values_a_row, 1))
    return [slice(first, first + step) for first in range(0, n_rows, step)]
