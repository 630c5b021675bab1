"""`fit`: a table in; a model, its held-out metrics and a report out."""

from __future__ import annotations

from itertools import combinations

from bayesprop.cli.actions import Fit
from bayesprop.cli.console import (
    TerminalListener,
    ask,
    limited,
    listening,
    note,
    print_json,
    print_scores,
)
from bayesprop.cli.options import check_output
from bayesprop.cli.settings import rows_asked, settings_of
from bayesprop.table.errors import InputError, for_terminal
from bayesprop.table_model.deciding import choice_in_words
from bayesprop.table_model.deciding import words as rule_in_words
from bayesprop.table_model.from_python import fit
from bayesprop.table_model.model import TableModel


def run(options: Fit) -> None:
    """Fit, save, report."""
    _check_paths(options)
    with listening(options) as listener:
        asked, with_peers = rows_asked(options) | settings_of(options), options.report is not None
        with limited(options.time_limit):
            model = ask(fit, options, **asked, with_peers=with_peers)
            model.save(options.out)
        if options.report is not None:
            model.report(options.report)
        _show(options, model, listener)


def _check_paths(options: Fit) -> None:
    named = {"--out": options.out, "--report": options.report, "--checkpoint": options.checkpoint}
    outputs = [(name, path) for name, path in named.items() if path is not None]
    for name, path in outputs:
        check_output(path, name, [options.table, options.test])
    for (name, path), (other, own) in combinations(outputs, 2):
        if path.resolve() == own.resolve():
            raise InputError(f"{other} and {name} must be two different files")


def _show(options: Fit, model: TableModel, listener: TerminalListener) -> None:
    notes, about, report = model.notes, model.saved.metadata, model.estimator.fit_report_
    fitted = model.fitted
    assert fitted is not None
    if options.as_json:
        print_json(
            {
                "model": str(options.out),
                "report": None if options.report is None else str(options.report),
                "task": about["task"],
                "method": model.saved.header["method"],
                "target": about["target"],
                "target_kind": about["config"]["parameters"].get("target_kind"),
                "classes": list(model.encoding.classes) or None,
                "positive": about["positive"],
                "decision": about["decision"],
                "unit": about["unit"],
                "rows": about["rows"],
                "features": len(model.encoding.feature_names),
                "judged_by": notes.judged_by or None,
                "held_out": about["held_out"],
                "standard_errors": about["standard_errors"] or None,
                "judged_again": [one.facts for one in fitted.again],
                "seconds": report.seconds,
                "guards": report.guards,
                "warnings": [*map(for_terminal, fitted.warnings)],
                "command": notes.command,
            }
        )
        return
    n_rows = notes.rows["train"]
    if notes.held_out is None and not fitted.judged.remarks:
        note(f"no rows were held out of {n_rows}: the model is not evaluated")
    elif notes.held_out is not None:
        title = f"{about['target']}: {notes.judged_by}"
        print_scores(title, notes.held_out, notes.unit, notes.errors)
    if model.positive is not None:
        listener.note(choice_in_words(model.positive, options.positive))
        if notes.rule is not None:
            listener.note(rule_in_words(notes.rule, model.positive))
    listener.note(f"fitted {n_rows} rows in {report.seconds:.2f} s")
    listener.note(f"model: {options.out}")
    if options.report is not None:
        listener.note(f"report: {options.report}")
