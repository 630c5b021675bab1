"""`python -m benchmarks.public_tables FOLDER`: which tables, as people have them, can be learnt.

Every .csv file below FOLDER, once for each header line, of at most 4 MB: read, divided and encoded
as `bayesprop fit` does, but not fitted. The target is the last column that can be one: a number, or
text of at most twelve levels. Tables of fewer than 60 rows or three columns are left out. Prints
what is refused, and how many. FOLDER may hold, say, clones of fivethirtyeight/data,
plotly/datasets, mwaskom/seaborn-data, jbrownlee/Datasets, selva86/datasets, vega/vega-datasets,
ageron/handson-ml2 and stedy/Machine-Learning-with-R-datasets.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from bayesprop.table.division import HoldOut, divide
from bayesprop.table.errors import TableError, TableWarning
from bayesprop.table.read import read_table

MOST_BYTES, LEAST_BYTES = 4_000_000, 3_000
LEAST_ROWS, LEAST_COLUMNS, MOST_LEVELS, MOST_ROWS = 60, 3, 12, 4000


def main() -> None:
    """Try all tables, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    refused, n_learnt = [], 0
    for path in files(parser.parse_args().folder):
        try:
            n_learnt += is_encoded(path)
        except TableError as error:
            refused.append(path)
            print(f"{path}: {error}")
    print(f"{n_learnt} tables can be learnt, {len(refused)} are refused")


def files(folder: Path) -> Iterator[Path]:
    """Yield the files whose first line none before has."""
    seen: set[bytes] = set()
    for path in sorted(folder.rglob("*.csv")):
        if LEAST_BYTES < path.stat().st_size < MOST_BYTES:
            with path.open("rb") as file:
                header = file.readline()
            if header not in seen:
                yield path
            seen.add(header)


def is_encoded(path: Path) -> bool:
    """Encode a table as a fit does; False where it is small or has no target."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        frame = read_table(str(path))
        target = target_of(frame)
        if len(frame) < LEAST_ROWS or frame.width < LEAST_COLUMNS or target is None:
            return False
        frame = frame.gather_every(-(-len(frame) // MOST_ROWS))
        parts = divide(frame, target, None, HoldOut(0.1))
        parts.encoded(parts.encoding())
    return True


def target_of(frame: pl.DataFrame) -> str | None:
    """Return the last column that can be predicted."""
    for name in reversed(frame.columns):
        known = frame[name].drop_nulls()
        n = known.n_unique()
        if (
            len(known) >= 2 / 3 * len(frame)
            and n >= 2
            and (known.dtype != pl.String or n <= MOST_LEVELS)
        ):
            return name
    return None


if __name__ == "__main__":
    main()
