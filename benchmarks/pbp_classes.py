"""Speed of PBP for classes beside numbers, and its scores beside logistic regression.

python benchmarks/pbp_classes.py
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop import PBPClassifier
from bayesprop.moments.pbp import updates
from bayesprop.moments.pbp.engine import Run
from bayesprop.moments.pbp.state import Targets, init

SETS = {
    "breast cancer": load_breast_cancer,
    "iris": load_iris,
    "wine": load_wine,
    "digits": load_digits,
}
MODELS = {
    "LogisticRegression": lambda: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=1000)
    ),
    "PBPClassifier(())": lambda: PBPClassifier((), random_state=0),
    "PBPClassifier()": lambda: PBPClassifier(random_state=0),
    'PBPClassifier(inference="sep")': lambda: PBPClassifier(inference="sep", random_state=0),
}


def microseconds(targets: Targets, n_outputs: int) -> float:
    """Return µs a row and epoch of the compiled engine: 2000 x 13, 50 units."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 13))
    if targets == "numbers":
        y = rng.normal(size=(2000, n_outputs))
    elif n_outputs == 1:
        y = np.sign(rng.normal(size=(2000, 1)) + x[:, :1])
    else:
        y = rng.integers(n_outputs, size=(2000, 1)).astype(float)
    state = init(rng, (13, 50, n_outputs))
    orders = [rng.permutation(2000) for _ in range(20)]
    best = np.inf
    for _ in range(5):
        started = time.perf_counter()
        list(Run(state, x, y, targets=targets).epochs(orders))
        best = min(best, (time.perf_counter() - started) / 40_000)
    return 1e6 * best


def microseconds_jax() -> float:
    """Return µs a row of the JAX form for three classes."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2000, 13)), rng.integers(3, size=(2000, 1)).astype(float)
    state, best = init(rng, (13, 50, 3)), np.inf
    for _ in range(3):
        started = time.perf_counter()
        updates.data_pass(state, x, y, np.arange(2000), targets="classes")
        best = min(best, (time.perf_counter() - started) / 2000)
    return 1e6 * best


def scores(make, X: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Return accuracy, log-likelihood in nats a row and ms a fit, over five times five folds."""
    found = []
    for seed in range(5):
        folds = StratifiedKFold(5, shuffle=True, random_state=seed)
        for train, test in folds.split(X, y):
            started = time.perf_counter()
            model = make().fit(X[train], y[train])
            seconds = time.perf_counter() - started
            proba = model.predict_proba(X[test])
            found.append((model.score(X[test], y[test]), -log_loss(y[test], proba), 1e3 * seconds))
    table = np.array(found)
    return table[:, 0].mean(), table[:, 1].mean(), float(np.median(table[:, 2]))


def main() -> None:
    """Print both tables."""
    base = microseconds("numbers", 1)
    print(f"numbers, 1 output    {base:6.2f} µs a row and epoch")
    for n_outputs in (1, 3, 10):
        found = microseconds("classes", n_outputs)
        print(f"classes, {n_outputs:2d} outputs  {found:6.2f} µs, ratio {found / base:.1f}")
    print(f"classes, 3 outputs, JAX {microseconds_jax():.0f} µs a row")
    for name, load in SETS.items():
        X, y = load(return_X_y=True)
        for model, make in MODELS.items():
            accuracy, log_likelihood, ms = scores(make, X, y)
            print(f"| {name} | `{model}` | {accuracy:.3f} | {log_likelihood:.3f} | {ms:.0f} ms |")


if __name__ == "__main__":
    main()
