"""`report`: one HTML page that judges a model on a table."""

from __future__ import annotations

from bayesprop.cli.actions import Report
from bayesprop.cli.console import continued, note, print_json, progress, warn
from bayesprop.cli.options import check_output
from bayesprop.table_model.model import open_model
from bayesprop.table_model.page import write_page


def run(options: Report) -> None:
    """Judge a model on every row of a table that has a target, and write the page."""
    check_output(options.out, "--out", [options.table, options.model])
    model = open_model(options.model, allow_absent=options.allow_missing_columns)
    with progress(f"reading {options.table}", quiet=options.quiet):
        rows = model.rows_to_judge(model.read(options.table, model.encoding.rows), options.table)
    warn(rows.remarks)
    model.predictive(rows)  # refuses rows that have no finite prediction
    about = {"command": continued(model.notes.command, options.words), "source": options.table}
    with progress("writing the report", quiet=options.quiet):
        write_page(options.out, model.saved, model.encoding, train=None, test=rows, about=about)
    if options.as_json:
        print_json({"report": str(options.out), "rows": len(rows.y), "warnings": rows.remarks})
    else:
        note(f"report: {options.out}", quiet=options.quiet)
