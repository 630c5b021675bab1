"""`python -m benchmarks.few_rows FOLDER`: classes of 20, 40 and 80 rows, beside a tuned line.

Rows drawn from the training part of a table's first split, scored on up to 1500 others of it; the
peer is logistic regression whose penalty five folds choose, or fewer where a class has fewer rows.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop import BayesianClassifier
from bayesprop.cli.console import print_table
from benchmarks.tables import Split, split_of

TABLES, SIZES = ("PimaIndiansDiabetes2", "Vehicle", "credit_data", "spam"), (20, 40, 80)
N_DRAWS, MOST_TEST_ROWS = 6, 1_500


def line(y: np.ndarray) -> LogisticRegression | LogisticRegressionCV:
    """Return a logistic regression that fits these labels: one of a class cannot be left out."""
    n_folds = min(5, int(np.unique(y, return_counts=True)[1].min()))
    if n_folds < 2:
        return LogisticRegression(C=0.1, max_iter=500)
    return LogisticRegressionCV(Cs=8, cv=n_folds, scoring="neg_log_loss", max_iter=500)


def losses(split: Split, n_rows: int, draw: int) -> tuple[float, float]:
    """Log loss of ours and of the line; rows of classes that were not drawn do not count."""
    order = np.random.default_rng(draw).permutation(len(split.y))
    train, test = order[:n_rows], order[n_rows : n_rows + MOST_TEST_ROWS]
    x, y = split.x[train], split.y[train]
    test = test[np.isin(split.y[test], y)]
    scores = []
    for model in (
        BayesianClassifier(random_state=draw),
        make_pipeline(SimpleImputer(), StandardScaler(), line(y)),
    ):
        proba = model.fit(x, y).predict_proba(split.x[test])
        at = np.searchsorted(model.classes_, split.y[test])
        scores.append(-float(np.log(np.maximum(proba[np.arange(len(at)), at], 1e-15)).mean()))
    return scores[0], scores[1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where NAME.csv lies")
    asked, rows = parser.parse_args(), []
    warnings.simplefilter("ignore")
    for name in TABLES:
        split = split_of(asked.folder, name, 0)
        for n_rows in SIZES:
            ours, peer = np.array([losses(split, n_rows, draw) for draw in range(N_DRAWS)]).T
            error = (ours - peer).std(ddof=1) / np.sqrt(N_DRAWS)
            figures = (ours.mean(), peer.mean(), (ours - peer).mean(), error)
            rows.append((name, str(n_rows), *(f"{figure:.3f}" for figure in figures)))
    columns = (
        "table",
        "rows",
        "default",
        "logistic, penalty chosen",
        "difference",
        "standard error",
    )
    print_table("Log loss, nats a row, mean over draws", columns, rows, right=range(1, 6))


if __name__ == "__main__":
    main()
