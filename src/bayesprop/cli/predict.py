"""`predict`: one row of predictions for every row of a table, some rows at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import polars as pl
from jaxtyping import Float

from bayesprop.atomic import write_atomically
from bayesprop.cli.abstain import COLUMN, Abstaining
from bayesprop.cli.actions import Predict
from bayesprop.cli.calibrate import check_options, stretches
from bayesprop.cli.console import note, progress, warn
from bayesprop.cli.failures import InputError, listing, one_line, writing
from bayesprop.cli.scores import predict_rows
from bayesprop.cli.sources import (
    check_level,
    check_output,
    encoding_of,
    open_model,
    parse_levels,
    table_of,
)
from bayesprop.model.predictive import GaussianPredictive
from bayesprop.table.read import class_text, write_table

if TYPE_CHECKING:
    from bayesprop.model.class_predictive import ClassPredictive
    from bayesprop.model.predictive import Predictive
    from bayesprop.store import SavedModel
    from bayesprop.table.read import TableEncoding

CHUNK_ROWS = 65_536
MAX_CLASS_COLUMNS, LIKELIEST_CLASSES = 20, 5
_SEPARATORS = {".csv": ",", ".txt": ",", ".tsv": "\t", ".tab": "\t"}
_PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class NumberLayout:
    """Which columns a predicted number has besides mean and standard deviations.

    stretches
        How many std each interval reaches from the mean; None: as the predictive has it.
    """

    intervals: tuple[float, ...]
    quantiles: tuple[float, ...]
    stretches: tuple[float, ...] | None = None

    def columns(self, predictive: Predictive) -> dict[str, np.ndarray]:
        """Return the predictions of some rows as named columns, in the units of the target."""
        columns = {
            "mean": predictive.mean,
            "std": predictive.std,
            "epistemic_std": np.sqrt(predictive.epistemic_var),
            "noise_std": np.sqrt(predictive.noise_var),
        }
        for place, level in enumerate(self.intervals):
            if self.stretches is None:
                low, high = np.moveaxis(predictive.interval(level), -1, 0)
            else:
                half = self.stretches[place] * predictive.std
                low, high = predictive.mean - half, predictive.mean + half
            columns[f"lower_{_percent(level)}"] = low
            columns[f"upper_{_percent(level)}"] = high
        for level in self.quantiles:
            columns[f"q_{level:g}"] = predictive.quantile(level)
        return columns

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns(GaussianPredictive(*np.ones((3, 1)))))


@dataclass(frozen=True)
class ClassLayout:
    """Which columns a predicted class has.

    label
        Name of the column of the most probable class.
    classes
        Labels, in the order of the estimator.
    """

    label: str
    classes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns: every probability, or those of the likeliest classes only."""
        if len(self.classes) <= MAX_CLASS_COLUMNS:
            shares = [f"p({label})" for label in self.classes]
        else:
            ranks = range(1, 1 + LIKELIEST_CLASSES)
            shares = [name for rank in ranks for name in (f"class_{rank}", f"p_{rank}")]
        return [self.label, *shares, "entropy", "mutual_information"]

    def columns(self, predictive: ClassPredictive) -> dict[str, np.ndarray]:
        """Return the predictions of some rows as named columns; entropies in nats."""
        proba, classes = predictive.proba, predictive.classes
        if len(self.classes) <= MAX_CLASS_COLUMNS:
            shares = list(proba.T)
        else:
            order = np.argsort(-proba, axis=1, kind="stable")[:, :LIKELIEST_CLASSES]
            found = np.take_along_axis(proba, order, axis=1)
            pairs = zip(classes[order].T, found.T, strict=True)
            shares = [column for pair in pairs for column in pair]
        entropies = (predictive.entropy, predictive.mutual_information)
        return dict(zip(self.names, (predictive.label, *shares, *entropies), strict=True))


Layout = NumberLayout | ClassLayout


