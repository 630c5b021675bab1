"""`python -m benchmarks.own_model`: what error bars hold where a method's own model is the truth.

Weights are drawn from a standard normal prior, inputs are standard normal, three columns, and rows
follow from both: a line for `linear` and `logistic`, otherwise a network of one hidden layer as the
method has it, scaled by the root of the number of inputs of every unit as Hernández-Lobato & Adams
(2015) do. Numbers have noise of deviation 0.3; classes are two, by a logistic function of three
times the output, by a probit of it for `pbp` and `ebp`. A table of one class is drawn again. Every
method has its defaults, and the seed of the table.

Of numbers: the probability that new targets fall within the 90 % intervals. Of two classes: the
mean probability of the class named less the probability that it is right, and the log loss beyond
that of the true probabilities, nats. All are exact given the new rows' true functions. One line of
JSON a fit goes to `results/own_model.jsonl`; what stands there already is not run again.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from bayesprop import catalogue
from bayesprop.catalogue import METHODS, REGRESSION
from bayesprop.cli.console import print_table
from benchmarks.tables import rows_of, run_missing

SIZES, ROUNDS = (5, 8, 10, 20, 50, 200), (4, 16, 64, 256)
N_INPUTS, N_NEW, NOISE, SLOPE = 3, 200, 0.3, 3.0
UNITS = {"batch-ep": (10, special.erf), "ebp": (50, np.sign)}
KEY = "method", "task", "n", "table"


def drawn_function(method: str, rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """Draw a function from the prior of a method's model."""
    if method in ("linear", "logistic"):
        line = rng.normal(size=N_INPUTS)
        return lambda x: x @ line
    n_units, activation = UNITS.get(method, (50, lambda a: np.maximum(a, 0.0)))
    hidden, output = rng.normal(size=(N_INPUTS + 1, n_units)), rng.normal(size=n_units + 1)

    def network(x: np.ndarray) -> np.ndarray:
        units = activation((x @ hidden[:-1] + hidden[-1]) / np.sqrt(N_INPUTS + 1))
        return (units @ output[:-1] + output[-1]) / np.sqrt(n_units + 1)

    return network


def held_by_numbers(
    model: Any, rng: np.random.Generator, x: np.ndarray, f: np.ndarray, n: int
) -> dict[str, float]:
    """Fit to the first n rows; probability that targets of the others are within the intervals."""
    model.fit(x[:n], f[:n] + NOISE * rng.normal(size=n))
    low, high = np.asarray(model.predict_dist(x[n:]).interval(0.9)).T
    inside = special.ndtr((high - f[n:]) / NOISE) - special.ndtr((low - f[n:]) / NOISE)
    return {"held": float(np.mean(inside))}


def held_by_classes(
    model: Any, rng: np.random.Generator, x: np.ndarray, p: np.ndarray, n: int
) -> dict[str, float]:
    """Fit to the first n rows; how sure the model is of the others, how right, and what it loses.

    p
        True probability of the second class.
    """
    labels = np.zeros(n, bool)
    while labels.all() or not labels.any():
        labels = rng.random(n) < p[:n]
    proba = model.fit(x[:n], labels.astype(int)).predict_proba(x[n:])
    true = np.column_stack([1.0 - p[n:], p[n:]])
    right = true[np.arange(N_NEW), proba.argmax(axis=1)]
    lost = special.rel_entr(true, np.maximum(proba, 1e-15)).sum(axis=1)
    too_sure = proba.max(axis=1) - right
    return {"too_sure": float(np.mean(too_sure)), "lost": float(np.mean(lost))}


def score(method: str, task: str, n: int, table: int) -> dict[str, float]:
    """Draw a table of n rows, fit and score."""
    rng = np.random.default_rng([table, n])
    started, x = time.perf_counter(), rng.normal(size=(n + N_NEW, N_INPUTS))
    model, f = catalogue.make(method, task=task), drawn_function(method, rng)(x)
    if "random_state" in model.get_params():
        model.set_params(random_state=table)
    if task == REGRESSION:
        scores = held_by_numbers(model, rng, x, f, n)
    else:
        p = special.ndtr(SLOPE * f) if method in ("pbp", "ebp") else special.expit(SLOPE * f)
        scores = held_by_classes(model, rng, x, p, n)
    return scores | {"seconds": time.perf_counter() - started}


def measure(out: Path, methods: Sequence[str], seconds: float) -> None:
    """Score more tables round by round, until a method's size has had its seconds.

    A fit counts as long as the fastest of its size: the first may compile.
    """
    times: defaultdict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in rows_of(out):
        times[row["method"], row["task"], row["n"]].append(row["seconds"])

    def spent(*size: Any) -> float:
        return len(times[size]) * min(times[size])

    def cases() -> Iterator[tuple[str, str, int, int]]:
        for first, end in pairwise((0, *ROUNDS)):
            for method in methods:
                for task in METHODS[method].homes:
                    for n in SIZES:
                        for table in range(first, end):
                            if first == 0 or spent(method, task, n) < seconds:
                                yield method, task, n, table

    def timed(*case: Any) -> dict[str, float]:
        row = score(*case)
        times[case[:3]].append(row["seconds"])
        return row

    run_missing(out, KEY, cases(), timed)


def show(out: Path, task: str, part: str, title: str, digits: int) -> None:
    """Print a line a method: mean and standard error over tables, and their number, a size."""
    lines = []
    for method in METHODS:
        cells = []
        for n in SIZES:
            key = {"method": method, "task": task, "n": n}
            values = [row[part] for row in rows_of(out) if key.items() <= row.items()]
            cells.append("")
            if len(values) > 1:
                error = np.std(values, ddof=1) / np.sqrt(len(values))
                cells[-1] = f"{np.mean(values):.{digits}f} ± {error:.{digits}f} ({len(values)})"
        if any(cells):
            lines.append((method, *cells))
    print_table(title, ("method", *map(str, SIZES)), lines, right=range(1, len(SIZES) + 1))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/own_model.jsonl"))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seconds", type=float, default=8.0, help="of a method's size, at least")
    asked = parser.parse_args()
    measure(asked.out, asked.methods, asked.seconds)
    show(asked.out, REGRESSION, "held", "Share of new targets within 90 % intervals", 3)
    classes = "classification"
    show(asked.out, classes, "too_sure", "Mean probability less the share that is right", 3)
    show(asked.out, classes, "lost", "Log loss beyond the truth's, nats", 3)


if __name__ == "__main__":
    main()
