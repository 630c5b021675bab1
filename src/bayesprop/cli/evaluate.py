"""`evaluate`: the metrics of a model on a table that holds the target."""

from __future__ import annotations

from bayesprop.cli.actions import Evaluate
from bayesprop.cli.console import print_json, progress, warn
from bayesprop.cli.opened import open_model
from bayesprop.cli.scores import confusion, print_confusion, print_scores, score
from bayesprop.cli.tables import table_name


def run(options: Evaluate) -> None:
    """Predict every row that has a target and compare."""
    model = open_model(options.model)
    with progress(f"evaluating {options.table}", quiet=options.quiet):
        rows = model.rows_to_judge(options.table)
        predictive = model.predict(rows)
        scores = score(predictive, model.notes.baselines, rows)
        counted = confusion(predictive, rows)
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
                "confusion": counted,
                "warnings": rows.remarks,
            }
        )
        return
    title = f"{target}: {len(rows.y)} rows of {table_name(options.table)}"
    print_scores(title, scores, model.notes.unit)
    if counted is not None:
        print_confusion(counted)
