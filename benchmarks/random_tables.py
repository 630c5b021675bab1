"""`python -m benchmarks.random_tables FOLDER`: the default on tables and targets drawn by lot.

Every .csv file below FOLDER, once for each header line, in random order, at most five of a folder:
those of 200 to 20,000 rows and 4 to 60 columns of which a column can be predicted, drawn at random
of either numbers (of 20 values or more) or classes (two to twelve, of ten rows or more). At most
4000 rows, a fifth to judge, one split; CRPS or log loss of `bayesprop.fit` and of CatBoost,
LightGBM and a forest (catboost, lightgbm, quantile-forest; those that are installed), all at their
defaults. A column `rownames` is dropped: a clone of vincentarelbundock/Rdatasets numbers its
rows so. What fails is counted. `--part 0 2` and `--part 1 2` share the work. With `--zeros` the
targets are numbers from 0 on, not all whole, of which a tenth or more are 0.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bayesprop import metrics
from bayesprop.catalogue import CLASSIFICATION, REGRESSION
from bayesprop.cli.console import note, print_table
from bayesprop.distributions.quantiles import QuantilePredictive
from bayesprop.table.errors import TableError, TableWarning
from bayesprop.table.read import read_table
from benchmarks.public_tables import files
from benchmarks.tables import OURS, rows_of, run_missing
from papers import class_peers, number_peers
from papers.arena import Learn, Predict
from papers.table_models import ours
from papers.table_splits import Data, TableRows, divided, encoded, of_classes

MOST_OF_A_FOLDER, N_TABLES, MOST_ROWS = 5, 100, 4_000
ROWS, COLUMNS = (200, 20_000), (4, 60)
LEAST_VALUES, CLASSES, LEAST_OF_A_CLASS = 20, (2, 12), 10
LEVELS = number_peers.LEVELS
SHARE_OF_ZEROS = 0.1
LEAST = 0.01
"""Share of the constant's loss that is added to both sides of a ratio: less is none at all."""


def shares(_rows: TableRows, y: np.ndarray) -> Predict:
    """Learn the quantiles of the targets, whatever the inputs."""
    quantiles = np.quantile(np.asarray(y, float), LEVELS)
    return lambda new: QuantilePredictive.of(
        np.full(len(new.matrix), np.mean(y)), LEVELS, np.tile(quantiles, (len(new.matrix), 1))
    )


def learners(task: str) -> dict[str, Learn]:
    """Return the models of a task: ours, and what of the others is installed."""
    if task == CLASSIFICATION:
        peers, names = class_peers.PEERS, ("CatBoost", "LightGBM", "random forest")
        simple: dict[str, Learn] = {
            "linear or logistic": peers["LogisticRegression"].make(0),
            "constant": peers["constant"].make(0),
        }
    else:
        peers = number_peers.PEERS
        names = ("CatBoost quantiles", "LightGBM quantiles", "quantile forest")
        simple = {"linear or logistic": partial(ours, task, "linear", 0), "constant": shares}
    models: dict[str, Learn] = {OURS: partial(ours, task, OURS, 0)}
    for name, label in zip(names, ("CatBoost", "LightGBM", "forest"), strict=True):
        if peers[name].missing is None:
            models[label] = peers[name].make(0)
    return models | simple


def tables_by_lot(folder: Path, *, zeros: bool = False) -> Iterator[tuple[Path, str, str]]:
    """Draw tables that can be used, each with a task and a target."""
    paths, of_folder = list(files(folder)), Counter[Path]()
    random.Random(0).shuffle(paths)
    for path in paths:
        if of_folder[path.parent] < MOST_OF_A_FOLDER and (target := _target(path, folder, zeros)):
            of_folder[path.parent] += 1
            yield path, *target


def _target(path: Path, folder: Path, zeros: bool) -> tuple[str, str] | None:
    try:
        table = _read(path)
    except TableError:
        return None
    if not (ROWS[0] <= len(table) <= ROWS[1] and COLUMNS[0] <= table.width <= COLUMNS[1]):
        return None
    tasks: dict[str, list[str]] = {}
    for column in table.columns:
        values = table[column].drop_nulls()
        if (task := _task(values)) and (not zeros or _has_zeros(values)):
            tasks.setdefault(task, []).append(column)
    lot = random.Random(str(path.relative_to(folder)))
    task = lot.choice(sorted(tasks)) if tasks else ""
    return (task, lot.choice(tasks[task])) if tasks else None


def _task(values: pl.Series) -> str | None:
    if len(values) < ROWS[0]:
        return None
    counts = values.unique_counts().to_numpy()
    if values.dtype.is_numeric() and len(counts) >= LEAST_VALUES:
        return REGRESSION
    is_some = CLASSES[0] <= len(counts) <= CLASSES[1] and not values.dtype.is_temporal()
    return CLASSIFICATION if is_some and counts.min() >= LEAST_OF_A_CLASS else None


