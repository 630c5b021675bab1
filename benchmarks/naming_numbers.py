"""`python -m benchmarks.naming_numbers FOLDER`: whole numbers that name patients, schools, plots.

Tables of R's packages whose rows have such a column (FOLDER holds them as NAME.csv), at most 4000
rows, 80/20 splits; the default, columns encoded as `bayesprop fit` does, and with a half added to
what names, so that it is a number like any other. One line of JSON a fit goes to
`results/naming_numbers.jsonl`; what stands there already is not run again.
"""

from __future__ import annotations

from itertools import product

import polars as pl

from bayesprop import BayesianMLPRegressor, metrics
from bayesprop.cli.console import print_table
from benchmarks.tables import Split, asked_for, divided, encoded, mean_of, rows_of, run_missing

NAMED = {
    "wagepan": ("lwage", ["nr"]),
    "Exam": ("normexam", ["school", "student"]),
    "Chem97": ("score", ["lea", "school"]),
    "nlschools": ("lang", ["class"]),
    "pbcseq": ("bili", ["id"]),
    "Crime": ("crmrte", ["county"]),
    "movielens": ("rating", ["movieId", "userId"]),
    "PetersenCL": ("y", ["firm"]),
    "NOxEmissions": ("LNOx", ["julday"]),
    "egsingle": ("math", ["schoolid", "childid"]),
    "ChickWeight": ("weight", ["Chick"]),
    "Oxboys": ("height", ["Subject"]),
    "sleepstudy": ("Reaction", ["Subject"]),
    "Quinidine": ("conc", ["Subject"]),
    "Ovary": ("follicles", ["Mare"]),
    "surveys": ("weight", ["plot_id"]),
    "wages": ("lnw", ["id"]),
    "MunExp": ("expend", ["id"]),
}
WAYS = ("named", "numbers")
MOST_ROWS = 4_000
PARTS = ("log_likelihood", "rmse", "coverage_90")


def main() -> None:
    """Run what is missing, split by split, and print."""
    asked = asked_for(__doc__, "results/naming_numbers.jsonl", WAYS, splits=2)

    def split_of(name: str, number: int, way: str) -> Split:
        target, naming = NAMED[name]
        train, test = divided(asked.folder, name, target, number)
        shifted = [pl.col(naming) + 0.5] if way == "numbers" else []
        train, test = (frame.with_columns(shifted) for frame in (train, test))
        return encoded(train[: MOST_ROWS * 4 // 5], test[: MOST_ROWS // 5], target, "regression")

    def score(name: str, number: int, way: str) -> dict[str, float]:
        split = split_of(name, number, way)
        model = BayesianMLPRegressor(random_state=number).fit(split.x, split.y)
        summary = metrics.summarise(model.predict_dist(split.x_test), split.y_test)
        return {part: summary[part] for part in PARTS} | {"n_inputs": split.x.shape[1]}

    cases = ((name, split, way) for split, name, way in product(range(asked.splits), NAMED, WAYS))
    run_missing(asked.out, ("table", "split", "way"), cases, score)
    rows, lines = rows_of(asked.out), []
    for name, (target, _) in NAMED.items():
        each = [f"{mean_of(rows, part, table=name, way=way):.3f}" for part in PARTS for way in WAYS]
        lines.append((name, target, *each))
    heads = [f"{part}, {way}" for part in PARTS for way in WAYS]
    print_table("means over splits", ("table", "target", *heads), lines, right=range(2, 8))


if __name__ == "__main__":
    main()
