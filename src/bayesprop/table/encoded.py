"""A column as numbers, and what its gaps become."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesprop.table.errors import counted, quoted


class Encoded(NamedTuple):
    """Columns as numbers, and sentences about values that had to be interpreted."""

    X: Float[np.ndarray, "n k"]
    warnings: list[str]


def with_gaps(
    values: Float[np.ndarray, "n k"], absent: pl.Series, *, missing: bool, marked: bool
) -> Encoded:
    """Mark gaps in a column beside, if they are; count those that training rows did not have."""
    if marked:
        values = np.column_stack([values, absent.to_numpy().astype(np.float64)])
    if missing or not absent.any():
        return Encoded(values, [])
    n = counted(int(absent.sum()), "value")
    return Encoded(
        values,
        [
            f"column {quoted(absent.name)}: {n} missing, where the training data had none: error"
            " bars are wider there"
        ],
    )
