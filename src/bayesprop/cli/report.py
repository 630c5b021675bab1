"""`report`: one HTML page that judges a model on a table."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesprop.cli.actions import Report
from bayesprop.cli.console import note, print_json, progress, warn
from bayesprop.cli.opened import Notes, open_model
from bayesprop.cli.tables import check_output
from bayesprop.report.page import write_report

if TYPE_CHECKING:
    from bayesprop.store import SavedModel
    from bayesprop.table.encoding import Rows, TableEncoding


def run(options: Report) -> None:
    """Judge a model on every row of a table that has a target, and write the page."""
    check_output(options.out, "--out", [options.table, options.model])
    model = open_model(options.model, allow_absent=options.allow_missing_columns)
    with progress(f"reading {options.table}", quiet=options.quiet):
        rows = model.rows_to_judge(options.table)
    warn(rows.remarks)
    model.predict(rows)  # refuses rows that have no finite prediction
    about = {"command": model.notes.with_command(options.words), "source": options.table}
    with progress("writing the report", quiet=options.quiet):
        write_page(options.out, model.saved, model.encoding, train=None, test=rows, about=about)
    if options.as_json:
        print_json({"report": str(options.out), "rows": len(rows.y), "warnings": rows.remarks})
    else:
        note(f"report: {options.out}", quiet=options.quiet)


def write_page(
    path: Path,
    saved: SavedModel,
    encoding: TableEncoding,
    *,
    train: Rows | None,
    test: Rows | None,
    about: dict[str, Any],
    models: Mapping[str, Any] | None = None,
) -> None:
    """Write the page of a saved model, dated today; `about` goes over the notes of its fit.

    models
        Predictions of the rows to judge by, where they were made without them.
    """
    notes = Notes(saved).for_report() | {
        "versions": saved.header["versions"],
        "created": datetime.date.today().isoformat(),
    }
    write_report(
        path,
        estimator=saved.estimator,
        encoding=encoding,
        train=train,
        test=test,
        metadata=notes | about,
        models=models,
    )
