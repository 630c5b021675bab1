"""What columns say about how a table came about: rows that belong together, targets given away."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float
from scipy import stats

from bayesprop.table.encoding import Rows, TableEncoding
from bayesprop.table.errors import counted, one_line, quoted
from bayesprop.table.values import as_levels

_WORD = re.compile(
    r"subject|patient|person|participant|user|customer|client|student|pupil|school|teacher|family"
    r"|household|hospital|clinic|machine|device|sensor|station|animal|batch|speaker",
    re.I,
)
_ID = re.compile(r"(.*[_ .-])?(id|ID|Id|nr|no|number|#)|.*[a-z](ID|Id|#)|(id|ID|Id)[_ .A-Z].*")
_CODE = r"^[A-Za-z]{0,6}[-_. ]?\d+[A-Za-z]?$"
_LEAST_GROUPS, _LEAST_SIZE = 5, 2.0
_MOST_ROWS, _MOST_COLUMNS = 5000, 100
_LOG_CHANCE = -25.0
"""Log of the chance by shuffled rows that columns stay the same within groups, to say something."""

EXPLAINED, TELLING = 0.95, 0.995
"""Share of the variance of the target (or of its ranks) that one column explains, and area under
its curve for one of two classes, from which it is named."""

_RANGES = 2.0  # of a column whose levels divide the target, above all shares
_LEAST_ROWS, _MOST_LEVELS, _MOST_NAMED = 20, 10, 3


class Likely(NamedTuple):
    """A column whose rows of one value seem to belong together, and what says so."""

    column: str
    why: str


def likely_group(frame: pl.DataFrame, target: str) -> Likely | None:
    """Find the column that most likely names what rows belong to; None where none looks like it.

    It has five values or more, of two rows or more on average. Its name or values are those of
    identifiers, or other columns are constant within its values, as age is of a patient, where
    shuffled rows would not be so once in e^25 times.
    """
    if len(frame.columns) > _MOST_COLUMNS + 1:
        frame = frame.select(*frame.columns[:_MOST_COLUMNS], target)
    rows = frame.drop(target).head(_MOST_ROWS)
    columns = [name for name in rows.columns if _has_groups(rows[name])]
    agreeing = [(name, _agreeing(rows, name)) for name in columns]
    named = [(name, others) for name, others in agreeing if _is_identifier(rows[name])]
    for name, others in sorted(named, key=lambda pair: -len(pair[1])):
        if others or _is_named(name):
            return Likely(name, _why(rows, name, others))
    repeated = [(name, others) for name, others in agreeing if len(others) >= 2]
    if not repeated:
        return None
    name, others = max(repeated, key=lambda pair: len(pair[1]))
    return Likely(name, _why(rows, name, others))


def _has_groups(column: pl.Series) -> bool:
    n = column.n_unique()
    return not column.null_count() and _LEAST_GROUPS <= n <= len(column) / _LEAST_SIZE


def _is_named(name: str) -> bool:
    return bool(_WORD.search(name) or _ID.fullmatch(name))


def _is_identifier(column: pl.Series) -> bool:
    if column.dtype == pl.String:
        return bool(column.str.contains(_CODE).all()) or _is_named(column.name)
    return column.dtype.is_integer() and _is_named(column.name)


def _agreeing(rows: pl.DataFrame, name: str) -> list[str]:
    """Return columns that are constant within every value of a column, beyond chance."""
    others = [other for other in rows.columns if other != name]
    counts = rows.group_by(name).agg(pl.len().alias("\0n"), pl.col(others).n_unique())
    sizes = counts["\0n"].to_numpy()
    return [
        other
        for other in others
        if counts[other].max() == 1 and log_chance(rows[other], sizes) < _LOG_CHANCE
    ]


def log_chance(column: pl.Series, sizes: np.ndarray) -> float:
    """Log probability that groups of these sizes are constant, drawn with replacement."""
    share = column.alias("\0value").value_counts()["count"].to_numpy() / len(column)
    log_powers = np.log(share) * sizes[:, None]
    return float(np.logaddexp.reduce(log_powers, axis=1).sum())


def _why(rows: pl.DataFrame, name: str, others: list[str]) -> str:
    n = rows[name].n_unique()
    several = f"{n} values, {len(rows) / n:.2g} rows of each"
    if not others:
        return several
    first, verb = quoted(others[0]), "stays" if len(others) == 1 else "stay"
    more = f" and {counted(len(others) - 1, 'other column')}" if len(others) > 1 else ""
    return f"{several}, within which {first}{more} {verb} the same"


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
    scores = dict.fromkeys(names, 0.0)
    for name, one in zip(names, score(x, y).tolist(), strict=True):
        scores[name] = max(scores[name], one)
    for name in scores:
        if not encoding.classes and _cuts(as_levels(frame[name]).gather(some).to_numpy(), y):
            scores[name] = _RANGES
    worst = sorted(
        (name for name in scores if scores[name] >= least), key=lambda name: -scores[name]
    )
    return [_sentence(name, encoding, scores[name]) for name in worst[:_MOST_NAMED]]


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
    present = np.array([level is not None for level in levels])
    names, number, counts = np.unique(
        levels[present].astype(str), return_inverse=True, return_counts=True
    )
    is_usual = 2 <= len(names) <= _MOST_LEVELS and present.sum() >= _LEAST_ROWS
    if not is_usual or counts.min() < len(names):
        return False
    groups = [y[present][number == k] for k in range(len(names))]
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
