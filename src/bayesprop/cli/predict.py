"""`predict`: one row of predictions for every row of a table, some rows at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from bayesprop.cli.actions import Predict
from bayesprop.cli.console import TerminalListener, progress
from bayesprop.cli.options import check_output
from bayesprop.datasets import registry
from bayesprop.scale.large_table import EncodedTables, large_table
from bayesprop.table.errors import did_you_mean, listing, one_line
from bayesprop.table.values import names_in
from bayesprop.table.write import PARQUET, check_kind, write_table
from bayesprop.table_model.answering import Answering, PredictRequest
from bayesprop.table_model.deciding import Asked
from bayesprop.table_model.model import TableModel, open_model
from bayesprop.table_model.refusals import InputError

_ALL = "all"


def run(options: Predict) -> None:
    """Predict a table into a file or stdout."""
    request, listener = _request(options), TerminalListener(quiet=options.quiet)
    model = open_model(options.model, allow_absent=options.allow_missing_columns)
    with listener.doing(f"reading {options.table}"):
        table = _tables(model, options.table)
    beside = _beside(table.columns, options.columns)
    answering = Answering.of(model, request, listener, ("row", *(beside or ())))
    if beside is not None:
        taken = one_line(listing([name for name in beside if name in answering.names]))
        if taken:
            raise InputError(f"--columns: the table already has {taken}; rename, or leave it out")
    with listener.doing(f"looking at {options.table}"):
        looked = table.looked_at()
    listener.warn(looked.warnings)
    answering = answering.of_table(has_gaps=looked.has_gaps)
    busy = options.quiet or (options.out == "-" and sys.stdout.isatty())
    with progress(f"predicting {looked.n_rows} rows", quiet=busy):
        parts = _predictions(model, table, answering, beside)
        if Path(options.out).suffix.lower() not in PARQUET:
            parts = map(answering.answers.rounded, parts)
        parts = map(answering.answers.rendered, parts)
        write_table(parts, options.out, ".jsonl" if options.as_json else ".csv")
    answering.sum_up(listener)
    if options.out != "-":
        listener.note(f"{looked.n_rows} predictions: {options.out}")


def _request(options: Predict) -> PredictRequest:
    """Check what can be checked before anything is read; return what is asked."""
    if options.calibrate == options.table == "-":
        raise InputError("--calibrate and TABLE cannot both be standard input; name a file")
    if options.as_json and options.out != "-":
        raise InputError(f"--json prints rows on stdout, and --out {options.out} names a file: "
                         "one that ends in .jsonl holds JSON lines")  # fmt: skip
    if options.out != "-":
        inputs = [options.table, options.model, options.calibrate]
        check_output(Path(options.out), "--out", inputs)
    check_kind(options.out)
    return PredictRequest(
        interval=options.interval,
        quantiles=_quantiles(options.quantiles),
        asked=Asked.of(options.cost, options.rate),
        calibrate=options.calibrate,
        abstain_above=options.abstain_above,
        by=options.by,
    )


def _quantiles(texts: Sequence[str]) -> list[float]:
    words = [word.strip() for text in texts for word in text.split(",")]
    try:
        return [float(word) for word in words]
    except ValueError:
        got = one_line(", ".join(words))
        raise InputError(f"--quantiles must be numbers, such as 0.05,0.95; got {got}") from None


def _tables(model: TableModel, source: str) -> EncodedTables:
    large = None if registry.find(source) is not None else large_table(source)
    if large is not None and large.is_large:
        return EncodedTables(model.encode, large)
    return EncodedTables(model.encode, model.read(source))


def _beside(columns: Sequence[str], asked: Sequence[str]) -> list[str] | None:
    """Return the columns that predictions are to stand beside; None: row numbers instead."""
    names = names_in(asked, columns)
    for name in names:
        if name not in (*columns, _ALL):
            raise InputError(
                f"--columns: there is no column {one_line(name)!r}"
                f"{did_you_mean(name, columns) or ';'} columns: "
                f"{one_line(listing(columns))}"
            )
    if _ALL in names:
        return list(columns)
    return list(dict.fromkeys(names)) or None


def _predictions(
    model: TableModel, table: EncodedTables, answering: Answering, beside: list[str] | None
) -> Iterator[pl.DataFrame]:
    """Yield the predictions of some rows at a time, so that memory stays bounded."""
    for frame, x, first in table:
        for start, predictive in model.predictives(x, first):
            predicted = answering.frame(predictive)
            if beside is None:
                yield predicted.with_row_index("row", offset=first + start + 1)
            else:
                yield frame.select(beside).slice(start, len(predicted)).hstack(predicted)
