"""The training rows of a table learnt in shards: on this machine, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from bayesprop.scale.cluster import connected
from bayesprop.scale.shards import fit_shards
from bayesprop.table.encoding import Rows
from bayesprop.table_model.request import FitRequest

ROUNDS = 10


def learn_in_shards(request: FitRequest, estimator: Any, rows: Rows) -> None:
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
def workers(request: FitRequest) -> Iterator[Any]:
    """Yield what learns shards: a client of the cluster that was named, or threads."""
    if request.cluster is None:
        from joblib import cpu_count

        with ThreadPoolExecutor(cpu_count()) as pool:
            yield pool
        return
    is_safe = request.checkpoint is not None
    how = "the same command goes on" if is_safe else "with --checkpoint FILE a fit can go on"
    with connected(request.cluster, f"start it again: {how} after the last round") as client:
        yield client
