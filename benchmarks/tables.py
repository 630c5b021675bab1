"""`python -m benchmarks.tables FOLDER`: classes of real tables, ours beside what a user would pick.

Everything at its defaults, 80/20 splits by permutations of `default_rng(split)`, at most 8000 rows,
columns as `bayesprop fit` encodes them (CatBoost takes categories as they are). One line of JSON a
fit goes to `results/tables.jsonl`; what stands there already is not run again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop import BayesianMLPClassifier
from bayesprop.cli.console import print_table
from bayesprop.table.encoding import TableEncoding
from bayesprop.table.read import read_table

TARGETS = {
    "Vehicle": "Class",
    "Glass": "Type",
    "PimaIndiansDiabetes2": "diabetes",
    "BreastCancer": "Class",
    "Sonar": "Class",
    "Vowel": "Class",
    "credit_data": "Status",
    "mlc_churn": "churn",
    "spam": "type",
    "Satellite": "classes",
    "HMDA": "deny",
    "scat": "Species",
}
MOST_ROWS = 8_000
OURS = "mlp"


class Split(NamedTuple):
    """Training and test rows of a table: encoded, and as they are."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    frame: pl.DataFrame
    frame_test: pl.DataFrame


def divided(folder: Path, name: str, target: str, number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read a table, and divide its rows whose target is known into training and test rows."""
    (file,) = folder.glob(f"{name}.csv*")
    table = read_table(str(file)) if file.suffix == ".csv" else pl.read_csv(file)
    table = table.filter(pl.col(target).is_not_null())
    order = np.random.default_rng(number).permutation(len(table))[:MOST_ROWS]
    n_test = round(0.2 * len(order))
    return table[order[n_test:]], table[order[:n_test]]


def encoded(train: pl.DataFrame, test: pl.DataFrame, target: str, task: str) -> Split:
    """Encode both as `bayesprop fit` does."""
    encoding = TableEncoding.fit(train, target, task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, x_test = encoding.transform(train), encoding.transform(test)
        x = encoding.cross_fitted(x, train, None)
    kept = [column.name for column in encoding.columns]
    return Split(x, encoding.target(train), x_test, encoding.target(test), train[kept], test[kept])


def split_of(folder: Path, name: str, number: int) -> Split:
    """Divide and encode a table; test rows of a class without training rows are left out."""
    target = TARGETS[name]
    train, test = divided(folder, name, target, number)
    test = test.filter(pl.col(target).is_in(train[target].unique().to_list()))
    return encoded(train, test, target, "classification")


def of_estimator(make: Callable[[int], Any]) -> Callable[[Split, int], Any]:
    """Fit and predict an estimator of encoded rows; its classes and probabilities."""

    def run(split: Split, seed: int) -> tuple[np.ndarray, np.ndarray]:
        model = make(seed).fit(split.x, split.y)
        return model.classes_, model.predict_proba(split.x_test)

    return run


def for_catboost(split: Split) -> tuple[list[Any], list[str]]:
    """Return training and test columns as they are, and the names of those that are no numbers."""
    words = [name for name, kind in split.frame.schema.items() if not kind.is_numeric()]
    as_words = pl.col(words).cast(pl.String).fill_null("missing")
    frames = [frame.with_columns(as_words) for frame in (split.frame, split.frame_test)]
    frames = [frame.to_pandas().astype(dict.fromkeys(words, object)) for frame in frames]
    return frames, words


def catboost(split: Split, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Fit and predict CatBoost, categories as they are."""
    from catboost import CatBoostClassifier  # of the group `peers`

    frames, words = for_catboost(split)
    model = CatBoostClassifier(
        verbose=0, random_seed=seed, allow_writing_files=False, cat_features=words
    )
    model.fit(frames[0], split.y)
    return model.classes_, model.predict_proba(frames[1])


def lightgbm(seed: int) -> Any:
    """Make LightGBM at its defaults."""
    from lightgbm import LGBMClassifier  # of the group `peers`

    return LGBMClassifier(random_state=seed, verbose=-1)


MODELS: dict[str, Callable[[Split, int], Any]] = {
    OURS: of_estimator(lambda seed: BayesianMLPClassifier(random_state=seed)),
    "logistic": of_estimator(
        lambda _: make_pipeline(
            SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=2_000)
        )
    ),
    "forest": of_estimator(lambda seed: RandomForestClassifier(500, random_state=seed)),
    "catboost": catboost,
    "lightgbm": of_estimator(lightgbm),
}


