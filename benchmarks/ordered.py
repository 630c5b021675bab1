"""`python -m benchmarks.ordered FOLDER`: ordered classes beside the same classes without order.

Real tables, at most 2000 rows, everything at its defaults, 80/20 splits by permutations of
`default_rng(split)`: quality of red wines (UCI), the cut of diamonds, and from statsmodels' data
sets how respondents rate their marriage (fair), their party and their place from left to right
(anes96). Beside the default stands the proportional-odds model (McCullagh 1980) of statsmodels, of
the group `peers`. One line of JSON a fit goes to `results/ordered.jsonl`; what stands there already
is not run again. The set of wines wants BAYESPROP_DATA.
"""

from __future__ import annotations

import time
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from bayesprop import BayesianClassifier
from bayesprop.cli.console import print_table
from bayesprop.datasets import registry
from bayesprop.distributions.categorical import ClassPredictive
from benchmarks.tables import Split, asked_for, compare, independent_columns, rows_of
from papers import table_splits

CUTS = ("Fair", "Good", "Very Good", "Premium", "Ideal")
TABLES: dict[str, str] = {
    "wine": "quality",
    "diamonds": "cut",
    "fair": "rate_marriage",
    "anes96": "PID",
    "anes96, left-right": "selfLR",
}
MODELS = ("classes", "ordered", "proportional odds")
MOST_ROWS = 2000


def table_of(folder: Path, name: str) -> pl.DataFrame:
    """Read a table."""
    if name == "wine":
        return registry.load("wine_red").frame()
    if name == "diamonds":
        return pl.read_csv(folder / "diamonds.csv.gz")
    file = name.split(",")[0]
    path = resources.files("statsmodels.datasets") / file / f"{file}.csv"
    if file == "anes96":
        return pl.read_csv(str(path), separator="\t", quote_char="'")
    return pl.read_csv(str(path))


def split_of(folder: Path, name: str, number: int) -> Split:
    """Divide and encode a table; test rows of a class without training rows are left out."""
    parts = table_splits.divided(table_of(folder, name), number, MOST_ROWS)
    return Split.of(table_splits.of_classes(*parts, TABLES[name]))


def order_of(split: Split) -> list[Any] | None:
    """Return the order of words; numbers sort themselves."""
    return list(CUTS) if split.y.dtype.kind == "U" else None


def ours(split: Split, seed: int, *, is_ordered: bool) -> ClassPredictive:
    """Fit and predict the default; the order is that of the scores in any case."""
    kind = {"target_kind": "ordered", "order": order_of(split)} if is_ordered else {}
    model = BayesianClassifier(random_state=seed, **kind).fit(split.x, split.y)
    return model.predict_dist(split.x_test)


def proportional_odds(split: Split, classes: np.ndarray, order: np.ndarray) -> ClassPredictive:
    """Fit and predict cumulative logits, linear in standardised inputs that are not collinear."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    x, x_test = independent_columns(split)
    codes = np.argsort(order)[np.searchsorted(classes, split.y)]
    model = OrderedModel(codes, x, distr="logit")
    fitted = model.fit(method="bfgs", maxiter=1000, disp=0)
    proba = np.maximum(model.predict(fitted.params, exog=x_test), 1e-12)
    return ClassPredictive.of_sure_weights(proba[:, np.argsort(order)], classes)


def scores(_table: str, model: str, split: Split, seed: int) -> dict[str, float]:
    """Log loss, ranked probability score, error of the likeliest class; processor seconds."""
    started, classes = time.process_time(), np.unique(split.y)
    words = [word for word in order_of(split) or classes.tolist() if word in classes]
    order = np.searchsorted(classes, words)
    if model == "proportional odds":
        predicted = proportional_odds(split, classes, order)
    else:
        predicted = ours(split, seed, is_ordered=model == "ordered")
    scored = ClassPredictive(predicted.proba, predicted.entropy, classes, order=tuple(order))
    return {
        "log_loss": -float(np.mean(scored.log_prob(split.y_test))),
        "rps": float(np.mean(scored.rps(split.y_test))),
        "error": float(np.mean(scored.label != split.y_test)),
        "seconds": time.process_time() - started,
    }


def show(out: Path) -> None:
    """Print means over splits, and paired differences of ordered to unordered with their errors."""
    rows, lines = rows_of(out), []
    for table in TABLES:
        each = {model: _by_split(rows, table, model) for model in MODELS}
        common = sorted(set.intersection(*(set(one) for one in each.values())))
        if not common:
            continue
        for part in ("log_loss", "rps"):
            values = {m: np.array([one[k][part] for k in common]) for m, one in each.items()}
            away = values["ordered"] - values["classes"]
            error = float(np.std(away, ddof=1)) / len(common) ** 0.5 if len(common) > 1 else np.nan
            means = (f"{np.mean(values[model]):.4f}" for model in MODELS)
            lines.append((table, part, *means, f"{np.mean(away):+.4f} ± {error:.4f}", len(common)))
    lines = [tuple(map(str, line)) for line in lines]
    columns = ("table", "score", *MODELS, "ordered - classes", "splits")
    print_table("Ordered classes, mean over splits", columns, lines, right=range(2, 7))


def _by_split(rows: list[dict[str, Any]], table: str, model: str) -> dict[int, dict[str, Any]]:
    mine = [row for row in rows if (row["table"], row["model"]) == (table, model)]
    return {row["split"]: row for row in mine}


def main() -> None:
    """Measure and print."""
    asked = asked_for(__doc__, "results/ordered.jsonl", MODELS)
    compare(asked, TABLES, lambda name, number: split_of(asked.folder, name, number), scores)
    show(asked.out)


if __name__ == "__main__":
    main()
