"""Conditions on the rows of a table, as the command line words them: "temperature <= 80"."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence

import numpy as np
import polars as pl
from jaxtyping import Bool

from bayesprop.cli.console import InputError
from bayesprop.cli.tables import column
from bayesprop.table.errors import one_line

_CONDITION = re.compile(r"(?P<column>.+?)\s*(?P<sign><=|>=|==|!=|<|>|=)\s*(?P<value>.*)")
_COMPARE = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
}


def rows_where(
    frame: pl.DataFrame, conditions: Sequence[str], source: str
) -> Bool[np.ndarray, " n"]:
    """Say of every row whether it meets all conditions; a missing value meets none."""
    meets = [_meets(frame, text.strip(), source) for text in conditions]
    return np.all([np.ones(len(frame), dtype=bool), *meets], axis=0)


def _meets(frame: pl.DataFrame, text: str, source: str) -> Bool[np.ndarray, " n"]:
    parts = _CONDITION.fullmatch(text)
    if parts is None:
        raise InputError(
            f"--where must be a column, one of {' '.join(_COMPARE)} and a value, such as "
            f"'temperature <= 80'; got {one_line(text)!r}"
        )
    values = column(frame, parts["column"], source)
    sign, value = parts["sign"], parts["value"].strip("'\"")
    compare = _COMPARE[sign]
    if values.dtype.is_numeric():
        try:
            met = compare(values, float(value))
        except ValueError:
            raise InputError(
                f"--where {one_line(text)}: {parts['column']} holds numbers, and "
                f"{one_line(value)!r} is none"
            ) from None
    elif sign in ("==", "=", "!="):
        met = compare(values.cast(pl.String), value)
    else:
        raise InputError(
            f"--where {one_line(text)}: {parts['column']} holds {values.dtype}, for which there "
            "are == and !="
        )
    return met.fill_null(False).to_numpy()
