"""Whether the spelling of text tells of the target, and more than its levels do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float, Int

from bayesprop.table.target_encoded import N_FOLDS, folds_of
from bayesprop.table.text_column import TextColumn
from bayesprop.table.values import as_levels

_MOST_ROWS = 10_000
"""Rows by which this is judged, drawn from more."""
_LEAST_GAIN, _ERRORS = 0.01, 1.5
"""Share of the target's variance that spelling tells beyond levels, and standard errors that it is
above that."""
_PULLS = 2.0 ** np.arange(-11, 12)
"""Rows of the mean of all that are counted beside those of a level."""


def telling_text(
    series: pl.Series, y: Float[np.ndarray, "n k"], labels: Sequence[str], **own: Any
) -> TextColumn | None:
    """Return text as what its spelling tells of the target; None where that is not enough.

    y, labels
        The target as numbers, NaN where a row has none, and what they are.
    own
        As `TextColumn.fit` takes it.
    """
    known = as_levels(series).is_not_null().to_numpy() & ~np.isnan(y[:, 0])
    rows = np.flatnonzero(known)
    if len(rows) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:_MOST_ROWS])
    fitted = TextColumn.fit(series[rows], y[rows], labels, **own)
    if fitted is None or not _is_telling(fitted, series[rows], y[rows]):
        return None
    return fitted if len(rows) == known.sum() else TextColumn.fit(series, y, labels, **own)


def _is_telling(column: TextColumn, series: pl.Series, y: Float[np.ndarray, "n k"]) -> bool:
    """Compare squared errors at rows of folds left out; rows of one text are as one."""
    y = y - y.mean(axis=0)
    largest = np.abs(y).max()
    if largest == 0.0:
        return False
    y = y / largest
    y = y / np.sqrt(np.mean(y**2))
    place = np.unique(as_levels(series).to_numpy(), return_inverse=True)[1]
    fold, k = folds_of(len(series), None), y.shape[1]
    told = column.cross_fitted(series, y, fold)[:, :k]
    gain = _least_error_of_levels(place, y, fold) - np.mean((y - told) ** 2, axis=1)
    over_chance = np.bincount(place, gain - gain.mean())
    standard_error = np.sqrt(np.sum(over_chance**2)) / len(gain)
    return bool(gain.mean() - _ERRORS * standard_error > _LEAST_GAIN)


def _least_error_of_levels(
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
    errors = [np.mean((y - total / (count + pull)) ** 2, axis=1) for pull in _PULLS]
    return min([np.mean(y**2, axis=1), *errors], key=np.mean)
