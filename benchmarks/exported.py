"""Latency of exported graphs in onnxruntime on one core: `python -m benchmarks.exported`."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
import polars as pl

import bayesprop

N_ROWS, N_COLUMNS, REPEATS = 1000, 10, 300


def main() -> None:
    """Print microseconds a row: medians of runs over 1,000 rows, one row, and one with a gap."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N_ROWS, N_COLUMNS))
    table = pl.DataFrame({f"x{i}": x[:, i] for i in range(N_COLUMNS)})
    table = table.with_columns(y=pl.Series(np.sin(x[:, 0]) + x[:, 1]))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for method in ("linear", "pbp", "closed-form-vi"):
        model = bayesprop.fit(table, target="y", method=method, target_kind="numbers")
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "m.onnx")
            model.to_onnx(path)
            session = onnxruntime.InferenceSession(path, options)
        for n, gap in ((N_ROWS, 0.0), (1, 0.0), (1, np.nan)):
            given = {f"x{i}": x[:n, [i]] + (0.0 if i else gap) for i in range(N_COLUMNS)}
            seconds = []
            for _ in range(REPEATS):
                started = time.perf_counter()
                session.run(None, given)
                seconds.append(time.perf_counter() - started)
            of = "with a gap" if np.isnan(gap) else "complete"
            print(f"{method}: {1e6 * np.median(seconds) / n:.1f} µs a row, {n} at a time, {of}")


if __name__ == "__main__":
    main()
