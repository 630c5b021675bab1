"""`python -m benchmarks.strangers FOLDER`: text files that nobody tried: fitted, predicted, scored.

FOLDER holds NAME.csv.gz files and a README.md whose table begins its rows with the name, the target
and the task (`regression` or `K classes`). Of each file the rows with a target, permuted by
`default_rng(split)`, at most 3000 of them, 80 % to learn; both parts are written as text, cell by
cell as the file has them, and given to `bayesprop.fit` and `predict` at their defaults. One line of
JSON a fit goes to `--out`; what stands there already is not run again. An error is a line as well.
"""

from __future__ import annotations

import csv
import gzip
import time
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

import bayesprop
from bayesprop.cli.console import print_table
from benchmarks.tables import asked_for, rows_of, run_missing

METHODS = ("default", "linear")
LINEAR = {"regression": "linear", "classification": "logistic"}
MOST_ROWS, TRAINING_SHARE = 3000, 0.8


def targets(folder: Path) -> dict[str, tuple[str, str]]:
    """Read target and task of every table from the folder's page."""
    cells = [line.split("|")[1:4] for line in (folder / "README.md").read_text().splitlines()]
    return {
        name: (target, "regression" if task == "regression" else "classification")
        for name, target, task in (row for row in cells if len(row) == 3)
        if (folder / f"{name}.csv.gz").exists()
    }


def write_parts(source: Path, target: str, split: int, folder: Path) -> tuple[Path, Path]:
    """Write training and test rows as text; return both files."""
    with gzip.open(source, "rt", newline="") as file:
        header, *rows = csv.reader(file)
    rows = [row for row in rows if row[header.index(target)].strip()]
    order = np.random.default_rng(split).permutation(len(rows))[:MOST_ROWS]
    n_train = int(TRAINING_SHARE * len(order))
    parts = folder / "train.csv", folder / "test.csv"
    for path, places in zip(parts, (order[:n_train], order[n_train:]), strict=True):
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([header, *(rows[k] for k in places)])
    return parts


def scores(source: Path, target: str, task: str, method: str, split: int) -> dict[str, Any]:
    """Fit and predict one split; its scores, or the error that ended it."""
    with TemporaryDirectory() as folder:
        train, test = write_parts(source, target, split, Path(folder))
        started = time.process_time()
        try:
            name = None if method == "default" else LINEAR[task]
            model = bayesprop.fit(train, target=target, task=task, method=name, seed=split)
            fitted = time.process_time()
            answers = model.predict(test)
            seconds = {"fit": fitted - started, "predict": time.process_time() - fitted}
            return {"seconds": seconds} | score_answers(answers, test, target, task)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}


def label_of(text: str) -> str:
    """Write a label in one way, whatever the file's: 1.0 as 1, TRUE as true."""
    try:
        return f"{float(text):g}"
    except ValueError:
        return text.lower() if text.lower() in ("true", "false") else text


def score_answers(answers: pl.DataFrame, test: Path, target: str, task: str) -> dict[str, float]:
    """Score predictions by the file's cells; labels are compared as `label_of` writes them."""
    truth = pl.read_csv(test, infer_schema=False)[target].to_list()
    if task == "regression":
        y = np.array(truth, float)
        mean, low, high = (answers[name].to_numpy() for name in ("mean", "lower_90", "upper_90"))
        outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
        return {
            "rmse": float(np.sqrt(np.mean((mean - y) ** 2))),
            "interval_score": float(np.mean(high - low + 20.0 * outside)),
            "coverage": float(np.mean((low <= y) & (y <= high))),
        }
    truth = list(map(label_of, truth))
    names = [name for name in answers.columns if name.startswith("p(")]
    labels, proba = [label_of(name[2:-1]) for name in names], answers.select(names).to_numpy()
    known = [k for k, label in enumerate(truth) if label in labels]
    of_truth = proba[known, [labels.index(truth[k]) for k in known]]
    given = list(map(label_of, answers[target].cast(pl.String)))
    return {
        "log_loss": float(-np.log(np.maximum(of_truth, 1e-15)).mean()),
        "error_rate": float(np.mean([given[k] != truth[k] for k in known])),
        "labels_unknown": len(truth) - len(known),
        "labels_apart": sum(label not in set(truth) | set(labels) for label in given),
    }


def show(out: Path) -> None:
    """Print the failures, and the means over splits."""
    rows = rows_of(out)
    for row in rows:
        if "error" in row:
            print(f"{row['table']}, {row['method']}, split {row['split']}: {row['error']}")
    lines = []
    for name, method in dict.fromkeys((row["table"], row["method"]) for row in rows):
        done = [row for row in rows if (row["table"], row["method"]) == (name, method)]
        whole = [row for row in done if "error" not in row]
        cells = [
            f"{np.mean([row[part] for row in whole]):.4g}" if whole and part in whole[0] else ""
            for part in ("log_loss", "error_rate", "rmse", "interval_score", "coverage")
        ]
        lines.append((name, method, f"{len(whole)} of {len(done)}", *cells))
    heads = ("table", "method", "splits", "log loss", "errors", "RMSE", "interval score", "inside")
    print_table("tables that nobody tried", heads, lines, right=range(2, 8))


def main() -> None:
    """Run what is missing, split by split, and print."""
    asked = asked_for(__doc__, "results/strangers.jsonl", METHODS)
    tables = targets(asked.folder)

    def score(name: str, method: str, split: int) -> dict[str, Any]:
        return scores(asked.folder / f"{name}.csv.gz", *tables[name], method, split)

    cases = product(tables, asked.models, range(asked.splits))
    by_split = sorted(cases, key=lambda case: case[2])
    run_missing(asked.out, ("table", "method", "split"), by_split, score)
    show(asked.out)


if __name__ == "__main__":
    main()
