"""What the UCI tables share: data sets, standard splits, network sizes, the scores of one fit."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesprop import metrics
from bayesprop.datasets import registry
from bayesprop.datasets.registry import Loaded
from bayesprop.table.errors import TableError
from papers.protocol import Cell, NothingToRun
from papers.splits import Split, standard_splits

DATASETS = (
    "boston",
    "concrete",
    "energy",
    "kin8nm",
    "naval",
    "power_plant",
    "protein",
    "wine_red",
    "yacht",
    "year",
)
SMALL_ROWS = 2000
QUICK_SPLITS = 2


@dataclass(frozen=True)
class TrainTest:
    """One split of a data set, in the original units."""

    X_train: Float[np.ndarray, "n d"]
    y_train: Float[np.ndarray, " n"]
    X_test: Float[np.ndarray, "k d"]
    y_test: Float[np.ndarray, " k"]


def hidden_units(dataset: str) -> int:
    """Units of a hidden layer: 100 for the two largest sets, else 50 (section 5.1)."""
    return 100 if dataset in ("protein", "year") else 50


def n_splits(dataset: str, *, quick: bool) -> int:
    """Count the splits that the protocol asks for: 20, protein 5, year 1."""
    full = registry.describe(dataset).n_splits
    return min(full, QUICK_SPLITS) if quick else full


def at_hand(datasets: Sequence[str], *, quick: bool) -> list[str]:
    """Return the data sets that can be had, small ones only if `quick`; warn of the others.

    Raises NothingToRun where none is left.
    """
    wanted = [d for d in datasets if not quick or registry.describe(d).n <= SMALL_ROWS]
    found, missing = [], []
    for dataset in wanted:
        try:
            loaded(dataset)
        except TableError as error:
            missing.append(str(error))
        else:
            found.append(dataset)
    if not found:
        raise NothingToRun(missing[0] if missing else "--quick runs only the smaller data sets")
    for line in missing:
        warnings.warn(f"left out: {line}", stacklevel=3)
    return found


@lru_cache(maxsize=16)
def loaded(dataset: str) -> Loaded:
    """Read a data set once a process."""
    return registry.load(dataset)


def train_test(dataset: str, split: int) -> TrainTest:
    """Return a standard split, its rows in the order of the public recipe."""
    data, rows = loaded(dataset), _splits(dataset)[split]
    return TrainTest(data.X[rows.train], data.y[rows.train], data.X[rows.test], data.y[rows.test])


@lru_cache(maxsize=16)
def _splits(dataset: str) -> list[Split]:
    about = registry.describe(dataset)
    if about.n_train is not None:
        rows = np.arange(about.n)
        return [Split(rows[: about.n_train], rows[about.n_train :])]
    return standard_splits(about.n, about.n_splits)


def by_split(fits: Iterable[Cell]) -> list[Cell]:
    """Sort fits by split, so that a part of a run covers all sets alike; the longest first."""
    return sorted(fits, key=lambda cell: (cell.key["split"], -cell.cost))


def cell_seed(seed: int, *place: int) -> int:
    """Mix the experiment's seed with a cell's place into the seed of one fit."""
    return int(np.random.SeedSequence((seed, *place)).generate_state(1)[0])


def cost(dataset: str, *widths: int) -> float:
    """Work of an epoch: rows times weights and a little for every unit."""
    about = registry.describe(dataset)
    inputs = (about.d, *widths)
    return about.n * sum(h * (d + 8.0) for d, h in zip(inputs, widths, strict=False))


def fit_and_score(data: TrainTest, model: Any) -> dict[str, Any]:
    """Fit on the training rows; return test scores in the original units, and how the fit went."""
    model.fit(data.X_train, data.y_train)
    predicted = model.predict_dist(data.X_test)
    report = model.fit_report_
    return {
        "rmse": metrics.rmse(predicted, data.y_test),
        "log_likelihood": metrics.mean_log_likelihood(predicted, data.y_test),
        "coverage_90": metrics.coverage(predicted, data.y_test, 0.9),
        "epistemic_share": predicted.epistemic_share,
        "fit_seconds": report.seconds,
        "n_updates": report.n_updates,
        **report.guards,
    }
