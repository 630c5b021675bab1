"""Whether the spelling of text tells of the target, and more than its levels do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesprop.table.target_encoded import TargetEncodedColumn, folds_of
from bayesprop.table.text_column import TextColumn
from bayesprop.table.values import as_levels

_MOST_ROWS = 10_000
"""Rows by which this is judged, drawn from more."""
_LEAST_GAIN, _ERRORS = 0.01, 1.5
"""Share of the target's variance that spelling tells beyond levels, and standard errors that it is
above that."""


def telling_text(
    series: pl.Series,
    y: Float[np.ndarray, "n k"],
    labels: Sequence[str],
    levels: TargetEncodedColumn | None = None,
    **own: Any,
) -> TextColumn | None:
    """Return text as what its spelling tells of the target; None where that is not enough.

    y, labels
        The target as numbers, NaN where a row has none, and what they are.
    levels
        The same text as levels; None: there is nothing to it but its spelling.
    own
        As `TextColumn.fit` takes it.
    """
    known = as_levels(series).is_not_null().to_numpy() & ~np.isnan(y[:, 0])
    rows = np.flatnonzero(known)
    if len(rows) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:_MOST_ROWS])
    fitted = TextColumn.fit(series[rows], y[rows], labels, **own)
    if fitted is None or not _is_telling(fitted, levels, series[rows], y[rows]):
        return None
    return fitted if len(rows) == known.sum() else TextColumn.fit(series, y, labels, **own)


def _is_telling(
    spelt: TextColumn,
    levels: TargetEncodedColumn | None,
    series: pl.Series,
    y: Float[np.ndarray, "n k"],
) -> bool:
    """Compare squared errors at rows of folds left out; rows of one text are as one."""
    std = y.std(axis=0)
    if not std.all():
        return False
    fold, k = folds_of(len(series), None), y.shape[1]
    error = [
        np.mean(np.square((y - column.cross_fitted(series, y, fold)[:, :k]) / std), axis=1)
        for column in (spelt, levels)
        if column is not None
    ]
    constant = np.mean(np.square((y - y.mean(axis=0)) / std), axis=1)
    rival = min([*error[1:], constant], key=np.mean)
    gain = rival - error[0]
    place = np.unique(as_levels(series).to_numpy(), return_inverse=True)[1]
    over_chance = np.bincount(place, gain - gain.mean())
    standard_error = np.sqrt(np.sum(over_chance**2)) / len(gain)
    return bool(gain.mean() - _ERRORS * standard_error > _LEAST_GAIN)
