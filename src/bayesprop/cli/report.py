"""`report`: one HTML page that judges a model on a table."""

from __future__ import annotations

import datetime
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from bayesprop.cli.actions import Report
from bayesprop.cli.console import note, print_json, progress, warn
from bayesprop.cli.failures import writing
from bayesprop.cli.remembered import remember
from bayesprop.cli.scores import predict_rows
from bayesprop.cli.sources import check_output, encoding_of, open_model, rows_to_judge
from bayesprop.report.write import Rows, write_report

if TYPE_CHECKING:
    from bayesprop.store import SavedModel


def run(options: Report) -> None:
    """Judge a model on every row of a table that has a target, and write the page."""
    check_output(options.out, "--out", [options.table, options.model])
    saved = open_model(options.model)
    with progress(f"reading {options.table}", quiet=options.quiet):
        judged = rows_to_judge(saved, options.table)
    warn(judged.warnings)
    # Refuses rows that have no finite prediction.
    predict_rows(saved.estimator, judged.features, encoding_of(saved), judged.row_numbers)
    rows = Rows(judged.features, judged.target, [str(row) for row in judged.row_numbers])
    commands = (remember(saved).command, shlex.join(["bayesprop", *options.words]))
    command = " && ".join(line for line in commands if line)
    with progress("writing the report", quiet=options.quiet):
        write_page(options.out, saved, train=None, test=rows, command=command, source=options.table)
    if options.as_json:
        print_json({"report": str(options.out), "rows": len(rows.y), "warnings": judged.warnings})
    else:
        note(f"report: {options.out}", quiet=options.quiet)


def write_page(
    path: Path,
    saved: SavedModel,
    *,
    train: Rows | None,
    test: Rows | None,
    command: str,
    source: str | None = None,
) -> None:
    """Write the page of a saved model, dated today; `source` None: the table of the fit."""
    about = remember(saved).for_report() | {
        "command": command,
        "versions": saved.header["versions"],
        "created": datetime.date.today().isoformat(),
    }
    if source is not None:
        about["source"] = source
    with writing(path):
        write_report(
            path,
            estimator=saved.estimator,
            encoding=saved.table,
            train=train,
            test=test,
            metadata=about,
        )
