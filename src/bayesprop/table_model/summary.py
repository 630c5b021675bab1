"""What was understood of a table, and how good its model is: in about ten lines."""

from __future__ import annotations

import html
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesprop import codec
from bayesprop.evaluation.thresholds import Rule
from bayesprop.model.fit_report import FitReport
from bayesprop.table.errors import counted, for_terminal, listed, one_line
from bayesprop.table_model.answers import words as rule_in_words
from bayesprop.table_model.listener import LABELS, figure, plain
from bayesprop.table_model.request import WORDS, classes_in_words

if TYPE_CHECKING:
    from bayesprop.codec import JsonObject
    from bayesprop.estimators.shell import EstimatorBase
    from bayesprop.model.task import Standardiser
    from bayesprop.store import SavedModel
    from bayesprop.table.target import Label
    from bayesprop.table_model.model import TableModel
    from bayesprop.table_model.request import Notes

_METRICS = ("rmse", "accuracy", "average_precision", "log_likelihood", "rps", "coverage_90")
_KINDS = {"numeric": "numbers", "category": "categories", "date": "dates"}
_WIDTH, _INDENT = 80, 15


def summary(model: TableModel) -> list[tuple[str, str]]:
    """Say what is predicted from what, what was dropped, and how good it is on rows not learnt.

    Each line is a label and what is to be said of it.
    """
    notes, encoding, task = model.notes, model.encoding, model.estimator.task_
    target = encoding.target_name, notes.unit, task.kind, encoding.classes, task.order
    positive = f"; positive is {model.positive.name!r}" if model.positive else ""
    missing = [c.name for c in encoding.columns if getattr(c, "missing", False)]
    lines = [
        ("target", target_in_words(*target) + positive),
        ("decision", decision_in_words(notes)),
        ("method", model.saved.header["method"]),
        ("rows", rows_in_words(notes.rows)),
        ("columns", _columns(model)),
        ("missing", f"in {counted(len(missing), 'column')}: {listed(missing)}" if missing else ""),
        *(("evaluated on", notes.judged_by) for _ in _scores(model)[:1]),
        *_scores(model),
        *(("table", remark) for remark in encoding.report),
        *(("warning", remark) for remark in notes.warnings if remark not in encoding.report),
    ]
    return [(label, one_line(str(text))) for label, text in lines if text]


def as_text(model: TableModel) -> str:
    """Return the summary in lines of at most 80 characters."""
    lines, before = [], ""
    for label, text in summary(model):
        head = "" if label == before else label
        first, rest = f"{head:<{_INDENT}}", " " * _INDENT
        lines.append(textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=rest))
        before = label
    return "\n".join(lines)


def as_html(model: TableModel) -> str:
    """Return the summary as a table for a notebook; escaped."""
    cells = (
        f'<tr><th style="text-align:left">{html.escape(label)}</th>'
        f'<td style="text-align:left">{html.escape(text)}</td></tr>'
        for label, text in summary(model)
    )
    return f"<table>{''.join(cells)}</table>"


def target_in_words(
    name: str, unit: str, kind: str, classes: Sequence[Label], order: Sequence[int] | None
) -> str:
    """Say what is predicted: its name and unit, and its classes or kind of number."""
    name = f"{name} ({unit})" if unit else name
    if classes:
        return f"{name}: {classes_in_words(classes, order)}"
    return f"{name}: {WORDS.get(kind, 'a number')}"


def decision_in_words(notes: Notes) -> str:
    """Say how two classes are decided; nothing where no rule was asked for."""
    rule, positive = notes.rule, notes.positive
    return "" if positive is None or rule is None else rule_in_words(rule, positive)


def rows_in_words(rows: Mapping[str, int]) -> str:
    """Count the rows of a fit; nothing where they are not known."""
    out = f", {rows['held_out']} held out" if rows.get("held_out") else ""
    return f"{rows['train']} learnt{out}" if "train" in rows else ""


def _columns(model: TableModel) -> str:
    columns = model.encoding.columns
    kinds = Counter(column.kind for column in columns)
    parts = ", ".join(f"{_KINDS.get(kind, kind)} {n}" for kind, n in kinds.most_common())
    n_inputs = len(model.encoding.feature_names)
    return f"{len(columns)} used: {parts}; {counted(n_inputs, 'input')} of the model"


