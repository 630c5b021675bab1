"""All rows of a table of which a sample has said what its columns mean, learnt as a stream."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
import polars as pl
from jaxtyping import Bool, Int

from bayesprop.model.method import Streams
from bayesprop.model.progress import current
from bayesprop.model.task import Numbers
from bayesprop.scale.large_table import MOST_CELLS, SAMPLE_CELLS, LargeTable, Part
from bayesprop.scale.merged_moments import MergedMoments
from bayesprop.table.division import Division, groups_of, moments_of, weights_of
from bayesprop.table.encoding import Rows, TableEncoding
from bayesprop.table.errors import TableError

SAMPLE_ROWS = 100_000
"""Rows that say what columns mean and that judge, where all rows are learnt after them."""
LEAST_ROWS = 2_000
"""Of the sample of a table with very many columns; its cells are bounded otherwise."""


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
        cls, table: LargeTable, aside: Aside, seed: int, *, streams: bool
    ) -> tuple[pl.DataFrame, AllRows]:
        """Draw the sample of a table; return its rows, and what learns all the others.

        streams
            Whether there is anything that learns the others; else the sample is as large as memory
            allows.
        """
        n_cells = MOST_CELLS if streams else SAMPLE_CELLS
        n = max(LEAST_ROWS, n_cells // len(table.columns))
        n = min(SAMPLE_ROWS, n) if streams else min(n, table.n_rows)
        frame, places = table.sample(n, seed)
        return frame, cls(table, places, aside, seed)

    def remark(self, n_learnt: int) -> str:
        """Say which rows were learnt, and by which the fit was chosen and judged."""
        of = f"a sample of {len(self.places)} of {self.table.n_rows} rows"
        if n_learnt:
            return (
                f"learnt {n_learnt} rows, each once; what columns mean, the held-out rows and the"
                f" baselines come from {of}"
            )
        return f"learnt from {of}: this method does not stream (linear, logistic, pbp and ebp do)"

    def learn(self, estimator: Any, encoding: TableEncoding, parts: Division) -> int:
        """Learn all rows but those held out, if the method streams; return how many.

        One pass learns the scaling, exactly; a second one, in random order, conditions on every
        row once. TableError or ValueError for a row that cannot be used.

        estimator
            Fitted to the sample, whose encoding, kind of target and knowledge of gaps stay.
        """
        if not issubclass(estimator.method_class, Streams):
            return 0
        held_out = HeldOut(self, parts)
        n_passes = 1 + is_scaled_by_all(estimator)
        if is_scaled_by_all(estimator):
            rescale(estimator, self._rows(self.table.in_order(), encoding, held_out, 0, n_passes))
        rows = self._rows(
            self.table.shuffled(self.seed), encoding, held_out, n_passes - 1, n_passes
        )
        return condition(estimator, rows)

    def _rows(
        self,
        parts: Iterable[Part],
        encoding: TableEncoding,
        held_out: HeldOut,
        n_before: int,
        n_passes: int,
    ) -> Iterator[Rows]:
        """Encode the rows to learn of every part, in one of some passes."""
        done, n = n_before * self.table.n_rows, self.table.n_rows * n_passes
        for frame, places in parts:
            rows = self.encoded(frame, places, encoding, held_out)
            if len(rows.y):
                yield rows
            done += len(frame)
            current().report(done, n, f"row {done - n_before * self.table.n_rows}")
            if n_before == n_passes - 1 and current().is_cut(done, n, "rows"):
                return

    def encoded(
        self, frame: pl.DataFrame, places: np.ndarray, encoding: TableEncoding, held_out: HeldOut
    ) -> Rows:
        """Encode those of some rows that are learnt; TableError says of which rows."""
        weights = self.aside.weights
        try:
            if weights is not None:
                counts = frame[weights].ne_missing(pl.Series([0])).to_numpy()
                frame, places = frame.filter(counts), places[counts]
            learnt = ~held_out.among(frame, places)
            rows = encoding.rows(frame)
            if weights is not None and len(frame):
                weight = weights_of(frame, weights, encoding.target_name, "the table")
                rows = rows._replace(weight=np.asarray(weight)[rows.numbers - 1])
        except TableError as error:
            where = f"of rows {places.min() + 1} to {places.max() + 1}"
            raise TableError(*(f"{where}: {one}" for one in error.problems)) from error
        return rows.of(learnt[rows.numbers - 1])


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


def is_scaled_by_all(estimator: Any) -> bool:
    """Whether the scaling can be that of all rows.

    A map of the target is learnt from the sample, in its units, which stay.
    """
    return getattr(estimator.task_, "map", None) is None


def rescale(estimator: Any, parts: Iterable[Rows]) -> None:
    """Give an estimator the scaling of all rows, exactly, for that of a sample."""
    task = estimator.task_
    inputs = MergedMoments.none(estimator.x_scaler_)
    targets = MergedMoments.none(task.scaler) if isinstance(task, Numbers) else None
    for part in parts:
        rows = estimator.checked_rows(part.X, part.y, part.weight, reset=False)
        inputs = inputs.with_rows(rows.X, rows.weight)
        if targets is not None:
            targets = targets.with_rows(rows.y, rows.weight)
    if estimator.standardises_inputs:
        estimator.x_scaler_ = inputs.standardiser()
    if targets is not None:
        estimator.task_ = replace(task, scaler=targets.standardiser())


def condition(estimator: Any, parts: Iterable[Rows]) -> int:
    """Let a fitted estimator begin anew in its units, and take every row once; return how many."""
    started, n_rows, n_updates, guards = time.perf_counter(), 0, 0, {}
    estimator.learned_ = cast(Any, None)
    for rows in parts:
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
    estimator.learned_ = estimator.learned_._replace(report=report, n_iter=1)
    return n_rows
