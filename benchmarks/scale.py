"""`python -m benchmarks.scale`: peak memory and rows a second of tables larger than memory."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import polars as pl

N_INPUTS, ROWS_A_FILE = 20, 1_000_000
_RUN = (
    "import resource, sys; from bayesprop.cli import main; main(sys.argv[1:]);"
    "used = resource.getrusage(resource.RUSAGE_SELF);"
    "print('used', used.ru_maxrss / 1024, used.ru_utime + used.ru_stime, file=sys.stderr)"
)


class Cost(NamedTuple):
    """What a command took: seconds, seconds of all cores, and peak memory in MB."""

    seconds: float
    cpu_seconds: float
    peak: float


def main(words: list[str] | None = None) -> None:
    """Write made rows to Parquet, and run the command on them, a process each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=float, default=[1e5, 1e6, 1e7])
    parser.add_argument("--methods", nargs="+", default=["linear", "pbp"])
    parser.add_argument("--one-file", action="store_true", help="the same rows again and again")
    parser.add_argument("--no-predict", action="store_true", help="measure the fits only")
    asked = parser.parse_args(words)
    print("| rows | command | seconds | CPU seconds | peak RSS, MB |\n|---|---|---|---|---|")
    costs: dict[str, dict[int, Cost]] = {}
    for n in map(int, asked.rows):
        with TemporaryDirectory(prefix="bayesprop-scale-") as name:
            _write(Path(name) / "big", n, one_file=asked.one_file)
            commands = _commands(name, asked.methods, with_predict=not asked.no_predict)
            for what, command in commands.items():
                cost = _measured(command)
                costs.setdefault(what, {})[n] = cost
                print(f"| {n:,} | {what} | {' | '.join(f'{x:,.1f}' for x in cost)} |", flush=True)
    for what, by_rows in costs.items():
        for few, many in pairwise(by_rows):
            more = [b - a for a, b in zip(by_rows[few], by_rows[many], strict=True)]
            each = [1e6 * x / (many - few) for x in more]
            ratio = by_rows[many].peak / by_rows[few].peak
            print(
                f"{what}, {few:,} to {many:,} rows: {each[0]:.2f} µs a row more, {each[1]:.2f} µs"
                f" of a core; {ratio:.2f} times the memory"
            )


def _commands(folder: str, methods: list[str], *, with_predict: bool) -> dict[str, list[str]]:
    commands = {}
    for method in methods:
        model, big = f"{folder}/{method}.bayesprop", f"{folder}/big"
        words = ["fit", big, "--target", "y", "--method", method, "--out", model]
        commands[f"fit, {method}"] = words
    if with_predict:
        model, out = f"{folder}/{methods[0]}.bayesprop", f"{folder}/out.parquet"
        words = ["predict", model, f"{folder}/big", "--out", out]
        commands[f"predict, {methods[0]}"] = words
    return commands


def _write(folder: Path, n: int, *, one_file: bool) -> None:
    """Write files of ROWS_A_FILE, or one and as many names for it."""
    rng, weight = np.random.default_rng(0), np.linspace(-1.0, 1.0, N_INPUTS)
    folder.mkdir()
    for first in range(0, n, ROWS_A_FILE):
        n_rows, path = min(ROWS_A_FILE, n - first), folder / f"part-{first:010d}.parquet"
        if one_file and first and n_rows == ROWS_A_FILE:
            path.hardlink_to(folder / "part-0000000000.parquet")
            continue
        x = rng.standard_normal((n_rows, N_INPUTS), dtype=np.float32)
        noise = 0.3 * rng.standard_normal(n_rows)
        y = (x @ weight + np.sin(2.0 * x[:, 0]) + noise).astype(np.float32)
        columns = {f"x{k}": x[:, k] for k in range(N_INPUTS)} | {"y": y}
        pl.DataFrame(columns).write_parquet(path)


def _measured(words: list[str]) -> Cost:
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *words, "--quiet"], check=True, capture_output=True, text=True
    )
    seconds = time.perf_counter() - started
    peak, cpu_seconds = map(float, re.findall(r"^used (\S+) (\S+)$", done.stderr, re.M)[-1])
    return Cost(seconds, cpu_seconds, peak)


if __name__ == "__main__":
    main()
