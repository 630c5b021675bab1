"""`fit`: a table in; a model, its held-out metrics and a report out."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop import methods
from bayesprop.commands.console import note, plain, print_json, progress, warn
from bayesprop.commands.failures import (
    InputError,
    did_you_mean,
    listing,
    one_line,
    refusals_of_estimator,
)
from bayesprop.commands.report import write_page
from bayesprop.commands.scores import Scores, print_scores, score
from bayesprop.commands.sources import (
    check_output,
    fingerprint,
    known_target,
    parse_hidden,
    require_column,
    rows_with_target,
    table_name,
)
from bayesprop.data.tables import TableEncoding, read_table, usable_rows
from bayesprop.report.baselines import Baselines
from bayesprop.report.unsure import Rows
from bayesprop.store import load_model, save_model

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Options:
    """What the user asked for; `words` is the command line itself."""

    table: str
    out: Path
    target: str | None
    method: str
    hidden: tuple[str, ...]
    epochs: int | None
    batch_size: int | None
    inference: str | None
    test_fraction: float
    seed: int
    report: Path | None
    weights: str | None
    drop: tuple[str, ...]
    unit: str | None
    as_json: bool
    quiet: bool
    words: Sequence[str]


class Part(NamedTuple):
    """Some rows of the table; `row_numbers` count from 1, `weight` is None for equal weights."""

    frame: pl.DataFrame
    row_numbers: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"] | None


class Parts(NamedTuple):
    """Training and held-out rows; `target` is that of both, in the order of the table."""

    train: Part
    test: Part
    target: pl.DataFrame
    warnings: list[str]


class Fitted(NamedTuple):
    """What one run of `fit` has learnt; without held-out rows, `test` and `scores` are None."""

    estimator: Any
    encoding: TableEncoding
    train: Rows
    test: Rows | None
    baselines: Baselines
    scores: Scores | None
    warnings: list[str]


def run(options: Options) -> None:
    """Read, split, fit, judge, save, report."""
    if not 0.0 <= options.test_fraction <= 0.9:  # nan passes the parser of an older typer
        raise InputError(f"--test-fraction must be 0 to 0.9, got {options.test_fraction}")
    _check_paths(options)
    estimator = _make(options)
    with progress(f"reading {options.table}", quiet=options.quiet):
        frame = read_table(options.table)
    target, unit = _target(options, frame)
    parts = _split(options, frame, target)
    fitted = _fit(options, estimator, parts, target)
    metadata = _metadata(options, fitted, parts, target, unit)
    save_model(options.out, fitted.estimator, table=fitted.encoding, metadata=metadata)
    if options.report is not None:
        with progress("writing the report", quiet=options.quiet):
            write_page(
                options.report,
                load_model(options.out),
                train=fitted.train,
                test=fitted.test,
                command=metadata["command"],
            )
    _tell(options, fitted, metadata)


def _check_paths(options: Options) -> None:
    check_output(options.out, "--out", [options.table])
    if options.report is not None:
        check_output(options.report, "--report", [options.table])
        if options.report.absolute() == options.out.absolute():
            raise InputError("--report and --out must be two different files")


def _make(options: Options) -> Any:
    if options.method not in methods.METHODS:
        hint = did_you_mean(options.method, methods.METHODS)
        known = ", ".join(methods.METHODS)
        raise InputError(f"no method {options.method!r}{hint}; there are: {known}")
    asked = {
        "hidden_layer_sizes": parse_hidden(options.hidden) if options.hidden else None,
        "n_epochs": options.epochs,
        "batch_size": options.batch_size,
        "inference": options.inference,
        "random_state": options.seed,
    }
    with refusals_of_estimator(TypeError, ValueError):
        return methods.make(options.method, **{k: v for k, v in asked.items() if v is not None})


def _target(options: Options, frame: pl.DataFrame) -> tuple[str, str]:
    known = known_target(options.table)
    name = options.target or (known.name if known is not None else None)
    if name is None:
        raise InputError(
            "--target is needed: the column to predict; columns: "
            + one_line(listing(frame.columns))
        )
    require_column(frame, name, options.table)
    known_unit = known.unit if known is not None and name == known.name else ""
    return name, options.unit if options.unit is not None else known_unit


def _split(options: Options, frame: pl.DataFrame, target: str) -> Parts:
    """Shuffle with the seed and hold rows out; both parts keep the order of the table."""
    for name in options.drop:
        require_column(frame, name, options.table)
        if name in (target, options.weights):
            raise InputError(f"--drop {name}: this column is the target or holds the weights")
    frame = frame.drop(set(options.drop))
    remarks = usable_rows(frame, target).warnings  # of the whole table: refusals name its rows
    warn(remarks)
    weight = _weights(options, frame, target)
    known = rows_with_target(frame, target).places
    frame = frame.drop(options.weights or ())
    n, n_test = len(known), round(options.test_fraction * len(known))
    if n - n_test < 2:
        rows = f"{n} row{'' if n == 1 else 's'}"
        held_out = f", of which {n_test} would be held out" if n_test else ""
        raise InputError(
            f"{table_name(options.table)} has {rows} with a target{held_out}; a fit needs 2 or more"
        )
    shuffled = np.random.default_rng(options.seed).permutation(known)
    train, test = (
        Part(frame[rows], rows + 1, None if weight is None else weight[rows])
        for rows in (np.sort(shuffled[n_test:]), np.sort(shuffled[:n_test]))
    )
    return Parts(train, test, frame[known].select(target), remarks)


def _weights(options: Options, frame: pl.DataFrame, target: str) -> Float[np.ndarray, " n"] | None:
    name = options.weights
    if name is None:
        return None
    require_column(frame, name, options.table)
    if name == target:
        raise InputError(f"--weights {name}: this is the target")
    column = frame[name]
    if not column.dtype.is_numeric():
        raise InputError(f"--weights {name} must hold numbers; it holds {column.dtype}")
    weight = column.cast(float).fill_null(float("nan")).to_numpy().astype(np.float64)
    bad = ~(np.isfinite(weight) & (weight >= 0.0))
    if np.any(bad):
        row = int(np.argmax(bad))
        raise InputError(
            f"--weights {name} must hold finite numbers >= 0; row {row + 1} has {column[row]}"
        )
    if not np.any(weight > 0.0):
        raise InputError(f"--weights {name} must hold at least one number > 0")
    return weight


def _fit(options: Options, estimator: Any, parts: Parts, target: str) -> Fitted:
    encoding = TableEncoding.fit(parts.train.frame, target)
    warn(encoding.report)
    train = _rows(encoding, parts.train, encoding.encode(parts.train.frame).X)
    weight = {} if parts.train.weight is None else {"sample_weight": parts.train.weight}
    with (
        progress(f"fitting {len(train.y)} rows", quiet=options.quiet),
        refusals_of_estimator(ValueError),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # the fit's report says the same
        estimator.fit(train.X, train.y, **weight)
    warn(estimator.fit_report_.warnings)
    remarks = [*parts.warnings, *encoding.report, *estimator.fit_report_.warnings]
    baselines = Baselines.fit(train.X, train.y)
    if not len(parts.test.frame):
        return Fitted(estimator, encoding, train, None, baselines, None, remarks)
    encoded = encoding.encode(parts.test.frame)
    test = _rows(encoding, parts.test, encoded.X)
    scores = score(estimator, baselines, test.X, test.y)
    warn(encoded.warnings)
    remarks += encoded.warnings
    return Fitted(estimator, encoding, train, test, baselines, scores, remarks)


def _rows(encoding: TableEncoding, part: Part, features: Float[np.ndarray, "n k"]) -> Rows:
    names = [str(number) for number in part.row_numbers]
    return Rows(features, encoding.target(part.frame), names)


def _metadata(
    options: Options, fitted: Fitted, parts: Parts, target: str, unit: str
) -> dict[str, Any]:
    """Say what reproduces the model: the command as typed, and every setting that it implied."""
    return plain(
        {
            "command": shlex.join(["bayesprop", *options.words]),
            "source": options.table,
            "target": target,
            "unit": unit,
            "seed": options.seed,
            "config": {
                "method": options.method,
                "parameters": fitted.estimator.get_params(deep=False),
                "test_fraction": options.test_fraction,
                "weights": options.weights,
                "drop": list(options.drop),
            },
            "rows": {"train": len(parts.train.frame), "held_out": len(parts.test.frame)},
            "target_sha256": fingerprint(fitted.encoding.target(parts.target)),
            "held_out": fitted.scores,
            "baselines": fitted.baselines.to_dict(),
        }
    )


def _tell(options: Options, fitted: Fitted, metadata: dict[str, Any]) -> None:
    report = fitted.estimator.fit_report_
    if options.as_json:
        print_json(
            {
                "model": str(options.out),
                "report": None if options.report is None else str(options.report),
                "method": options.method,
                "target": metadata["target"],
                "unit": metadata["unit"],
                "rows": metadata["rows"],
                "features": len(fitted.encoding.feature_names),
                "held_out": fitted.scores,
                "seconds": report.seconds,
                "guards": report.guards,
                "warnings": fitted.warnings,
                "command": metadata["command"],
            }
        )
        return
    rows = metadata["rows"]
    if fitted.scores is None:
        share = f"--test-fraction {options.test_fraction:g}"
        note(f"no rows were held out ({share} of {rows['train']} rows): the fit is not judged")
    else:
        title = f"{metadata['target']}: {rows['held_out']} held-out rows"
        print_scores(title, fitted.scores, metadata["unit"])
    note(f"fitted {rows['train']} rows in {report.seconds:.2f} s", quiet=options.quiet)
    note(f"model: {options.out}", quiet=options.quiet)
    if options.report is not None:
        note(f"report: {options.report}", quiet=options.quiet)
