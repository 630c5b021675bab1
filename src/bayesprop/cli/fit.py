"""`fit`: a table in; a model, its held-out metrics and a report out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bayesprop.catalogue import CLASSIFICATION
from bayesprop.cli.actions import Fit
from bayesprop.cli.console import (
    InputError,
    command_line,
    note,
    plain,
    print_json,
    progress,
    refusals_of_estimator,
    warn,
)
from bayesprop.cli.deciding import Asked, Positive, base_rate_moved, check_two_classes
from bayesprop.cli.deciding import positive_of as positive_class
from bayesprop.cli.deciding import words as rule_in_words
from bayesprop.cli.judging import (
    Judged,
    NewGroups,
    cross_validated,
    judge,
    learn,
    of_new_groups,
)
from bayesprop.cli.settings import make_estimator, method_of, settings_of
from bayesprop.cli.tables import (
    Target,
    check_output,
    column,
    divided,
    fingerprint,
    print_scores,
    read_source,
    table_name,
    target_of,
)
from bayesprop.cli.target_kind import kind_of
from bayesprop.datasets import registry
from bayesprop.decisions.thresholds import Rule, UnreachableError
from bayesprop.store import load_model, save_model
from bayesprop.table.division import Division
from bayesprop.table.encoding import Rows, TableEncoding
from bayesprop.table.errors import one_line
from bayesprop.table.giveaways import giveaways

FEW_ROWS, N_FOLDS = 300, 5
"""Rows below which a tenth of them judges nothing, and folds that judge instead."""


class Fitted(NamedTuple):
    """What one run of `fit` has learnt, and how it was judged.

    share
        Of the rows that were held out; 0 where all are learnt.
    title
        Which rows judge it.
    positive, rule
        Of two classes: the positive one, and how to decide, if that was said.
    base_rate
        What the weights did to the shares of the classes, in a sentence; empty if nothing.
    """

    method: str
    estimator: Any
    encoding: TableEncoding
    train: Rows
    judged: Judged
    share: float
    title: str
    new_groups: NewGroups | None
    warnings: list[str]
    positive: Positive | None = None
    rule: Rule | None = None
    base_rate: str = ""

    @property
    def rows(self) -> dict[str, int]:
        """How many rows it has learnt, and how many judge it that it has not."""
        judged = self.judged.rows
        n = 0 if judged is None or len(judged.y) == len(self.train.y) else len(judged.y)
        return {"train": len(self.train.y), "held_out": n}


def run(options: Fit) -> None:
    """Read, split, fit, judge, save, report."""
    _check_paths(options)
    settings, asked = settings_of(options), Asked.of(options)
    if options.task is not None:
        method_of(options.method, options.task, f"--task asks for {options.task}")
    with progress(f"reading {options.table}", quiet=options.quiet):
        frame = read_source(options.table)
    target = target_of(options, frame)
    if options.unit is not None:
        target = target._replace(unit=options.unit)
    share = 0.0 if options.test is not None else options.test_fraction
    parts = divided(
        replace(options, test_fraction=share), frame, target.name, options.task or target.task
    )
    warn(parts.remarks)
    if options.unit and parts.task == CLASSIFICATION:
        raise InputError(f"--unit is for numbers, and {one_line(target.name)} holds classes")
    method = method_of(options.method, parts.task, f"{one_line(target.name)} asks for {parts.task}")
    make = partial(make_estimator, settings, method, parts.task, options.seed)
    fitted = _fit(options, method, make, parts, asked)
    metadata = _metadata(options, fitted, parts, target)
    save_model(options.out, fitted.estimator, table=fitted.encoding, metadata=metadata)
    if options.report is not None:
        _write_page(options.report, options, fitted, metadata["command"])
    _show(options, fitted, metadata)


def _check_paths(options: Fit) -> None:
    inputs = [options.table, options.test]
    if options.test is not None:
        if options.time is not None:
            raise InputError("--test and --time are two ways to judge a fit: give one of them")
        if options.table == options.test:
            raise InputError(f"--test {options.test}: these are the rows that are learnt")
    check_output(options.out, "--out", inputs)
    if options.report is not None:
        check_output(options.report, "--report", inputs)
        if options.report.resolve() == options.out.resolve():
            raise InputError("--report and --out must be two different files")


def _fit(
    options: Fit, method: str, make: Callable[[], Any], parts: Division, asked: Asked
) -> Fitted:
    in_folds = _is_judged_in_folds(options, parts)
    if in_folds:
        parts = parts._replace(is_test=np.zeros(len(parts.frame), bool))
    encoding = parts.encoding()
    train, test = parts.encoded(encoding)
    check_two_classes(encoding.classes, asked.option)
    positive = positive_class(encoding.classes, options.positive, train.y)
    moved = base_rate_moved(train, encoding.classes)
    table = [
        *encoding.report,
        *moved,
        *giveaways(encoding, parts.frame.filter(~parts.is_test), train),
    ]
    warn(table)
    if options.test is not None:
        test = _own_rows(options.test, encoding, train)
    make = _of_kind(options, encoding, train, make)
    estimator = make()
    refusals = (ValueError, *([TypeError] if options.settings else []))
    with (
        progress(f"fitting {len(train.y)} rows", quiet=options.quiet),
        refusals_of_estimator(*refusals),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # the fit's report says the same
        remarks = learn(estimator, train)
    warn(remarks)
    place = None if positive is None else positive.place
    with_peers = options.report is not None
    if in_folds:
        with progress(f"judging {len(train.y)} rows in {N_FOLDS} folds", quiet=options.quiet):
            judged = cross_validated(
                parts, N_FOLDS, options.seed, make, method, place, with_peers=with_peers
            )
    else:
        judged = judge(estimator, encoding, train, test, method, place, with_peers=with_peers)
    rule, unreached = _rule(asked, positive, judged)
    known = [*test.remarks, *judged.remarks, *unreached]
    new = _new_groups(options, parts, judged, make)
    if new is not None and new.is_worse:
        known.append(new.remark)
    warn(known)
    if new is not None and not new.is_worse:
        note(new.remark, quiet=options.quiet)
    remarks = [*parts.remarks, *table, *remarks, *known]
    share = parts.counts["held_out"] / len(parts.frame)
    title = _title(options, judged, in_folds=in_folds)
    return Fitted(
        method,
        estimator,
        encoding,
        train,
        judged,
        share,
        title,
        new,
        remarks,
        positive,
        rule,
        "".join(moved),
    )


def _rule(asked: Asked, positive: Positive | None, judged: Judged) -> tuple[Rule | None, list[str]]:
    """Return how to decide; where held-out rows do not reach a rate, none, and a sentence."""
    predictive, y = None, np.empty(0)
    if asked.rate is not None:
        if judged.models is None or judged.rows is None:
            raise InputError("--rate chooses a threshold on held-out rows: raise --test-fraction")
        predictive, y = judged.models["model"], judged.rows.y
    try:
        return asked.rule(positive, predictive, y), []
    except UnreachableError as error:
        return None, [f"--rate: {error}; the model is saved without a decision"]


def _of_kind(
    options: Fit, encoding: TableEncoding, train: Rows, make: Callable[[], Any]
) -> Callable[[], Any]:
    """Return what builds the estimator for the kind of its target."""
    noise = make().get_params(deep=False).get("noise")
    name = encoding.target_name
    kind = kind_of(options, name, encoding.task, train, noise=noise, quiet=options.quiet)
    return make if kind is None else lambda: make().set_params(target_kind=kind)


def _is_judged_in_folds(options: Fit, parts: Division) -> bool:
    """Whether a tenth of the rows would judge nothing, and nothing else was asked for."""
    asked = (options.test_fraction, options.test, options.time)
    return asked == (None, None, None) and len(parts.frame) < FEW_ROWS


def _new_groups(
    options: Fit, parts: Division, judged: Judged, make: Callable[[], Any]
) -> NewGroups | None:
    """Judge once more on groups that were not learnt, where rows seem to have some."""
    if (options.group, options.time, options.test) != (None, None, None) or judged.rows is None:
        return None
    with progress("looking for rows that belong together", quiet=options.quiet):
        return of_new_groups(parts, options.seed, judged, make)


def _title(options: Fit, judged: Judged, *, in_folds: bool) -> str:
    """Say which rows judge a fit."""
    rows = judged.rows
    if rows is None:
        return ""
    if in_folds:
        whole = f", divided by {one_line(options.group)}" if options.group else ""
        return f"{len(rows.y)} rows, each judged by a fit to other folds{whole}"
    if options.test is not None:
        return f"{len(rows.y)} rows of {table_name(options.test)}"
    if rows.group is not None:
        n = len(np.unique(rows.group))
        return f"{len(rows.y)} held-out rows, of {n} new values of {one_line(str(options.group))}"
    late = f", the latest by {one_line(options.time)}" if options.time else ""
    return f"{len(rows.y)} held-out rows{late}"


def _own_rows(table: str, encoding: TableEncoding, train: Rows) -> Rows:
    """Read rows to judge by; InputError where there are none, or they are those learnt."""
    frame = read_source(table, encoding.text_columns)
    column(frame, encoding.target_name, table)
    rows = encoding.rows(frame)
    if not len(rows.y):
        raise InputError(f"--test {table_name(table)}: no row has a value of the target")
    if fingerprint(rows.y) == fingerprint(train.y):
        raise InputError(f"--test {table_name(table)} holds the rows that are learnt: name others")
    return rows


def _metadata(options: Fit, fitted: Fitted, parts: Division, target: Target) -> dict[str, Any]:
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
                "test_fraction": fitted.share,
                "weights": options.weights,
                "drop": options.drop,
                "group": options.group,
                "time": options.time,
                "test": options.test,
            },
            "rows": fitted.rows,
            "target_sha256": fingerprint(fitted.encoding.target(parts.target)),
            "held_out": fitted.judged.scores,
            "judged_by": fitted.title,
            "baselines": fitted.judged.baselines and fitted.judged.baselines.to_dict(),
            "positive": fitted.positive and fitted.positive.label,
            "decision": fitted.rule and fitted.rule.to_dict(),
            "base_rate": fitted.base_rate,
            **_picture(options, fitted.encoding),
        }
    )


def _picture(options: Fit, encoding: TableEncoding) -> dict[str, Any]:
    """Say which pixel of a picture each input is, where the rows of a known set are pictures."""
    known = registry.find(options.table)
    if known is None or known.image_shape is None:
        return {}
    pixels = {name: place for place, name in enumerate(known.pixel_names)}
    if not set(encoding.feature_names) <= set(pixels):
        return {}
    return {
        "image_shape": list(known.image_shape),
        "image_pixels": [pixels[name] for name in encoding.feature_names],
    }


def _write_page(path: Path, options: Fit, fitted: Fitted, command: str) -> None:
    from bayesprop.cli.report import write_page

    with progress("writing the report", quiet=options.quiet):
        saved = load_model(options.out)
        about = {"command": command, "remarks": _on_judging(fitted)}
        if fitted.judged.baselines is not None:
            about["peer_notes"] = fitted.judged.baselines.peer_notes
        test, models = fitted.judged.rows, fitted.judged.models
        write_page(
            path, saved, fitted.encoding, train=fitted.train, test=test, about=about, models=models
        )


def _on_judging(fitted: Fitted) -> list[str]:
    """Return what the page says of how the fit was judged, and what does as well."""
    said = list(fitted.judged.remarks)
    if fitted.title and fitted.title != f"{fitted.rows['held_out']} held-out rows":
        said.insert(0, f"judged on {fitted.title}")
    if fitted.new_groups is not None:
        said.append(fitted.new_groups.remark)
    return [f"{sentence[0].upper()}{sentence[1:]}." for sentence in said]


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
                "target_kind": metadata["config"]["parameters"].get("target_kind"),
                "classes": list(fitted.encoding.classes) or None,
                "positive": metadata["positive"],
                "decision": metadata["decision"],
                "unit": metadata["unit"],
                "rows": rows,
                "features": len(fitted.encoding.feature_names),
                "judged_by": fitted.title or None,
                "held_out": fitted.judged.scores,
                "standard_errors": dict(fitted.judged.errors) or None,
                "new_groups": None if fitted.new_groups is None else fitted.new_groups._asdict(),
                "seconds": report.seconds,
                "guards": report.guards,
                "warnings": fitted.warnings,
                "command": metadata["command"],
            }
        )
        return
    if fitted.judged.scores is None:
        note(f"no rows were held out of {rows['train']}: the fit is not judged")
    else:
        title, errors = f"{metadata['target']}: {fitted.title}", fitted.judged.errors
        print_scores(title, fitted.judged.scores, metadata["unit"], errors)
    if fitted.positive is not None:
        how = "as asked" if options.positive else "the rarer; --positive names another"
        note(f"positive class: {fitted.positive.name!r}, {how}", quiet=options.quiet)
        if fitted.rule is not None:
            note(rule_in_words(fitted.rule, fitted.positive), quiet=options.quiet)
    note(f"fitted {rows['train']} rows in {report.seconds:.2f} s", quiet=options.quiet)
    note(f"model: {options.out}", quiet=options.quiet)
    if options.report is not None:
        note(f"report: {options.report}", quiet=options.quiet)
