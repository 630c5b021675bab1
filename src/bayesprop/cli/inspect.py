"""`inspect`: describe a model file, its fit, and the command that reproduces it."""

from __future__ import annotations

from bayesprop.cli.actions import Inspect
from bayesprop.cli.console import print_json, print_scores, print_table, wrapped
from bayesprop.codec import JsonObject
from bayesprop.store import load_model
from bayesprop.table.errors import one_line
from bayesprop.table.target import class_text
from bayesprop.table_model.listener import figure
from bayesprop.table_model.request import Notes
from bayesprop.table_model.summary import (
    decision_in_words,
    facts_of,
    rows_in_words,
    target_in_words,
)


def run(options: Inspect) -> None:
    """Describe a model file."""
    saved = load_model(options.model)
    notes = Notes(saved)
    facts = facts_of(saved, notes)
    if options.as_json:
        print_json({"model": str(options.model), **facts})
    else:
        _show(facts, notes)


def _show(facts: JsonObject, notes: Notes) -> None:
    fit, name = facts["fit"], facts["target"] or "not recorded"
    about = (facts[key] for key in ("target_kind", "classes", "order"))
    rows = {
        "method": f"{facts['method']}, {facts['task']}",
        "layers": " - ".join(str(size) for size in facts["layer_sizes"]),
        "target": target_in_words(name, notes.unit, *about),
        "positive": "" if facts["positive"] is None else class_text(facts["positive"]),
        "decision": decision_in_words(notes),
        "rows": rows_in_words({"train": fit["n_rows"]} | notes.rows),
        "groups": ", ".join(f"{n} of {name}" for name, n in facts["known_groups"].items()),
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


def _show_features(features: list[JsonObject]) -> None:
    rows = []
    for feature in features:
        for index, given in enumerate(feature["inputs"]):
            first = (feature["name"], feature["kind"]) if index == 0 else ("", "")
            rows.append((*first, given["name"], figure(given["mean"]), figure(given["std"])))
    print_table("", ("column", "kind", "input", "mean", "std"), rows, right=(3, 4))
