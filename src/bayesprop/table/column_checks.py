"""What columns say about how a table came about: rows that belong together, targets given away."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import Message, counted, joined, quoted
from bayesprop.table.values import as_levels

_WORD = re.compile(
    r"(subject|patient|person|participant|user|customer|client|student|pupil|school|teacher|family"
    r"|household|hospital|clinic|machine|device|sensor|station|animal|batch|speaker"
    r"|(?<![a-z])(site|plot|farm|village|ward|branch|store|shop|firm|cow|litter|cent(re|er)))"
    r"s?[_ .-]?(id|no|nr|num|number|code|name)?(?![a-z])",
    re.I,
)
_COUNT = re.compile(r"(number|num|n|count|total|mean|average|avg|max|min)[_ .-].+", re.I)
"""Names of what is counted, as of calls of a customer."""
_ID = re.compile(r"(.*[_ .-])?(id|ID|Id|nr|no|number|#)|.*[a-z](ID|Id|#)|(id|ID|Id)[_ .A-Z].*")
_CODE = r"^[A-Za-z]{0,6}[-_. ]?\d+[A-Za-z]?$"
_LEAST_GROUPS, _LEAST_SIZE = 5, 2.0
_LEAST_UNNAMED = 10  # groups of a column that is not named as one, which may be a kind with traits
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


def likely_group(frame: pl.DataFrame, target: str, nominal: Collection[str] = ()) -> Likely | None:
    """Find the column that most likely names what rows belong to; None where none looks like it.

    It has five values or more, of two rows or more on average. Its name or values are those of
    identifiers, or it has ten or more, and other columns are constant within them, as age is of a
    patient, where shuffled rows would not be so once in e^25 times. A column that only rises or
    falls with it, as a price in another currency, says nothing of that.

    nominal
        Columns whose numbers name things by what they tell of the target; looked at last.
    """
    rows = frame.drop(target).head(_MOST_ROWS)
    comparable = [one.name for one in rows if not one.dtype.is_object()]
    rows = rows.select(comparable[:_MOST_COLUMNS])
    agreeing = {name: _agreeing(rows, name) for name in rows.columns if _has_groups(rows[name])}
    likely = [
        name
        for name, others in agreeing.items()
        if _is_identifier(rows[name]) and (others or _is_named(name))
    ] or [
        name
        for name, others in agreeing.items()
        if len(others) >= 2 and rows[name].n_unique() >= _LEAST_UNNAMED
    ]
    likely = likely or [name for name in agreeing if name in nominal]
    if not likely:
        return None
    name = max(likely, key=lambda one: (len(agreeing[one]), not rows[one].dtype.is_float()))
    return Likely(name, _why(rows, name, agreeing[name]))


def _has_groups(column: pl.Series) -> bool:
    n = column.n_unique()
    return not column.null_count() and _LEAST_GROUPS <= n <= len(column) / _LEAST_SIZE


def _is_named(name: str) -> bool:
    is_word = _WORD.search(name) and not _COUNT.fullmatch(name)
    return bool(is_word or _ID.fullmatch(name))


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
        if counts[other].max() == 1
        and log_chance(rows[other], sizes) < _LOG_CHANCE
        and not _is_monotone(rows.select(name, other))
    ]


def _is_monotone(pair: pl.DataFrame) -> bool:
    """Whether one column of numbers, sorted, sorts the other, up or down."""
    if not all(kind.is_numeric() for kind in pair.dtypes):
        return False
    values = pair.drop_nulls().unique().sort(pair.columns[0])[pair.columns[1]]
    return values.is_sorted() or values.is_sorted(descending=True)


def log_chance(column: pl.Series, sizes: np.ndarray) -> float:
    """Log probability that groups of these sizes are constant, drawn with replacement."""
    share = column.alias("\0value").value_counts()["count"].to_numpy() / len(column)
    log_powers = np.log(share) * sizes[:, None]
    return float(np.logaddexp.reduce(log_powers, axis=1).sum())


def _why(rows: pl.DataFrame, name: str, others: list[str]) -> str:
    n = rows[name].n_unique()
    several = f"{n} values, {float(f'{len(rows) / n:.2g}'):g} rows of each"
    if not others:
        return several
    first, verb = quoted(others[0]), "stays" if len(others) == 1 else "stay"
    more = f" and {counted(len(others) - 1, 'other column')}" if len(others) > 1 else ""
    return f"{several}, within which {first}{more} {verb} the same"


def giveaways(encoding: TableEncoding, frame: pl.DataFrame, rows: EncodedRows) -> list[Message]:
    """Return remarks on columns that alone predict the target, at most three.

    frame, rows
        The rows to learn from, as they are in the table and as numbers.
    """
    if len(rows.y) < _LEAST_ROWS:
        return []
    some = np.random.default_rng(0).permutation(len(rows.y))[:_MOST_ROWS]
    names = [column.name for column in encoding.columns for _ in column.feature_names]
    x, y = rows.filled[some], rows.y[some]
    scores = dict.fromkeys(names, 0.0)
    if len(encoding.classes) <= 2:
        alone = telling(x, y) if encoding.classes else explained(x, y)
        for name, one in zip(names, alone.tolist(), strict=True):
            scores[name] = max(scores[name], one)
    divides = _settles if encoding.classes else _cuts
    for name in scores:
        if divides(as_levels(frame[name]).gather(some).to_numpy(), y):
            scores[name] = _RANGES
    least = TELLING if encoding.classes else EXPLAINED
    worst = sorted(
        (name for name in scores if scores[name] >= least), key=lambda name: -scores[name]
    )
    return joined(_remark(name, encoding, scores[name]) for name in worst[:_MOST_NAMED])


def explained(x: Float[np.ndarray, "n k"], y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " k"]:
    """Squared correlations of values or of ranks, whichever is larger; 0 of constants."""
    from scipy import stats

    of_ranks = _correlations(stats.rankdata(x, axis=0), stats.rankdata(y))
    return np.maximum(_correlations(x, y) ** 2, of_ranks**2)


def _correlations(x: np.ndarray, y: np.ndarray) -> Float[np.ndarray, " k"]:
    x, y = (part / max(float(np.abs(part).max()), np.finfo(float).tiny) for part in (x, y))
    x, y = x - x.mean(axis=0), y - y.mean()
    scale = np.sqrt((x**2).sum(axis=0) * (y**2).sum())
    return np.divide(y @ x, scale, out=np.zeros(x.shape[1]), where=scale > 0.0)


def telling(x: Float[np.ndarray, "n k"], y: np.ndarray) -> Float[np.ndarray, " k"]:
    """Areas under the curve of columns for one of two classes, either way (Mann & Whitney 1947)."""
    from scipy import stats

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


def _settles(levels: np.ndarray, y: np.ndarray) -> bool:
    """Whether all rows of one level are of one class, which chance does not explain."""
    pairs = pl.DataFrame({"level": levels, "class": y.astype(str)}).drop_nulls()
    groups = pairs.group_by("level").agg(pl.len().alias("n"), pl.col("class").n_unique())
    if len(pairs) < _LEAST_ROWS or groups["class"].max() != 1:
        return False
    return log_chance(pairs["class"], groups["n"].to_numpy()) < _LOG_CHANCE


def _remark(name: str, encoding: TableEncoding, score: float) -> Message:
    what = "tells_classes" if encoding.classes else "divides" if score == _RANGES else "explains"
    own = {"target": encoding.target_name, "share": 100.0 * score}
    return Message.of(f"column.{what}", name, **own)
