"""Whole fits of PBP side by side, the first fit in a new process, and prediction."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from bayesprop import PBPRegressor
from bayesprop.moments.pbp.engine import Run
from benchmarks.problems import BOSTON, Problem, best_seconds, problem, trained

N_FITS, N_EPOCHS, N_THREADS = 20, 40, 2


class WholeFits(NamedTuple):
    """Seconds for all fits."""

    engine: float
    engine_one_thread: float
    estimator: float


def measure_fits() -> WholeFits:
    """Time the fits, each on its own data, after a first one that loads the compiled code."""
    problems = [problem(BOSTON, n_epochs=N_EPOCHS, seed=seed) for seed in range(N_FITS)]
    _train(problems[0])
    _fit(problems[0])

    def on_threads(work, n_threads: int) -> None:
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(work, problems))

    return WholeFits(
        best_seconds(lambda: on_threads(_train, N_THREADS), n_runs=5),
        best_seconds(lambda: on_threads(_train, 1), n_runs=5),
        best_seconds(lambda: on_threads(_fit, N_THREADS), n_runs=3),
    )


def _train(data: Problem) -> None:
    trained(Run(data.state, data.x, data.y), data.orders)


def _fit(data: Problem) -> None:
    PBPRegressor(BOSTON.hidden, n_epochs=N_EPOCHS, random_state=0).fit(data.x, data.y[:, 0])


_ENGINE = """
from benchmarks.problems import BOSTON, problem, trained
from bayesprop.moments.pbp.engine import Run
data = problem(BOSTON, n_epochs=40)
trained(Run(data.state, data.x, data.y), data.orders)
"""
_ESTIMATOR = """
from benchmarks.problems import BOSTON, problem
from bayesprop import PBPRegressor
data = problem(BOSTON, n_epochs=1)
PBPRegressor((50,), 40).fit(data.x, data.y[:, 0]).predict(data.x)
"""


class ColdStart(NamedTuple):
    """Seconds from the start of the interpreter to its end, a fit of boston's size in between."""

    engine: float
    estimator: float
    interpreter: float
    compiling: float


def measure_cold_start() -> ColdStart:
    """Run each script once to fill the cache of compiled code, then time it; best of three."""
    with tempfile.TemporaryDirectory() as empty:
        compiling = _seconds(_ENGINE, NUMBA_CACHE_DIR=empty)
    for script in (_ENGINE, _ESTIMATOR):
        _seconds(script)
    best = [min(_seconds(script) for _ in range(3)) for script in (_ENGINE, _ESTIMATOR, "")]
    return ColdStart(*best, compiling)


def _seconds(script: str, **environment: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ | environment)
    return time.perf_counter() - started


N_ROWS = 4_000_000  # so many that they outweigh the imports in the peak of memory


class Prediction(NamedTuple):
    """rows_a_second of mean and std; extra_mib at the peak beyond input and output."""

    rows_a_second: float
    extra_mib: float


def measure_prediction() -> Prediction:
    """Measure in a process of its own, whose peak of memory is then that of `predict`."""
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.pbp_fits"], check=True, capture_output=True, text=True
    )
    return Prediction(*json.loads(told.stdout))


def _measure_here() -> Prediction:
    data = problem(BOSTON, n_epochs=1)
    model = PBPRegressor(BOSTON.hidden, n_epochs=2, random_state=0).fit(data.x, data.y[:, 0])
    model.predict(data.x, return_std=True)
    rows = np.random.default_rng(0).standard_normal((N_ROWS, BOSTON.d))
    before = _peak_mib()
    mean, std = model.predict(rows, return_std=True)
    extra = _peak_mib() - before - (mean.nbytes + std.nbytes) / 2.0**20
    seconds = best_seconds(lambda: model.predict(rows, return_std=True), n_runs=2)
    return Prediction(N_ROWS / seconds, extra)


def _peak_mib() -> float:
    unit = 2.0**20 if sys.platform == "darwin" else 2.0**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    print(json.dumps(_measure_here()))
