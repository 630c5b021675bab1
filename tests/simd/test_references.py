"""Named tuples by their address, and rows of a table as named tuples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from bayesprop.simd.lanes import called, compiled
from bayesprop.simd.references import reference_to, row_of


class _Pair(NamedTuple):
    low: int
    high: int


class _Fields(NamedTuple):
    values: Any
    table: Any
    scale: float
    pair: _Pair


_pair_at = row_of(_Pair)


@called
def _told(fields, number):
    """Change an array, and tell of every field."""
    pair = _pair_at(fields.table, number)
    fields.values[number] += fields.scale
    return fields.pair.high - fields.pair.low + 10 * pair.low + 100 * pair.high


@compiled
def _of_row(fields, number):
    return _told(reference_to(fields), number)


@pytest.mark.parametrize("number", [0, 2])
def test_fields_behind_an_address_are_those_of_the_tuple(number):
    values, table = np.zeros(3), np.array([[1, 2], [3, 4], [5, 7]])
    got = _of_row(_Fields(values, table, 0.5, _Pair(20, 23)), number)
    assert got == 3 + 10 * table[number, 0] + 100 * table[number, 1]
    np.testing.assert_array_equal(values, 0.5 * (np.arange(3) == number))
