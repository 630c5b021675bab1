"""`python -m benchmarks.rare FOLDER`: rare positives, thinned to 1, 2 and 10 % of the rows.

Two-class tables and splits of `benchmarks.tables`; of the rarer class, rows are left out in
training and test alike until they have their share. Over the test rows of all splits: average
precision of the default, of logistic regression and of a random forest, with standard errors;
whether the sum of the default's probabilities, and its calibration error over fifteen bins, are
what chance gives probabilities that are right; and, at a cost of 10 for a missed row and 1 for a
false alarm, the cost of a hundred rows at the threshold 1/11, beside the best fixed threshold in
hindsight and never flagging any. Predictions go to `results/rare/`; what stands there already is
not run again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayesprop import BayesianClassifier
from bayesprop.cli.console import print_table
from bayesprop.evaluation.calibration import chance_of_sum
from bayesprop.evaluation.thresholds import AtThreshold, Costs, Rule
from bayesprop.metrics import Ranked, areas
from benchmarks.doubt import (
    Predictions,
    chance,
    class_wise_error,
    over_splits,
    predict_missing,
    rarer,
    thinned,
)
from benchmarks.tables import OURS, Split, asked_for, split_of

TABLES = ("mlc_churn", "credit_data", "HMDA", "spam")
SHARES = (0.01, 0.02, 0.1)
MODELS: dict[str, Callable[[int], Any]] = {
    OURS: lambda seed: BayesianClassifier(random_state=seed),
    "logistic": lambda _: make_pipeline(
        SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=2_000)
    ),
    "forest": lambda seed: RandomForestClassifier(500, random_state=seed),
}
COSTS = Costs(fn=10.0, fp=1.0)


def predictions(split: Split, seed: int) -> Predictions:
    """Return what every model gives the rarer class, and which test rows are of it."""
    rare, found = rarer(split), {}
    for name, make in MODELS.items():
        model = make(seed).fit(split.x, split.y)
        at = int(np.flatnonzero(model.classes_ == rare)[0])
        found[name] = model.predict_proba(split.x_test)[:, at]
    return found | {"positive": split.y_test == rare}


def measure(folder: Path, out: Path, n_splits: int) -> None:
    """Predict what is missing."""

    def predict(name: str, number: int, share: float) -> Predictions:
        return predictions(thinned(split_of(folder, name, number), share), number)

    for number, name, share in product(range(n_splits), TABLES, SHARES):
        predict_missing(out / f"{name}-{share:g}-{number}.npz", predict, name, number, share)


def line(files: list[Path]) -> list[str]:
    """Return the cells of a table at a share, over the test rows of all splits."""
    splits = [dict(np.load(file)) for file in files]
    of = {name: over_splits(splits, name) for name in splits[0]}
    positive, p = of["positive"], of[OURS]
    precise = [areas(of[name], positive) for name in MODELS]
    of_both = [[each["average_precision"] for each in one] for one in precise]
    cells = [f"{value:.2f} ± {error:.2f}" for value, error in of_both]
    expected, std = float(np.sum(p)), float(np.sqrt(np.sum(p * (1.0 - p))))
    by_chance = chance_of_sum(float(np.sum(positive)), p)
    two = np.column_stack([1.0 - p, p])
    error, most, _ = chance(class_wise_error, two, positive.astype(int))
    at = AtThreshold.of(Rule.of_costs(COSTS).flags(p), positive)
    counts = Ranked.of(p, positive).counts()
    never = COSTS.fn * float(np.mean(positive))
    best = min(never, float(np.min(COSTS.mean(counts))))
    return [
        f"{np.sum(positive)} of {len(positive)}",
        *cells,
        f"{expected:.1f} ± {std:.1f} ({by_chance:.2f})",
        f"{error:.4f} ({most:.4f})",
        *(f"{100.0 * cost:.1f}" for cost in (at.cost(COSTS), best, never)),
    ]


def show(out: Path, n_splits: int) -> None:
    """Print a line a table and share."""
    columns = (
        "table, share",
        "positives",
        *(f"AP, {name}" for name in MODELS),
        "expected (chance)",
        "calibration error (97.5 %)",
        "cost of 100 rows",
        "best in hindsight",
        "never flagged",
    )
    lines = [
        (
            f"{name}, {share:.0%}",
            *line([out / f"{name}-{share:g}-{number}.npz" for number in range(n_splits)]),
        )
        for name in TABLES
        for share in SHARES
    ]
    print_table("Rare positives", columns, lines, right=range(1, len(columns)))


def main() -> None:
    """Measure and print."""
    asked = asked_for(__doc__, "results/rare", splits=2)
    measure(asked.folder, asked.out, asked.splits)
    show(asked.out, asked.splits)


if __name__ == "__main__":
    main()
