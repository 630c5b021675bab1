"""`python -m benchmarks.shards`: PBP learnt in K shards against one machine, score and time.

Power plant and protein, where the folder that BAYESPROP_DATA names holds them, and made rows; a
tenth is held out. Shards are learnt one after another here: `longest path` is the start, and in
every round the slowest shard, which is what K workers would take.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from bayesprop import PBPRegressor, fit_shards
from bayesprop.cli.console import print_table
from bayesprop.datasets.registry import load

SHARDS = (1, 2, 4, 8, 16, 64)
ROUNDS = 10


class Table(NamedTuple):
    """Rows to learn, and rows that judge."""

    name: str
    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


class Timed:
    """Runs jobs at once, and notes the seconds of each."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def submit(self, job: Any, *arguments: Any) -> Any:
        """Run a job; what is returned has its `result`."""
        started = time.perf_counter()
        value = job(*arguments)
        self.seconds.append(time.perf_counter() - started)
        return _Done(value)


class _Done(NamedTuple):
    value: Any

    def result(self) -> Any:
        """Return it."""
        return self.value


def made(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Make rows of eight numbers, three of them idle."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 8))
    y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.3 * X[:, 2] + np.abs(X[:, 3]) - 0.5 * X[:, 4]
    return X, y + 0.3 * rng.standard_normal(n)


def divided(name: str, X: np.ndarray, y: np.ndarray) -> Table:
    """Hold out a tenth of the rows, at random."""
    order = np.random.default_rng(0).permutation(len(y))
    test, train = np.split(order, [len(y) // 10])
    return Table(name, (X[train], y[train]), (X[test], y[test]))


def measure(table: Table) -> list[tuple[str, ...]]:
    """Fit one machine and all numbers of shards."""
    X, y = table.train
    model = PBPRegressor(random_state=0)
    started = time.perf_counter()
    one = model.fit(X, y)
    seconds, alone = time.perf_counter() - started, one.log_likelihood(*table.test)
    lines = [(table.name, str(len(y)), "one fit", f"{alone:.3f}", "", f"{seconds:.2f}", "")]
    for n_shards in SHARDS:
        parts, pool = [(X[k::n_shards], y[k::n_shards]) for k in range(n_shards)], Timed()
        started = time.perf_counter()
        merged = fit_shards(PBPRegressor(random_state=0), parts, rounds=ROUNDS, executor=pool)
        seconds, score = time.perf_counter() - started, merged.log_likelihood(*table.test)
        jobs = np.reshape(pool.seconds, (-1, n_shards)) if pool.seconds else np.zeros((1, 1))
        path = seconds - float(np.sum(jobs)) + float(np.sum(np.max(jobs, axis=1)))
        texts = (f"{score:.3f}", f"{score - alone:+.3f}", f"{seconds:.2f}", f"{path:.2f}")
        lines.append((table.name, str(len(y)), str(n_shards), *texts))
    return lines


def main() -> None:
    """Measure and print."""
    PBPRegressor(n_epochs=1).fit(*made(100))  # loads the compiled code
    tables = [divided("made", *made(20_000))]
    for name in ("power_plant", "protein"):
        data = load(name)
        tables.append(divided(name, data.X, data.y))
    lines = [line for table in tables for line in measure(table)]
    heads = (
        "table",
        "rows",
        "shards",
        "log-likelihood",
        "less one fit",
        "seconds",
        "critical path",
    )
    print_table(f"PBP in shards, {ROUNDS} rounds", heads, lines, right=range(1, 7))


if __name__ == "__main__":
    main()
