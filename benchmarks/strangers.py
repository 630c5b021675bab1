"""`python -m benchmarks.strangers FOLDER`: text files that nobody tried: fitted, predicted, scored.

FOLDER holds NAME.csv.gz files and a README.md whose table begins its rows with the name, the target
and the task (`regression` or `K classes`). Of each file the rows with a target, permuted by
`default_rng(split)`, at most 3000 of them, 80 % to learn; both parts are written as text, cell by
cell as the file has them, and given to `bayesprop.fit` and `predict` at their defaults. CatBoost
and a forest (quantile-forest, of classes scikit-learn's), if installed, have the same rows as
`bayesprop fit` reads them. One line of JSON a fit goes to `--out`; what stands there already is not
run again. An error is a line as well.
"""

from __future__ import annotations

import csv
import gzip
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import bayesprop
from bayesprop.cli.console import print_table
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.table.read import read_table
from benchmarks.tables import asked_for, rows_of, run_missing
from papers import class_peers, number_peers, table_splits

LINEAR = {"regression": "linear", "classification": "logistic"}
PEERS = {
    "CatBoost": {"regression": "CatBoost quantiles", "classification": "CatBoost"},
    "forest": {"regression": "quantile forest", "classification": "random forest"},
}
METHODS = ("default", "linear", *PEERS)
COVERAGES = 0.5, 0.8, 0.9, 0.99
MOST_ROWS, TRAINING_SHARE = 3000, 0.8
Answer = Callable[[], pl.DataFrame]


class Case(NamedTuple):
    """What a table is asked for."""

    target: str
    task: str


def cases_of(folder: Path) -> dict[str, Case]:
    """Read target and task of every table from the folder's page."""
    cells = [line.split("|")[1:4] for line in (folder / "README.md").read_text().splitlines()]
    return {
        name: Case(target, "regression" if task == "regression" else "classification")
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


def scores(source: Path, case: Case, method: str, split: int) -> dict[str, Any]:
    """Fit and predict one split; its scores, or the error that ended it."""
    with TemporaryDirectory() as folder:
        train, test = write_parts(source, case.target, split, Path(folder))
        started = time.process_time()
        try:
            learn = learn_peer if method in PEERS else learn_ours
            predict = learn(case, method, split, train, test)
            fitted = time.process_time()
            answers = predict()
            seconds = {"fit": fitted - started, "predict": time.process_time() - fitted}
            return {"seconds": seconds} | score_answers(answers, test, case.target, case.task)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}


def learn_ours(case: Case, method: str, seed: int, train: Path, test: Path) -> Answer:
    """Fit as a user calls `bayesprop.fit`; test rows are read when they are predicted."""
    name = None if method == "default" else LINEAR[case.task]
    model = bayesprop.fit(train, target=case.target, task=case.task, method=name, seed=seed)
    return lambda: model.predict(test, COVERAGES if case.task == "regression" else None)


def learn_peer(case: Case, method: str, seed: int, train: Path, test: Path) -> Answer:
    """Fit a peer to the rows as `bayesprop fit` reads them."""
    target, task = case
    data = table_splits.encoded(read_table(str(train)), read_table(str(test)), target, task)
    peers = number_peers.PEERS if task == "regression" else class_peers.PEERS
    predict = peers[PEERS[method][task]].make(seed)(data.train, data.y_train)

    def answer() -> pl.DataFrame:
        predicted = predict(data.test)
        if isinstance(predicted, ClassPredictive):
            of_labels = zip(predicted.classes, predicted.proba.T, strict=True)
            given = pl.Series(target, predicted.label)
            return pl.DataFrame({f"p({label})": p for label, p in of_labels}).with_columns(given)
        bounds = {}
        for share in COVERAGES:
            low, high = predicted.interval(share).T
            bounds |= {f"lower_{100 * share:g}": low, f"upper_{100 * share:g}": high}
        return pl.DataFrame({"mean": predicted.mean} | bounds)

    return answer


def label_of(text: str) -> str:
    """Write a label in one way, whatever the file's: 1.0 as 1, TRUE as true."""
    try:
        return f"{float(text):g}"
    except ValueError:
        return text.lower() if text.lower() in ("true", "false") else text


