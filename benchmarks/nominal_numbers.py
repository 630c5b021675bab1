"""`python -m benchmarks.nominal_numbers FOLDER`: whole numbers that name patients, schools, plots.

Tables of R's packages whose rows have such a column (FOLDER holds them as NAME.csv), at most 4000
rows, 80/20 splits; the default, columns encoded as `bayesprop fit` does, and with a half added to
what names, so that it is a number like any other. The rule was chosen in sight of `SEEN`, not of
`OTHERS`. One line of JSON a fit goes to `results/nominal_numbers.jsonl`; what stands there already
is not run again.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl

from bayesprop import BayesianMLPClassifier, BayesianMLPRegressor, metrics
from bayesprop.cli.console import print_table
from bayesprop.table.classes import choose_task
from benchmarks.tables import Split, asked_for, divided, encoded, mean_of, rows_of, run_missing

SEEN = {
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
    "Cigar": ("sales", ["state"]),
    "RatPupWeight": ("weight", ["Litter"]),
}
OTHERS = {
    "Catsup": ("choice", ["id"]),
    "Yogurt": ("choice", ["id"]),
    "VerbAgg": ("r2", ["id"]),
    "Contraception": ("use", ["district"]),
    "ohio": ("resp", ["id"]),
    "guImmun": ("immun", ["comm"]),
    "ScotsSec": ("attain", ["primary", "second"]),
    "Gcsemv": ("written", ["school"]),
    "InstEval": ("y", ["s", "d"]),
    "school93_98": ("math4", ["distid", "schid"]),
    "Star": ("tmathssk", ["schidkn"]),
    "dietox": ("Weight", ["Pig", "Litter"]),
    "tinting": ("it", ["id", "case"]),
    "Theoph": ("conc", ["Subject"]),
}
WAYS = ("named", "numbers")
MOST_ROWS = 4_000
PARTS = ("log_likelihood", "error")


def main() -> None:
    """Run what is missing, split by split, and print."""
    asked = asked_for(__doc__, "results/nominal_numbers.jsonl", WAYS, splits=2)

    named = SEEN | OTHERS

    def split_of(name: str, number: int, way: str) -> Split:
        target, naming = named[name]
        train, test = divided(asked.folder, name, target, number)
        shifted = [pl.col(naming) + 0.5] if way == "numbers" else []
        train, test = (frame.with_columns(shifted) for frame in (train, test))
        task = choose_task(train[target]).task
        return encoded(train[: MOST_ROWS * 4 // 5], test[: MOST_ROWS // 5], target, task)

    def score(name: str, number: int, way: str) -> dict[str, float]:
        split = split_of(name, number, way)
        make = BayesianMLPRegressor if split.y.dtype == np.float64 else BayesianMLPClassifier
        model = make(random_state=number).fit(split.x, split.y)
        summary = metrics.summarise(model.predict_dist(split.x_test), split.y_test)
        error = summary["rmse"] if "rmse" in summary else 1.0 - summary["accuracy"]
        n_inputs = split.x.shape[1]
        return {"log_likelihood": summary["log_likelihood"], "error": error, "n_inputs": n_inputs}

    cases = ((name, split, way) for split, name, way in product(range(asked.splits), named, WAYS))
    run_missing(asked.out, ("table", "split", "way"), cases, score)
    rows, lines = rows_of(asked.out), []
    for name, (target, _) in named.items():
        each = [f"{mean_of(rows, part, table=name, way=way):.3f}" for part in PARTS for way in WAYS]
        lines.append((name, target, *each))
    heads = [f"{part}, {way}" for part in PARTS for way in WAYS]
    print_table(
        "means over splits", ("table", "target", *heads), lines, right=range(2, 2 + len(heads))
    )


if __name__ == "__main__":
    main()
