"""`python -m benchmarks.boards FOLDER PUBLISHED`: the default and CatBoost as TabArena compares.

PUBLISHED is a table of TabArena's errors: the columns `here` (NAME of a file NAME.csv.gz in FOLDER)
and `metric`, and one a model, `CatBoost` among them. Of each file that is there, with at most
15,000 rows: a third of the rows to judge, three splits below 2500 rows and one from there on, by
permutations of `default_rng(split)`. RMSE, log loss, or 1 - AUC of ours and of CatBoost, both at
their defaults; each model's errors are given as ratios to those of CatBoost beside it, which as
published is bagged. One line of JSON a fit goes to `--out`; what stands there is not run again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.metrics import roc_auc_score

from bayesprop import metrics
from bayesprop.catalogue import CLASSIFICATION, REGRESSION
from bayesprop.cli.console import print_table
from bayesprop.table.read import read_table
from benchmarks.random_tables import learners
from benchmarks.strangers import cases_of
from benchmarks.tables import OURS, rows_of, run_missing
from papers.table_splits import encoded, of_classes

PEER, MOST_ROWS, FEW_ROWS = "CatBoost", 15_000, 2_500


def score(file: Path, target: str, metric: str, split: int, model: str) -> dict[str, Any]:
    """Return the error on a third of the rows, and processor seconds."""
    table = read_table(str(file)).filter(pl.col(target).is_not_null())
    order = np.random.default_rng(split).permutation(len(table))
    train, test = table[order[len(order) // 3 :]], table[order[: len(order) // 3]]
    of_numbers = metric == "rmse"
    if of_numbers:
        data = encoded(train, test, target, REGRESSION)
    else:
        data = of_classes(train, test, target)
    started = time.process_time()
    learn = learners(REGRESSION if of_numbers else CLASSIFICATION)[model]
    predicted = learn(data.train, data.y_train)(data.test)
    seconds, y = time.process_time() - started, data.y_test
    if of_numbers:
        error = float(np.sqrt(np.mean((predicted.mean - y) ** 2)))
        beside = {"crps": metrics.mean_crps(predicted, y)}
    else:
        beside = {"log_loss": -metrics.mean_log_likelihood(predicted, y)}
        if metric == "log_loss":
            error = beside["log_loss"]
        else:
            error = 1.0 - float(roc_auc_score(y == predicted.classes[1], predicted.proba[:, 1]))
    return {"error": error, "seconds": seconds, "rows": len(train)} | beside


def show(published: pl.DataFrame, rows: Sequence[dict[str, Any]]) -> None:
    """Print errors as ratios to those of CatBoost: of every table, and their geometric means."""
    models = [name for name in published.columns if name not in ("dataset", "here", "metric", PEER)]
    ratios, lines = [], []
    for one in published.iter_rows(named=True):
        of_table = [row for row in rows if row["table"] == one["here"]]
        errors = {(row["model"], row["split"]): row["error"] for row in of_table}
        both = [split for model, split in errors if model == OURS and (PEER, split) in errors]
        if not both:
            continue
        mine, peer = (np.mean([errors[model, k] for k in both]) for model in (OURS, PEER))
        ratios.append([mine / peer, *(one[model] / one[PEER] for model in models)])
        best = int(np.argmin(ratios[-1][1:]))
        theirs = f"{ratios[-1][1 + best]:.3f}", models[best]
        figures = f"{mine:.4g}", f"{peer:.4g}", f"{ratios[-1][0]:.3f}"
        lines.append((one["here"], one["metric"], str(len(both)), *figures, *theirs))
    heads = ("table", "measure", "splits", "ours", PEER, "ratio", "best published", "of")
    print_table(f"errors, and ratios to {PEER}'s", heads, lines, right=range(2, 7))
    means = np.exp(np.log(ratios).mean(axis=0))
    first = np.argmin(ratios, axis=1)
    of_models = [
        (f"{mean:.3f}", ("ours", *models)[k], str(int(np.sum(first == k))))
        for k, mean in enumerate(means)
    ]
    heads = ("geometric mean", "model", "first on")
    print_table(f"ratios to {PEER}'s, {len(ratios)} tables", heads, sorted(of_models), right=(0, 2))
    pairs = {(row["table"], row["split"], row["model"]): row for row in rows}
    for part, name in (
        ("seconds", "processor seconds"),
        ("crps", "CRPS"),
        ("log_loss", "log loss"),
    ):
        logs = [
            np.log(row[part] / pairs[table, split, PEER][part])
            for (table, split, model), row in pairs.items()
            if model == OURS and part in row and (table, split, PEER) in pairs
        ]
        print(f"{name} as a share of {PEER}'s, geometric mean: {np.exp(np.mean(logs)):.3f}")


def main() -> None:
    """Run what is missing, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("published", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/boards.jsonl"))
    asked = parser.parse_args()
    published, given = pl.read_csv(asked.published), cases_of(asked.folder)
    known = {row["here"]: row["metric"] for row in published.iter_rows(named=True)}
    cases = []
    for table in sorted(set(known) & set(given)):
        n_rows = len(read_table(str(asked.folder / f"{table}.csv.gz")))
        if n_rows <= MOST_ROWS:
            cases += product([table], range(3 if n_rows < FEW_ROWS else 1), (OURS, PEER))

    def run(table: str, split: int, model: str) -> dict[str, Any]:
        file = asked.folder / f"{table}.csv.gz"
        return score(file, given[table].target, known[table], split, model)

    run_missing(asked.out, ("table", "split", "model"), cases, run)
    show(published, rows_of(asked.out))


if __name__ == "__main__":
    main()
