"""`evaluate`: the metrics of a model on a table that holds the target."""

from __future__ import annotations

from typing import Any

from bayesprop import metrics
from bayesprop.cli.actions import Evaluate
from bayesprop.cli.console import print_json, print_table, progress, warn
from bayesprop.cli.judging import errors_of, scored
from bayesprop.cli.opened import open_model
from bayesprop.cli.tables import print_scores, table_name
from bayesprop.table.classes import class_text
from bayesprop.table.encoding import Rows

MAX_SHOWN_CLASSES = 10


def run(options: Evaluate) -> None:
    """Predict every row that has a target and compare."""
    model = open_model(options.model)
    with progress(f"evaluating {options.table}", quiet=options.quiet):
        rows = model.rows_to_judge(options.table)
        predictive = model.predict(rows)
        scores = scored(predictive, model.notes.baselines, rows)
        errors = errors_of(predictive, rows)
        confusion = _confusion(predictive, rows) if model.encoding.classes else None
    warn(rows.remarks)
    target = model.encoding.target_name
    if options.as_json:
        print_json(
            {
                "model": str(options.model),
                "table": options.table,
                "task": model.encoding.task,
                "target": target,
                "unit": model.notes.unit,
                "rows": len(rows.y),
                "metrics": scores,
                "standard_errors": errors,
                "confusion": confusion,
                "warnings": rows.remarks,
            }
        )
        return
    title = f"{target}: {len(rows.y)} rows of {table_name(options.table)}"
    print_scores(title, scores, model.notes.unit, errors)
    if confusion is not None and len(confusion["classes"]) <= MAX_SHOWN_CLASSES:
        labels = [class_text(label) for label in confusion["classes"]]
        counts = zip(labels, confusion["counts"], strict=True)
        cells = [(label, *map(str, row)) for label, row in counts]
        print()
        print_table("", ("actual, predicted:", *labels), cells, right=range(1, 1 + len(labels)))


def _confusion(predictive: Any, rows: Rows) -> dict[str, Any]:
    """Count rows by actual (outer list) and predicted class."""
    counts = metrics.confusion(predictive, rows.y)
    return {"classes": predictive.classes.tolist(), "counts": counts.tolist()}
