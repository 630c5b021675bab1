"""The train and test rows that the papers' tables share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Int


class Split(NamedTuple):
    """Row numbers of one division into training and test data."""

    train: Int[np.ndarray, " n_train"]
    test: Int[np.ndarray, " n_test"]


def standard_splits(n: int, n_splits: int = 20, seed: int = 1) -> list[Split]:
    """Return random 90/10 splits of n rows by the public recipe of the MC-dropout experiments.

    One legacy generator for all splits; each split takes a new permutation of the rows, whose
    first round(0.9 n) are for training. With seed 1 these are the published index files of the
    nine UCI sets (20 splits; protein 5), row for row and in their order.

    >>> [split.test.tolist() for split in standard_splits(10, n_splits=3)]
    [[5], [7], [2]]
    """
    if n < 2:
        raise ValueError(f"n must be at least 2 to leave a row for training and one for test: {n}")
    if n_splits < 1:
        raise ValueError(f"n_splits must be an int >= 1, got {n_splits}")
    rng = np.random.RandomState(seed)  # legacy on purpose: the recipe is defined by it
    n_train = min(round(0.9 * n), n - 1)
    orders = (rng.choice(n, n, replace=False) for _ in range(n_splits))
    return [Split(order[:n_train], order[n_train:]) for order in orders]
