"""Real tables as an arena: ours, and what models of other libraries share."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import numpy as np

import bayesprop
from papers import table_splits
from papers.arena import Arena
from papers.peers import Peer
from papers.table_splits import TableRows

AS_THEY_ARE = "its defaults, categories as they are"
NETWORK = f"of pytabkit; {AS_THEY_ARE}, gaps among numbers at the mean"


class Ours:
    """A method of this library, as `bayesprop.fit` gives it to a table."""

    def __init__(self, task: str, method: str, seed: int) -> None:
        self.task, self.method, self.seed = task, method, seed

    def fit(self, rows: TableRows, _y: np.ndarray) -> Self:
        """Learn all rows; none is held out to judge it."""
        self.model_ = bayesprop.fit(
            rows.table,
            target=rows.target,
            task=self.task,
            method=self.method,
            seed=self.seed,
            test_fraction=0.0,
        )
        return self

    def predict_dist(self, rows: TableRows) -> Any:
        """Predict rows, without a look at their target."""
        return self.model_.predict_dist(rows.table.drop(rows.target))


class OfMatrix:
    """A regressor of encoded rows: any with `predict_dist`."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, rows: TableRows, y: np.ndarray) -> Self:
        """Learn rows."""
        self.model.fit(rows.matrix, y)
        return self

    def predict_dist(self, rows: TableRows) -> Any:
        """Predict rows."""
        return self.model.predict_dist(rows.matrix)


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


class Filled:
    """Puts the training mean of a column of numbers into its gaps."""

    def __init__(self, means: Any) -> None:
        self.means = means

    @classmethod
    def of(cls, frame: Any) -> Self:
        """Learn the means of a frame."""
        return cls(frame.mean(numeric_only=True).fillna(0.0))

    def __call__(self, frame: Any) -> Any:
        """Fill a frame."""
        return frame.fillna(self.means)


def arena_of_tables(task: str, peers: Mapping[str, Peer], **how: Any) -> Arena:
    """Return the arena of real tables of a task; `how` are further fields of it."""
    return Arena(
        task=task,
        peers=peers,
        ours=partial(Ours, task),
        size=table_splits.size,
        data=table_splits.train_test,
        n_splits=table_splits.n_splits,
        at_hand=table_splits.at_hand,
        **how,
    )
