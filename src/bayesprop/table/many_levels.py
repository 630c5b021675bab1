"""Which columns of text have too many levels for a column each, and what theirs are learnt from."""

from __future__ import annotations

import numpy as np
import polars as pl
from jaxtyping import Float, Int, Shaped

from bayesprop.table.classes import Label, class_text
from bayesprop.table.columns import FEW_LEVELS, CategoryColumn, FittedColumn
from bayesprop.table.errors import listing, quoted
from bayesprop.table.target_encoded import TargetEncodedColumn
from bayesprop.table.values import as_levels

MAX_LEVELS, N_FOLDS = 50, 10
"""Columns that one column of text may become, and folds of training rows."""


def numbers_of(
    target: str, values: pl.Series, classes: tuple[Label, ...]
) -> tuple[list[str], Float[np.ndarray, "n k"]]:
    """Return a target as numbers whose means tell of it, NaN where missing, and their names."""
    y = values.cast(pl.Float64).to_numpy()[:, None]
    if not classes:
        return [f"mean {target}"], y
    places = [1] if len(classes) == 2 else list(range(len(classes)))
    shares = [f"share of {class_text(classes[k])}" for k in places]
    return shares, np.where(np.isnan(y), np.nan, y == np.array(places))


def target_encoded_if_many(
    fitted: FittedColumn, series: pl.Series, y: Float[np.ndarray, "n k"], labels: list[str]
) -> FittedColumn:
    """Let levels stand for what they tell of the target, where they are many, or many a row."""
    column, text = fitted.column, as_levels(series)
    if not isinstance(column, CategoryColumn):
        return fitted
    n_known = len(text) - text.null_count()
    if len(column.levels) <= max(FEW_LEVELS, min(MAX_LEVELS, n_known / 2)):
        return fitted
    has_target = ~np.isnan(y[:, 0])
    flags = {"missing": column.missing, "marked": column.marked}
    sentence = (
        f"column {quoted(fitted.name)}: {len(column.levels)} levels, each used as the"
        f" {listing(labels, 3)} of its rows, drawn towards that of all where they are few, and as"
        " how many they are"
    )
    sentences = "; ".join(filter(None, (sentence, fitted.sentence)))
    encoded = TargetEncodedColumn.fit(text.filter(has_target), y[has_target], labels, **flags)
    return fitted._replace(column=encoded, sentence=sentences)


def folds_of(n: int, groups: Shaped[np.ndarray, " n"] | None) -> Int[np.ndarray, " n"]:
    """Deal rows, or whole groups, out to folds."""
    number = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    deal = np.random.default_rng(0).permutation(number.max(initial=0) + 1)
    return deal[number] % N_FOLDS
