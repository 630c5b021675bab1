"""Expectation backpropagation beside logistic regression, on sets of two classes.

python benchmarks/ebp.py            the mushroom set too with BAYESPROP_DATA set
"""

from __future__ import annotations

import os
import time

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from bayesprop import EBPClassifier

MODELS = {
    "LogisticRegression": lambda: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=1000)
    ),
    "EBP, binary": lambda: EBPClassifier(weights="binary", random_state=0),
    "EBP, real": lambda: EBPClassifier(weights="real", random_state=0),
}


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return inputs and labels by name."""
    digits, number = load_digits(return_X_y=True)
    pair = np.isin(number, (3, 8))
    found = {
        "breast cancer, 569 x 30": load_breast_cancer(return_X_y=True),
        "digits 3 and 8, 357 x 64": (digits[pair], number[pair]),
    }
    if os.environ.get("BAYESPROP_DATA"):
        found["mushroom, 8124 x 117"] = mushroom()
    return found


def mushroom() -> tuple[np.ndarray, np.ndarray]:
    """Read the mushroom set: every letter of every column as a column of zeros and ones."""
    from bayesprop.datasets.registry import load

    table = load("mushroom")
    return OneHotEncoder(sparse_output=False).fit_transform(table.X), table.y


def main() -> None:
    """Print accuracy, log-likelihood and seconds over five folds."""
    for name, (X, y) in tables().items():
        for model, make in MODELS.items():
            found = []
            for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
                started = time.perf_counter()
                fitted = make().fit(X[train], y[train])
                seconds = time.perf_counter() - started
                proba = fitted.predict_proba(X[test])
                score = fitted.score(X[test], y[test])
                in_one = np.nan
                if isinstance(fitted, EBPClassifier):
                    in_one = fitted.set_params(prediction="map").score(X[test], y[test])
                found.append((score, -log_loss(y[test], proba), in_one, seconds))
            table = np.array(found)
            accuracy, log_likelihood, in_one = table[:, :3].mean(axis=0)
            seconds = float(np.median(table[:, 3]))
            scores = f"{accuracy:.4f} | {log_likelihood:.4f} | {in_one:.4f}"
            print(f"| {name} | {model} | {scores} | {seconds:.2f} s |", flush=True)


if __name__ == "__main__":
    main()
