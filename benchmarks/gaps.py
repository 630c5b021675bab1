"""`python -m benchmarks.gaps FOLDER`: error bars where cells of a table are missing.

Complete rows of real tables; a share of the cells of inputs is emptied at random, in the rows to
learn (fit), in those to predict (predict), or in both. Beside the default stands the same default
on gaps filled the usual way: the median, or no level, and a column of 0 and 1 beside where training
rows had gaps. 80/20 splits by permutations of `default_rng(split)`, at most 1500 rows. One line of
JSON a fit goes to `results/gaps.jsonl`; what stands there already is not run again. The last
column is processor milliseconds of predicting a row with a gap, an interval included.
"""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bayesprop import BayesianClassifier, BayesianRegressor, metrics
from bayesprop.cli.console import print_table
from bayesprop.distributions.predictive import Predictive
from benchmarks.tables import Split, asked_for, divided, encoded, mean_of, rows_of, run_missing

TARGETS = {
    "HousePrices": "price",
    "Sacramento": "price",
    "car_prices": "Price",
    "DoctorVisits": "visits",
    "CPS1988": "wage",
    "diamonds": "price",
    "MathAchieve": "MathAch",
    "birthwt": "bwt",
}
CLASSES = {"Vehicle": "Class", "mlc_churn": "churn", "HMDA": "deny"}
MOST_ROWS, SHARES = 1500, (0.1, 0.3, 0.5)
WHERE, WAYS = ("fit", "predict", "both"), ("ours", "filled")
POSITIVE = ("HousePrices", "Sacramento", "car_prices", "CPS1988", "diamonds")
KINDS = {**dict.fromkeys(POSITIVE, "positive"), "DoctorVisits": "count"}


def emptied(frame: pl.DataFrame, target: str, share: float, seed: list[int]) -> pl.DataFrame:
    """Empty a share of the cells of all columns but the target."""
    rng = np.random.default_rng(seed)
    return frame.with_columns(
        pl.when(pl.lit(pl.Series(rng.random(len(frame)) >= share))).then(pl.col(name)).alias(name)
        for name in frame.columns
        if name != target
    )


def filled(x: np.ndarray, train: np.ndarray, n_flags: np.ndarray) -> np.ndarray:
    """Fill gaps by medians, of flags by 0; mark the columns in which training rows had some."""
    middle = np.where(n_flags, 0.0, np.nanmedian(train, axis=0))
    had = np.isnan(train).any(axis=0)
    return np.column_stack([np.where(np.isnan(x), middle, x), np.isnan(x)[:, had]])


def split_of(folder: Path, name: str, share: float, where: str, split: int) -> Split:
    """Return encoded rows, with gaps as asked for."""
    is_class = name in CLASSES
    target = CLASSES[name] if is_class else TARGETS[name]
    train, test = divided(folder, name, target, split)
    train, test = (part.drop_nulls()[:most] for part, most in ((train, MOST_ROWS), (test, 500)))
    if where in ("fit", "both"):
        train = emptied(train, target, share, [split, 1])
    if where in ("predict", "both"):
        test = emptied(test, target, share, [split, 2])
    if is_class:
        test = test.filter(pl.col(target).is_in(train[target].unique().to_list()))
    return encoded(train, test, target, "classification" if is_class else "regression")


def scores(name: str, way: str, of: Split, split: int) -> dict[str, float]:
    """Fit the default, and score it."""
    x, x_test = of.x, of.x_test
    if way == "filled":
        is_flag = np.all(np.isnan(x) | (x == 0.0) | (x == 1.0), axis=0)
        x, x_test = (filled(part, of.x, is_flag) for part in (x, x_test))
    started = time.process_time()
    model: Any = BayesianClassifier(random_state=split)
    if name not in CLASSES:
        kind: Any = KINDS.get(name, "numbers")
        model = BayesianRegressor(random_state=split, target_kind=kind)
    model.fit(x, of.y)
    fitted = time.process_time()
    predicted = model.predict_dist(x_test)
    found = metrics.summarise(predicted, of.y_test)
    seconds = {"fit_seconds": fitted - started, "predict_seconds": time.process_time() - fitted}
    seconds["row_ms"] = milliseconds(model, x_test[np.isnan(x_test).any(axis=1)])
    return found | seconds | {"gap_share": float(np.mean(predicted.gap_share))}


def milliseconds(model: Any, rows: np.ndarray) -> float:
    """Of a processor a row, of rows with a gap: prediction, and a 90 % interval of numbers."""
    started = time.process_time()
    predicted = model.predict_dist(rows) if len(rows) else None
    if isinstance(predicted, Predictive):
        predicted.interval(0.9)
    return 1e3 * (time.process_time() - started) / max(len(rows), 1)


def show(out: Path) -> None:
    """Print means over splits: both ways side by side."""
    rows, lines = rows_of(out), []
    for share, where, name in product(SHARES, WHERE, (*TARGETS, *CLASSES)):
        of_case = {"table": name, "share": share, "where": where}
        means = [
            mean_of([row for row in rows if part in row], part, **of_case, way=way)
            for way in WAYS
            for part in ("coverage_90", "log_likelihood")
        ]
        timed = [row for row in rows if "row_ms" in row]
        means.append(mean_of(timed, "row_ms", **of_case, way="ours"))
        if not np.isnan(means).all():
            cells = ["" if np.isnan(mean) else f"{mean:.3f}" for mean in means]
            lines.append((name, f"{share:.0%}", where, *cells))
    scores = ("inside 90 %", "log-lik.", "inside, filled", "log-lik.")
    heads = ("table", "missing", "at", *scores, "ms a row")
    print_table("cells missing at random", heads, lines, right=range(3, 8))


def main() -> None:
    """Run what is missing, split by split, and print."""
    asked = asked_for(__doc__, "results/gaps.jsonl", WAYS)

    def score(name: str, share: float, where: str, way: str, split: int) -> dict[str, float]:
        return scores(name, way, split_of(asked.folder, name, share, where, split), split)

    ordered = product(range(asked.splits), SHARES, (*TARGETS, *CLASSES), WHERE, asked.models)
    cases = ((name, share, where, way, split) for split, share, name, where, way in ordered)
    run_missing(asked.out, ("table", "share", "where", "way", "split"), cases, score)
    show(asked.out)


if __name__ == "__main__":
    main()
