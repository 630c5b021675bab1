"""`python -m benchmarks.search_kinds`: targets of a search as numbers, or of the guessed kind.

Of the problems of `benchmarks.optimise` those whose targets `fit` guesses to be positive. 50 and 80
rows are learnt as a search has them, half of them out of the best quarter, the rest anywhere; by
either kind, the same rows. Printed: error of the mean at rows not learnt that are in the best
tenth, in standard deviations of the target, and log density there, nats a row; means over repeats.
One line of JSON a fit goes to `--out`; what stands there already is not run again.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

import bayesprop
from benchmarks.optimise import Problem, problems

SIZES, KINDS = (50, 80), ("guessed", "numbers")


def measured(problem: Problem, n: int, seed: int, kind: str) -> list[float]:
    """Return error and log density near the best."""
    rng = np.random.default_rng(seed)
    x = problem.drawn(2000, rng)
    cost = problem.value(x)  # of a pool its targets, turned round
    y, order = -cost if problem.pool is not None else cost, np.argsort(cost)
    good = rng.choice(order[: len(y) // 4], n // 2, replace=False)
    learnt = [*dict.fromkeys([*good.tolist(), *rng.permutation(len(y)).tolist()])][:n]
    near = np.setdiff1d(order[: len(y) // 10], learnt)
    names = [f"x{k}" for k in range(x.shape[1])]
    table = pl.DataFrame(x, schema=names).with_columns(y=pl.Series(y))
    if problem.n_levels:
        table = table.with_columns(pl.format("level {}", names[-1]).alias(names[-1]))
    asked = None if kind == "guessed" else kind
    model = bayesprop.fit(table[learnt], target="y", test_fraction=0, target_kind=asked)
    predictive = model.predict_dist(table[near])
    error = np.sqrt(np.mean((predictive.mean - y[near]) ** 2)) / np.std(y)
    return [float(error), float(np.mean(predictive.logpdf(y[near])))]


def main() -> None:
    """Fit, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pools", type=Path)
    parser.add_argument("--problems", nargs="+", default=["branin", "mixed"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("search_kinds.jsonl"))
    args = parser.parse_args()
    args.out.touch()
    lines = args.out.read_text().splitlines()
    known = {tuple(one[:4]): one[4] for one in map(json.loads, lines)}
    every = problems(args.pools)
    seeds = range(args.repeats)
    for (seed, n), (name, kind) in product(product(seeds, SIZES), product(args.problems, KINDS)):
        if (name, n, seed, kind) not in known:
            known[name, n, seed, kind] = measured(every[name], n, seed, kind)
            with args.out.open("a") as file:
                file.write(json.dumps([name, n, seed, kind, known[name, n, seed, kind]]) + "\n")
    for name, n, kind in product(args.problems, SIZES, KINDS):
        error, density = np.mean([known[name, n, seed, kind] for seed in seeds], axis=0)
        print(f"{name} {n} {kind}: {error:.3f} {density:+.2f}")


if __name__ == "__main__":
    main()
