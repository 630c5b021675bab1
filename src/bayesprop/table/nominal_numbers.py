"""Whole numbers that name things, such as plots, patients and firms, and neither count nor measure.

Rows of one number are then alike as no curve over the numbers says, nor the other columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesprop.table.columns import CategoryColumn, NumericColumn
from bayesprop.table.encoded import FittedColumn

_FEWEST = 6
"""Different numbers; a curve through fewer says all that they tell."""
_MOST_ROWS, _MOST_TRIED = 10_000, 100
"""Rows by which this is judged, drawn from more; and columns, for more are pixels, or counts."""
_MOST_COLUMNS, _MOST_LEVELS = 300, 50
"""Beyond these what other columns say is left out, and what one of them says."""
_MOST_ALONE, _LEAST_GAIN, _ERRORS = 0.05, 0.05, 1.5
"""Share of rows without another of their number; share of the variance that the rows of a number
tell beyond the curve, and standard errors that it is above that."""
_MOST_KNOTS, _NUMBERS_A_KNOT = 9, 4
_BY_CHANCE = 1e-4
_EXACT = 2.0**53
"""Below it floats hold every whole number."""
_TINY = 1e-12


def nominal_columns_of(
    fitted: Sequence[FittedColumn],
    frame: pl.DataFrame,
    y: Float[np.ndarray, "n k"],
    amounts: Collection[str] = (),
) -> set[str]:
    """Return the columns of numbers that name things, by the target or by what other columns leave.

    y
        The target as numbers, NaN where a row has none.
    amounts
        Columns that name nothing.
    """
    rows = np.flatnonzero(~np.isnan(y[:, 0]))
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:_MOST_ROWS])
    frame, y = frame[rows], y[rows]
    columns = {one.name: one.column for one in fitted if one.column is not None}
    numbers = {
        name: column.numbers(frame[name]).fill_null(np.nan).to_numpy()
        for name, column in columns.items()
        if isinstance(column, NumericColumn) and column.is_plain and name not in amounts
    }
    numbers = {name: x for name, x in numbers.items() if may_be_nominal(x)}
    if not 0 < len(numbers) <= _MOST_TRIED:
        return set()
    residuals = residuals_without(of_few_levels(fitted, frame), y, numbers)
    return {
        name for name, x in numbers.items() if is_nominal(x, y) or is_nominal(x, residuals[name])
    }


def of_few_levels(
    fitted: Sequence[FittedColumn], frame: pl.DataFrame
) -> dict[str, Float[np.ndarray, "n c"]]:
    """Encode the columns that are used, but those of many levels."""
    columns = {one.name: one.column for one in fitted if one.column is not None}
    return {
        name: column.encode(frame[name]).X
        for name, column in columns.items()
        if not isinstance(column, CategoryColumn) or len(column.levels) <= _MOST_LEVELS
    }


def may_be_nominal(x: Float[np.ndarray, " n"]) -> bool:
    """Whether numbers are whole, of some kinds, and nearly none alone."""
    known = x[~np.isnan(x)]
    if not ((known == np.round(known)) & (np.abs(known) < _EXACT)).all():
        return False
    count = np.unique(known, return_counts=True)[1]
    return len(count) >= _FEWEST and (count == 1).sum() <= _MOST_ALONE * len(known)


def residuals_without(
    encoded: Mapping[str, Float[np.ndarray, "n c"]], y: Float[np.ndarray, "n k"], of: Iterable[str]
) -> dict[str, Float[np.ndarray, "n k"]]:
    """Return what ridge regression on all columns but one leaves of targets, for each of some.

    Both standardised; unit penalties a column, gaps at the mean. One that is not among the columns
    is left by all of them.
    """
    y, widths = _standardised(y), [x.shape[1] for x in encoded.values()]
    d = sum(widths)
    if not 0 < d <= _MOST_COLUMNS:
        return dict.fromkeys(of, y)
    X = _standardised(np.column_stack([*encoded.values()]))
    own = np.repeat(np.array([*encoded], object), widths)
    squares, products = X.T @ X + d * np.eye(d), X.T @ y

    def residual(name: str) -> np.ndarray:
        others = np.flatnonzero(own != name)
        return y - X[:, others] @ np.linalg.solve(squares[np.ix_(others, others)], products[others])

    return {name: residual(name) for name in of}


def _standardised(values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Return columns of mean 0 and variance 1, of any scale; 0 where constant or missing."""
    gap = np.isnan(values)
    values = np.where(gap, 0.0, values)
    values = values / np.maximum(np.abs(values).max(axis=0), np.finfo(float).tiny)
    mean = values.sum(axis=0) / np.maximum((~gap).sum(axis=0), 1)
    values = np.where(gap, 0.0, values - mean)
    std = values.std(axis=0)
    return np.where(std > _TINY, values / np.maximum(std, _TINY), 0.0)


