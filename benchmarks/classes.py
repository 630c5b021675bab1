"""`python -m benchmarks.classes`: PBP and EBP beside logistic regression; PBP's speed for classes.

The mushroom set, too, with BAYESPROP_DATA set.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bayesprop import EBPClassifier, PBPClassifier
from bayesprop.datasets.registry import load
from bayesprop.moments.pbp import updates
from bayesprop.moments.pbp.state import Targets, init
from benchmarks.problems import best_seconds, trained

LOGISTIC = {
    "LogisticRegression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
}
PBP = LOGISTIC | {
    "PBPClassifier(())": lambda: PBPClassifier((), random_state=0),
    "PBPClassifier()": lambda: PBPClassifier(random_state=0),
    'PBPClassifier(inference="sep")': lambda: PBPClassifier(inference="sep", random_state=0),
}
EBP = LOGISTIC | {
    "EBP, binary": lambda: EBPClassifier(weights="binary", random_state=0),
    "EBP, real": lambda: EBPClassifier(weights="real", random_state=0),
    "EBP, binary, one network": lambda: EBPClassifier(
        weights="binary", prediction="map", random_state=0
    ),
}


def of_many_classes() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return inputs and labels by name."""
    loaders = (load_breast_cancer, load_iris, load_wine, load_digits)
    return {one.__name__.removeprefix("load_"): one(return_X_y=True) for one in loaders}


def of_two_classes() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return inputs and labels by name."""
    digits, number = load_digits(return_X_y=True)
    pair = np.isin(number, (3, 8))
    sets = {
        "breast cancer, 569 x 30": load_breast_cancer(return_X_y=True),
        "digits 3 and 8, 357 x 64": (digits[pair], number[pair]),
    }
    if os.environ.get("BAYESPROP_DATA"):
        table = load("mushroom")  # every letter of every column as a column of zeros and ones
        letters = OneHotEncoder(sparse_output=False).fit_transform(table.X)
        sets["mushroom, 8124 x 117"] = letters, table.y
    return sets


def microseconds(targets: Targets, n_outputs: int, *, in_jax: bool = False) -> float:
    """Return µs a row and epoch of the compiled engine, or of the JAX form: 2000 x 13, 50 units."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 13))
    if targets == "numbers":
        y = rng.normal(size=(2000, n_outputs))
    elif n_outputs == 1:
        y = np.sign(rng.normal(size=(2000, 1)) + x[:, :1])
    else:
        y = rng.integers(n_outputs, size=(2000, 1)).astype(float)
    state = init(rng, (13, 50, n_outputs))
    orders = [rng.permutation(2000) for _ in range(1 if in_jax else 20)]

    def epochs() -> None:
        if in_jax:
            updates.data_pass(state, x, y, orders[0], targets=targets)
        else:
            trained(state, x, y, orders, targets=targets)

    return 1e6 * best_seconds(epochs, n_runs=5) / (2000 * len(orders))


def scores(make: Callable[[], Any], X: np.ndarray, y: np.ndarray, n_repeats: int) -> np.ndarray:
    """Return accuracy, log-likelihood in nats a row and seconds a fit, over repeated five folds."""
    rows = []
    for seed in range(n_repeats):
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        for train, test in folds.split(X, y):
            started = time.perf_counter()
            model = make().fit(X[train], y[train])
            seconds = time.perf_counter() - started
            proba = model.predict_proba(X[test])
            rows.append((model.score(X[test], y[test]), -log_loss(y[test], proba), seconds))
    *means, _ = np.mean(rows, axis=0)
    return np.array([*means, np.median(rows, axis=0)[2]])


def main() -> None:
    """Print the speed of PBP, and the scores of both."""
    base = microseconds("numbers", 1)
    print(f"numbers, 1 output    {base:6.2f} µs a row and epoch")
    for n_outputs in (1, 3, 10):
        taken = microseconds("classes", n_outputs)
        print(f"classes, {n_outputs:2d} outputs  {taken:6.2f} µs, ratio {taken / base:.1f}")
    print(f"classes, 3 outputs, JAX {microseconds('classes', 3, in_jax=True):.0f} µs a row")
    for sets, models, n_repeats in ((of_many_classes(), PBP, 5), (of_two_classes(), EBP, 1)):
        for name, (X, y) in sets.items():
            for model, make in models.items():
                accuracy, log_likelihood, seconds = scores(make, X, y, n_repeats)
                figures = f"{accuracy:.4f} | {log_likelihood:.4f} | {1e3 * seconds:.0f} ms"
                print(f"| {name} | `{model}` | {figures} |", flush=True)


if __name__ == "__main__":
    main()
