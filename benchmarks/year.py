"""`python -m benchmarks.year`: Table 1's methods on a made table of Year Prediction MSD's size.

The set is not distributed. Made rows are written as the loader asks for them, read and divided by
the papers' protocol, and learnt for one epoch, every method in a process of its own. What the
table's fit would take is scaled from that: 40 epochs, and of tuned methods 30 trials on 80 % of
the rows first.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bayesprop.cli.console import note, print_table
from bayesprop.datasets import registry
from bayesprop.datasets.registry import FOLDER_VARIABLE
from bayesprop.model.task import Standardiser
from papers import tuned_network, uci
from papers.published_pbp import PublishedPBP
from papers.tuned_network import Network, Rows

METHODS = {"pbp": "PBP", "bp": "BP", "vi": "VI"}
_SETTINGS = {"learning_rate": 1e-4, "momentum": 0.5, "weight_decay": 1e-4}
_HEADER = ("method", "rows read, s", "an epoch, s", "the table's fit, h", "peak, MiB")


def make_table(folder: Path, *, seed: int = 0) -> Path:
    """Write rows of the size that the registry says, arrays X and y, years from 1922 to 2011."""
    about = registry.describe("year")
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((about.n, about.d)) * np.geomspace(1.0, 1000.0, about.d)
    signal = np.tanh(X[:, 0]) + X[:, 1] * X[:, 2] / 2.0 + rng.standard_normal(about.n)
    path = folder / str(about.file)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, X=X, y=np.clip(np.round(1998.0 + 8.0 * signal), 1922.0, 2011.0))
    return path


def measure(method: str) -> dict[str, float]:
    """Read the table, and learn its training rows for an epoch; compiled code at hand."""
    started = time.perf_counter()
    data = uci.train_test("year", 0)
    read = time.perf_counter() - started
    epoch = _epoch_of_pbp(data) if method == "pbp" else _epoch_of(method, data)
    epoch()
    started = time.perf_counter()
    epoch()
    seconds = time.perf_counter() - started
    config = tuned_network.Config()
    n_fits = 1.0 if method == "pbp" else 1.0 + config.n_trials * (1.0 - config.validation_share)
    return {
        "read": read,
        "epoch": seconds,
        "hours": n_fits * config.n_epochs * seconds / 3600.0,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
    }


def _epoch_of_pbp(data: uci.TrainTest) -> Callable[[], Any]:
    model = PublishedPBP((uci.hidden_units("year"),), n_epochs=1, random_state=0)
    return lambda: model.fit(data.X_train, data.y_train)


def _epoch_of(method: str, data: uci.TrainTest) -> Callable[[], Any]:
    y = data.y_train[:, None]
    x_scaler, y_scaler = Standardiser.fit(data.X_train), Standardiser.fit(y)
    rows = Rows(x_scaler.transform(data.X_train), y_scaler.transform(y))
    network = Network(method, (rows.x.shape[1], uci.hidden_units("year"), 1), 1, 1)

    def epoch() -> None:
        if not tuned_network.is_finite(network.fit(rows, _SETTINGS, 0)):
            raise FloatingPointError("an epoch left the finite numbers")

    return epoch


def main() -> None:
    """Make the table, measure every method, and print."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        make_table(Path(folder))
        environment = os.environ | {FOLDER_VARIABLE: folder}
        for method, label in METHODS.items():
            note(f"{label} ...")
            command = [sys.executable, "-m", "benchmarks.year", method]
            done = subprocess.run(
                command, check=True, stdout=subprocess.PIPE, text=True, env=environment
            )
            found = json.loads(done.stdout)
            figures = (found["read"], found["epoch"], found["hours"])
            lines.append((label, *(f"{f:.2g}" for f in figures), f"{found['peak_mib']:,.0f}"))
    about = registry.describe("year")
    title = f"Made rows, {about.n:,} x {about.d}, {about.n_train:,} to learn"
    print_table(title, _HEADER, lines, right={1, 2, 3, 4})


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(measure(sys.argv[1])))
    else:
        main()