def _scores(model: TableModel) -> list[tuple[str, str]]:
    """Return the metrics that matter first, with their standard errors and the baselines'."""
    held_out = model.notes.held_out
    if held_out is None:
        return []
    own, errors = held_out["model"], model.notes.errors
    others = {name: values for name, values in held_out.items() if name != "model"}
    lines = []
    for metric in (metric for metric in _METRICS if own.get(metric) is not None):
        error = f" ± {figure(errors[metric], 2)}" if errors.get(metric) is not None else ""
        beside = ", ".join(f"{name} {figure(one.get(metric))}" for name, one in others.items())
        text = f"{LABELS[metric][0]} {figure(own[metric])}{error}"
        lines.append(("held out", f"{text} ({beside})" if beside else text))
    return lines


def facts_of(saved: SavedModel, notes: Notes) -> JsonObject:
    """Return what a model file holds, how its fit went and what reproduces it, for JSON."""
    estimator: Any = saved.estimator
    classes = plain(getattr(estimator, "classes_", None))
    return {
        "method": saved.header["method"],
        "task": "regression" if classes is None else "classification",
        "parameters": plain(estimator.get_params(deep=False)),
        "layer_sizes": [
            estimator.n_features_in_,
            *_hidden_sizes(estimator),
            estimator.n_outputs_ if classes is None else len(classes),
        ],
        "target": None if saved.table is None else saved.table.target_name,
        "target_kind": estimator.task_.kind,
        "classes": classes,
        "order": None if classes is None else plain(estimator.task_.order),
        "positive": notes.positive and notes.positive.label,
        "decision": codec.to_json(notes.rule, Rule),
        "unit": notes.unit or None,
        "rows": notes.rows or None,
        "known_groups": _known_groups(saved, notes),
        "features": _features(saved),
        "target_scaling": plain(_scalings(estimator.y_scaler_)) if classes is None else None,
        "fit": codec.to_json(estimator.fit_report_, FitReport),
        "judged_by": notes.judged_by or None,
        "held_out": notes.held_out,
        "standard_errors": notes.errors or None,
        "warnings": [*map(for_terminal, notes.warnings)],
        "table": [] if saved.table is None else [*map(for_terminal, saved.table.report)],
        "versions": saved.header["versions"],
        "schema": saved.header["schema"],
        "command": notes.command or None,
        "config": notes.config or None,
    }


def _known_groups(saved: SavedModel, notes: Notes) -> dict[str, int]:
    """Count the groups whose names and effects a file holds, by their columns."""
    learnt = saved.fitted.encoding.groups or ()
    factors = notes.group or [(f"groups[:, {k}]",) for k in range(len(learnt))]
    return {"/".join(names): len(one) for names, one in zip(factors, learnt, strict=False)}


def _hidden_sizes(estimator: EstimatorBase) -> list[int]:
    """Return the hidden layers in use: chosen by the user, or by the method for the rows it had."""
    asked = estimator.get_params(deep=False).get("hidden_layer_sizes", ())
    return np.atleast_1d(np.asarray(getattr(estimator, "hidden_layer_sizes_", asked), int)).tolist()


def _features(saved: SavedModel) -> list[JsonObject]:
    scalings = _scalings(saved.estimator.x_scaler_)
    names = getattr(saved.estimator, "feature_names_in_", None)
    if saved.table is not None:
        names = saved.table.feature_names
        columns = [
            (column.name, column.kind, len(column.feature_names)) for column in saved.table.columns
        ]
    else:
        names = [f"x{i + 1}" for i in range(len(scalings))] if names is None else list(names)
        columns = [(name, "numeric", 1) for name in names]
    pairs = zip(names, scalings, strict=True)
    inputs = iter([scaling | {"name": name} for name, scaling in pairs])
    return [
        {"name": name, "kind": kind, "inputs": list(islice(inputs, n))} for name, kind, n in columns
    ]


def _scalings(scaler: Standardiser) -> list[JsonObject]:
    pairs = zip((scaler.mean * scaler.unit).tolist(), scaler.scale.tolist(), strict=True)
    return [{"mean": mean, "std": std} for mean, std in pairs]
