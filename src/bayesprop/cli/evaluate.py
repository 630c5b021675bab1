"""`evaluate`: the metrics of a model on a table that holds the target."""

from __future__ import annotations

from bayesprop.cli.actions import Evaluate
from bayesprop.cli.console import print_json, progress, warn
from bayesprop.cli.remembered import remember
from bayesprop.cli.scores import (
    confusion,
    predict_rows,
    print_confusion,
    print_scores,
    score,
)
from bayesprop.cli.sources import (
    encoding_of,
    open_model,
    rows_to_judge,
    table_name,
)


def run(options: Evaluate) -> None:
    """Predict every row that has a target and compare."""
    saved = open_model(options.model)
    notes = remember(saved)
    with progress(f"evaluating {options.table}", quiet=options.quiet):
        rows = rows_to_judge(saved, options.table)
        predictive = predict_rows(
            saved.estimator, rows.features, encoding_of(saved), rows.row_numbers
        )
        scores = score(predictive, notes.baselines, rows.features, rows.target)
        counted = confusion(predictive, rows.target)
    warn(rows.warnings)
    target = encoding_of(saved).target_name
    if options.as_json:
        print_json(
            {
                "model": str(options.model),
                "table": options.table,
                "task": encoding_of(saved).task,
                "target": target,
                "unit": notes.unit,
                "rows": len(rows.target),
                "metrics": scores,
                "confusion": None if counted is None else counted._asdict(),
                "warnings": rows.warnings,
            }
        )
    else:
        print_scores(
            f"{target}: {len(rows.target)} rows of {table_name(options.table)}", scores, notes.unit
        )
        if counted is not None:
            print_confusion(counted)
