"""`fit`: its options parsed; a table in; a model, its held-out metrics and a report out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from bayesprop.cli.actions import Fit, Learning
from bayesprop.cli.console import (
    TerminalListener,
    ask,
    check_outputs,
    listening,
    note,
    print_json,
    print_scores,
    std_of,
)
from bayesprop.model.progress import limited
from bayesprop.table.errors import OPTIONS, InputError, for_terminal, one_line
from bayesprop.table_model.answers import choice_in_words
from bayesprop.table_model.answers import words as rule_in_words
from bayesprop.table_model.from_python import fit
from bayesprop.table_model.model import TableModel

if TYPE_CHECKING:
    from bayesprop.codec import Json, JsonObject


def run(options: Fit) -> None:
    """Fit, save, report."""
    outputs = {"--out": options.out, "--report": options.report, "--checkpoint": options.checkpoint}
    check_outputs(outputs, [options.table, options.test])
    with listening(options) as listener:
        asked, with_peers = rows_asked(options) | settings_of(options), options.report is not None
        asked["std_of"] = std_of(options.std_of)
        with limited(options.time_limit):
            model = ask(fit, options, **asked, with_peers=with_peers)
            model.save(options.out)
        if options.report is not None:
            model.report(options.report)
        _show(options, model, listener)


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


def rows_asked(options: Learning) -> JsonObject:
    """Return the arguments of `fit` on rows and columns."""
    others = "words", "table", "kind", "max_size"
    names = [one.name for one in fields(Learning) if one.name not in others]
    asked: JsonObject = {name: getattr(options, name) for name in names}
    if options.order is not None:
        asked["order"] = [word.strip() for word in options.order.split(",")]
    if options.missing is not None:
        words = options.missing.split(",") if options.missing != "none" else []
        asked["missing"] = [word.strip() for word in words]
    if bad := [text for text in options.kind if "=" not in text]:
        raise InputError(f"--kind must be COL=KIND, such as lap=duration; got {one_line(bad[0])!r}")
    if options.kind:
        asked["kinds"] = dict(text.rsplit("=", 1) for text in options.kind)
    return asked


def settings_of(fit: Fit) -> JsonObject:
    """Return the hyper-parameters by name."""
    asked = {
        "hidden_layer_sizes": _hidden(fit.hidden) if fit.hidden else None,
        "n_epochs": fit.epochs,
        "batch_size": fit.batch_size,
        "inference": fit.inference,
    }
    by_option = {name: value for name, value in asked.items() if value is not None}
    by_name = _assigned(fit.settings)
    for name in by_name:
        if name in by_option or name in ("random_state", "target_kind", "exposure", "order"):
            raise InputError(f"--set {name}: {OPTIONS[name]} sets this: give only {OPTIONS[name]}")
    return by_option | by_name


def _assigned(assignments: Iterable[str]) -> JsonObject:
    """Read "name=value", the value as JSON, or as plain text where it is none."""
    values: JsonObject = {}
    for text in assignments:
        name, is_given, value = text.partition("=")
        name = name.strip()
        if not is_given or not name.isidentifier():
            raise InputError(
                f"--set must be name=value, such as learning_rate=0.01; got {one_line(text)!r}"
            )
        if name in values:
            raise InputError(f"--set {name} is given twice")
        values[name] = _value(value.strip())
    return values


def _value(text: str) -> Json | tuple:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else value


def _hidden(words: Sequence[str]) -> tuple[int, ...]:
    """Read the units of every hidden layer from "50", "50,50" or a repeated option."""
    parts = [part.strip() for word in words for part in word.split(",")]
    if not all(part.isdecimal() and int(part) >= 1 for part in parts):
        got = one_line(",".join(parts))
        raise InputError(f"--hidden must be whole numbers >= 1, such as 50 or 50,50; got {got}")
    return tuple(int(part) for part in parts)
