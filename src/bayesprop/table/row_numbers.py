"""Columns that number the rows: by their name and values, they tell of nothing else."""

from __future__ import annotations

import re

import polars as pl

_ID_NAME = re.compile(
    r"(?i:unnamed.*|index|idx|id|row|row[_. ]?(id|no|nr|numbers?|names?)|.*[_. ]id"
    r"|(study|case|subj(ect)?|pt|patient|person|user|customer|client|record|obs|row|p|u)id)"
    r"|.*[a-z](ID|Id)"
)
_COUNTER_NAME = re.compile(r"X|#|(?i:no|nr|num|number|obs|observation|case|record|seqn?|serial)\.?")
_LEAST_ROWS = 11
_FIRST, _DENSITY = 10.0, 0.5
"""What a counter of rows may begin with, and rows a whole number, for some rows may be gone."""


def numbers_rows(numbers: pl.Series) -> bool:
    """Say whether a column named like an identifier holds a different whole number in each row.

    Where the name may as well be that of a number, as "case", only if they rise with the rows.
    """
    known = numbers.drop_nulls()
    if len(known) < _LEAST_ROWS or known.n_unique() < len(known):
        return False
    if not bool((known == known.round()).all()):
        return False
    name = numbers.name.strip()
    return bool(_ID_NAME.fullmatch(name) or (_COUNTER_NAME.fullmatch(name) and _count_up(known)))


def _count_up(known: pl.Series) -> bool:
    first, last = known[0], known[-1]
    is_dense = 0.0 <= first <= _FIRST and len(known) >= _DENSITY * (last - first)
    return is_dense and known.is_sorted()
