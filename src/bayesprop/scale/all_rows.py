"""Learn all rows of a table as a stream, encoded as a sample determines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from jaxtyping import Bool, Float, Int
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from bayesprop.estimators.fitting import Checked, advised, checked_rows, standardise
from bayesprop.estimators.shell import EstimatorBase
from bayesprop.model.fit_report import FitReport
from bayesprop.model.method import KnowsGroups, LearnsParts, Parts, Streams
from bayesprop.model.progress import SILENT, Progress, current, following
from bayesprop.model.task import KINDS_OF_CLASSES, Fitted, Numbers, Standardiser
from bayesprop.numerics.rows import Rows as Rows
from bayesprop.scale.large_table import MOST_CELLS, SAMPLE_CELLS, LargeTable, Part
from bayesprop.table.division import Division, groups_of, moments_of, weights_of
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import rows_called
from bayesprop.targets.bijectors import NUMBERS

SAMPLE_ROWS = 100_000
"""Rows that say what columns mean and that judge, where all rows are learnt after them."""
LEAST_ROWS = 2_000
"""Of the sample of a table with very many columns; its cells are bounded otherwise."""
_LOOK = 0.1
"""Share of the bar of the look at all rows."""
_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
Blocks = Callable[[], Iterator[EncodedRows]]
"""Gives all rows in a new order, some at a time."""


class Aside(NamedTuple):
    """Columns that are no features, or order rows; None where there are none."""

    weights: str | None = None
    group: str | None = None
    time: str | None = None


@dataclass(frozen=True)
class AllRows:
    """A large table, and the places of its sampled rows, from 0."""

    table: LargeTable
    places: Int[np.ndarray, " n"]
    aside: Aside
    seed: int

    @classmethod
    def of(
        cls, table: LargeTable, target: str, aside: Aside, seed: int, *, streams: bool
    ) -> tuple[pl.DataFrame, AllRows]:
        """Draw the sample of a table; return its rows, and what learns all the others.

        streams
            Whether there is anything that learns the others; else the sample is as large as memory
            allows.
        """
        n_cells = MOST_CELLS if streams else SAMPLE_CELLS
        n = max(LEAST_ROWS, n_cells // len(table.columns))
        n = min(SAMPLE_ROWS, n) if streams else min(n, table.n_rows)
        frame, places = table.sample(n, seed, target)
        return frame, cls(table, places, aside, seed)

    def remark(self, estimator: EstimatorBase) -> str:
        """Word which rows an estimator has learnt, and which parts come from the sample."""
        of = f"a sample of {len(self.places)} of {self.table.n_rows} rows"
        if not self.are_learnt_by(estimator):
            names = (
                "default, linear, logistic, pbp, ebp, closed-form-vi, bayes-by-backprop, graves-vi"
            )
            return f"learnt from {of}: this method does not stream ({names} do)"
        once = ", each once" if issubclass(estimator.method_class, Streams) else ""
        judged = ["the encoding", "the held-out rows", "the baselines"]
        if issubclass(estimator.method_class, KnowsGroups):
            judged.append("the calibration of the networks")
        which = f"{', '.join(judged[:-1])} and {judged[-1]} come from {of}"
        return f"learnt {estimator.fit_report_.n_rows} rows{once}; {which}"

    def row_name(self, place: int) -> str:
        """Return what messages call the row at a place, from 0."""
        return self.table.row_name(place)

    def rows_called(self, places: Int[np.ndarray, " n"]) -> AbstractContextManager[None]:
        """Let messages call rows of a part by their places in the table."""
        return rows_called(lambda row: self.row_name(int(places[row])))

    @staticmethod
    def are_learnt_by(estimator: EstimatorBase) -> bool:
        """Whether an estimator can learn all rows of a table larger than memory."""
        return issubclass(estimator.method_class, (Streams, LearnsParts))

    def learn(
        self, encoding: TableEncoding, division: Division, estimator: Any, sample: EncodedRows
    ) -> None:
        """Fit an estimator that learns all rows to all but those held out.

        A first pass looks at every row and learns the scaling, exactly, so that what cannot be used
        is refused before anything is learnt. Then they come in random order.

        sample
            The rows to learn of the sample, which decide the kind of target and how columns go
            together. TableError or ValueError for a row that cannot be used.
        """
        estimator.check_params()
        sample = sample._replace(numbers=self.places[sample.numbers - 1] + 1)
        start = self._check(estimator, sample, None).start
        estimator.keep(start)
        read = partial(self._rows, encoding, HeldOut(self, division))
        first, rest = current().part(0.0, _LOOK), current().part(_LOOK, 1.0)
        parts = read(self.table.in_order(), first)
        rows = (self._check(estimator, part, start).rows for part in parts)
        scaled, n_rows, total = looked_at(estimator, start, rows)
        if not n_rows:
            raise ValueError("no row is left to learn: hold fewer rows out")
        estimator.keep(scaled)
        if issubclass(estimator.method_class, Streams):
            condition(estimator, read(self.table.shuffled(self.seed), rest, is_cut=True))
        else:
            seeds = count(self.seed)
            blocks = partial(self._blocks, read, seeds, len(sample.y))
            n_blocks = self.table.n_parts + self.table.n_rows // len(sample.y)
            with following(rest):
                fit_parts(estimator, sample, (n_rows, total), n_blocks, blocks)
        report = estimator.fit_report_
        cut = [one for one in current().cuts if one not in report.warnings]
        report = replace(report, warnings=[*cut, *report.warnings])
        _account(estimator, report)

    def _check(self, estimator: EstimatorBase, rows: EncodedRows, before: Fitted | None) -> Checked:
        """Return what the estimator makes of rows; ValueError says where in the table they are."""
        try:
            return checked_rows(estimator, rows.X, rows.y, rows.weight, before)
        except ValueError as error:
            first, last = (self.row_name(place) for place in rows.numbers[[0, -1]] - 1)
            raise ValueError(f"data rows {first} to {last}: {error}") from error

    def _blocks(
        self, read: Callable[..., Iterator[EncodedRows]], seeds: Iterator[int], n: int
    ) -> Iterator[EncodedRows]:
        """Give all rows in a new order, about n at a time."""
        for rows in read(self.table.shuffled(next(seeds)), SILENT):
            for some in np.array_split(np.arange(len(rows.y)), -(-len(rows.y) // n)):
                yield rows.of(some)

    def _rows(
        self,
        encoding: TableEncoding,
        held_out: HeldOut,
        parts: Iterable[Part],
        progress: Progress,
        *,
        is_cut: bool = False,
    ) -> Iterator[EncodedRows]:
        """Encode the rows to learn of every part; with `is_cut`, while there is time."""
        done, n = 0, self.table.n_rows
        for part in parts:
            rows = self.encoded(part, encoding, held_out)
            if len(rows.y):
                yield rows
            done += len(part.frame)
            progress.report(done, n, f"row {done}")
            if is_cut and progress.is_cut(done, n, "rows"):
                return

    def encoded(self, part: Part, encoding: TableEncoding, held_out: HeldOut) -> EncodedRows:
        """Encode a part's rows to learn, with their numbers in the whole table, and groups."""
        (frame, places), (weights, group, _) = part, self.aside
        if weights is not None:
            counts = frame[weights].ne_missing(pl.Series([0])).to_numpy()
            frame, places = frame.filter(counts), places[counts]
        with self.rows_called(places):
            learnt = ~held_out.among(frame, places)
            rows = encoding.rows(frame, averages_unseen=True)
            at = rows.numbers - 1
            if weights is not None and len(frame):
                weight = weights_of(frame, weights, encoding.target_name, "the table")
                rows = rows._replace(weight=np.asarray(weight)[at])
            if group is not None:
                rows = rows._replace(groups=groups_of(frame[group])[at, None])
        return rows._replace(numbers=places[at] + 1).of(learnt[at])


