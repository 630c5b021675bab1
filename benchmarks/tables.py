"""What the benchmarks on real tables share: splits, and lines of JSON that are not measured twice.

80/20 splits by permutations of `default_rng(split)`, at most 8000 rows, columns as `bayesprop fit`
encodes them. Methods and other libraries side by side: `python -m papers tables-today-classes` and
`tables-today-numbers`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from papers import table_splits
from papers.arena import Data

OURS = "default"


class Split(NamedTuple):
    """Encoded training and test rows of a table."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @classmethod
    def of(cls, data: Data) -> Split:
        """Leave the rows as people have them."""
        return cls(data.train.matrix, data.y_train, data.test.matrix, data.y_test)


def divided(folder: Path, name: str, target: str, number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read a table, and divide its rows whose target is known into training and test rows."""
    (file,) = folder.glob(f"{name}.csv*")
    return table_splits.divided(table_splits.rows_with(target, file), number)


def encoded(train: pl.DataFrame, test: pl.DataFrame, target: str, task: str) -> Split:
    """Encode both as `bayesprop fit` does."""
    return Split.of(table_splits.encoded(train, test, target, task))


def split_of(folder: Path, name: str, number: int) -> Split:
    """Divide and encode a table; test rows of a class without training rows are left out."""
    target = table_splits.CLASSES[name].target
    parts = divided(folder, name, target, number)
    return Split.of(table_splits.of_classes(*parts, target))


def independent_columns(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Return standardised inputs to learn and to test, turned to directions not collinear."""
    mean, std = np.nanmean(split.x, axis=0), np.nanstd(split.x, axis=0)
    x, x_test = (
        np.nan_to_num((x - mean) / np.where(std > 0.0, std, 1.0)) for x in (split.x, split.x_test)
    )
    _, spread, axes = np.linalg.svd(x, full_matrices=False)
    axes = axes[spread > 1e-8 * spread[0]]
    return x @ axes.T, x_test @ axes.T


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
