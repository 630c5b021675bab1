"""Candidates, an array or a frame: which may be chosen, and at what cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import cast

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike

from bayesprop.estimators.any_estimator import Inputs
from bayesprop.estimators.params import finite

_LEAST_LOG = -1e300  # added to a score, it is still a number
Allowed = Bool[np.ndarray, " n"] | Callable[[Inputs], ArrayLike] | None


def take(X: Inputs, rows: Int[np.ndarray, " m"]) -> Inputs:
    """Select rows by number."""
    return getattr(X, "iloc", X)[rows]


def checked_rows(name: str, X: Inputs | ArrayLike) -> Inputs:
    """Return a frame or an array of rows; ValueError where there are not two dimensions."""
    rows = cast(Inputs, X) if hasattr(X, "shape") else np.asarray(X, np.float64)
    if len(rows.shape) != 2:
        raise ValueError(
            f"{name} must be 2-d, one row a candidate, got shape {tuple(rows.shape)}: "
            "reshape(1, -1) makes one row of a single candidate"
        )
    return rows


def stacked(first: Inputs, second: Inputs) -> Inputs:
    """Put rows of one kind, arrays or frames, one after another."""
    if isinstance(first, np.ndarray):
        return np.concatenate([first, np.asarray(second)])
    import narwhals as nw

    return nw.concat([nw.from_native(first), nw.from_native(second)]).to_native()


def named(X: Float[np.ndarray, "n d"], columns: list[str] | None) -> Inputs:
    """Return rows as a frame with these columns, or as they are."""
    if columns is None:
        return X
    import polars as pl

    return pl.DataFrame(X, schema=columns)


def checked_costs(costs: ArrayLike | None, n: int) -> Float[np.ndarray, " n"]:
    """Return the cost of every candidate, 1 where none are given."""
    if costs is None:
        return np.ones(n)
    costs = finite("costs", costs, (n,))
    if costs.min() <= 0.0:
        raise ValueError(f"costs must be > 0, got {costs.min():g} at {np.argmin(costs)}")
    return costs


def checked_log_met(log_met: ArrayLike | None, n: int) -> Float[np.ndarray, " n"] | None:
    """Return log probabilities, minus infinity as a finite number; None where none are given."""
    if log_met is None:
        return None
    values = np.asarray(log_met, np.float64)
    if values.shape != (n,) or not (values <= 0.0).all():
        raise ValueError(f"log_met must hold ({n},) logarithms of probabilities, numbers <= 0")
    return np.maximum(values, _LEAST_LOG)


def checked_allowed(allowed: Allowed, X: Inputs) -> Bool[np.ndarray, " n"]:
    """Return whether each candidate may be chosen; a function gets all candidates at once."""
    if allowed is None:
        return np.ones(len(X), dtype=bool)
    mask = np.asarray(allowed(X) if callable(allowed) else allowed)
    if mask.shape != (len(X),) or mask.dtype != np.bool_:
        raise ValueError(
            f"allowed must say True or False of each candidate, ({len(X)},), got an array of "
            f"{mask.dtype} of shape {mask.shape}"
        )
    return mask


def equals(X: Inputs, place: int) -> Bool[np.ndarray, " n"]:
    """Return which candidates repeat another one, including its missing values."""
    rows = np.asarray(X)
    row = rows[place]
    return ((rows == row) | ((rows != rows) & (row != row))).all(axis=1)


def distinct(X: Inputs, order: Iterable[int]) -> Iterator[int]:
    """Go through candidates in an order, leaving out those that repeat an earlier one."""
    rows, seen = np.asarray(X), set()
    for place in order:
        # one value for all gaps: no NaN equals another
        key = tuple(None if value != value else value for value in rows[place].tolist())
        if key not in seen:
            seen.add(key)
            yield int(place)
