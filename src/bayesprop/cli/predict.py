"""`predict`: one row of predictions for every row of a table, some rows at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
from jaxtyping import Float
from numpy import ndarray

from bayesprop.cli.abstain import COLUMN, Abstaining
from bayesprop.cli.actions import Predict
from bayesprop.cli.answers import Answers, ClassAnswers, NumberAnswers, answers_of
from bayesprop.cli.calibrate import stretches
from bayesprop.cli.console import InputError, note, progress, warn
from bayesprop.cli.opened import OpenedModel, open_model
from bayesprop.cli.predictions import predict_rows
from bayesprop.cli.tables import check_output
from bayesprop.table.errors import listing, one_line
from bayesprop.table.write import check_kind, write_table

CHUNK_ROWS = 65_536


def run(options: Predict) -> None:
    """Predict a table into a file or stdout."""
    numbers = _asked(options)
    model = open_model(options.model)
    with progress(f"reading {options.table}", quiet=options.quiet):
        frame = model.read(options.table)
    encoding = model.encoding
    rule = Abstaining.asked_for(options.abstain_above, options.by, classes=bool(encoding.classes))
    answers = answers_of(encoding, encoding.target_name, numbers)
    reasons = () if rule is None else (COLUMN,)
    if isinstance(answers, ClassAnswers):
        _check_for_classes(options)
        others = {"row", *answers.names[1:], *reasons, *(frame.columns if options.keep else ())}
        answers = replace(answers, label=_free_name(answers.label, others))
    elif options.calibrate is not None:
        learnt = stretches(model, options.calibrate, numbers.intervals, quiet=options.quiet)
        answers = replace(answers, stretches=learnt)
    if options.keep:
        _check_names(frame, [*answers.names, *reasons])
    encoded = encoding.encode(frame)  # whole, so that messages name rows of the table
    warn(encoded.warnings)
    busy = options.quiet or (options.out == "-" and sys.stdout.isatty())
    with progress(f"predicting {len(frame)} rows", quiet=busy):
        kept = frame if options.keep else None
        write_table(_predictions(model, encoded.X, answers, kept, rule), options.out)
    if rule is not None:
        rule.sum_up(quiet=options.quiet)
    if options.out != "-":
        note(f"{len(frame)} predictions: {options.out}", quiet=options.quiet)


def _asked(options: Predict) -> NumberAnswers:
    """Check what can be checked before anything is read."""
    words = [word.strip() for text in options.quantiles for word in text.split(",")]
    if options.calibrate == options.table == "-":
        raise InputError("--calibrate and TABLE cannot both be standard input; name a file")
    if options.calibrate is not None and words:
        raise InputError("--calibrate stretches intervals only; leave --quantiles out")
    if options.out != "-":
        inputs = [options.table, options.model, options.calibrate]
        check_output(Path(options.out), "--out", inputs)
    check_kind(options.out)
    intervals = tuple(_level(str(level), "--interval") for level in options.interval)
    return NumberAnswers(intervals or (0.9,), tuple(_level(word, "--quantiles") for word in words))


def _level(word: str, option: str) -> float:
    """Read a number strictly between 0 and 1."""
    try:
        level = float(word)
    except ValueError:
        level = -1.0
    if not 0.0 < level < 1.0:
        raise InputError(
            f"{option} must be between 0 and 1, such as 0.9; got {one_line(word)!r}"
        ) from None
    return level


def _check_for_classes(options: Predict) -> None:
    asked = {"interval": options.interval, "quantiles": options.quantiles}
    for option, value in (asked | {"calibrate": options.calibrate}).items():
        if value:
            raise InputError(
                f"--{option} is for numbers; this model predicts classes, with a probability for "
                "each"
            )


def _free_name(name: str, taken: set[str]) -> str:
    """Return a name for the column of the likeliest class that no other column has."""
    label, rank = name, 1
    while label in taken:
        label, rank = f"predicted_{name}" + (f"_{rank}" if rank > 1 else ""), rank + 1
    return label


def _check_names(frame: pl.DataFrame, names: Sequence[str]) -> None:
    taken = [name for name in frame.columns if name in names]
    if taken:
        raise InputError(
            f"--keep: the table already has {one_line(listing(taken))}; rename, or leave --keep out"
        )


def _predictions(
    model: OpenedModel,
    x: Float[ndarray, "n k"],
    answers: Answers,
    kept: pl.DataFrame | None,
    rule: Abstaining | None,
) -> Iterator[pl.DataFrame]:
    """Yield the predictions of some rows at a time, so that memory stays bounded."""
    for start in range(0, len(x), CHUNK_ROWS):
        chunk = x[start : start + CHUNK_ROWS]
        numbers = range(start + 1, start + 1 + len(chunk))
        predictive = predict_rows(model.estimator, chunk, model.encoding, numbers)
        predicted = pl.DataFrame(answers.columns(predictive))
        if rule is not None:
            predicted = rule.applied(predicted, predictive, answers.doubts)
        if kept is None:
            yield predicted.with_row_index("row", offset=start + 1)
        else:
            yield kept.slice(start, CHUNK_ROWS).hstack(predicted)