def is_nominal(x: Float[np.ndarray, " n"], y: Float[np.ndarray, "n k"]) -> bool:
    """Whether the other rows of a number tell as much beyond a curve over all numbers as that does.

    The curve is piecewise linear, of equally many numbers a piece. What the rows of a number
    leave of it is predicted by the shrunken mean of the others (James & Stein 1961). Standard
    errors are those of numbers, not of rows.

    y
        What is to be told, one column or more, without gaps.
    """
    known = ~np.isnan(x)
    x, y = x[known], y[known]
    _, place, count = np.unique(x, return_inverse=True, return_counts=True)
    residual = _curve_residuals(x, y)
    gain = np.mean(_gains(residual, place, count), axis=1)
    over_chance = np.bincount(place, gain - gain.mean())
    error = np.sqrt(np.sum(over_chance**2)) / len(x)
    is_beyond = gain.mean() > 1.0 - np.mean(residual**2)
    return bool(is_beyond and gain.mean() - _ERRORS * error > _LEAST_GAIN)


def explained_by_curve(x: Float[np.ndarray, " n"], y: Float[np.ndarray, "n k"]) -> float:
    """Return the share of a target's variance that a curve tells, 0 where chance may have done it.

    The largest of several columns, by an F test.
    """
    from scipy import stats

    known = ~np.isnan(x) & ~np.isnan(y[:, 0])
    x, y = x[known], y[known]
    n_free = len(x) - _MOST_KNOTS
    if n_free < 1:
        return 0.0
    variance, residual = (
        np.mean(one**2, axis=0) for one in (_standardised(y), _curve_residuals(x, y))
    )
    share = float(np.max(variance - residual))
    ratio = share / max(1.0 - share, _TINY) * n_free / (_MOST_KNOTS - 1)
    by_chance = y.shape[1] * stats.f.sf(ratio, _MOST_KNOTS - 1, n_free)
    return share if by_chance < _BY_CHANCE else 0.0


def _curve_residuals(x: Float[np.ndarray, " n"], y: Float[np.ndarray, "n k"]) -> np.ndarray:
    """Return what a piecewise-linear curve of least squares leaves of standardised targets."""
    x, y = _standardised(x[:, None])[:, 0], _standardised(y)
    numbers = np.unique(x)
    n_knots = min(_MOST_KNOTS, 2 + len(numbers) // _NUMBERS_A_KNOT)
    knots = numbers[np.linspace(0, len(numbers) - 1, n_knots).astype(int)]
    bends = np.maximum(x[:, None] - knots[:-1], 0.0)
    basis = np.column_stack([np.ones_like(x), bends])
    return y - basis @ np.linalg.lstsq(basis, y)[0]


def _gains(
    residual: Float[np.ndarray, "n k"], place: np.ndarray, count: np.ndarray
) -> Float[np.ndarray, "n k"]:
    """Return what squared residuals lose where the other rows of a number predict them."""
    n, n_numbers = len(residual), len(count)
    total = np.column_stack([np.bincount(place, column) for column in residual.T])
    mean = total / count[:, None]
    within = np.sum((residual - mean[place]) ** 2, axis=0) / max(n - n_numbers, 1)
    between = np.average(mean**2, axis=0, weights=count) - within * n_numbers / n
    alike = within / np.maximum(between, _TINY)
    others = (total[place] - residual) / (count[place, None] - 1 + np.maximum(alike, _TINY))
    return residual**2 - (residual - others) ** 2
