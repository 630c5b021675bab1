"""`evaluate`: the metrics of a model on a table that holds the target."""

from __future__ import annotations

from pathlib import Path

from bayesprop.commands.console import print_json, progress, warn
from bayesprop.commands.scores import print_scores, score
from bayesprop.commands.sources import (
    baselines_of,
    encoding_of,
    open_model,
    rows_to_judge,
    table_name,
)


def run(model: Path, table: str, *, as_json: bool, quiet: bool) -> None:
    """Predict every row that has a target and compare."""
    saved = open_model(model)
    with progress(f"evaluating {table}", quiet=quiet):
        rows = rows_to_judge(saved, table)
        scores = score(saved.estimator, baselines_of(saved), rows.features, rows.target)
    warn(rows.warnings)
    target, unit = encoding_of(saved).target_name, saved.metadata.get("unit") or ""
    if as_json:
        print_json(
            {
                "model": str(model),
                "table": table,
                "target": target,
                "unit": unit,
                "rows": len(rows.target),
                "metrics": scores,
                "warnings": rows.warnings,
            }
        )
    else:
        print_scores(f"{target}: {len(rows.target)} rows of {table_name(table)}", scores, unit)
