"""A dask DataFrame as a table: its partitions are shards, which stay where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import polars as pl

from bayesprop.scale.all_rows import AllRows, Aside, HeldOut
from bayesprop.scale.cluster import Workers, results
from bayesprop.scale.large_table import LargeTable, Part
from bayesprop.scale.shards import fit_shards
from bayesprop.table.division import Division
from bayesprop.table.encoding import TableEncoding
from bayesprop.table_model.frames import from_frame
from bayesprop.table_model.in_shards import ROUNDS, workers
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.request import FitRequest
from bayesprop.table_model.sources import ToLearn, target_of, to_learn


def is_partitioned(table: Any) -> bool:
    """Whether a table is a dask DataFrame."""
    return hasattr(table, "npartitions") and hasattr(table, "to_delayed")


@contextmanager
def rows_to_learn(
    request: FitRequest, table: Any, read: Callable[[], pl.DataFrame]
) -> Iterator[ToLearn]:
    """Read the rows of a fit as `to_learn` does; those of a dask DataFrame are on workers."""
    if not is_partitioned(table):
        yield to_learn(request, table, read)
        return
    with _client(request) as client:
        partitions = Partitions.of(table, client)
        target_of(request, pl.DataFrame(schema=dict.fromkeys(partitions.columns, pl.Null)))
        yield ToLearn(*PartitionedRows.of(partitions, request))


def _client(request: FitRequest) -> AbstractContextManager[Any]:
    """Return the client of the cluster that was named, or the one that there is."""
    if request.cluster is not None:
        return workers(request)
    from distributed import default_client

    try:
        return nullcontext(default_client())
    except ValueError as error:
        raise InputError(
            "a dask DataFrame is learnt by a cluster: make a dask.distributed.Client first, or "
            "name a scheduler by --cluster"
        ) from error


@dataclass(frozen=True)
class Partitions:
    """Futures of frames, with the places of their first rows in the table, from 0."""

    client: Any
    frames: tuple[Any, ...]
    places: tuple[int, ...]
    n_rows: int
    columns: tuple[str, ...]

    @classmethod
    def of(cls, table: Any, client: Any) -> Partitions:
        """Read all partitions; ValueError names one that cannot be."""
        read = Workers(client)
        futures = client.compute(list(table.to_delayed()))
        frames = [read.submit(from_frame, future) for future in futures]
        counts = results([read.submit(len, frame) for frame in frames], range(len(frames)))
        places = np.cumsum([0, *counts]).tolist()
        return cls(client, tuple(frames), tuple(places[:-1]), places[-1], tuple(table.columns))

    def sample(self, n: int, seed: int) -> Part:
        """Draw rows, each as likely as any other."""
        rng = np.random.default_rng(seed)
        chosen = np.sort(rng.choice(self.n_rows, min(n, self.n_rows), replace=False, shuffle=False))
        at = np.searchsorted(chosen, self.places[1:])
        submit, parts = Workers(self.client).submit, np.split(chosen, at)
        jobs = [
            submit(_rows_at, frame, part - first)
            for frame, part, first in zip(self.frames, parts, self.places, strict=True)
        ]
        return Part(pl.concat(results(jobs, range(len(jobs))), how="vertical_relaxed"), chosen)


@dataclass(frozen=True)
class PartitionedRows:
    """What learns all partitions after a sample of their rows: the sample's rows count once."""

    sampled: AllRows
    table: Partitions
    request: FitRequest

    @classmethod
    def of(cls, table: Partitions, request: FitRequest) -> tuple[pl.DataFrame, PartitionedRows]:
        """Draw the sample; return its rows, and what learns all the others."""
        aside = Aside(request.weights, request.group, request.time)
        frame, rows = AllRows.of(cast(LargeTable, table), aside, request.seed, streams=True)
        return frame, cls(rows, table, request)

    def remark(self, n_learnt: int) -> str:
        """Say which rows were learnt, and by which the fit was chosen and judged."""
        return (
            f"learnt {n_learnt} rows in {len(self.table.frames)} partitions, after a sample of "
            f"{len(self.sampled.places)} of {self.table.n_rows} rows, by which the fit is judged"
        )

    def learn(self, estimator: Any, encoding: TableEncoding, parts: Division) -> int:
        """Let an estimator go on from the sample to all other rows; return how many it knows."""
        held_out = HeldOut(self.sampled, parts)
        rows = replace(self.sampled, table=cast(LargeTable, None))  # to travel without futures
        submit, pairs = Workers(self.table.client).submit, zip(self.table.frames, self.table.places)
        fitted = fit_shards(
            estimator,
            [submit(_others, rows, *pair, encoding, held_out) for pair in pairs],
            rounds=self.request.rounds or ROUNDS,
            executor=self.table.client,
            start=estimator,
            checkpoint=self.request.checkpoint,
        )
        estimator.learned_ = fitted.learned_
        return fitted.fit_report_.n_rows


def _rows_at(frame: pl.DataFrame, at: np.ndarray) -> pl.DataFrame:
    return frame[at]


def _others(
    rows: AllRows, frame: pl.DataFrame, first: int, encoding: TableEncoding, held_out: HeldOut
) -> tuple[Any, Any, Any]:
    """Encode the rows of a partition that are neither sampled nor held out."""
    places = np.arange(first, first + len(frame))
    is_new = ~np.isin(places, rows.places)
    if not is_new.any():
        return np.empty((0, len(encoding.feature_names))), np.empty(0), None
    new = rows.encoded(frame.filter(is_new), places[is_new], encoding, held_out)
    return new.X, new.y, new.weight
