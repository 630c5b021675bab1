"""Rows a second of `predict`, and what it needs in memory beyond its input and output."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import NamedTuple

import numpy as np

from bayesprop import PBPRegressor
from benchmarks.clock import best_seconds
from benchmarks.problems import BOSTON, problem

N_ROWS = 4_000_000  # so many that they outweigh the imports in the peak of memory


class Prediction(NamedTuple):
    """rows_a_second of mean and std; extra_mib at the peak beyond input and output."""

    rows_a_second: float
    extra_mib: float


def measure() -> Prediction:
    """Measure in a process of its own, whose peak of memory is then that of `predict`."""
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.prediction"], check=True, capture_output=True, text=True
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
