"""Twenty fits of forty epochs of boston's size on two threads: the engine alone, the estimator."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from bayesprop.estimators.pbp import PBPRegressor
from bayesprop.moments.pbp.engine import Run
from benchmarks.clock import best_seconds
from benchmarks.problems import BOSTON, Problem, problem, trained

N_FITS, N_EPOCHS, N_THREADS = 20, 40, 2


class WholeFits(NamedTuple):
    """Seconds for all fits."""

    engine: float
    engine_one_thread: float
    estimator: float


def measure() -> WholeFits:
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
