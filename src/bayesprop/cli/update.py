"""`update`: learn new rows and save the model."""

from __future__ import annotations

from bayesprop.atomic import alone, version_of
from bayesprop.cli.console import ask, check_output, listening, note, print_json, print_scores
from bayesprop.cli.further_rows import Update
from bayesprop.table_model.model import TableModel, open_model


def run(options: Update) -> None:
    """Evaluate the model on the new rows, learn them, save the model."""
    out = options.out or options.model
    check_output(out, "--out", [options.table, *options.known])
    busy = f"waiting for another program that replaces {out}"
    with (
        alone(out, lambda: note(busy, quiet=options.quiet)),
        listening(options) as listener,
    ):
        since = version_of(out)
        model = ask(open_model(options.model).update, options)
        model.save(out, since)
    how, about = "refitted" if options.known else "streamed", model.notes.updates[-1]
    if options.as_json:
        facts = {
            "model": str(out),
            "table": options.table,
            "target": model.encoding.target_name,
            "how": how,
            "rows": {"new": about["learnt"], **model.notes.rows},
            "before": about["before"],
            "held_out": model.notes.held_out,
            "seconds": about["seconds"],
            "guards": model.estimator.fit_report_.guards,
            "warnings": listener.warnings,
        }
        print_json(facts)
    else:
        _show(options, model, how)
        note(f"model: {out}", quiet=options.quiet)


def _show(options: Update, model: TableModel, how: str) -> None:
    target, notes, about = model.encoding.target_name, model.notes, model.notes.updates[-1]
    n = about["learnt"]
    print_scores(f"{target}: {n} new rows before they were learnt", about["before"], notes.unit)
    if notes.held_out is not None:
        print()
        title = f"{target}: {notes.rows['held_out']} held-out rows after the update"
        print_scores(title, notes.held_out, notes.unit)
    done = f"{how} {n} rows in {about['seconds']:.2f} s, {notes.rows['train']} learnt in all"
    note(done, quiet=options.quiet)
