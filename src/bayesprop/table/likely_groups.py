"""Does a table hold several rows of the same patient, site or machine? What its columns suggest."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import polars as pl

from bayesprop.table.errors import counted, quoted

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
    found = [(name, _agreeing(rows, name)) for name in columns]
    named = [(name, others) for name, others in found if _is_identifier(rows[name])]
    for name, others in sorted(named, key=lambda pair: -len(pair[1])):
        if others or _is_named(name):
            return Likely(name, _why(rows, name, others))
    repeated = [(name, others) for name, others in found if len(others) >= 2]
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
        if counts[other].max() == 1 and _log_chance(rows[other], sizes) < _LOG_CHANCE
    ]


def _log_chance(column: pl.Series, sizes: np.ndarray) -> float:
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