def scores(model: str, split: Split, seed: int) -> dict[str, float]:
    """Log loss, nats a row, share of errors and processor seconds of one fit."""
    started = time.process_time()
    classes, proba = MODELS[model](split, seed)
    seconds = time.process_time() - started
    at = np.searchsorted(classes, split.y_test)
    p = np.maximum(proba[np.arange(len(at)), at], 1e-15)
    wrong = float(np.mean(proba.argmax(axis=1) != at))
    return {"log_loss": -float(np.log(p).mean()), "error": wrong, "seconds": seconds}


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Read what was measured already."""
    return list(map(json.loads, path.read_text().splitlines())) if path.exists() else []


def mean_of(rows: list[dict[str, Any]], part: str, /, **key: Any) -> float:
    """Mean of a part over the rows of a key; NaN where there are none."""
    values = [row[part] for row in rows if key.items() <= row.items()]
    return float(np.mean(values)) if values else float("nan")


def run_missing(
    out: Path,
    names: Sequence[str],
    cases: Iterable[tuple[Any, ...]],
    score: Callable[..., dict[str, Any]],
) -> None:
    """Score every case that has no line yet, and write its line: its names, and its scores."""
    done = {tuple(row[name] for name in names) for row in rows_of(out)}
    out.parent.mkdir(exist_ok=True)
    for case in cases:
        if case not in done:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                row = dict(zip(names, case, strict=True)) | score(*case)
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")


def compare(
    asked: argparse.Namespace,
    tables: Iterable[str],
    split_of: Callable[[str, int], Split],
    scores_of: Callable[[str, str, Split, int], dict[str, Any]],
) -> None:
    """Run what is missing of all models, split by split; a table is divided once for all of them.

    scores_of
        (table, model, split, seed).
    """
    divided_once = lru_cache(maxsize=1)(split_of)

    def score(table: str, number: int, model: str) -> dict[str, Any]:
        return scores_of(table, model, divided_once(table, number), number)

    ordered = product(range(asked.splits), tables, asked.models)
    cases = ((table, number, model) for number, table, model in ordered)
    run_missing(asked.out, ("table", "split", "model"), cases, score)


def show(out: Path, models: list[str]) -> None:
    """Print means over splits, and ours as a ratio to the best of the others of each table."""
    rows, lines, ratios = rows_of(out), [], []
    for name in TARGETS:
        means = {model: mean_of(rows, "log_loss", table=name, model=model) for model in models}
        ratios.append(means[OURS] / np.nanmin([means[model] for model in models if model != OURS]))
        seconds = mean_of(rows, "seconds", table=name, model=OURS)
        each = [f"{mean:.3f}" for mean in means.values()]
        lines.append((name, *each, f"{ratios[-1]:.2f}", f"{seconds:.1f}"))
    mean = float(np.exp(np.mean(np.log(ratios))))
    print_table(
        "Log loss, nats a row, mean over splits",
        ("table", *models, "ours / best other", "processor seconds of ours"),
        [*lines, ("geometric mean", *[""] * len(models), f"{mean:.3f}", "")],
        right=range(1, len(models) + 3),
    )


def asked_for(
    description: str | None, out: str, models: Iterable[str] = (), *, splits: int = 5
) -> argparse.Namespace:
    """Read the command line of a comparison on tables: folder, splits, out, and models if any."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path, help="where NAME.csv, or NAME.csv.gz, lies")
    parser.add_argument("--splits", type=int, default=splits)
    parser.add_argument("--out", type=Path, default=Path(out))
    if names := list(models):
        parser.add_argument("--models", nargs="+", choices=names, default=names)
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    asked = asked_for(__doc__, "results/tables.jsonl", MODELS)
    compare(asked, TARGETS, partial(split_of, asked.folder), lambda _table, *of: scores(*of))
    show(asked.out, asked.models)


if __name__ == "__main__":
    main()
