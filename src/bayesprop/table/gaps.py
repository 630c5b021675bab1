"""Do the gaps of a column tell of the target? Then they are marked, not only filled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from bayesprop.table.columns import FittedColumn
from bayesprop.table.errors import counted, quoted
from bayesprop.table.values import as_levels

_TELLING, _LEAST_ROWS = 1e-3, 8
"""Probability of such a difference by chance, and rows on either side from which it is asked."""


def marked_where_telling(
    fitted: FittedColumn, series: pl.Series, target: pl.Series, *, is_class: bool
) -> FittedColumn:
    """Mark the gaps of a column if rows with and without differ in their target; else say so.

    A constant column is dropped if its gaps say nothing.

    target
        Numbers or codes of classes; rows without one are left out.
    """
    column = fitted.column
    if column is None or not column.missing:
        return fitted
    known = target.is_not_null().to_numpy()
    gap = as_levels(series).is_null().to_numpy()
    is_marked = _is_telling(gap[known], target.drop_nulls().to_numpy(), is_class=is_class)
    if fitted.is_constant and not is_marked:
        return fitted._replace(column=None)
    sentence = (
        f"column {quoted(fitted.name)}: {counted(int(gap.sum()), 'missing value')}, drawn from what"
        " is known of the rows"
    )
    if is_marked:
        beside = quoted(f"{fitted.name} is missing")
        sentence += f" and marked in a column {beside}, for rows with and without differ"
    sentences = "; ".join(filter(None, (None if fitted.is_constant else fitted.sentence, sentence)))
    marked = replace(column, marked=is_marked)
    return FittedColumn(fitted.name, marked, sentences)


def _is_telling(gap: np.ndarray, y: np.ndarray, *, is_class: bool) -> bool:
    """Compare targets with and without a value: by their ranks (Mann & Whitney 1947), or counts."""
    if min(gap.sum(), (~gap).sum()) < _LEAST_ROWS:
        return False
    if not is_class:
        return bool(stats.mannwhitneyu(y[gap], y[~gap]).pvalue < _TELLING)
    counts = np.stack([np.bincount(y[gap == side], minlength=int(y.max()) + 1) for side in (0, 1)])
    counts = counts[:, counts.sum(axis=0) > 0]
    if counts.shape[1] < 2:
        return False
    result: Any = stats.chi2_contingency(counts)
    return bool(result.pvalue < _TELLING)
