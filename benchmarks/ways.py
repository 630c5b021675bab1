"""The default with columns of real tables given in several ways: scores of each, printed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from bayesprop import BayesianClassifier, BayesianRegressor, metrics
from bayesprop.cli.console import print_table
from bayesprop.table.target import choose_task
from benchmarks.tables import asked_for, divided, encoded, mean_of, rows_of, run_missing

MOST_ROWS = 4_000
PARTS = ("log_likelihood", "error")

Given = Callable[[pl.DataFrame, str, str], pl.DataFrame]
"""From rows, the name of their table and a way to the rows as they are given in that way."""


def compare(
    doc: str | None, out: str, targets: Mapping[str, str], ways: Sequence[str], given: Given
) -> None:
    """Run what is missing, split by split, and print.

    targets
        By table, a file NAME.csv of the folder that is asked for.
    """
    asked = asked_for(doc, out, ways, splits=2)

    def score(name: str, number: int, way: str) -> dict[str, float]:
        target = targets[name]
        parts = divided(Path(asked.folder), name, target, number)
        train, test = (given(frame, name, way) for frame in parts)
        task = choose_task(train[target]).task
        split = encoded(train[: MOST_ROWS * 4 // 5], test[: MOST_ROWS // 5], target, task)
        make = BayesianRegressor if split.y.dtype == np.float64 else BayesianClassifier
        model = make(random_state=number).fit(split.x, split.y)
        summary = metrics.summarise(model.predict_dist(split.x_test), split.y_test)
        error = summary["rmse"] if "rmse" in summary else 1.0 - summary["accuracy"]
        n_inputs = split.x.shape[1]
        return {"log_likelihood": summary["log_likelihood"], "error": error, "n_inputs": n_inputs}

    cases = ((name, split, way) for split, name, way in product(range(asked.splits), targets, ways))
    run_missing(asked.out, ("table", "split", "way"), cases, score)
    rows, lines = rows_of(asked.out), []
    for name, target in targets.items():
        each = [f"{mean_of(rows, part, table=name, way=way):.3f}" for part in PARTS for way in ways]
        lines.append((name, target, *each))
    heads = [f"{part}, {way}" for part in PARTS for way in ways]
    print_table(
        "means over splits", ("table", "target", *heads), lines, right=range(2, 2 + len(heads))
    )
