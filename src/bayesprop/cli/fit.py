"""`fit`: a table in; a model, its held-out metrics and a report out."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from bayesprop.cli.actions import Fit
from bayesprop.cli.console import (
    TerminalListener,
    command_line,
    limited,
    note,
    print_json,
    print_scores,
)
from bayesprop.cli.options import check_output
from bayesprop.cli.settings import fit_request
from bayesprop.table_model.deciding import choice_in_words
from bayesprop.table_model.deciding import words as rule_in_words
from bayesprop.table_model.learning import Fitted, fit_table
from bayesprop.table_model.model import TableModel
from bayesprop.table_model.refusals import InputError
from bayesprop.table_model.request import FitRequest, method_of
from bayesprop.table_model.sources import read_to_learn, to_learn


def run(options: Fit) -> None:
    """Read, split, fit, judge, save, report."""
    _check_paths(options)
    request, listener = fit_request(options), TerminalListener(quiet=options.quiet)
    with limited(options.time_limit):
        fitted, model = _saved(options, request, listener)
    if options.report is not None:
        with listener.doing("writing the report"):
            model.report_fit(options.report)
    _show(options, fitted, model.saved.metadata)


def _saved(
    options: Fit, request: FitRequest, listener: TerminalListener
) -> tuple[Fitted, TableModel]:
    if options.task is not None:
        method_of(options.method, options.task, f"--task asks for {options.task}")
    with listener.doing(f"reading {options.table}"):
        frame, all_rows = to_learn(request, options.table, lambda: read_to_learn(request))
    fitted = fit_table(request, frame, listener, all_rows)
    model = TableModel.of(fitted, command_line(options.words))
    model.save(options.out)
    return fitted, model


def _check_paths(options: Fit) -> None:
    named = {"--out": options.out, "--report": options.report, "--checkpoint": options.checkpoint}
    outputs = [(name, path) for name, path in named.items() if path is not None]
    for name, path in outputs:
        check_output(path, name, [options.table, options.test])
    for (name, path), (other, own) in combinations(outputs, 2):
        if path.resolve() == own.resolve():
            raise InputError(f"{other} and {name} must be two different files")


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
                "judged_again": [one._asdict() for one in fitted.again],
                "seconds": report.seconds,
                "guards": report.guards,
                "warnings": fitted.warnings,
                "command": metadata["command"],
            }
        )
        return
    if fitted.judged.scores is None and not fitted.judged.remarks:
        note(f"no rows were held out of {rows['train']}: the fit is not judged")
    elif fitted.judged.scores is not None:
        title, errors = f"{metadata['target']}: {fitted.title}", fitted.judged.errors
        print_scores(title, fitted.judged.scores, metadata["unit"], errors)
    if fitted.positive is not None:
        note(choice_in_words(fitted.positive, options.positive), quiet=options.quiet)
        if fitted.rule is not None:
            note(rule_in_words(fitted.rule, fitted.positive), quiet=options.quiet)
    note(f"fitted {rows['train']} rows in {report.seconds:.2f} s", quiet=options.quiet)
    note(f"model: {options.out}", quiet=options.quiet)
    if options.report is not None:
        note(f"report: {options.report}", quiet=options.quiet)