def score_answers(answers: pl.DataFrame, test: Path, target: str, task: str) -> dict[str, Any]:
    """Score predictions by the file's cells; labels are compared as `label_of` writes them."""
    truth = pl.read_csv(test, infer_schema=False)[target].to_list()
    if task == "regression":
        y = np.array(truth, float)
        inside = {}
        for share in COVERAGES:
            low, high = (
                answers[f"{side}_{100 * share:g}"].to_numpy() for side in ("lower", "upper")
            )
            inside[f"{share:g}"] = float(np.mean((low <= y) & (y <= high)))
        low, high = answers["lower_90"].to_numpy(), answers["upper_90"].to_numpy()
        outside = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
        return {
            "rmse": float(np.sqrt(np.mean((answers["mean"].to_numpy() - y) ** 2))),
            "interval_score": float(np.mean(high - low + 20.0 * outside)),
            "coverage": inside["0.9"],
            "inside": inside,
            "n_test": len(y),
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
    show_ratios(rows)


def show_ratios(rows: list[dict[str, Any]]) -> None:
    """Print ratios to the peers over the tables whose splits all methods have, and coverage.

    Of losses to the best peer by mean loss, of RMSE to CatBoost; the errors are of pairs of splits.
    """
    found = {(row["table"], row["split"], row["method"]): row for row in rows if "error" not in row}
    splits = {
        name: [k for k in range(99) if all((name, k, method) in found for method in METHODS)]
        for name in dict.fromkeys(row["table"] for row in rows)
    }
    lines = []
    for score, peers, more in (
        ("log_loss", METHODS[1:], 0.01),
        ("rmse", ("CatBoost",), 0.0),
        ("interval_score", METHODS[1:], 0.0),
    ):
        logs, worst = [], []
        for name, some in splits.items():
            if not some or score not in found[name, some[0], "default"]:
                continue
            values = {
                method: more + np.array([found[name, k, method][score] for k in some])
                for method in ("default", *peers)
            }
            ours, best = values["default"], min((values[one] for one in peers), key=np.mean)
            logs.append(np.log(ours.mean() / best.mean()))
            apart = ours - 1.1 * best
            error = apart.std(ddof=1) / np.sqrt(len(some)) if len(some) > 1 else 0.0
            if apart.mean() > 2.0 * error:
                worst.append(f"{name} {np.exp(logs[-1]):.2f}")
        mean, error = np.mean(logs), np.std(logs, ddof=1) / np.sqrt(len(logs))
        lines.append((score, str(len(logs)), f"{np.exp(mean):.3f}", f"{error:.3f}", *worst))
    print_table(
        "times the best peer",
        ("score", "tables", "mean", "error of its log", "above 1.1"),
        [(*line[:4], ", ".join(line[4:])) for line in lines],
        right=range(1, 4),
    )
    ours = [row for (_, _, method), row in found.items() if method == "default"]
    for share in COVERAGES:
        tables: dict[str, list[tuple[float, int]]] = {}
        for row in ours:
            if "inside" in row:
                given = row["inside"][f"{share:g}"], row["n_test"]
                tables.setdefault(row["table"], []).append(given)
        held = np.array([sum(inside * n for inside, n in some) for some in tables.values()])
        n = np.array([sum(n for _, n in some) for some in tables.values()])
        error = np.sqrt(share * (1.0 - share) / n)
        print(
            f"{share:g} intervals hold {np.mean(held / n):.3f}, within two binomial errors on "
            f"{np.sum(np.abs(held / n - share) <= 2.0 * error)} of {len(n)} tables"
        )
    seconds = [sum(row["seconds"].values()) for row in ours]
    print(
        f"processor s of a fit and prediction: {np.median(seconds):.1f}, at most {max(seconds):.0f}"
    )


def main() -> None:
    """Run what is missing, split by split, and print."""
    asked = asked_for(__doc__, "results/strangers.jsonl", METHODS)
    tables = cases_of(asked.folder)

    def score(name: str, method: str, split: int) -> dict[str, Any]:
        return scores(asked.folder / f"{name}.csv.gz", tables[name], method, split)

    cases = product(tables, asked.models, range(asked.splits))
    by_split = sorted(cases, key=lambda case: case[2])
    run_missing(asked.out, ("table", "method", "split"), by_split, score)
    show(asked.out)


if __name__ == "__main__":
    main()