class HeldOut:
    """Which rows of a table are held out: those of the sample; whole groups; the latest."""

    def __init__(self, rows: AllRows, parts: Division) -> None:
        self.aside = rows.aside
        self.places = rows.places[parts.numbers[parts.is_test] - 1]
        self.groups = None if parts.group is None else np.unique(parts.group[parts.is_test])
        self.start = np.inf
        if rows.aside.time is not None and parts.is_test.any():
            held_out = parts.frame.filter(parts.is_test)
            self.start = float(moments_of(held_out[rows.aside.time]).min())

    def among(self, frame: pl.DataFrame, places: np.ndarray) -> Bool[np.ndarray, " n"]:
        """Say which of some rows are."""
        if self.groups is not None and self.aside.group is not None:
            return np.isin(groups_of(frame[self.aside.group]), self.groups)
        if self.aside.time is not None:
            return moments_of(frame[self.aside.time]) >= self.start
        return np.isin(places, self.places)


class MergedMoments:
    """Mean, variance and range of columns, of all rows that were added.

    units
        A standardiser of some of the rows: what is summed is near 0 and 1, whatever the columns.
    """

    def __init__(self, units: Standardiser) -> None:
        self.units, self.low, self.high = units, np.inf, -np.inf
        self.scaled: Any = StandardScaler()

    def add(
        self, x: Float[np.ndarray, "n d"], sample_weight: Float[np.ndarray, " n"] | None
    ) -> None:
        """Take rows in, in the original units; those of weight zero count as absent."""
        if sample_weight is not None:
            x, sample_weight = x[sample_weight > 0.0], sample_weight[sample_weight > 0.0]
        if len(x):
            self.scaled.partial_fit(self.units.transform(x), sample_weight=sample_weight)
            self.low = np.minimum(self.low, x.min(axis=0))
            self.high = np.maximum(self.high, x.max(axis=0))

    def standardiser(self) -> Standardiser:
        """Return what `Standardiser.fit` would of all rows at once, to rounding."""
        largest = np.maximum(np.abs(self.low), np.abs(self.high))
        _, exponent = np.frexp(np.where(largest > 0.0, largest, 1.0))
        unit = np.ldexp(1.0, np.clip(exponent, -1021, 1023))
        ratio = self.units.unit / unit
        mean = (self.scaled.mean_ * self.units.std + self.units.mean) * ratio
        std = np.sqrt(self.scaled.var_) * self.units.std * ratio
        spread = self.high / unit - self.low / unit
        is_constant = (spread <= _ROUNDING * largest / unit) | (std == 0.0)
        mean = np.where(is_constant, self.low / unit, mean)
        return Standardiser(unit, mean, np.where(is_constant, 1.0, std))


