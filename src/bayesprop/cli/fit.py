"""`fit`: a table in; a model, its held-out metrics and a report out."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, NamedTuple

from bayesprop.cli.actions import Fit
from bayesprop.cli.console import (
    InputError,
    note,
    plain,
    print_json,
    progress,
    refusals_of_estimator,
    warn,
)
from bayesprop.cli.notes import command_line
from bayesprop.cli.predictions import predict_rows
from bayesprop.cli.scores import Scores, baselines_of, print_scores, score
from bayesprop.cli.settings import make_estimator, method_of, settings_of
from bayesprop.cli.tables import (
    Target,
    check_output,
    divided,
    fingerprint,
    read_source,
    target_of,
)
from bayesprop.datasets import registry
from bayesprop.methods import CLASSIFICATION
from bayesprop.store import load_model, save_model
from bayesprop.table.encoding import Rows, TableEncoding
from bayesprop.table.errors import one_line
from bayesprop.table.split import Parts


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
    _check_paths(options)
    settings = settings_of(options)
    if options.task is not None:
        method_of(options.method, options.task, f"--task asks for {options.task}")
    with progress(f"reading {options.table}", quiet=options.quiet):
        frame = read_source(options.table)
    target = target_of(options, frame)
    if options.unit is not None:
        target = target._replace(unit=options.unit)
    parts = divided(options, frame, target.name, options.task or target.task)
    warn(parts.warnings)
    if options.unit and parts.task == CLASSIFICATION:
        raise InputError(f"--unit is for numbers, and {one_line(target.name)} holds classes")
    method = method_of(options.method, parts.task, f"{one_line(target.name)} asks for {parts.task}")
    estimator = make_estimator(settings, method, parts.task, options.seed)
    fitted = _fit(options, method, estimator, parts, target.name)
    metadata = _metadata(options, fitted, parts, target)
    save_model(options.out, fitted.estimator, table=fitted.encoding, metadata=metadata)
    if options.report is not None:
        _write_page(options.report, options, fitted, metadata["command"])
    _show(options, fitted, metadata)


def _check_paths(options: Fit) -> None:
    check_output(options.out, "--out", [options.table])
    if options.report is not None:
        check_output(options.report, "--report", [options.table])
        if options.report.resolve() == options.out.resolve():
            raise InputError("--report and --out must be two different files")


def _fit(options: Fit, method: str, estimator: Any, parts: Parts, target: str) -> Fitted:
    encoding = TableEncoding.fit(parts.train.frame, target, parts.task)
    warn(encoding.report)
    train = parts.train.encoded(encoding)
    with (
        progress(f"fitting {len(train.y)} rows", quiet=options.quiet),
        refusals_of_estimator(ValueError, *([TypeError] if options.settings else [])),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # the fit's report says the same
        estimator.fit(train.X, train.y, **train.weights)
    warn(estimator.fit_report_.warnings)
    remarks = [*parts.warnings, *encoding.report, *estimator.fit_report_.warnings]
    baselines = baselines_of(estimator, train)
    if not len(parts.test.frame):
        return Fitted(method, estimator, encoding, train, None, baselines, None, remarks)
    test = parts.test.encoded(encoding)
    predictive = predict_rows(estimator, test.X, encoding, test.numbers)
    scores = score(predictive, baselines, test)
    warn(test.remarks)
    remarks += test.remarks
    return Fitted(method, estimator, encoding, train, test, baselines, scores, remarks)


def _metadata(options: Fit, fitted: Fitted, parts: Parts, target: Target) -> dict[str, Any]:
    """Say what reproduces the model: the command as typed, and every setting that it implied."""
    return plain(
        {
            "command": command_line(options.words),
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
                "drop": options.drop,
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
    known = registry.find(options.table)
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


def _write_page(path: Path, options: Fit, fitted: Fitted, command: str) -> None:
    from bayesprop.cli.report import write_page

    with progress("writing the report", quiet=options.quiet):
        saved, about = load_model(options.out), {"command": command}
        rows = {"train": fitted.train, "test": fitted.test}
        write_page(path, saved, fitted.encoding, **rows, about=about)


def _show(options: Fit, fitted: Fitted, metadata: dict[str, Any]) -> None:
    report, rows = fitted.estimator.fit_report_, metadata["rows"]
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
                "rows": rows,
                "features": len(fitted.encoding.feature_names),
                "held_out": fitted.scores,
                "seconds": report.seconds,
                "guards": report.guards,
                "warnings": fitted.warnings,
                "command": metadata["command"],
            }
        )
        return
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
