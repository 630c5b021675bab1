"""Real tables as an arena: ours, and what models of other libraries share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import bayesprop
from papers import table_splits
from papers.arena import Arena, Learn, Peer, Predict
from papers.table_splits import TableRows

AS_THEY_ARE = "its defaults, categories as they are"
NETWORK = f"of pytabkit; {AS_THEY_ARE}, gaps among numbers at the mean"


def ours(task: str, method: str, seed: int, rows: TableRows, _y: np.ndarray) -> Predict:
    """Learn by a method of this library, as `bayesprop.fit` gives it to a table; all rows."""
    model = bayesprop.fit(
        rows.table, target=rows.target, task=task, method=method, seed=seed, test_fraction=0.0
    )
    return lambda new: model.predict_dist(new.table.drop(new.target))


def of_matrix(model: Any) -> Learn:
    """Return what learns encoded rows by a regressor with `predict_dist`."""

    def learn(rows: TableRows, y: np.ndarray) -> Predict:
        model.fit(rows.matrix, y)
        return lambda new: model.predict_dist(new.matrix)

    return learn


def catboost(kind: str, seed: int, rows: TableRows, **settings: Any) -> Any:
    """Make CatBoost, a "Classifier" or "Regressor", told which columns are categories."""
    import catboost  # pyright: ignore[reportMissingImports]

    words = [i for i, name in enumerate(rows.kept) if name in rows.levels]
    return getattr(catboost, f"CatBoost{kind}")(
        verbose=0, random_seed=seed, allow_writing_files=False, cat_features=words, **settings
    )


def pytabkit(name: str, seed: int, **settings: Any) -> Any:
    """Make a model of pytabkit that is silent and runs on one core."""
    import pytabkit  # pyright: ignore[reportMissingImports]

    for noisy in ("lightning.pytorch", "pytorch_lightning"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    return getattr(pytabkit, name)(device="cpu", random_state=seed, n_threads=1, **settings)


def filling(frame: Any) -> Callable[[Any], Any]:
    """Return what puts the mean that a column of numbers has in this frame into its gaps."""
    means = frame.mean(numeric_only=True).fillna(0.0)
    return lambda new: new.fillna(means)


def arena_of_tables(task: str, peers: Mapping[str, Peer], **how: Any) -> Arena:
    """Return the arena of real tables of a task; `how` are further fields of it."""
    return Arena(
        task=task,
        peers=peers,
        ours=lambda method, seed: partial(ours, task, method, seed),
        size=table_splits.size,
        data=table_splits.train_test,
        n_splits=table_splits.n_splits,
        at_hand=table_splits.at_hand,
        **how,
    )
