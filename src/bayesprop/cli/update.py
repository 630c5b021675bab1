"""`update`: what was measured since goes into a model, by streaming or by a fit to all rows."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from bayesprop.cli.actions import Learning, Update
from bayesprop.cli.console import note, plain, print_json, progress, warn
from bayesprop.cli.division import Part, Parts, divide, weights_of
from bayesprop.cli.failures import InputError, listing, one_line, refusals_of_estimator
from bayesprop.cli.remembered import Remembered, remember
from bayesprop.cli.scores import Scores, baselines_of, predict_rows, print_scores, score
from bayesprop.cli.sources import (
    check_output,
    encoding_of,
    fingerprint,
    open_model,
    require_column,
    seen_before,
    table_name,
    table_of,
)
from bayesprop.store import save_model
from bayesprop.table.read import TableEncoding

if TYPE_CHECKING:
    from bayesprop.store import SavedModel


class Rows(NamedTuple):
    """Encoded rows with a target; `weight` is None for equal weights.

    numbers
        Of the rows in their table, from 1.
    """

    X: Float[np.ndarray, "n k"]
    y: Shaped[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"] | None
    numbers: Int[np.ndarray, " n"]


class Measured(NamedTuple):
    """The rows of a table to learn; `target` is that of rows of weight 0, too."""

    rows: Rows
    target: Shaped[np.ndarray, " n"]
    remarks: list[str]


class Updated(NamedTuple):
    """The model after it has learnt; `held_out` is None where no rows are held out."""

    estimator: Any
    n_train: int
    n_held_out: int
    baselines: Any
    held_out: Scores | None
    seconds: float
    warnings: list[str]


def run(options: Update) -> None:
    """Judge the model on the measured rows, let it learn them, save it."""
    out = options.out or options.model
    check_output(out, "--out", [options.table, *options.known])
    if options.table in options.known:
        raise InputError(f"--with {table_name(options.table)}: these are the new rows themselves")
    saved = open_model(options.model)
    if not options.known and not hasattr(saved.estimator, "partial_fit"):
        raise InputError(
            f"{saved.header['method']} cannot learn row by row: name the table that it was fitted "
            "to, and any that it has learnt since, by --with, for a fit to all rows"
        )
    with progress(f"reading {options.table}", quiet=options.quiet):
        rows, target, remarks = _measured(options.table, saved)
        if (seen := seen_before(saved, target, options.table)) is not None:
            remarks.append(f"{seen}: to learn them twice makes it too sure of them")
    warn(remarks)
    notes = remember(saved)
    predictive = predict_rows(saved.estimator, rows.X, encoding_of(saved), rows.numbers)
    before = score(predictive, notes.baselines, rows.X, rows.y)
    with (
        progress(f"learning {len(rows.y)} rows", quiet=options.quiet),
        refusals_of_estimator(ValueError),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # the fit's report says the same
        learn = _refitted if options.known else _streamed
        updated = learn(options, saved, notes, rows)
    warn(updated.warnings)
    metadata = _metadata(options, saved, notes, target, updated)
    save_model(out, updated.estimator, table=saved.table, metadata=metadata)
    _tell(options, saved, out, rows, before, updated, [*remarks, *updated.warnings])


def _measured(table: str, saved: SavedModel) -> Measured:
    """Read the rows of a table that have a target."""
    encoding, frame = encoding_of(saved), table_of(saved, table)
    require_column(frame, encoding.target_name, table)
    encoded = encoding.encode(frame)
    known = encoding.known_target(frame)
    if not len(known.places):
        raise InputError(f"no row of {table_name(table)} has a value of {encoding.target_name}")
    remarks = [*known.warnings, *encoded.warnings]
    weight = weights_of(_choices(table, remember(saved)), frame, encoding.target_name)
    if weight is None:
        rows = Rows(encoded.X[known.places], known.values, None, known.places + 1)
        return Measured(rows, known.values, remarks)
    weighs = weight[known.places] > 0.0  # rows of weight 0 teach nothing, and judge nothing
    if not weighs.any():
        raise InputError(f"no row of {table_name(table)} has a target and a weight above 0")
    places = known.places[weighs]
    rows = Rows(encoded.X[places], known.values[weighs], weight[places], places + 1)
    return Measured(rows, known.values, remarks)


def _choices(table: str, notes: Remembered) -> Learning:
    config = notes.config
    weights, drop = config.get("weights"), config.get("drop")
    share = config.get("test_fraction")
    return Learning(
        table=table,
        target=None,
        weights=weights if isinstance(weights, str) else None,
        drop=tuple(str(name) for name in drop) if isinstance(drop, list) else (),
        test_fraction=float(share) if isinstance(share, int | float) else 0.0,
        seed=notes.seed,
    )


def _streamed(_options: Update, saved: SavedModel, notes: Remembered, rows: Rows) -> Updated:
    """Absorb the new rows alone; what was held out is not known, so nothing is judged."""
    started = time.perf_counter()
    weight = {} if rows.weight is None else {"sample_weight": rows.weight}
    estimator = saved.estimator.partial_fit(rows.X, rows.y, **weight)
    return Updated(
        estimator=estimator,
        n_train=notes.rows.get("train", 0) + len(rows.y),
        n_held_out=0,
        baselines=notes.baselines,
        held_out=None,
        seconds=time.perf_counter() - started,
        warnings=list(estimator.fit_report_.warnings),
    )


def _refitted(options: Update, saved: SavedModel, notes: Remembered, rows: Rows) -> Updated:
    """Fit from scratch to the training rows of the fit, those learnt since, and the new ones."""
    started = time.perf_counter()
    encoding = encoding_of(saved)
    parts = _parts(options.known[0], saved, notes)
    later = [_measured(table, saved).rows for table in options.known[1:]]
    train = _joined([_rows(encoding, parts.train), *later, rows])
    remarks = _forgotten(options, notes, len(train.y) - len(rows.y))
    weight = {} if train.weight is None else {"sample_weight": train.weight}
    fresh = type(saved.estimator)(**saved.estimator.get_params(deep=False))
    estimator = fresh.fit(train.X, train.y, **weight)
    baselines = baselines_of(estimator, train.X, train.y)
    held_out, n_held_out = None, len(parts.test.frame)
    if n_held_out:
        test = _rows(encoding, parts.test)
        predictive = predict_rows(estimator, test.X, encoding, test.numbers)
        held_out = score(predictive, baselines, test.X, test.y)
    return Updated(
        estimator=estimator,
        n_train=len(train.y),
        n_held_out=n_held_out,
        baselines=baselines,
        held_out=held_out,
        seconds=time.perf_counter() - started,
        warnings=[*remarks, *estimator.fit_report_.warnings],
    )


def _parts(table: str, saved: SavedModel, notes: Remembered) -> Parts:
    """Divide the table of the fit as the fit did; refuse another table."""
    encoding, frame = encoding_of(saved), table_of(saved, table)
    require_column(frame, encoding.target_name, table)
    choices = _choices(table, notes)
    parts = divide(choices, frame, encoding.target_name, encoding.task)
    if fingerprint(encoding.target(parts.target)) != notes.target_sha256:
        raise InputError(
            f"--with {table_name(table)}: the first one must be the table that the model was "
            f"fitted to, {one_line(notes.source) or 'unknown'}, as it was then; its "
            f"{one_line(encoding.target_name)} differs"
        )
    return parts


def _rows(encoding: TableEncoding, part: Part) -> Rows:
    features, target = encoding.encode(part.frame).X, encoding.target(part.frame)
    return Rows(features, target, part.weight, part.row_numbers)


def _joined(parts: Sequence[Rows]) -> Rows:
    weights = [part.weight for part in parts if part.weight is not None]
    return Rows(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate(weights) if weights else None,
        np.concatenate([part.numbers for part in parts]),
    )


def _forgotten(options: Update, notes: Remembered, n_known: int) -> list[str]:
    n_before = notes.rows.get("train", n_known)
    if n_before == n_known:
        return []
    return [
        f"the model had learnt {n_before} rows, and {listing(list(options.known))} "
        f"hold{'s' * (len(options.known) == 1)} {n_known} of them to learn from: name every table "
        "that it has learnt by --with"
    ]


def _metadata(
    options: Update,
    saved: SavedModel,
    notes: Remembered,
    target: Shaped[np.ndarray, " n"],
    updated: Updated,
) -> dict[str, Any]:
    """Return the notes of the fit, as they are after the update."""
    commands = (notes.command, shlex.join(["bayesprop", *options.words]))
    baselines = updated.baselines
    return plain(
        {
            **saved.metadata,
            "command": " && ".join(line for line in commands if line),
            "rows": {"train": updated.n_train, "held_out": updated.n_held_out},
            "held_out": updated.held_out,
            "baselines": None if baselines is None else baselines.to_dict(),
            "updates": [
                *_updates(saved),
                {
                    "source": options.table,
                    "rows": len(target),
                    "refitted": bool(options.known),
                    "target_sha256": fingerprint(target),
                },
            ],
        }
    )


def _updates(saved: SavedModel) -> list[Any]:
    found = saved.metadata.get("updates")
    return found if isinstance(found, list) else []


def _tell(
    options: Update,
    saved: SavedModel,
    out: Path,
    rows: Rows,
    before: Scores,
    updated: Updated,
    remarks: list[str],
) -> None:
    notes, report = remember(saved), updated.estimator.fit_report_
    how = "refitted" if options.known else "streamed"
    if options.as_json:
        print_json(
            {
                "model": str(out),
                "table": options.table,
                "target": encoding_of(saved).target_name,
                "how": how,
                "rows": {
                    "new": len(rows.y),
                    "train": updated.n_train,
                    "held_out": updated.n_held_out,
                },
                "before": before,
                "held_out": updated.held_out,
                "seconds": updated.seconds,
                "guards": report.guards,
                "warnings": remarks,
            }
        )
        return
    target, n = encoding_of(saved).target_name, len(rows.y)
    print_scores(f"{target}: {n} new rows before they were learnt", before, notes.unit)
    if updated.held_out is not None:
        print()
        title = f"{target}: {updated.n_held_out} held-out rows after the update"
        print_scores(title, updated.held_out, notes.unit)
    done = f"{how} {n} rows in {updated.seconds:.2f} s, {updated.n_train} learnt in all"
    note(done, quiet=options.quiet)
    note(f"model: {out}", quiet=options.quiet)
