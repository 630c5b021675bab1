"""`python -m benchmarks.nominal_numbers FOLDER`: whole numbers that name patients, schools, plots.

Tables of R's packages whose rows have such a column (FOLDER holds them as NAME.csv), at most 4000
rows, 80/20 splits; the default, columns encoded as `bayesprop fit` does, and with a half added to
what names, so that it is a number like any other. The rule was chosen in sight of `SEEN`, not of
`OTHERS`. One line of JSON a fit goes to `results/nominal_numbers.jsonl`; what stands there already
is not run again.
"""

from __future__ import annotations

import polars as pl

from benchmarks.ways import compare

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


def given(frame: pl.DataFrame, name: str, way: str) -> pl.DataFrame:
    """Return rows with their names, or with these as numbers like any other."""
    if way == "named":
        return frame
    return frame.with_columns(pl.col((SEEN | OTHERS)[name][1]) + 0.5)


def main() -> None:
    """Compare, and print."""
    targets = {name: target for name, (target, _) in (SEEN | OTHERS).items()}
    compare(__doc__, "results/nominal_numbers.jsonl", targets, WAYS, given)


if __name__ == "__main__":
    main()
