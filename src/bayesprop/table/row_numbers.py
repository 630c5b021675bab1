"""Columns that number the rows: by their name or values, they tell of nothing else."""

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
_MOSTLY = 0.9  # of the rows have a number of their own
_FIRST, _DENSITY = 10.0, 0.5
"""What a counter of rows may begin with, and rows a whole number, for some rows may be gone."""


def numbers_rows(numbers: pl.Series) -> bool:
    """Say whether a column named like an identifier holds another whole number in nearly each row.

    Where the name may as well be that of a number, as "case", only if they rise with the rows.
    """
    known, name = numbers.drop_nulls(), numbers.name.strip()
    if len(known) < _LEAST_ROWS or known.n_unique() < _MOSTLY * len(known):
        return False
    if not bool((known == known.round()).all()):
        return False
    if _ID_NAME.fullmatch(name):
        return True
    counts_up = 0.0 <= known[0] <= _FIRST and _are_dense(known) and known.is_sorted()
    return bool(_COUNTER_NAME.fullmatch(name)) and counts_up and known.n_unique() == len(known)


def are_numbered(text: pl.Series) -> bool:
    """Say whether the digits of texts number the rows, as those of "p1" and "p2" do, in any order.

    Rows are often sorted by what is to be predicted: their numbers then tell of the table alone.
    """
    known = text.drop_nulls().str.replace_all(r"\D", "").cast(pl.Float64, strict=False)
    if known.null_count() or known.n_unique() < len(known):
        return False
    return bool(_ID_NAME.fullmatch(text.name.strip())) or _are_dense(known.sort())


def _are_dense(known: pl.Series) -> bool:
    return len(known) >= _DENSITY * (known[-1] - known[0])
