"""`predict`: one row of predictions for every row of a table, some rows at a time."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from bayesprop.cli.actions import Predict
from bayesprop.cli.console import note, progress, warn
from bayesprop.cli.options import check_output
from bayesprop.datasets import registry
from bayesprop.decisions.abstention import scores_for, uncertainty_of
from bayesprop.decisions.thresholds import Rule, UnreachableError
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import Predictive
from bayesprop.scale.encoded_tables import EncodedTables
from bayesprop.scale.large_table import large_table
from bayesprop.table.encoding import Rows
from bayesprop.table.errors import did_you_mean, listing, one_line
from bayesprop.table.write import PARQUET, check_kind, write_table
from bayesprop.table_model.answers import Answers, NumberAnswers
from bayesprop.table_model.deciding import Asked, check_two_classes
from bayesprop.table_model.deciding import words as rule_in_words
from bayesprop.table_model.model import TableModel, open_model
from bayesprop.table_model.plain_values import figure
from bayesprop.table_model.predicting import refusals_by_name
from bayesprop.table_model.refusals import InputError, refusals_of_estimator
from bayesprop.table_model.sources import table_name

ABSTAINED = "abstained"
_ALL = "all"


def run(options: Predict) -> None:
    """Predict a table into a file or stdout."""
    quantiles, asked = _quantiles(options), Asked.of(options.cost, options.rate)
    if asked.rate is not None and options.calibrate is None:
        raise InputError("--rate chooses a threshold on rows with the target: give --calibrate")
    model = open_model(options.model, allow_absent=options.allow_missing_columns)
    with progress(f"reading {options.table}", quiet=options.quiet):
        table = _tables(model, options.table)
    is_class = bool(model.encoding.classes)
    rule = Abstaining.asked_for(options.abstain_above, options.by, classes=is_class)
    beside = _beside(table.columns, options.columns)
    reasons = () if rule is None else (ABSTAINED,)
    others = ("row", *reasons, *(beside or ()))
    answers = model.answers(options.interval, quantiles, _rule(model, options, asked), others)
    if isinstance(answers, NumberAnswers) and options.calibrate is not None:
        learnt = _stretches(model, options.calibrate, answers.intervals, quiet=options.quiet)
        answers = replace(answers, stretches=learnt)
    if beside is not None:
        _check_names(beside, [*answers.names, *reasons])
    with progress(f"looking at {options.table}", quiet=options.quiet):
        looked = table.looked_at()
    warn(looked.warnings)
    answers = replace(answers, has_gaps=looked.has_gaps)
    busy = options.quiet or (options.out == "-" and sys.stdout.isatty())
    with progress(f"predicting {looked.n_rows} rows", quiet=busy):
        parts = _predictions(model, table, answers, beside, rule)
        if Path(options.out).suffix.lower() not in PARQUET:
            parts = map(answers.rounded, parts)
        write_table(parts, options.out, ".jsonl" if options.as_json else ".csv")
    if rule is not None:
        rule.sum_up(quiet=options.quiet)
    if options.out != "-":
        note(f"{looked.n_rows} predictions: {options.out}", quiet=options.quiet)


def _quantiles(options: Predict) -> list[float]:
    """Check what can be checked before anything is read; return the levels of quantiles."""
    words = [word.strip() for text in options.quantiles for word in text.split(",")]
    if options.calibrate == options.table == "-":
        raise InputError("--calibrate and TABLE cannot both be standard input; name a file")
    if options.calibrate is not None and words:
        raise InputError("--calibrate stretches intervals only; leave --quantiles out")
    if options.as_json and options.out != "-":
        raise InputError(f"--json prints rows on stdout, and --out {options.out} names a file: "
                         "one that ends in .jsonl holds JSON lines")  # fmt: skip
    if options.out != "-":
        inputs = [options.table, options.model, options.calibrate]
        check_output(Path(options.out), "--out", inputs)
    check_kind(options.out)
    try:
        return [float(word) for word in words]
    except ValueError:
        got = one_line(", ".join(words))
        raise InputError(f"--quantiles must be numbers, such as 0.05,0.95; got {got}") from None


def _tables(model: TableModel, source: str) -> EncodedTables:
    """Read a table, or open one larger than memory."""
    large = None if registry.find(source) is not None else large_table(source)
    if large is not None and large.is_large:
        return EncodedTables(model.encode, large, large.columns)
    is_there = large is None or Path(source).exists()
    frame = model.read(source) if is_there or large is None else large.whole()
    return EncodedTables(model.encode, [frame], tuple(frame.columns))


def _beside(columns: Sequence[str], asked: Sequence[str]) -> list[str] | None:
    """Return the columns that predictions are to stand beside; None: row numbers instead."""
    names = [
        name.strip() for text in asked for name in ([text] if text in columns else text.split(","))
    ]
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


def _rule(model: TableModel, options: Predict, asked: Asked) -> Rule | None:
    """Return how to decide: as asked now, else as the fit was told, else not at all."""
    positive = model.positive
    check_two_classes(model.encoding.classes, asked.option)
    if model.encoding.classes and options.calibrate is not None and asked.rate is None:
        raise InputError("--calibrate is for numbers, and of classes for the threshold of --rate")
    if positive is None:
        return None
    predictive, y = None, np.empty(0)
    if asked.rate is not None and options.calibrate is not None:
        rows = _unseen_rows(model, options.calibrate, "a threshold chosen on them would be off")
        predictive, y = model.predictive(rows), rows.y
    with refusals_of_estimator(UnreachableError):
        rule = asked.rule(positive, predictive, y) or model.notes.rule
    if rule is not None:
        note(rule_in_words(rule, positive), quiet=options.quiet)
    return rule


def _check_names(beside: Sequence[str], names: Sequence[str]) -> None:
    taken = [name for name in beside if name in names]
    if taken:
        raise InputError(
            f"--columns: the table already has {one_line(listing(taken))}; rename, or leave it out"
        )


def _predictions(
    model: TableModel,
    table: EncodedTables,
    answers: Answers,
    beside: list[str] | None,
    rule: Abstaining | None,
) -> Iterator[pl.DataFrame]:
    """Yield the predictions of some rows at a time, so that memory stays bounded."""
    for frame, x, first in table:
        for start, predictive in model.predictives(x, first):
            predicted = pl.DataFrame(answers.columns(predictive))
            if rule is not None:
                predicted = rule.applied(predicted, predictive, answers.doubts)
            if beside is None:
                yield predicted.with_row_index("row", offset=first + start + 1)
            else:
                yield frame.select(beside).slice(start, len(predicted)).hstack(predicted)


def _stretches(
    model: TableModel, table: str, levels: tuple[float, ...], *, quiet: bool
) -> tuple[float, ...]:
    """Learn from a table how many std an interval of each level reaches from the mean."""
    from bayesprop.decisions.conformal import ConformalRegressor

    with progress(f"calibrating on {table}", quiet=quiet):
        rows = _unseen_rows(model, table, "intervals calibrated on them would be too narrow")
        with refusals_by_name(rows.X, model.encoding, rows.numbers):
            conformal = [ConformalRegressor(model.estimator, coverage=level) for level in levels]
            learnt = tuple(one.calibrate(rows.X, rows.y).stretch_ for one in conformal)
    warn(rows.remarks)
    pairs = zip(levels, learnt, strict=True)
    words = ", ".join(f"{100 * level:g} %: mean ± {figure(reach)} std" for level, reach in pairs)
    note(f"calibrated on {len(rows.y)} rows of {table_name(table)}: {words}", quiet=quiet)
    return learnt


def _unseen_rows(model: TableModel, table: str, what_else: str) -> Rows:
    """Read the rows that have a target; InputError if they are those that the model has learnt."""
    rows = model.rows_of(model.read(table, model.encoding.rows), table)
    seen = model.seen_before(rows.y, table)
    if seen is not None:
        raise InputError(
            f"--calibrate needs rows that the fit did not see: {seen}, and {what_else}"
        )
    return rows


class Abstaining:
    """A rule for when not to answer: `above` which uncertainty; and how often it was met."""

    def __init__(self, by: str, above: float) -> None:
        self.by = by
        self.above = above
        self.n_rows = 0
        self.n_abstained = 0
        self.most = 0.0

    @classmethod
    def asked_for(cls, above: float | None, by: str | None, *, classes: bool) -> Abstaining | None:
        """Check what the user asked for; None where it was nothing."""
        if above is None:
            if by is not None:
                raise InputError("--by says what --abstain-above is about; give that as well")
            return None
        if not (math.isfinite(above) and above >= 0.0):
            raise InputError(f"--abstain-above must be a number of at least 0, got {above}")
        known = scores_for(classes=classes)
        if by is not None and by not in known:
            kind = "classes" if classes else "numbers"
            raise InputError(
                f"--by {one_line(by)} is not known for a model of {kind}"
                f"{did_you_mean(by, known) or ';'} choose from {', '.join(known)}"
            )
        return cls(next(iter(known)) if by is None else by, above)

    def applied(
        self,
        predicted: pl.DataFrame,
        predictive: Predictive | ClassPredictive,
        doubts: tuple[str, ...],
    ) -> pl.DataFrame:
        """Empty the predictions of the rows beyond, save their doubts; add the reasons."""
        uncertainty = uncertainty_of(predictive, self.by)
        beyond = ~(uncertainty <= self.above)
        self.n_rows += len(beyond)
        self.n_abstained += int(np.sum(beyond))
        self.most = max(self.most, float(np.max(uncertainty, initial=0.0)))
        answers = [name for name in predicted.columns if name not in doubts]
        reasons = [
            f"{self.by} {value:.6g} > {self.above:g}" if is_beyond else None
            for value, is_beyond in zip(uncertainty, beyond, strict=True)
        ]
        emptied = [
            pl.when(pl.lit(pl.Series(~beyond))).then(pl.col(name)).alias(name) for name in answers
        ]
        return predicted.with_columns(*emptied, pl.Series(ABSTAINED, reasons, dtype=pl.String))

    def sum_up(self, *, quiet: bool) -> None:
        """Say how many rows have no prediction."""
        if self.most == 0.0 and self.n_rows:
            warn([f"the {self.by} of every row is 0, so that --abstain-above never holds"])
        share = self.n_abstained / max(self.n_rows, 1)
        note(
            f"abstained on {self.n_abstained} of {self.n_rows} rows ({100.0 * share:.3g} %): "
            f"{self.by} above {figure(self.above)}; the largest is {figure(self.most)}",
            quiet=quiet,
        )
