"""`report`: one HTML page that judges a model on a table."""

from __future__ import annotations

from bayesprop.cli.actions import Report
from bayesprop.cli.console import continued, note, print_json, progress, warn
from bayesprop.cli.options import check_output
from bayesprop.table_model.model import open_model


def run(options: Report) -> None:
    """Judge a model on every row of a table that has a target, and write the page."""
    check_output(options.out, "--out", [options.table, options.model])
    model = open_model(options.model, allow_absent=options.allow_missing_columns)
    with progress(f"reading {options.table}", quiet=options.quiet):
        rows = model.rows_to_judge(options.table)
    warn(rows.remarks)
    command = continued(model.notes.command, options.words)
    with progress("writing the report", quiet=options.quiet):
        model.report_rows(options.out, rows, command, options.table)
    if options.as_json:
        print_json({"report": str(options.out), "rows": len(rows.y), "warnings": rows.remarks})
    else:
        note(f"report: {options.out}", quiet=options.quiet)
