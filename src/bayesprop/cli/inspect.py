"""`inspect`: what a model file holds, how its fit went, what reproduces it."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

from bayesprop import codec
from bayesprop.cli.actions import Inspect
from bayesprop.cli.console import print_json, print_scores, print_table, wrapped
from bayesprop.evaluation.thresholds import Rule
from bayesprop.model.fit_report import FitReport
from bayesprop.store import SavedModel, load_model
from bayesprop.table.errors import one_line
from bayesprop.table.target import class_text
from bayesprop.table_model.notes import Notes
from bayesprop.table_model.plain_values import figure, plain
from bayesprop.table_model.summary import decision_in_words, rows_in_words, target_in_words


def run(options: Inspect) -> None:
    """Describe a model file."""
    saved = load_model(options.model)
    notes = Notes(saved)
    facts = _facts(saved, notes)
    if options.as_json:
        print_json({"model": str(options.model), **facts})
    else:
        _show(facts, notes)


def _facts(saved: SavedModel, notes: Notes) -> dict[str, Any]:
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
        "features": _features(saved),
        "target_scaling": plain(_scalings(estimator.y_scaler_)) if classes is None else None,
        "fit": codec.to_json(estimator.fit_report_, FitReport),
        "judged_by": notes.judged_by or None,
        "held_out": notes.held_out,
        "standard_errors": notes.errors or None,
        "warnings": notes.warnings,
        "table": [] if saved.table is None else saved.table.report,
        "versions": saved.header["versions"],
        "schema": saved.header["schema"],
        "command": notes.command or None,
        "config": notes.config or None,
    }


def _hidden_sizes(estimator: Any) -> list[int]:
    """Return the hidden layers in use: chosen by the user, or by the method for the rows it had."""
    asked = estimator.get_params(deep=False).get("hidden_layer_sizes", ())
    return np.atleast_1d(np.asarray(getattr(estimator, "hidden_layer_sizes_", asked), int)).tolist()


def _features(saved: SavedModel) -> list[dict[str, Any]]:
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


def _scalings(scaler: Any) -> list[dict[str, Any]]:
    pairs = zip((scaler.mean * scaler.unit).tolist(), scaler.scale.tolist(), strict=True)
    return [{"mean": mean, "std": std} for mean, std in pairs]


def _show(facts: dict[str, Any], notes: Notes) -> None:
    fit, name = facts["fit"], facts["target"] or "not recorded"
    about = (facts[key] for key in ("target_kind", "classes", "order"))
    rows = {
        "method": f"{facts['method']}, {facts['task']}",
        "layers": " - ".join(str(size) for size in facts["layer_sizes"]),
        "target": target_in_words(name, notes.unit, *about),
        "positive": "" if facts["positive"] is None else class_text(facts["positive"]),
        "decision": decision_in_words(notes),
        "rows": rows_in_words({"train": fit["n_rows"]} | notes.rows),
        "fit": f"{fit['n_epochs']} {fit['step']}s in {fit['seconds']:.2f} s",
        "guards": ", ".join(f"{_words(k)} {count}" for k, count in fit["guards"].items()),
        f"last {fit['step']}": ", ".join(
            f"{_words(k)} {figure(v[-1])}" for k, v in fit["trace"].items() if v
        ),
        "evidence": ", ".join(f"{k} {figure(v)} nats" for k, v in fit["log_evidence"].items()),
        "versions": ", ".join(f"{name} {value}" for name, value in facts["versions"].items()),
        "command": facts["command"] or "not recorded: saved from Python",
    }
    lines = [(name, text) for name, text in rows.items() if text]
    lines += [("table", sentence) for sentence in facts["table"]]
    # Those of the fit are among the others, but of a model saved from Python or updated since.
    warnings = dict.fromkeys([*facts["warnings"], *fit["warnings"]])
    lines += [("warning", sentence) for sentence in warnings if sentence not in facts["table"]]
    for name, text in lines:
        print(wrapped(f"{name:<11}{one_line(text)}", 11))
    print()
    _show_features(facts["features"])
    if facts["held_out"]:
        print()
        title = one_line(facts["judged_by"] or "held-out rows")
        print_scores(title, facts["held_out"], notes.unit, facts["standard_errors"])


def _words(name: str) -> str:
    return name.replace("_", " ")


def _show_features(features: list[dict[str, Any]]) -> None:
    rows = []
    for feature in features:
        for index, given in enumerate(feature["inputs"]):
            first = (feature["name"], feature["kind"]) if index == 0 else ("", "")
            rows.append((*first, given["name"], figure(given["mean"]), figure(given["std"])))
    print_table("", ("column", "kind", "input", "mean", "std"), rows, right=(3, 4))
