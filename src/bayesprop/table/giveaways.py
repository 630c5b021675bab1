"""Does a column give the target away? One that almost is the target may not be known beforehand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from jaxtyping import Float
from scipy import stats

from bayesprop.table.encoding import Rows, TableEncoding
from bayesprop.table.errors import one_line, quoted
from bayesprop.table.values import as_levels

EXPLAINED, TELLING = 0.95, 0.995
"""Share of the variance of the target (or of its ranks) that one column explains, and area under
its curve for one of two classes, from which it is named."""

_RANGES = 2.0  # of a column whose levels divide the target, above all shares
_MOST_ROWS, _LEAST_ROWS, _MOST_LEVELS, _MOST_NAMED = 5000, 20, 10, 3


def giveaways(encoding: TableEncoding, frame: pl.DataFrame, rows: Rows) -> list[str]:
    """Return a sentence on every column that alone tells the target, at most three.

    frame, rows
        The rows to learn from, as they are in the table and as numbers.
    """
    if len(rows.y) < _LEAST_ROWS or len(encoding.classes) > 2:
        return []
    some = np.random.default_rng(0).permutation(len(rows.y))[:_MOST_ROWS]
    names = [column.name for column in encoding.columns for _ in column.feature_names]
    x, y = rows.filled[some], rows.y[some]
    score, least = (telling, TELLING) if encoding.classes else (explained, EXPLAINED)
    found = dict.fromkeys(names, 0.0)
    for name, one in zip(names, score(x, y).tolist(), strict=True):
        found[name] = max(found[name], one)
    for name in found:
        if not encoding.classes and _cuts(as_levels(frame[name]).gather(some).to_numpy(), y):
            found[name] = _RANGES
    worst = sorted((name for name in found if found[name] >= least), key=lambda name: -found[name])
    return [_sentence(name, encoding, found[name]) for name in worst[:_MOST_NAMED]]


def explained(x: Float[np.ndarray, "n k"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " k"]:
    """Squared correlations of values or of ranks, whichever is larger; 0 of constants."""
    of_ranks = _correlations(stats.rankdata(x, axis=0), stats.rankdata(y))
    return np.maximum(_correlations(x, y) ** 2, of_ranks**2)


def _correlations(x: np.ndarray, y: np.ndarray) -> Float[np.ndarray, " k"]:
    x, y = (part / max(float(np.abs(part).max()), np.finfo(float).tiny) for part in (x, y))
    x, y = x - x.mean(axis=0), y - y.mean()
    scale = np.sqrt((x**2).sum(axis=0) * (y**2).sum())
    return np.divide(y @ x, scale, out=np.zeros(x.shape[1]), where=scale > 0.0)


def telling(x: Float[np.ndarray, "n k"], y: np.ndarray) -> Float[np.ndarray, " k"]:
    """Areas under the curve of columns for one of two classes, either way (Mann & Whitney 1947)."""
    is_one = y == y[0]
    n, m = int(is_one.sum()), int((~is_one).sum())
    if min(n, m) < _LEAST_ROWS:
        return np.zeros(x.shape[1])
    area = (stats.rankdata(x, axis=0)[is_one].sum(axis=0) - n * (n + 1) / 2) / (n * m)
    return np.maximum(area, 1.0 - area)


def _cuts(levels: np.ndarray, y: Float[np.ndarray, " n"]) -> bool:
    """Whether a few levels divide the target into ranges that do not overlap."""
    known = np.array([level is not None for level in levels])
    names, number, counts = np.unique(
        levels[known].astype(str), return_inverse=True, return_counts=True
    )
    is_usual = 2 <= len(names) <= _MOST_LEVELS and known.sum() >= _LEAST_ROWS
    if not is_usual or counts.min() < len(names):
        return False
    groups = [y[known][number == k] for k in range(len(names))]
    ends = sorted((group.min(), group.max()) for group in groups)
    return all(high < low for (_, high), (low, _) in pairwise(ends))


def _sentence(name: str, encoding: TableEncoding, score: float) -> str:
    target, column = quoted(encoding.target_name), quoted(name)
    alone = f"alone explains {100.0 * score:.0f} % of {target}"
    if encoding.classes:
        alone = f"alone tells the classes of {target} apart"
    elif score == _RANGES:
        alone = f"divides {target} into ranges"
    return (
        f"column {column} {alone}: if it is known only with the target, or made from it, leave it"
        f" out by --drop {one_line(name)}"
    )
