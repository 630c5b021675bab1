"""`python -m benchmarks.scale`: peak memory and rows a second of tables larger than memory."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

N_INPUTS, ROWS_A_FILE = 20, 1_000_000
_RUN = (
    "import resource, sys; from bayesprop.cli import main; main(sys.argv[1:]);"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
)


def main(words: list[str] | None = None) -> None:
    """Write made rows to Parquet, and run the command on them, a process each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", type=float, default=[1e5, 1e6, 1e7])
    parser.add_argument("--methods", nargs="+", default=["linear", "pbp"])
    asked = parser.parse_args(words)
    print("| rows | command | seconds | rows a second | peak RSS, MB |\n|---|---|---|---|---|")
    for n in map(int, asked.rows):
        with TemporaryDirectory(prefix="bayesprop-scale-") as name:
            _write(Path(name) / "big", n)
            for method in asked.methods:
                model = f"{name}/{method}.bayesprop"
                fit = ["fit", f"{name}/big", "--target", "y", "--method", method, "--out", model]
                _measure(n, f"fit, {method}", fit)
            out = f"{name}/out.parquet"
            model = f"{name}/{asked.methods[0]}.bayesprop"
            _measure(
                n, f"predict, {asked.methods[0]}", ["predict", model, f"{name}/big", "--out", out]
            )


def _write(folder: Path, n: int) -> None:
    rng, weight = np.random.default_rng(0), np.linspace(-1.0, 1.0, N_INPUTS)
    folder.mkdir()
    for first in range(0, n, ROWS_A_FILE):
        n_rows = min(ROWS_A_FILE, n - first)
        x = rng.standard_normal((n_rows, N_INPUTS), dtype=np.float32)
        noise = 0.3 * rng.standard_normal(n_rows)
        y = (x @ weight + np.sin(2.0 * x[:, 0]) + noise).astype(np.float32)
        columns = {f"x{k}": x[:, k] for k in range(N_INPUTS)} | {"y": y}
        pl.DataFrame(columns).write_parquet(folder / f"part-{first:010d}.parquet")


def _measure(n: int, name: str, words: list[str]) -> None:
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *words, "--quiet"], check=True, capture_output=True, text=True
    )
    seconds = time.perf_counter() - started
    peak = int(re.findall(r"^\d+$", done.stderr, re.M)[-1]) / 1024
    print(f"| {n:,} | {name} | {seconds:.1f} | {n / seconds:,.0f} | {peak:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