def _has_zeros(values: pl.Series) -> bool:
    if not values.dtype.is_float() or values.n_unique() < LEAST_VALUES:
        return False
    y = values.to_numpy()
    return bool(np.mean(y == 0.0) >= SHARE_OF_ZEROS and np.min(y) == 0.0 and (y % 1.0 > 0.0).any())


def _read(path: Path) -> pl.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        return read_table(str(path)).drop("rownames", strict=False)


@lru_cache(maxsize=1)
def _data(path: Path, task: str, target: str) -> Data:
    table = _read(path).filter(pl.col(target).is_not_null())
    train, test = divided(table, 0, MOST_ROWS)
    if task == CLASSIFICATION:
        return of_classes(train, test, target)
    return encoded(train, test, target, task)


def score(path: Path, task: str, target: str, model: str) -> dict[str, Any]:
    """Return the score of a model and its processor seconds, or what went wrong."""
    try:
        data = _data(path, task, target)
        started = time.process_time()
        predicted = learners(task)[model](data.train, data.y_train)(data.test)
        loss = _loss(task, predicted, data.y_test)
    except Exception as error:  # of any library: it is counted and shown
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    about = {"task": task, "target": target, "rows": len(data.y_train), "loss": loss}
    if task == REGRESSION:
        about["coverage"] = metrics.coverage(predicted, data.y_test, 0.9)
    return about | {"seconds": time.process_time() - started}


def _loss(task: str, predicted: Any, y: np.ndarray) -> float:
    if task == CLASSIFICATION:
        return -metrics.mean_log_likelihood(predicted, y)
    return metrics.mean_crps(predicted, y)


def summary(rows: list[dict[str, Any]]) -> None:
    """Print a table a task, and what failed."""
    models = list(dict.fromkeys(row["model"] for row in rows))
    of: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        of.setdefault(row["table"], {})[row["model"]] = row
    whole = {t: r for t, r in of.items() if len(r) == len(models) and _has_scores(r)}
    for task, measure in ((REGRESSION, "CRPS"), (CLASSIFICATION, "log loss")):
        here = [r for r in whole.values() if r[OURS]["task"] == task]
        if here:
            print_table(
                f"{measure}, {len(here)} tables",
                ("model", f"behind {OURS}", "first", "mean rank", "worse than constant",
                 "of the best other, median", "most", "90 % held", "seconds, median"),
                [_line(model, here) for model in models],
                right=range(1, 9),
            )  # fmt: skip
    for row in rows:
        if "error" in row:
            note(f"{row['table']}, {row['model']}: {row['error']}")


def _has_scores(of_models: Mapping[str, Mapping[str, Any]]) -> bool:
    return all("loss" in row for row in of_models.values())


def _line(model: str, tables: list[dict[str, dict[str, Any]]]) -> tuple[str, ...]:
    mine = np.array([table[model]["loss"] for table in tables])
    others = np.array([[r["loss"] for m, r in table.items() if m != model] for table in tables])
    constant = np.array([table["constant"]["loss"] for table in tables])
    ratio = (mine + LEAST * constant) / (others.min(axis=1) + LEAST * constant)
    coverage = [table[model]["coverage"] for table in tables if "coverage" in table[model]]
    return (
        model,
        str(sum(table[OURS]["loss"] < table[model]["loss"] for table in tables)),
        f"{np.mean(mine <= others.min(axis=1)):.0%}",
        f"{np.mean(1 + (others < mine[:, None]).sum(axis=1)):.2f}",
        str(int(np.sum(mine > (1.0 + LEAST) * constant))),
        f"{np.median(ratio):.3f}",
        f"{ratio.max():.2f}",
        f"{np.mean(coverage):.3f}" if coverage else "",
        f"{np.median([table[model]['seconds'] for table in tables]):.1f}",
    )


def main() -> None:
    """Measure what is missing, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--n", type=int, default=N_TABLES)
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1))
    parser.add_argument("--zeros", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("results/random-tables.jsonl"))
    asked = parser.parse_args()
    first, step = asked.part
    tables = {
        str(path.relative_to(asked.folder)): (path, *about)
        for path, *about in islice(
            tables_by_lot(asked.folder, zeros=asked.zeros), first, asked.n, step
        )
    }

    def of_table(table: str, model: str) -> dict[str, Any]:
        return score(*tables[table], model)

    cases = product(tables, learners(CLASSIFICATION))
    run_missing(asked.out, ("table", "model"), cases, of_table)
    summary(rows_of(asked.out))


if __name__ == "__main__":
    main()
