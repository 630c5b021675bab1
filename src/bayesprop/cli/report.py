"""`report`: write an HTML report of a model on a table."""

from __future__ import annotations

from bayesprop.cli.actions import Report
from bayesprop.cli.console import ask, check_output, listening, note, print_json
from bayesprop.table_model.model import open_model


def run(options: Report) -> None:
    """Evaluate a model on every row of a table that has a target, and write the report."""
    check_output(options.out, "--out", [options.table, options.model])
    with listening(options) as listener:
        n_rows = ask(open_model(options.model).report, options)
    if options.as_json:
        facts = {"report": str(options.out), "rows": n_rows, "warnings": listener.warnings}
        print_json(facts)
    else:
        note(f"report: {options.out}", quiet=options.quiet)
