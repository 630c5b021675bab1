"""Invented rows, as arrays and frames of every dtype, with gaps where a situation has them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from situations import BLOCK, CHAOTIC, SIZES

NAMES = ("a", "b", "c")
LEVELS = np.array(["blue", "green", "red"])
UNSEEN = "violet"
LABELS = {  # ordered ones from the lowest up, which is not their alphabet
    "two classes": np.array(["no", "yes"]),
    "many classes": np.array([2, 10, 33, 100]),
    "ordered classes": np.array(["poor", "fair", "good"]),
}
UNITS = {"float32": (1.0, 2.0**20), "ints": (4.0, 2.0**24 + 1.0)}
"""Factor and shift of the numbers in a dtype: such that a float32 cannot sum or hold them."""


@cache
def rows(n: int, seed: int) -> np.ndarray:
    """Quarters, which a float32 holds as they are."""
    return np.round(6.0 * np.random.default_rng(seed).normal(size=(n, 3))) / 4.0


def target_of(task: str, X: np.ndarray, seed: int) -> np.ndarray:
    """A target of a kind, which every column moves."""
    rng = np.random.default_rng(seed)
    latent = 0.5 * X @ np.array([1.0, -0.5, 0.3]) + 0.4 * rng.normal(size=len(X))
    if task in LABELS:
        n = len(LABELS[task])
        return LABELS[task][np.digitize(latent, np.linspace(-0.7, 0.7, n + 1)[1:-1])]
    return {
        "numbers": 7.0 + 3.0 * latent,
        "several outputs": np.column_stack([latent, 5.0 - 40.0 * latent]),
        "positive": 50.0 * np.exp(latent),
        "nonnegative": 50.0 * np.maximum(latent + 0.2, 0.0),
        "share": 1.0 / (1.0 + np.exp(-latent)),
        "count": rng.poisson(np.exp(latent)).astype(float),
        "censored": np.minimum(latent, 0.4),
    }[task]


def without(X: np.ndarray, places: Any, column: int = 1) -> np.ndarray:
    X = X.copy()
    X[places, column] = np.nan
    return X


def rows_to_learn(s: Mapping[str, str], n: int, seed: int) -> np.ndarray:
    X = rows(n, seed)
    if s["missing"] in ("at fit", "at both"):
        X = without(without(X, slice(1, None, 7)), slice(4, None, 11), 0)
    return X


def rows_to_predict(s: Mapping[str, str]) -> np.ndarray:
    """Rows with a gap in the first, the last, every block or in none of them."""
    n = SIZES[s["size"]]
    X, last = rows(3 * BLOCK, 77)[:n], max(n - 1, 0) // BLOCK * BLOCK
    places = {
        "no block": slice(0, 0),
        "first block": slice(0, min(BLOCK, n), 2),
        "last block": slice(last, n, 2),
        "every block": slice(0, n, BLOCK),
    }
    if s["missing"] not in ("at predict", "at both", "unseen level"):
        return X
    return without(X, places[s["gap in"]], 2 if s["missing"] == "unseen level" else 1)


def has_levels(s: Mapping[str, str]) -> bool:
    """Whether the third column holds words."""
    return s["dtype"] in ("categorical", "words") or s["missing"] == "unseen level"


def typed(s: Mapping[str, str], X: np.ndarray, beside: Mapping[str, Any] | None = None) -> Any:
    """Rows as the situation has them: an array for an estimator, else a frame.

    beside
        Further columns of a frame that is learnt; None: the rows are to be predicted, and lack a
        column where the situation says so.
    """
    dtype, is_absent = s["dtype"], s["missing"] == "a whole column" and beside is None
    factor, shift = UNITS.get(dtype, (1.0, 0.0))
    numbers = factor * X + shift
    dtype_of_numbers = {"float32": "float32", "ints": "int64"}.get(dtype, "float64")
    if s["face"] == "estimator" and dtype in ("float64", *UNITS):
        return (numbers[:, [0, 2]] if is_absent else numbers).astype(dtype_of_numbers)
    columns: dict[str, Any] = dict(zip(NAMES, numbers.T, strict=True))
    if has_levels(s):
        words = LEVELS[np.digitize(X[:, 2], [-0.5, 0.5])].astype(object)
        columns["c"] = np.where(np.isnan(X[:, 2]), UNSEEN, words)
    if is_absent:
        del columns["b"]
    if dtype in ("polars", "words"):
        return pl.DataFrame(columns | dict(beside or {}), nan_to_null=True)
    frame = pd.DataFrame(columns)
    if dtype in UNITS:
        frame = frame.astype(dtype_of_numbers)
    if dtype == "categorical" and len(frame):
        frame["c"] = frame["c"].astype("category")
    frame = frame.assign(**beside or {})
    if dtype == "pandas, nullable":
        return frame.convert_dtypes()
    if dtype == "pandas, index shuffled":
        frame.index = pd.Index(np.random.default_rng(1).permutation(len(frame)) + 1000)
    return frame


def plain(s: Mapping[str, str]) -> dict[str, str]:
    """The situation with the same values in the plainest dtype, and the plainest unit."""
    if s["method"] in CHAOTIC and s["dtype"] in UNITS:
        return dict(s)
    return {**s, "dtype": "words" if has_levels(s) else "float64"}
