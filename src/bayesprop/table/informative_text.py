"""Whether the spelling of text tells of the target, more than its levels and other columns do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from bayesprop.table.encoded import FittedColumn
from bayesprop.table.nominal_numbers import of_few_levels, residuals_without
from bayesprop.table.target_encoded import N_FOLDS, folds_of
from bayesprop.table.text_column import TextColumn
from bayesprop.table.values import as_levels

_MOST_ROWS = 10_000
"""Rows by which this is judged, drawn from more."""
_LEAST_GAIN, _ERRORS = 0.01, 1.5
"""Share of the variance of what other columns leave of a target that spelling tells beyond levels,
and standard errors that it is above that."""
PULLS = 2.0 ** np.arange(-11, 12)
"""Rows of the mean of all that are counted beside those of a level."""


@dataclass(frozen=True)
class Target:
    """The target of a table as numbers, NaN where a row has none, and what these are.

    fitted
        How the columns of `frame` are encoded.
    """

    y: Float[np.ndarray, "n k"]
    labels: list[str]
    fitted: Sequence[FittedColumn]
    frame: pl.DataFrame

    @cached_property
    def residual(self) -> Float[np.ndarray, "n k"]:
        """What ridge regression on other columns than text of many levels leaves, of any unit."""
        residual, known = np.full_like(self.y, np.nan), ~np.isnan(self.y[:, 0])
        y = self.y[known]
        y = y / max(np.abs(y).max(initial=0.0), np.finfo(float).tiny)
        few = of_few_levels(self.fitted, self.frame.filter(known))
        residual[known] = residuals_without(few, y, [""])[""] * y.std(axis=0)
        return residual


def informative_text(series: pl.Series, target: Target, **own: Any) -> TextColumn | None:
    """Return text as what its spelling tells of the target; None where that is not enough.

    own
        As `TextColumn.fit` takes it.
    """
    known = as_levels(series).is_not_null().to_numpy() & ~np.isnan(target.residual[:, 0])
    rows = np.flatnonzero(known)
    if len(rows) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:_MOST_ROWS])
    some, residual = series[rows], target.residual[rows]
    column = TextColumn.fit(some, residual, target.labels)
    if column is None or not _is_informative(column, some, residual):
        return None
    return TextColumn.fit(series, target.y, target.labels, **own)


def _is_informative(column: TextColumn, series: pl.Series, y: Float[np.ndarray, "n k"]) -> bool:
    """Compare squared errors at rows of folds left out; rows of one text are as one."""
    y = y - y.mean(axis=0)
    if not y.any():
        return False
    y = y / np.sqrt(np.mean(y**2))
    place = np.unique(as_levels(series).to_numpy(), return_inverse=True)[1]
    fold = folds_of(len(series), None)
    predicted = column.cross_fitted(series, y, fold)
    gain = least_error_of_levels(place, y, fold) - np.mean((y - predicted) ** 2, axis=1)
    over_chance = np.bincount(place, gain - gain.mean())
    standard_error = np.sqrt(np.sum(over_chance**2)) / len(gain)
    return bool(gain.mean() - _ERRORS * standard_error > _LEAST_GAIN)


def least_error_of_levels(
    place: Int[np.ndarray, " n"], y: Float[np.ndarray, "n k"], fold: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Return squared errors of a constant, or of the means of levels where these do better.

    Means of the rows of other folds, pulled to that of all as does best.
    """
    own = N_FOLDS * place + fold

    def others(values: np.ndarray) -> np.ndarray:
        return np.bincount(place, values)[place] - np.bincount(own, values)[own]

    count = others(np.ones(len(y)))[:, None]
    total = np.column_stack([others(column) for column in y.T])
    errors = [np.mean((y - total / (count + pull)) ** 2, axis=1) for pull in PULLS]
    return min([np.mean(y**2, axis=1), *errors], key=np.mean)
