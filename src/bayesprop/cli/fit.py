"""`fit`: a table in; a model, its held-out metrics and a report out."""

from __future__ import annotations

import shlex
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop.cli.actions import Fit
from bayesprop.cli.console import note, plain, print_json, progress, warn
from bayesprop.cli.division import Part, Parts, Target, divide, target_of
from bayesprop.cli.failures import InputError, one_line, refusals_of_estimator
from bayesprop.cli.report import write_page
from bayesprop.cli.scores import (
    Scores,
    baselines_of,
    predict_rows,
    print_scores,
    score,
)
from bayesprop.cli.settings import Settings, make_estimator, method_of, read_settings
from bayesprop.cli.sources import (
    check_output,
    fingerprint,
    known_set,
)
from bayesprop.methods import CLASSIFICATION
from bayesprop.report.write import Rows
from bayesprop.store import load_model, save_model
from bayesprop.table.read import TableEncoding, read_table

if TYPE_CHECKING:
    pass


class Fitted(NamedTuple):
    """What one run of `fit` has learnt; without held-out rows, `test` and `scores` are None."""

    method: str
    estimator: Any
    encoding: TableEncoding
    train: Rows
    test: Rows | None
    baselines: Any
    scores: Scores | None
    warnings: list[str]


def run(options: Fit) -> None:
    """Read, split, fit, judge, save, report."""
    if not 0.0 <= options.test_fraction <= 0.9:  # nan passes the parser of an older typer
        raise InputError(f"--test-fraction must be 0 to 0.9, got {options.test_fraction}")
    _check_paths(options)
    settings = _settings(options)
    with progress(f"reading {options.table}", quiet=options.quiet):
        frame = read_table(options.table)
    target = target_of(options, frame)
    if options.unit is not None:
        target = target._replace(unit=options.unit)
    parts = divide(options, frame, target.name, options.task or target.task)
    if options.unit and parts.task == CLASSIFICATION:
        raise InputError(f"--unit is for numbers, and {one_line(target.name)} holds classes")
    why = f"{one_line(target.name)} asks for {parts.task}"
    method = method_of(settings, parts.task, why)
    estimator = make_estimator(settings, method, parts.task, options.seed)
    fitted = _fit(options, method, estimator, parts, target.name)
    metadata = _metadata(options, fitted, parts, target)
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


def _check_paths(options: Fit) -> None:
    check_output(options.out, "--out", [options.table])
    if options.report is not None:
        check_output(options.report, "--report", [options.table])
        if options.report.resolve() == options.out.resolve():
            raise InputError("--report and --out must be two different files")


def _settings(options: Fit) -> Settings:
    settings = read_settings(
        options.method,
        hidden=options.hidden,
        epochs=options.epochs,
        batch_size=options.batch_size,
        inference=options.inference,
        assignments=options.settings,
    )
    if options.task is not None:
        method_of(settings, options.task, f"--task asks for {options.task}")
    return settings


def _fit(options: Fit, method: str, estimator: Any, parts: Parts, target: str) -> Fitted:
    encoding = TableEncoding.fit(parts.train.frame, target, parts.task)
    warn(encoding.report)
    train = _rows(encoding, parts.train, encoding.encode(parts.train.frame).X)
    weight = {} if parts.train.weight is None else {"sample_weight": parts.train.weight}
    with (
        progress(f"fitting {len(train.y)} rows", quiet=options.quiet),
        refusals_of_estimator(ValueError, *([TypeError] if options.settings else [])),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # the fit's report says the same
        estimator.fit(train.X, train.y, **weight)
    warn(estimator.fit_report_.warnings)
    remarks = [*parts.warnings, *encoding.report, *estimator.fit_report_.warnings]
    baselines = baselines_of(estimator, train.X, train.y)
    if not len(parts.test.frame):
        return Fitted(method, estimator, encoding, train, None, baselines, None, remarks)
    encoded = encoding.encode(parts.test.frame)
    test = _rows(encoding, parts.test, encoded.X)
    predictive = predict_rows(estimator, test.X, encoding, test.row_ids)
    scores = score(predictive, baselines, test.X, test.y)
    warn(encoded.warnings)
    remarks += encoded.warnings
    return Fitted(method, estimator, encoding, train, test, baselines, scores, remarks)


def _rows(encoding: TableEncoding, part: Part, features: Float[np.ndarray, "n k"]) -> Rows:
    names = [str(number) for number in part.row_numbers]
    return Rows(features, encoding.target(part.frame), names)


def _metadata(options: Fit, fitted: Fitted, parts: Parts, target: Target) -> dict[str, Any]:
    """Say what reproduces the model: the command as typed, and every setting that it implied."""
    return plain(
        {
            "command": shlex.join(["bayesprop", *options.words]),
            "source": options.table,
            "target": target.name,
            "task": parts.task,
            "unit": target.unit,
            "seed": options.seed,
            "config": {
                "method": fitted.method,
                "parameters": fitted.estimator.get_params(deep=False),
                "test_fraction": options.test_fraction,
                "weights": options.weights,
                "drop": list(options.drop),
            },
            "rows": {"train": len(parts.train.frame), "held_out": len(parts.test.frame)},
            "target_sha256": fingerprint(fitted.encoding.target(parts.target)),
            "held_out": fitted.scores,
            "baselines": fitted.baselines.to_dict(),
            **_picture(options, fitted.encoding),
        }
    )


def _picture(options: Fit, encoding: TableEncoding) -> dict[str, Any]:
    """Say which pixel of a picture each input is, where the rows of a known set are pictures."""
    known = known_set(options.table)
    if known is None or known.image_shape is None:
        return {}
    height, width = known.image_shape
    pixels = {f"pixel_{i}_{j}": i * width + j for i in range(height) for j in range(width)}
    if not set(encoding.feature_names) <= set(pixels):
        return {}
    return {
        "image_shape": [height, width],
        "image_pixels": [pixels[name] for name in encoding.feature_names],
    }


def _tell(options: Fit, fitted: Fitted, metadata: dict[str, Any]) -> None:
    report = fitted.estimator.fit_report_
    if options.as_json:
        print_json(
            {
                "model": str(options.out),
                "report": None if options.report is None else str(options.report),
                "task": metadata["task"],
                "method": fitted.method,
                "target": metadata["target"],
                "classes": list(fitted.encoding.classes) or None,
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
