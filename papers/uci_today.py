"""Where the field stands: our methods and what a user would pick instead, on the UCI sets.

Every model at its defaults, the same splits for all, several scores. The page tells a reader which
method to use when.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprop import metrics
from bayesprop.datasets import registry
from papers import uci, uci_today_page
from papers.contestants import (
    CONTESTANTS,
    DATASETS,
    expected_seconds,
    forecaster,
    has_density,
    is_too_slow,
)
from papers.peers import PEERS
from papers.protocol import Cell, Experiment, Key, NothingToRun, Selection

_QUICK = ("pbp", "linear", "deep-ensemble", "NGBoost", "quantile boosting")
SPLITS_OF_LARGE = 5


@dataclass(frozen=True)
class Config:
    """Settings of the comparison: the models have none."""

    seed: int = 1


def n_splits(dataset: str, *, quick: bool = False) -> int:
    """Count the splits: those of the protocol, five of the larger sets."""
    full = uci.n_splits(dataset, quick=quick)
    return full if registry.describe(dataset).n <= uci.SMALL_ROWS else min(full, SPLITS_OF_LARGE)


def cells(_config: Config, asked: Selection) -> list[Cell]:
    """List the fits, split by split, so that a run may be stopped; parts are sets and methods.

    Quick: two splits of the smaller sets, by the methods that take seconds.
    """
    quick = asked.quick
    sets = [part for part in asked.parts if part in DATASETS] or list(DATASETS)
    methods = [part for part in asked.parts if part in CONTESTANTS] or list(CONTESTANTS)
    names_methods = len(methods) < len(CONTESTANTS)
    if quick and not names_methods:
        methods = [method for method in methods if method in _QUICK]
    lacking = {m: line for m in methods if m in PEERS and (line := PEERS[m].missing)}
    methods = [method for method in methods if method not in lacking]
    if not methods:
        raise NothingToRun(f"nothing to compare: {'; '.join(lacking.values())}")
    for line in lacking.values():
        warnings.warn(f"left out: {line}", stacklevel=2)
    sets = uci.at_hand(sets, quick=quick and not asked.named)
    found = [
        Cell(
            {"dataset": dataset, "method": method, "split": split},
            expected_seconds(method, dataset),
            alone=True,
        )
        for dataset in sets
        for method in methods
        if not is_too_slow(method, dataset)
        for split in range(n_splits(dataset, quick=quick))
    ]
    return sorted(found, key=lambda cell: (cell.key["split"], sets.index(cell.key["dataset"])))


_SEEN: set[tuple[str, str]] = set()


def fit_cell(config: Config, key: Key) -> dict[str, Any]:
    """Fit one model to one split, and score it on the rows left out."""
    dataset, method, split = key["dataset"], key["method"], key["split"]
    data = uci.train_test(dataset, split)
    model = forecaster(method, uci.cell_seed(config.seed, split))
    is_first = (method, dataset) not in _SEEN
    _SEEN.add((method, dataset))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = _timed(lambda: model.fit(data.X_train, data.y_train))
        predicting = _timed(lambda: model.predict_dist(data.X_test))
    predicted = predicting.value
    log_likelihood = metrics.mean_log_likelihood(predicted, data.y_test)
    if has_density(method) and not np.isfinite(log_likelihood):
        raise ArithmeticError(f"the log-likelihood of {method} is {log_likelihood}")
    return {
        "log_likelihood": log_likelihood,
        "crps": metrics.mean_crps(predicted, data.y_test),
        "rmse": metrics.rmse(predicted, data.y_test),
        "coverage_90": metrics.coverage(predicted, data.y_test, 0.9),
        "fit_seconds": fit.seconds,
        "fit_cpu_seconds": fit.cpu_seconds,
        "predict_cpu_seconds": predicting.cpu_seconds,
        "is_first": is_first,
        "warnings": sorted({" ".join(str(w.message).split())[:120] for w in caught}),
    }


@dataclass(frozen=True)
class _Timed:
    """What a call returned, its wall time, and the processor time of the whole process."""

    value: Any
    seconds: float
    cpu_seconds: float


def _timed(call: Callable[[], Any]) -> _Timed:
    wall, cpu = time.perf_counter(), time.process_time()
    value = call()
    return _Timed(value, time.perf_counter() - wall, time.process_time() - cpu)


EXPERIMENT = Experiment(
    name=uci_today_page.NAME,
    config=Config,
    parts=(*DATASETS, *CONTESTANTS),
    cells=cells,
    work=fit_cell,
    section=uci_today_page.section,
    draw=uci_today_page.draw,
)
