"""Which rows of a table are held out to judge a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Int

from bayesprop.table.classes import class_codes, fit_classes

if TYPE_CHECKING:
    import polars as pl


def held_out(target: pl.Series, task: str, n_test: int, seed: int) -> Bool[np.ndarray, " n"]:
    """Choose `n_test` rows at random; of every class the same share, as nearly as rows allow."""
    order = np.random.default_rng(seed).permutation(len(target))
    is_test = np.zeros(len(target), dtype=bool)
    if task != "classification":
        is_test[order[:n_test]] = True
        return is_test
    codes = class_codes(target, fit_classes(target)).to_numpy()[order]
    for code, n_of_class in enumerate(shares(np.bincount(codes), n_test)):
        is_test[order[codes == code][:n_of_class]] = True
    return is_test


def shares(counts: Int[np.ndarray, " c"], n_test: int) -> Int[np.ndarray, " c"]:
    """Share `n_test` rows out among classes by their size, by largest remainders.

    One row of every class is kept back, so that a class of a single row is never held out; fewer
    than `n_test` come out where nothing else is left. (scikit-learn's stratified split refuses such
    a class.)
    """
    exact = counts * (n_test / counts.sum())
    taken = np.minimum(np.floor(exact).astype(np.int64), counts - 1)
    for code in np.argsort(taken - exact, kind="stable"):
        if taken.sum() < n_test and taken[code] < counts[code] - 1:
            taken[code] += 1
    return taken