def run(options: Predict) -> None:
    """Predict a table into a file or stdout."""
    numbers = _number_layout(options)
    check_options(options.calibrate, options.table, any_quantiles=bool(options.quantiles))
    _check_out(options)
    saved = open_model(options.model)
    with progress(f"reading {options.table}", quiet=options.quiet):
        frame = table_of(saved, options.table)
    encoding = encoding_of(saved)
    rule = Abstaining.asked_for(options.abstain_above, options.by, classes=bool(encoding.classes))
    layout = _class_layout(options, encoding, frame) if encoding.classes else numbers
    if options.calibrate is not None:
        learnt = stretches(saved, options.calibrate, numbers.intervals, quiet=options.quiet)
        layout = replace(numbers, stretches=learnt)
    if options.keep:
        _check_names(frame, [*layout.names, *_extra_names(options)])
    encoded = encoding.encode(frame)  # whole, so that messages name rows of the table
    warn(encoded.warnings)
    busy = options.quiet or (options.out == "-" and sys.stdout.isatty())
    with progress(f"predicting {len(frame)} rows", quiet=busy):
        _write(
            options,
            _predictions(saved, encoded.X, layout, frame if options.keep else None, rule),
        )
    if rule is not None:
        rule.tell(quiet=options.quiet)
    if options.out != "-":
        note(f"{len(frame)} predictions: {options.out}", quiet=options.quiet)


def _check_out(options: Predict) -> None:
    if options.out != "-":
        inputs = [options.table, options.model, *([options.calibrate] if options.calibrate else [])]
        check_table_output(options.out, inputs, or_be=", or be -")


def check_table_output(out: str, inputs: Sequence[str | Path], *, or_be: str = "") -> None:
    """Refuse, before any work is done, a file that no table can be written to."""
    check_output(Path(out), "--out", inputs)
    if Path(out).suffix.lower() not in (*_SEPARATORS, *_PARQUET):
        raise InputError(f"--out {out} must end in .csv, .tsv or .parquet{or_be}")


def _number_layout(options: Predict) -> NumberLayout:
    for level in options.interval:
        check_level(level, "--interval")
    words = [word for text in options.quantiles for word in text.split(",")]
    return NumberLayout(options.interval or (0.9,), parse_levels(words, "--quantiles"))


def _class_layout(options: Predict, encoding: TableEncoding, frame: pl.DataFrame) -> ClassLayout:
    asked = {
        "--interval": options.interval,
        "--quantiles": options.quantiles,
        "--calibrate": options.calibrate,
    }
    for option, given in asked.items():
        if given:
            raise InputError(
                f"{option} is for numbers; this model predicts classes, with a probability for each"
            )
    layout = ClassLayout(encoding.target_name, tuple(map(class_text, encoding.classes)))
    taken = {"row", *layout.names[1:], *_extra_names(options)}
    taken |= set(frame.columns if options.keep else ())
    label, rank = layout.label, 1
    while label in taken:
        label, rank = f"predicted_{layout.label}" + (f"_{rank}" if rank > 1 else ""), rank + 1
    return ClassLayout(label, layout.classes)


def _extra_names(options: Predict) -> tuple[str, ...]:
    return () if options.abstain_above is None else (COLUMN,)


def _check_names(frame: pl.DataFrame, names: Sequence[str]) -> None:
    taken = [name for name in frame.columns if name in names]
    if taken:
        raise InputError(
            f"--keep: the table already has {one_line(listing(taken))}; rename, or leave --keep out"
        )


def _predictions(
    saved: SavedModel,
    x: Float[np.ndarray, "n k"],
    layout: Layout,
    kept: pl.DataFrame | None,
    rule: Abstaining | None,
) -> Iterator[pl.DataFrame]:
    """Yield the predictions of some rows at a time, so that memory stays bounded."""
    for start in range(0, len(x), CHUNK_ROWS):
        chunk = x[start : start + CHUNK_ROWS]
        numbers = range(start + 1, start + 1 + len(chunk))
        predictive = predict_rows(saved.estimator, chunk, encoding_of(saved), numbers)
        predicted = pl.DataFrame(layout.columns(predictive))
        if rule is not None:
            predicted = rule.applied(predicted, predictive)
        if kept is None:
            yield predicted.with_row_index("row", offset=start + 1)
        else:
            yield kept.slice(start, CHUNK_ROWS).hstack(predicted)


def _write(options: Predict, parts: Iterator[pl.DataFrame]) -> None:
    kind = Path(options.out).suffix.lower()
    if options.out == "-":
        _write_text(sys.stdout.buffer, parts, ",")
    elif kind in _PARQUET:
        write_table(pl.concat(parts), options.out)
    else:
        with writing(options.out):
            write_atomically(options.out, lambda file: _write_text(file, parts, _SEPARATORS[kind]))


def _write_text(file: BinaryIO, parts: Iterator[pl.DataFrame], separator: str) -> None:
    for index, part in enumerate(parts):
        file.write(part.write_csv(include_header=index == 0, separator=separator).encode())
    file.flush()


def _percent(level: float) -> str:
    return f"{100.0 * level:.10g}"
