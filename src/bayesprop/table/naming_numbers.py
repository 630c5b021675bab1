"""Whole numbers that name things, such as plots, patients and firms, and neither count nor measure.

Rows of one number are then alike as no curve over the numbers says.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

_FEWEST = 6
"""Different numbers; a curve through fewer says all that they tell."""
_MANY_ROWS, _ROWS_OF_EACH = 1_000, 10
"""Tables of fewer rows have so many of each number, on average: where these are fewer, a process
over the numbers as they are learnt more (Oxboys, Sitka of R's packages)."""
_MOST_ROWS = 20_000
_MOST_ALONE, _LEAST_GAIN, _LEAST_ERRORS = 0.05, 0.05, 2.5
"""Share of rows without another of their number; share of the target's variance that the rows of a
number tell beyond the curve, and its standard errors above zero."""
_N_KNOTS, _TINY = 9, 1e-12


def name_things(x: Float[np.ndarray, " n"], y: Float[np.ndarray, "n k"]) -> bool:
    """Whether the other rows of a number tell its target better than a curve over all numbers does.

    The curve is piecewise linear between quantiles, as networks see it. What the rows of a number
    leave of it is predicted by the shrunken mean of the others (James & Stein 1961). Standard
    errors are those of numbers, not of rows.

    y
        What is to be told, one column or more, without gaps.
    """
    known = np.flatnonzero(~np.isnan(x))
    is_small = len(known) < _MANY_ROWS
    if len(known) > _MOST_ROWS:
        known = np.random.default_rng(0).permutation(known)[:_MOST_ROWS]
    x, y = x[known], y[known]
    if not (x == np.round(x)).all():
        return False
    _, place, count = np.unique(x, return_inverse=True, return_counts=True)
    if len(count) < _FEWEST or (count == 1).sum() > _MOST_ALONE * len(x):
        return False
    if is_small and len(x) < _ROWS_OF_EACH * len(count):
        return False
    gain = np.mean(_gains(_left_by_curve(x, y), place, count), axis=1)
    over_chance = np.bincount(place, gain - gain.mean())
    error = np.sqrt(np.sum(over_chance**2)) / len(x)
    return bool(gain.mean() > max(_LEAST_GAIN, _LEAST_ERRORS * error))


def _left_by_curve(x: Float[np.ndarray, " n"], y: Float[np.ndarray, "n k"]) -> np.ndarray:
    """Return what a piecewise-linear curve of least squares leaves of standardised targets."""
    y = (y - y.mean(axis=0)) / np.maximum(y.std(axis=0), _TINY)
    x = (x - x.mean()) / x.std()
    knots = np.unique(np.quantile(x, np.linspace(0.0, 1.0, _N_KNOTS), method="inverted_cdf"))
    bends = np.maximum(x[:, None] - knots[:-1], 0.0)
    basis = np.column_stack([np.ones_like(x), bends])
    return y - basis @ np.linalg.lstsq(basis, y)[0]


def _gains(
    left: Float[np.ndarray, "n k"], place: np.ndarray, count: np.ndarray
) -> Float[np.ndarray, "n k"]:
    """How much less is left, squared, where the other rows of a number predict it."""
    n, n_numbers = len(left), len(count)
    total = np.column_stack([np.bincount(place, column) for column in left.T])
    mean = total / count[:, None]
    within = np.sum((left - mean[place]) ** 2, axis=0) / max(n - n_numbers, 1)
    between = np.average(mean**2, axis=0, weights=count) - within * n_numbers / n
    alike = within / np.maximum(between, _TINY)
    others = (total[place] - left) / (count[place, None] - 1 + np.maximum(alike, _TINY))
    return left**2 - (left - others) ** 2