def looked_at(
    estimator: EstimatorBase, start: Fitted, parts: Iterable[Rows]
) -> tuple[Fitted, int, float]:
    """Look at checked rows, and take their scaling for that of a sample, exactly.

    A map of the target is learnt from the sample, in its units, which stay. Also returns how many
    rows there are to learn, and their weight.
    """
    task, n_rows, total = start.task, 0, 0.0
    is_scaled_by_all = task.kind in (NUMBERS, *KINDS_OF_CLASSES)
    inputs = MergedMoments(start.encoding.scaler)
    targets = MergedMoments(task.scaler) if isinstance(task, Numbers) else None
    for rows in parts:
        n_rows += len(rows.x)
        total += float(np.sum(rows.weights))
        if is_scaled_by_all:
            inputs.add(rows.x, rows.weight)
            if targets is not None:
                targets.add(rows.y, rows.weight)
    if n_rows and is_scaled_by_all:
        if estimator.standardises_inputs:
            encoding = replace(start.encoding, scaler=inputs.standardiser())
            start = replace(start, encoding=encoding)
        if targets is not None:
            task = replace(cast(Numbers, task), scaler=targets.standardiser())
            start = replace(start, task=task, method=estimator.build_method(task, start.n_inputs))
    return start, n_rows, total


def fit_parts(
    estimator: Any, sample: EncodedRows, counted: tuple[int, float], n_blocks: int, blocks: Blocks
) -> None:
    """Let an estimator that knows its units learn a table from blocks of its rows.

    sample
        By their numbers in the table; a method that leaves groups out knows its groups, if it has
        some, else its rows.
    counted
        Rows to learn, and their weight.
    """
    start, rng = estimator.fitted_, check_random_state(estimator.random_state)
    has_groups = sample.group is not None and issubclass(estimator.method_class, KnowsGroups)
    names = np.unique(_labels(sample, has_groups=has_groups))

    def numbered(rows: EncodedRows) -> Int[np.ndarray, " n"]:
        labels = _labels(rows, has_groups=has_groups)
        at = np.minimum(np.searchsorted(names, labels), len(names) - 1)
        return np.where(names[at] == labels, at, -1)

    def checked(rows: EncodedRows, *, has_groups: bool = True) -> Rows:
        _, taken, _ = checked_rows(estimator, rows.X, rows.y, rows.weight, start)
        return taken._replace(group=numbered(rows) if has_groups else None)

    def seen() -> Iterator[Rows]:
        for rows in blocks():
            yield standardise(start, checked(rows), rng)

    rows = checked(sample, has_groups=has_groups)
    of_sample, method = standardise(start, rows, rng), cast(LearnsParts, start.method)
    progress = replace(current(), verbose=getattr(estimator, "verbose", 0))
    learned = method.fit_parts(Parts(of_sample, *counted, n_blocks, seen), rng, progress)
    fitted = replace(start, learned=learned)
    estimator.keep(advised(estimator, rows, fitted, is_first=True))


def _labels(rows: EncodedRows, *, has_groups: bool) -> np.ndarray:
    return cast(np.ndarray, rows.group) if has_groups else rows.numbers


def condition(estimator: Any, parts: Iterable[EncodedRows]) -> None:
    """Let an estimator that knows its units take every row once."""
    started, n_rows, n_updates, guards = time.perf_counter(), 0, 0, {}
    for rows in parts:
        with following(replace(current(), show=None)):
            estimator.partial_fit(rows.X, rows.y, **rows.weights)
        report = estimator.fit_report_
        n_rows, n_updates = n_rows + len(rows.y), n_updates + report.n_updates
        guards = {name: guards.get(name, 0) + n for name, n in report.guards.items()}
    report = replace(
        estimator.fit_report_,
        n_rows=n_rows,
        n_updates=n_updates,
        guards=guards,
        seconds=time.perf_counter() - started,
    )
    _account(estimator, report, n_iter=1)


def _account(estimator: EstimatorBase, report: FitReport, **changes: int) -> None:
    """Replace the report of a fit."""
    fitted = estimator.fitted_
    learned = fitted.learned._replace(report=report, **changes)
    estimator.keep(replace(fitted, learned=learned))
