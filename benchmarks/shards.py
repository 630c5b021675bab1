"""`python -m benchmarks.shards`: K shards against one machine, score and time.

PBP, or with `closed-form-vi` that, on power plant and protein, where the folder that BAYESPROP_DATA
names holds them, and made rows; with `large` on ten million made rows. A tenth is held out. Shards
are learnt one after another here: `critical path` is the start, and in every round the slowest
shard, which is what K workers would take.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayesprop import BayesianLinearRegressor, ClosedFormVIRegressor, PBPRegressor, fit_shards
from bayesprop.cli.console import print_table
from bayesprop.datasets.registry import load

SHARDS = (1, 2, 4, 8, 16, 64)
FEW_SHARDS = (1, 4, 16)
MANY_SHARDS = (2, 4, 16, 64)
ROUNDS, LARGE = 10, 10_000_000
Make = Callable[[], Any]


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

    def exception(self) -> None:
        """Return none: an error is raised at once."""


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


def measure(table: Table, make: Make, shards: Sequence[int], rounds: int) -> list[tuple[str, ...]]:
    """Fit one machine and all numbers of shards."""
    X, y = table.train
    started = time.perf_counter()
    one = make().fit(X, y)
    seconds, alone = time.perf_counter() - started, one.log_likelihood(*table.test)
    lines = [(table.name, str(len(y)), "one fit", f"{alone:.3f}", "", f"{seconds:.2f}", "")]
    for n_shards in shards:
        parts, pool = [(X[k::n_shards], y[k::n_shards]) for k in range(n_shards)], Timed()
        started = time.perf_counter()
        merged = fit_shards(make(), parts, rounds=rounds, executor=pool)
        seconds, score = time.perf_counter() - started, merged.log_likelihood(*table.test)
        jobs = np.reshape(pool.seconds, (-1, n_shards)) if pool.seconds else np.zeros((1, 1))
        path = seconds - float(np.sum(jobs)) + float(np.sum(np.max(jobs, axis=1)))
        texts = (f"{score:.3f}", f"{score - alone:+.3f}", f"{seconds:.2f}", f"{path:.2f}")
        lines.append((table.name, str(len(y)), str(n_shards), *texts))
    return lines


def small(make: Make, shards: Sequence[int]) -> list[tuple[str, ...]]:
    """Measure on made rows, power plant and protein."""
    tables = [divided("made", *made(20_000))]
    for name in ("power_plant", "protein"):
        data = load(name)
        tables.append(divided(name, data.X, data.y))
    return [line for table in tables for line in measure(table, make, shards, ROUNDS)]


def large() -> list[tuple[str, ...]]:
    """Measure linear regression, and PBP in ten passes, one a round, from five random starts."""
    table = divided("made", *made(LARGE))
    lines = measure(table, BayesianLinearRegressor, FEW_SHARDS, 1)
    for seed in range(5):
        make = partial(PBPRegressor, n_epochs=ROUNDS, random_state=seed)
        named = table._replace(name=f"made, seed {seed}")
        lines += measure(named, make, MANY_SHARDS, ROUNDS)
    return lines


def main(words: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("pbp", "closed-form-vi", "large"), nargs="?")
    what = parser.parse_args(words).what or "pbp"
    PBPRegressor(n_epochs=1).fit(*made(100))  # loads the compiled code
    if what == "large":
        title, lines = "linear, then PBP in ten rounds of a pass", large()
    elif what == "pbp":
        title, lines = "PBP, 10 rounds", small(partial(PBPRegressor, random_state=0), SHARDS)
    else:
        make = partial(ClosedFormVIRegressor, random_state=0)
        title, lines = "closed-form VI, 10 rounds", small(make, FEW_SHARDS)
    heads = (
        "table",
        "rows",
        "shards",
        "log-likelihood",
        "less one fit",
        "seconds",
        "critical path",
    )
    print_table(title, heads, lines, right=range(1, 7))


if __name__ == "__main__":
    main()
