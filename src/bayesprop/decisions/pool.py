"""Rows, an array or a frame, and what was measured at them; which may be chosen, at what cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

Allowed = Bool[np.ndarray, " n"] | Callable[[Any], Any] | None


def take(X: Any, rows: Int[np.ndarray, " m"]) -> Any:
    """Select rows by number."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def checked_rows(name: str, X: Any) -> Any:
    """Return a frame or an array of rows; ValueError where there are not two dimensions."""
    if not hasattr(X, "shape"):
        X = np.asarray(X, np.float64)
    if len(X.shape) != 2:
        raise ValueError(
            f"{name} must be 2-d, one row a candidate, got shape {tuple(X.shape)}: "
            "reshape(1, -1) makes one row of a single candidate"
        )
    return X


def checked_values(y: Any, *, classes: bool) -> np.ndarray:
    """Return what was measured; ValueError where a regressor would learn what are no numbers."""
    values = np.asarray(y)
    if classes or values.dtype.kind in "biuf":
        return values
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y must hold numbers for a regressor ({error}): for labels take a classifier"
        ) from error


def finite(name: str, values: Any, shape: tuple[int | None, ...]) -> Float[np.ndarray, "..."]:
    """Return finite float64 of a shape, None in it for any size; ValueError in words."""
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from None
    wanted = "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
    fits = array.ndim == len(shape) and all(
        size in (None, given) for size, given in zip(shape, array.shape, strict=True)
    )
    if not fits or array.size == 0:
        raise ValueError(f"{name} must have the shape {wanted}, got {array.shape}")
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0].tolist()
        where = f" at {', '.join(map(str, place))}" if place else ""
        raise ValueError(f"{name} must be finite, got {array[tuple(place)]:g}{where}")
    return array


def bounded(name: str, values: Float[np.ndarray, "..."], most: float) -> Float[np.ndarray, "..."]:
    """Return values; ValueError for one that is too large to be worked with."""
    largest = float(np.abs(values).max())
    if largest > most:
        raise ValueError(f"{name} must be at most {most:g} in size, got {largest:g}: scale it")
    return values


def stacked(first: Any, second: Any) -> Any:
    """Put rows of one kind, arrays or frames, one after another."""
    if isinstance(first, np.ndarray):
        return np.concatenate([first, np.asarray(second)])
    import narwhals as nw

    return nw.concat([nw.from_native(first), nw.from_native(second)]).to_native()


def named(X: Float[np.ndarray, "n d"], columns: list[str] | None) -> Any:
    """Return rows as a frame with these columns, or as they are."""
    if columns is None:
        return X
    import polars as pl

    return pl.DataFrame(X, schema=columns)


def checked_costs(costs: Any, n: int) -> Float[np.ndarray, " n"]:
    """Return the cost of every candidate, 1 where none are given."""
    if costs is None:
        return np.ones(n)
    costs = finite("costs", costs, (n,))
    if costs.min() <= 0.0:
        raise ValueError(f"costs must be > 0, got {costs.min():g} at {np.argmin(costs)}")
    return costs


def checked_allowed(allowed: Allowed, X: Any) -> Bool[np.ndarray, " n"]:
    """Say of every candidate whether it may be chosen; a function is asked about all of them."""
    if allowed is None:
        return np.ones(len(X), dtype=bool)
    mask = np.asarray(allowed(X) if callable(allowed) else allowed)
    if mask.shape != (len(X),) or mask.dtype != np.bool_:
        raise ValueError(
            f"allowed must say True or False of each candidate, ({len(X)},), got an array of "
            f"{mask.dtype} of shape {mask.shape}"
        )
    return mask


def equals(X: Any, place: int) -> Bool[np.ndarray, " n"]:
    """Say which candidates repeat one, gaps included."""
    rows = np.asarray(X)
    row = rows[place]
    return ((rows == row) | ((rows != rows) & (row != row))).all(axis=1)


def distinct(X: Any, order: Iterable[int]) -> Iterator[int]:
    """Go through candidates in an order, leaving out those that repeat an earlier one."""
    rows, seen = np.asarray(X), set()
    for place in order:
        # one value for all gaps: no NaN equals another
        key = tuple(None if value != value else value for value in rows[place].tolist())
        if key not in seen:
            seen.add(key)
            yield int(place)
