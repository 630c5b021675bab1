"""The training rows of a table learnt in shards: on this machine, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from bayesprop import catalogue
from bayesprop.model.method import Combines
from bayesprop.scale.cluster import connected
from bayesprop.scale.shards import fit_shards
from bayesprop.table.encoding import Rows
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.request import FitRequest

ROUNDS = 10


def check_combines(method: str, estimator: Any) -> None:
    """Refuse a method whose posteriors do not multiply."""
    if not issubclass(estimator.method_class, Combines):
        able = [
            name
            for name, one in catalogue.METHODS.items()
            if any(
                issubclass(catalogue.estimator_class(name, task).method_class, Combines)
                for task in one.homes
            )
        ]
        raise InputError(
            f"--shards needs a method whose posteriors multiply, and those of {method} do not: "
            f"--method {', '.join(able[:-1])} or {able[-1]}"
        )


def learn_in_shards(request: FitRequest, estimator: Any, rows: Rows) -> Any:
    """Deal rows into shards, at random by the seed, and fit to them; return the fitted estimator.

    ValueError, in one line, for what the estimator, the checkpoint or the cluster refuses.
    """
    order = np.random.default_rng(request.seed).permutation(len(rows.y))
    dealt = [rows.of(order[k :: request.shards]) for k in range(request.shards or 1)]
    with workers(request) as executor:
        return fit_shards(
            estimator,
            [(one.X, one.y, one.weight) for one in dealt],
            rounds=request.rounds or ROUNDS,
            executor=executor,
            checkpoint=request.checkpoint,
        )


@contextmanager
def workers(request: FitRequest) -> Iterator[Any]:
    """Yield what learns shards: a client of the cluster that was named, or threads."""
    if request.cluster is None:
        from joblib import cpu_count

        with ThreadPoolExecutor(cpu_count()) as pool:
            yield pool
        return
    afterwards = "start it again"
    if request.checkpoint is not None:
        afterwards += ": the same command goes on after the last round"
    else:
        afterwards += ", and with --checkpoint FILE a fit loses a round at most"
    with connected(request.cluster, afterwards) as client:
        yield client
