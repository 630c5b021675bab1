"""`python -m benchmarks.many_rows TABLE.csv TARGET [TARGET ...]`: classes of large tables.

The default and others, each at its defaults, learn the first rows of a table in random order, 5500,
10,000, 20,000 and 40,000 of them where it has so many, and are judged by its last fifth or 8000
rows. Log loss, errors and processor seconds of fit and prediction; CatBoost, LightGBM where they
are installed.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

from bayesprop import metrics
from bayesprop.catalogue import CLASSIFICATION
from bayesprop.cli.console import note, print_table
from papers.class_peers import PEERS
from papers.table_models import ours
from papers.table_splits import of_classes, rows_with

ROWS, MOST_TEST_ROWS = (5_500, 10_000, 20_000, 40_000), 8_000
OTHERS = ("CatBoost", "LightGBM", "histogram boosting", "random forest", "LogisticRegression")


def main() -> None:
    """Fit all, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    asked, lines = parser.parse_args(), []
    learners = {"default": lambda seed: partial(ours, CLASSIFICATION, "default", seed)}
    learners |= {name: PEERS[name].make for name in OTHERS if PEERS[name].missing is None}
    for target in asked.targets:
        table = rows_with(target, asked.table).sample(fraction=1.0, shuffle=True, seed=0)
        n_test = min(len(table) // 5, MOST_TEST_ROWS)
        for n in (n for n in asked.rows if n <= len(table) - n_test):
            data = of_classes(table[:n], table[-n_test:], target)
            for name, make in learners.items():
                started = time.process_time()
                predicted = make(0)(data.train, data.y_train)(data.test)
                seconds = time.process_time() - started
                loss = -metrics.mean_log_likelihood(predicted, data.y_test)
                error = 1.0 - metrics.accuracy(predicted, data.y_test)
                figures = (f"{loss:.4f}", f"{error:.4f}", f"{seconds:.0f}")
                lines.append((target, str(n), name, *figures))
                note(" ".join(lines[-1]))
    columns = ("target", "rows", "model", "log loss", "errors", "processor s")
    print_table("", columns, lines, right=(1, 3, 4, 5))


if __name__ == "__main__":
    main()
