"""`update`: what was measured since goes into a model, by streaming or by a fit to all rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesprop.atomic import alone, version_of
from bayesprop.cli.console import continued, note, print_json, print_scores, progress, warn
from bayesprop.cli.further_rows import Update
from bayesprop.cli.options import check_output
from bayesprop.store import save_model
from bayesprop.table.division import Division, groups_of, weights_of
from bayesprop.table.encoding import EncodedRows
from bayesprop.table.errors import listing, one_line
from bayesprop.table_model.judging import Judged, judge, learn
from bayesprop.table_model.model import TableModel, open_model
from bayesprop.table_model.plain_values import Scores, plain
from bayesprop.table_model.predicting import scored
from bayesprop.table_model.refusals import InputError, refusals_of_estimator
from bayesprop.table_model.sources import column, divided, fingerprint, table_name


class Updated(NamedTuple):
    """The model after it has learnt, and how many rows it has learnt in all."""

    estimator: Any
    rows: dict[str, int]
    judged: Judged
    warnings: list[str]


def run(options: Update) -> None:
    """Judge the model on the measured rows, let it learn them, save it."""
    out = options.out or options.model
    check_output(out, "--out", [options.table, *options.known])
    if options.table in options.known:
        raise InputError(f"--with {table_name(options.table)}: these are the new rows themselves")
    busy = f"waiting for another program that replaces {out}"
    with alone(out, lambda: note(busy, quiet=options.quiet)):
        _update(options, out)


def _update(options: Update, out: Path) -> None:
    since = version_of(out)
    model = open_model(options.model, allow_absent=options.allow_missing_columns)
    if options.known and options.half_life is not None:
        raise InputError("--half-life is of rows learnt one after another, without --with")
    if not options.known and not hasattr(model.estimator, "partial_fit"):
        raise InputError(
            f"{model.saved.header['method']} cannot learn row by row: name the table that it was "
            "fitted to, and any that it has learnt since, by --with, for a fit to all rows"
        )
    with progress(f"reading {options.table}", quiet=options.quiet):
        rows, target = _measured(options.table, model)
        remarks = list(rows.remarks)
        if (seen := model.seen_before(target, options.table)) is not None:
            remarks.append(f"{seen}: to learn them twice makes it too sure of them")
    if model.notes.rule is not None and model.notes.rule.rate is not None:
        remarks.append(
            f"the threshold of --rate {model.notes.rule.asked} was chosen before these rows were "
            "learnt: choose it anew (`bayesprop predict` with --rate and --calibrate)"
        )
    warn(remarks)
    before = scored(model.predictions(rows, model.notes.baselines), rows).scores
    with (
        progress(f"learning {len(rows.y)} rows", quiet=options.quiet),
        refusals_of_estimator(ValueError),
        warnings.catch_warnings(action="ignore", category=UserWarning),  # its report says the same
    ):
        started = time.perf_counter()
        updated = (
            _refitted(options, model, rows) if options.known else _streamed(options, model, rows)
        )
        seconds = time.perf_counter() - started
    warn(updated.warnings)
    about = {
        "source": options.table,
        "rows": len(target),
        "refitted": bool(options.known),
        "target_sha256": fingerprint(target),
    }
    updates = [*model.notes.updates, about]
    metadata = noted(model, options.words, updated.rows, updated.judged, updates)
    save_model(out, updated.estimator, table=model.encoding, metadata=metadata, since=since)
    if options.as_json:
        facts = {
            "model": str(out),
            "table": options.table,
            "target": model.encoding.target_name,
            "how": "refitted" if options.known else "streamed",
            "rows": {"new": len(rows.y), **updated.rows},
            "before": before,
            "held_out": updated.judged.scores,
            "seconds": seconds,
            "guards": updated.estimator.fit_report_.guards,
            "warnings": [*remarks, *updated.warnings],
        }
        print_json(facts)
    else:
        _show(options, model, len(rows.y), before, updated, seconds)
        note(f"model: {out}", quiet=options.quiet)


def _measured(table: str, model: TableModel) -> tuple[EncodedRows, np.ndarray]:
    """Read the rows to learn, with their weights; beside, the target, of weight 0, too."""
    frame = model.read(table, model.encoding.rows)
    rows = model.rows_of(frame, table)
    asked, target = model.notes.learning(table), model.encoding.target_name
    weight = weights_of(frame, asked.weights, target, table_name(table))
    if asked.group is not None:
        group = groups_of(column(frame, asked.group, table))
        rows = rows._replace(group=group[rows.numbers - 1])
    if weight is None:
        return rows, rows.y
    weight = weight[rows.numbers - 1]
    if not np.any(weight > 0.0):
        raise InputError(f"no row of {table_name(table)} has a target and a weight above 0")
    # Rows of weight 0 teach nothing, and judge nothing.
    return rows._replace(weight=weight).of(weight > 0.0), rows.y


def _streamed(options: Update, model: TableModel, rows: EncodedRows) -> Updated:
    """Absorb the new rows alone; what was held out is not known, so nothing is judged."""
    forget = {} if options.half_life is None else {"half_life": options.half_life}
    estimator = model.estimator.partial_fit(rows.X, rows.y, **rows.weights, **forget)
    counts = {"train": model.notes.rows.get("train", 0) + len(rows.y), "held_out": 0}
    judged = Judged(model.notes.baselines)
    return Updated(estimator, counts, judged, list(estimator.fit_report_.warnings))


def _refitted(options: Update, model: TableModel, rows: EncodedRows) -> Updated:
    """Fit from scratch to the training rows of the fit, those learnt since, and the new ones."""
    old, encoding = model.estimator, model.encoding
    first, test = _division(options.known[0], model).encoded(encoding)
    later = [_measured(table, model)[0] for table in options.known[1:]]
    train = _joined([first, *later, rows])
    remarks = _forgotten(options, model, len(train.y) - len(rows.y))
    estimator = type(old)(**old.get_params(deep=False))
    remarks += learn(estimator, train)
    counts = {"train": len(train.y), "held_out": len(test.y)}
    place = model.positive and model.positive.place
    judged = judge(estimator, encoding, train, test, positive=place)
    return Updated(estimator, counts, judged, remarks)


def _division(table: str, model: TableModel) -> Division:
    """Divide the table of the fit as the fit did; refuse another table."""
    encoding, notes, frame = model.encoding, model.notes, model.read(table)
    column(frame, encoding.target_name, table)
    parts = divided(notes.learning(table), frame, encoding.target_name, encoding.task)
    warn(parts.remarks)
    if fingerprint(encoding.target(parts.target)) != notes.target_sha256:
        raise InputError(
            f"--with {table_name(table)}: the first one must be the table that the model was "
            f"fitted to, {one_line(notes.source) or 'unknown'}, as it was then; its "
            f"{one_line(encoding.target_name)} differs"
        )
    return parts


def _joined(parts: Sequence[EncodedRows]) -> EncodedRows:
    X, y, numbers, weights, _, groups = zip(*parts, strict=True)
    weight, group = (None if one[0] is None else np.concatenate(one) for one in (weights, groups))
    rows = map(np.concatenate, (X, y, numbers))
    return EncodedRows(*rows, weight=weight, group=group)


def _forgotten(options: Update, model: TableModel, n_known: int) -> list[str]:
    n_before = model.notes.rows.get("train", n_known)
    if n_before == n_known:
        return []
    return [
        f"the model had learnt {n_before} rows, and {listing(options.known)} "
        f"hold{'s' * (len(options.known) == 1)} {n_known} of them to learn from: name every table "
        "that it has learnt by --with"
    ]


def noted(
    model: TableModel,
    words: Sequence[str],
    rows: dict[str, int],
    judged: Judged,
    updates: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Return the notes of a model's fit, as they are after a command by which it learnt more."""
    return plain(
        {
            **model.saved.metadata,
            "command": continued(model.notes.command, words),
            "rows": rows,
            "held_out": judged.scores,
            "standard_errors": dict(judged.errors),
            "judged_by": model.notes.judged_by if judged.scores else "",
            "baselines": judged.baselines and judged.baselines.to_dict(),
            "updates": updates,
        }
    )


def _show(
    options: Update, model: TableModel, n: int, before: Scores, updated: Updated, seconds: float
) -> None:
    target, unit, scores = model.encoding.target_name, model.notes.unit, updated.judged.scores
    print_scores(f"{target}: {n} new rows before they were learnt", before, unit)
    if scores is not None:
        print()
        title = f"{target}: {updated.rows['held_out']} held-out rows after the update"
        print_scores(title, scores, unit)
    how = "refitted" if options.known else "streamed"
    done = f"{how} {n} rows in {seconds:.2f} s, {updated.rows['train']} learnt in all"
    note(done, quiet=options.quiet)
