"""Rows learnt in shards: those of a table, dealt; or a dask DataFrame's partitions, where they lie.

Workers are threads of this machine, or a Dask cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import getitem
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import numpy as np
import polars as pl

from bayesprop.scale.all_rows import AllRows, Aside, HeldOut
from bayesprop.scale.cluster import Job, Pool, Workers, connected, results
from bayesprop.scale.large_table import LargeTable, Part, RareValues
from bayesprop.scale.shards import check_combines, fit_shards, remembers_start
from bayesprop.table.division import Division
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import InputError, Message
from bayesprop.table_model.request import FitRequest
from bayesprop.table_model.sources import Table, from_frame, target_of, to_learn

if TYPE_CHECKING:
    from dask.dataframe import DataFrame

    from bayesprop.estimators.shell import EstimatorBase

ROUNDS = 10


def learn_in_shards(request: FitRequest, estimator: EstimatorBase, rows: EncodedRows) -> None:
    """Deal rows into shards, at random by the seed, and fit an estimator to them.

    ValueError, in one line, for what the estimator, the checkpoint or the cluster refuses.
    """
    order = np.random.default_rng(request.seed).permutation(len(rows.y))
    dealt = [rows.of(order[k :: request.shards]) for k in range(request.shards or 1)]
    with workers(request) as executor:
        fitted = fit_shards(
            estimator,
            [(one.X, one.y, one.weight) for one in dealt],
            rounds=request.rounds or ROUNDS,
            executor=executor,
            checkpoint=request.checkpoint,
        )
    vars(estimator).update(vars(fitted))


@contextmanager
def workers(request: FitRequest) -> Iterator[Pool]:
    """Yield what learns shards: a client of the cluster that was named, or threads."""
    if request.cluster is None:
        from joblib import cpu_count

        with ThreadPoolExecutor(cpu_count()) as pool:
            yield pool
        return
    is_safe = request.checkpoint is not None
    how = "the same command goes on" if is_safe else "with a checkpoint file a fit can go on"
    with connected(request.cluster, f"start it again: {how} after the last round") as client:
        yield client


def is_partitioned(table: Table) -> TypeGuard[DataFrame]:
    """Whether a table is a dask DataFrame."""
    return hasattr(table, "npartitions") and hasattr(table, "to_delayed")


@contextmanager
def rows_to_learn(
    request: FitRequest, table: Table, read: Callable[[], pl.DataFrame]
) -> Iterator[tuple[pl.DataFrame, AllRows | None]]:
    """Read the rows of a fit as `to_learn` does; those of a dask DataFrame are on workers."""
    if not is_partitioned(table):
        yield to_learn(request, table, read)
        return
    with _client(request) as client:
        target = target_of(request, pl.DataFrame(schema=dict.fromkeys(table.columns, pl.Null)))
        aside = Aside(request.weights, request.group, request.time)
        partitions: Any = Partitions(table, client, request)
        yield PartitionedRows.of(partitions, target.name, aside, request.seed, streams=True)


def _client(request: FitRequest) -> AbstractContextManager[Pool]:
    """Return the client of the cluster that was named, or the one that there is."""
    if request.cluster is not None:
        return workers(request)
    from distributed import default_client

    try:
        return nullcontext(default_client())
    except ValueError as error:
        raise InputError(Message.of("cluster.none")) from error


class Partitions:
    """Frames on the workers of Dask as one table.

    frames, firsts
        Futures of all partitions, and the places of their first rows in the table, from 0.
    """

    def __init__(self, table: DataFrame, client: Any, request: FitRequest) -> None:
        """Let workers read all partitions; ValueError names one that cannot be."""
        self.client, self.request, self.columns = client, request, tuple(table.columns)
        self.submit = Workers(client).submit
        read = client.compute(list(table.to_delayed()))
        self.frames = [self.submit(from_frame, one) for one in read]
        counts = [self.submit(len, frame) for frame in self.frames]
        ends = np.cumsum(results(counts, range(len(counts))))
        self.firsts, self.n_rows = [0, *ends[:-1].tolist()], int(ends[-1])

    @property
    def located(self) -> list[tuple[Job, int]]:
        """Every partition with its first place."""
        return list(zip(self.frames, self.firsts, strict=True))

    def sample(self, n: int, seed: int, target: str | None = None) -> Part:
        """Draw rows as `LargeTable.sample` does, with a few of every rare value."""
        rng = np.random.default_rng(seed)
        chosen = np.sort(rng.choice(self.n_rows, min(n, self.n_rows), replace=False, shuffle=False))
        parts = np.split(chosen, np.searchsorted(chosen, self.firsts[1:]))
        pairs = zip(self.located, parts, strict=True)
        jobs = [self.submit(getitem, frame, part - first) for (frame, first), part in pairs]
        frame = pl.concat(results(jobs, range(len(jobs))), how="vertical_relaxed")
        rare = RareValues.of(self.columns, target)
        looks = [self.submit(_rare, rare, *one) for one in self.located]
        for few, places, names in results(looks, range(len(looks))):
            rare.only(names)
            rare.look(few, places)
        return Part(*rare.beside(frame, chosen))


class PartitionedRows(AllRows):
    """Learns all partitions after a sample of their rows, which count once."""

    table: Any

    def remark(self, estimator: EstimatorBase) -> str:
        """Word which rows were learnt, and on which the fit was selected and evaluated."""
        return (
            f"learnt {estimator.fit_report_.n_rows} rows in {len(self.table.frames)} partitions, "
            f"after a sample of {len(self.places)} of {self.table.n_rows} rows, on which the fit "
            "is evaluated"
        )

    def row_name(self, place: int) -> str:
        """Return its number in the whole table, from 1."""
        return str(place + 1)

    @staticmethod
    def are_learnt_by(estimator: EstimatorBase) -> bool:
        """Whether what an estimator learns of partitions can be put together; ValueError if not."""
        check_combines(estimator)
        return True

    def learn(
        self, encoding: TableEncoding, division: Division, estimator: Any, sample: EncodedRows
    ) -> None:
        """Fit an estimator to the sample, from which it goes on to all other rows."""
        estimator.fit(sample.X, sample.y, **sample.weights)
        held_out, request, submit = HeldOut(self, division), self.table.request, self.table.submit
        places = self.places if remembers_start(estimator) else self.places[:0]
        sampled = PartitionedRows(cast(LargeTable, None), places, self.aside, self.seed)
        fitted = fit_shards(
            estimator,
            [submit(_others, sampled, *one, encoding, held_out) for one in self.table.located],
            rounds=request.rounds or ROUNDS,
            executor=self.table.client,
            start=estimator,
            checkpoint=request.checkpoint,
        )
        estimator.keep(fitted.fitted_)


def _rare(
    rare: RareValues, frame: pl.DataFrame, first: int
) -> tuple[pl.DataFrame, np.ndarray, list[str]]:
    """Return rows of values that may be rare, their places, and columns that have few values."""
    own = RareValues(rare.most)
    own.look(frame, np.arange(first, first + len(frame)))
    return own.frames[0], own.places[0], list(own.numbers)


def _others(
    rows: AllRows, frame: pl.DataFrame, first: int, encoding: TableEncoding, held_out: HeldOut
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Encode the rows of a partition that are neither sampled nor held out."""
    places = np.arange(first, first + len(frame))
    is_new = ~np.isin(places, rows.places)
    if not is_new.any():
        return np.empty((0, len(encoding.feature_names))), np.empty(0), None
    new = rows.encoded(Part(frame.filter(is_new), places[is_new]), encoding, held_out)
    return new.X, new.y, new.weight
