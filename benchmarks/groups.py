"""`python -m benchmarks.groups FOLDER`: error bars of groups that were not learnt.

Tables whose rows belong together (Milk by cow, MathAchieve by school), and patients that are made:
each has an age, a height and a dose response that their features tell in part, and twenty visits. A
fifth of the groups judges; the default is fitted to the others with and without `groups`, and
beside it with the group as a column, as one who does not know better would. One line of JSON a fit
goes to `results/groups.jsonl`; what stands there already is not run again.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from bayesprop import BayesianRegressor, metrics
from bayesprop.cli.console import print_table
from bayesprop.table.division import HoldOut, divide
from bayesprop.table.read import read_table
from benchmarks.tables import asked_for, mean_of, rows_of, run_missing

SHARE = 0.2
WAYS = ("groups", "rows", "as a column")


class Grouped(NamedTuple):
    """A table, its target, and the column of its groups."""

    frame: pl.DataFrame
    target: str
    group: str


def patients(seed: int, n: int) -> Grouped:
    """Make n patients of twenty visits, whose levels four features of theirs explain in part."""
    rng = np.random.default_rng([seed, n])
    own, level, who = rng.standard_normal((n, 4)), rng.standard_normal(n), np.repeat(range(n), 20)
    visit = rng.standard_normal((len(who), 3))
    noise = 0.3 * rng.standard_normal(len(who))
    y = level[who] + 0.5 * own[who, 0] + 0.5 * visit[:, 0] + noise
    columns = {"patient": [f"P{k}" for k in who]}
    columns |= {f"own{k}": own[who, k] for k in range(4)}
    columns |= {f"visit{k}": visit[:, k] for k in range(3)}
    return Grouped(pl.DataFrame({**columns, "y": y}), "y", "patient")


def table(folder: Path, name: str, split: int) -> Grouped:
    """Read or make a table."""
    if name.startswith("patients"):
        return patients(split, int(name.split()[1]))
    target, group = {"Milk": ("protein", "Cow"), "MathAchieve": ("MathAch", "School")}[name]
    return Grouped(read_table(str(folder / f"{name}.csv")), target, group)


NAMES = ("Milk", "MathAchieve", "patients 20", "patients 60")


def scores(one: Grouped, way: str, split: int) -> dict[str, float]:
    """Fit the default to four fifths of the groups, and score it on the others."""
    parts = divide(one.frame, one.target, "regression", HoldOut(SHARE, split, group=one.group))
    if parts.group is None:
        raise ValueError(f"no groups in column {one.group}")
    groups = parts.group[~parts.is_test] if way == "groups" else None
    if way == "as a column":
        places = parts.numbers - 1
        parts = parts._replace(frame=parts.frame.with_columns(one.frame[places][one.group]))
    encoding = parts.encoding()
    train, test = parts.encoded(encoding)
    model = BayesianRegressor(random_state=split).fit(train.X, train.y, groups=groups)
    predicted = model.predict_dist(test.X)
    found = metrics.summary(predicted, test.y, test.group)
    return found.values | {"error_of_coverage": found.errors["coverage_90"], "n_test": len(test.y)}


def show(out: Path) -> None:
    """Print means over splits."""
    rows, lines = rows_of(out), []
    for name, way in product(NAMES, WAYS):
        n = sum((row["table"], row["way"]) == (name, way) for row in rows)
        parts = ("coverage_90", "log_likelihood", "rmse", "crps")
        if n:
            means = [f"{mean_of(rows, part, table=name, way=way):.3f}" for part in parts]
            lines.append((name, way, str(n), *means))
    heads = ("table", "default given", "splits", "inside 90 %", "log-likelihood", "RMSE", "CRPS")
    print_table("rows of groups that were not learnt", heads, lines, right=range(2, 7))


def main() -> None:
    """Run what is missing, split by split, and print."""
    asked = asked_for(__doc__, "results/groups.jsonl", WAYS)

    def score(name: str, split: int, way: str) -> dict[str, float]:
        return scores(table(asked.folder, name, split), way, split)

    ordered = product(range(asked.splits), NAMES, asked.models)
    cases = ((name, split, way) for split, name, way in ordered)
    run_missing(asked.out, ("table", "split", "way"), cases, score)
    show(asked.out)


if __name__ == "__main__":
    main()
