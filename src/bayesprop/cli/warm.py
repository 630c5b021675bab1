"""`warm`: compile in advance the functions that the first fit would compile."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bayesprop.catalogue import CLASSIFICATION, METHODS, make
from bayesprop.cli.actions import Warm
from bayesprop.cli.console import note, wrapped

COMPILED = ("default", "pbp")
"""Methods whose programs serve tables of any size; those of the others are made for one size."""

_N_ROWS = 80


def run(options: Warm) -> None:
    """Fit to a small made-up table, predict and go on, as users do."""
    del options
    started = time.perf_counter()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((_N_ROWS, 2))
    score = X[:, 0] + 0.1 * rng.standard_normal(_N_ROWS)
    for name in COMPILED:
        for task in METHODS[name].homes:
            note(f"{name}, {task} ...")
            y = np.digitize(score, [-0.5, 0.5]) if task == CLASSIFICATION else score
            _use(make(name, task=task, n_epochs=1, random_state=0), X, y)
    print(wrapped(f"compiled {', '.join(COMPILED)} in {time.perf_counter() - started:.1f} s"))


def _use(model: Any, X: np.ndarray, y: np.ndarray) -> None:
    model.fit(X, y).predict(X)
    if hasattr(model, "partial_fit"):
        model.partial_fit(X[:1], y[:1])
    if hasattr(model, "sample_y"):
        model.sample_y(X)
