"""`python -m benchmarks.pbp_fits`: whole fits of PBP, the first in a new process, prediction."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bayesprop import PBPRegressor
from bayesprop.cli.console import print_table
from benchmarks.problems import BOSTON, Problem, best_seconds, problem, trained

N_FITS, N_EPOCHS, N_THREADS = 20, 40, 2


Lines = list[tuple[str, str]]


def measure_fits() -> Lines:
    """Seconds of all fits, each on its own data, after a first one that loads compiled code."""
    problems = [problem(BOSTON, n_epochs=N_EPOCHS, seed=seed) for seed in range(N_FITS)]
    _train(problems[0])
    _fit(problems[0])
    lines = []
    for what, fit, n_threads, n_runs in (
        ("engine", _train, N_THREADS, 5),
        ("engine", _train, 1, 5),
        ("PBPRegressor", _fit, N_THREADS, 3),
    ):

        def fit_all(fit=fit, n_threads=n_threads) -> None:
            with ThreadPoolExecutor(n_threads) as pool:
                list(pool.map(fit, problems))

        text = f"{N_FITS} fits of {N_EPOCHS} epochs, boston's size, {what}, {n_threads} thread(s)"
        lines.append((text, f"{best_seconds(fit_all, n_runs=n_runs):.3f} s"))
    return lines


def _train(data: Problem) -> None:
    trained(data.state, data.x, data.y, data.orders)


def _fit(data: Problem) -> None:
    PBPRegressor(BOSTON.hidden, n_epochs=N_EPOCHS, random_state=0).fit(data.x, data.y[:, 0])


_ENGINE = """
from benchmarks.problems import BOSTON, problem, trained
data = problem(BOSTON, n_epochs=40)
trained(data.state, data.x, data.y, data.orders)
"""
_ESTIMATOR = """
from benchmarks.problems import BOSTON, problem
from bayesprop import PBPRegressor
data = problem(BOSTON, n_epochs=1)
PBPRegressor((50,), 40).fit(data.x, data.y[:, 0]).predict(data.x)
"""


def measure_cold_start() -> Lines:
    """Run each script once to fill the cache of compiled code, then time it; best of three."""
    with tempfile.TemporaryDirectory() as empty:
        compiling = _seconds(_ENGINE, NUMBA_CACHE_DIR=empty)
    for script in (_ENGINE, _ESTIMATOR):
        _seconds(script)
    best = [min(_seconds(script) for _ in range(3)) for script in (_ENGINE, _ESTIMATOR, "")]
    first = "start of Python, imports, first fit of boston's size"
    return [
        (f"{first}, engine", f"{best[0]:.2f} s"),
        (f"{first}, PBPRegressor", f"{best[1]:.2f} s"),
        ("the start of Python alone", f"{best[2]:.2f} s"),
        ("the same with nothing compiled before, engine", f"{compiling:.1f} s"),
    ]


def _seconds(script: str, **environment: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ | environment)
    return time.perf_counter() - started


N_ROWS = 4_000_000  # so many that they outweigh the imports in the peak of memory


def measure_prediction() -> Lines:
    """Measure in a process of its own, whose peak of memory is then that of `predict`."""
    command = [sys.executable, "-m", "benchmarks.pbp_fits", "--prediction"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows_a_second, extra_mib = json.loads(done.stdout)
    memory = f"memory of predicting {N_ROWS:,} rows, beyond input and output"
    return [
        ("predict, mean and std, 13 inputs, 50 units", f"{rows_a_second:,.0f} rows/s"),
        (memory, f"{extra_mib:.0f} MiB"),
    ]


def _measure_here() -> tuple[float, float]:
    data = problem(BOSTON, n_epochs=1)
    model = PBPRegressor(BOSTON.hidden, n_epochs=2, random_state=0).fit(data.x, data.y[:, 0])
    model.predict(data.x, return_std=True)
    rows = np.random.default_rng(0).standard_normal((N_ROWS, BOSTON.d))
    before = _peak_mib()
    mean, std = model.predict(rows, return_std=True)
    extra = _peak_mib() - before - (mean.nbytes + std.nbytes) / 2.0**20
    seconds = best_seconds(lambda: model.predict(rows, return_std=True), n_runs=2)
    return N_ROWS / seconds, extra


def _peak_mib() -> float:
    unit = 2.0**20 if sys.platform == "darwin" else 2.0**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def main() -> None:
    """Print the table."""
    lines = [*measure_fits(), *measure_cold_start(), *measure_prediction()]
    print_table("Whole runs", ("what", "measured"), lines, right={1})


if __name__ == "__main__":
    if sys.argv[1:] == ["--prediction"]:
        print(json.dumps(_measure_here()))
    else:
        main()
