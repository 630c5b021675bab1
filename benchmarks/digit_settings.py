"""`python -m benchmarks.digit_settings mnist-rot nn_bbb share=0.25 optimizer=rmsprop`: one setting.

Trains a network of the experiment closed-form-mnist with settings of its own, those that
`papers.closed_form_mnist.fit_cell` takes, and prints its errors. One line of JSON a fit goes to
`results/digit_settings.jsonl`; what stands there already is not run again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from bayesprop.cli.console import print_table
from benchmarks.tables import rows_of, run_missing
from papers.closed_form_mnist import DATASETS, METHODS, Config, fit_cell

KEY = ("dataset", "method", "settings", "seed")


def setting(word: str) -> tuple[str, Any]:
    """Read `name=value`; a value that is no JSON is a word."""
    name, _, value = word.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def measured(dataset: str, method: str, settings: str, seed: int) -> dict[str, float]:
    """Errors of one network."""
    own = dict(map(setting, settings.split()))
    return fit_cell(Config(seed=seed), {"dataset": dataset, "method": method, **own})


def show(out: Path, key: tuple[Any, ...]) -> None:
    """Print the line of one setting."""
    (row,) = (r for r in rows_of(out) if tuple(r[name] for name in KEY) == key)
    errors = [f"{100 * row[name]:.2f}" for name in ("valid_error", "test_error", "last_test_error")]
    epochs = f"{row['best_epoch']} of {row['n_epochs']}"
    columns = ("setting", "epoch", "validation", "test", "test, last epoch", "seconds an epoch")
    line = (key[2], epochs, *errors, f"{row['epoch_seconds']:.2f}")
    print_table(f"{key[0]}, {key[1]}, seed {key[3]}: errors, %", columns, [line])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", choices=DATASETS)
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("results/digit_settings.jsonl"))
    asked = parser.parse_args()
    key = (asked.dataset, asked.method, " ".join(asked.settings), asked.seed)
    run_missing(asked.out, KEY, [key], measured)
    show(asked.out, key)


if __name__ == "__main__":
    main()
