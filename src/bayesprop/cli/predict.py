"""`predict`: one row of predictions for every row of a table, some rows at a time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bayesprop.cli.actions import Predict
from bayesprop.cli.console import ask, check_output, listening, std_of
from bayesprop.table.errors import InputError, one_line
from bayesprop.table_model.model import open_model


def run(options: Predict) -> None:
    """Predict a table into a file or stdout."""
    if options.calibrate == options.table == "-":
        raise InputError("--calibrate and TABLE cannot both be standard input; name a file")
    if options.as_json and options.out != "-":
        raise InputError(f"--json prints rows on stdout, and --out {options.out} names a file: "
                         "one that ends in .jsonl holds JSON lines")  # fmt: skip
    if options.out != "-":
        inputs = [options.table, options.model, options.calibrate]
        check_output(Path(options.out), "--out", inputs)
    out, interval = "-.jsonl" if options.as_json else options.out, options.interval or None
    is_shown = options.out == "-" and sys.stdout.isatty()
    with listening(options, has_bars=not is_shown) as listener:
        quantiles, predict = quantiles_of(options.quantiles), open_model(options.model).predict
        own = {"quantiles": quantiles, "std_of": std_of(options.std_of)}
        n_rows = ask(predict, options, out=out, interval=interval, **own)
    if options.out != "-":
        listener.note(f"{n_rows} predictions: {options.out}")


def quantiles_of(texts: Sequence[str]) -> list[float]:
    """Read levels; InputError names what is none."""
    words = [word.strip() for text in texts for word in text.split(",")]
    try:
        return [float(word) for word in words]
    except ValueError:
        got = one_line(", ".join(words))
        raise InputError(f"--quantiles must be numbers, such as 0.05,0.95; got {got}") from None
