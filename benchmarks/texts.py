"""`python -m benchmarks.texts FOLDER`: text as what its spelling tells, and without.

Tables of R's packages that hold names, titles, models or remarks (FOLDER holds them as
PACKAGE__NAME.csv), at most 4000 rows, 80/20 splits; the default, columns encoded as `bayesprop fit`
does, and with one of text replaced by hashes of its values, which are spelt like no other. Columns
that give the target away are left out. One line of JSON a fit goes to `results/texts.jsonl`; what
stands there already is not run again.
"""

from __future__ import annotations

import hashlib

import polars as pl

from benchmarks.ways import compare

TABLES = {
    "Stat2Data__Titanic": ("Survived", "Name", ["SexCode"]),
    "ISLR__Auto": ("mpg", "name", []),
    "MASS__cpus": ("perf", "name", ["estperf"]),
    "openintro__epa2021": ("comb_mpg", "carline", ["city_mpg", "hwy_mpg"]),
    "openintro__birds": ("effect", "remarks", []),
    "nycflights13__planes": ("seats", "model", ["tailnum"]),
    "nycflights13__airports": ("lat", "name", ["tzone"]),
    "openintro__mariokart": ("total_pr", "title", []),
    "openintro__loans_full_schema": (
        "interest_rate",
        "emp_title",
        ["grade", "sub_grade", "installment"],
    ),
    "openintro__fastfood": ("calories", "item", ["cal_fat", "total_fat", "total_carb", "protein"]),
    "Ecdat__HHSCyberSecurityBreaches": (
        "Covered.Entity.Type",
        "Name.of.Covered.Entity",
        [],
    ),
    "ggplot2movies__movies": ("rating", "title", [f"r{k}" for k in range(1, 11)]),
}
"""Target, text, and columns that give the target away."""
WAYS = ("spelt", "not")


def given(frame: pl.DataFrame, name: str, way: str) -> pl.DataFrame:
    """Return rows without what gives the target away, text as it is or as hashes."""
    _, text, known = TABLES[name]
    frame = frame.drop(known)
    return frame if way == "spelt" else frame.with_columns(pl.col(text).map_elements(_hashed))


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def main() -> None:
    """Compare, and print."""
    targets = {name: target for name, (target, *_) in TABLES.items()}
    compare(__doc__, "results/texts.jsonl", targets, WAYS, given)


if __name__ == "__main__":
    main()
