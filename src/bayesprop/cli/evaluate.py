"""`evaluate`: the metrics of a model on a table that holds the target."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesprop import metrics
from bayesprop.cli.actions import Evaluate
from bayesprop.cli.console import print_json, print_scores, print_table, progress, warn, wrapped
from bayesprop.table.encoding import EncodedRows
from bayesprop.table.target import class_text
from bayesprop.table_model.deciding import decided as decided_by
from bayesprop.table_model.model import TableModel, open_model
from bayesprop.table_model.plain_values import figure
from bayesprop.table_model.predicting import scored
from bayesprop.table_model.sources import table_name

MAX_SHOWN_CLASSES = 10


def run(options: Evaluate) -> None:
    """Predict every row that has a target and compare."""
    model = open_model(options.model, allow_absent=options.allow_missing_columns)
    with progress(f"evaluating {options.table}", quiet=options.quiet):
        rows = model.rows_to_judge(options.table)
        models = model.predictions(rows, model.notes.baselines)
        predictive, (scores, errors) = models["model"], scored(models, rows)
        decided = decided_by(model.notes.rule, model.positive, predictive, rows.y)
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
                "positive": model.positive and model.positive.label,
                "decided": decided,
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
    if decided is not None:
        print()
        print(wrapped(_in_words(model, decided)))


def _in_words(model: TableModel, decided: dict[str, Any]) -> str:
    positive, rule = model.positive, model.notes.rule
    name = positive.name if positive is not None else ""
    recall, precision = (
        f"{figure(share)} (95 %: {figure(low)} to {figure(high)})"
        for share, low, high in (decided["recall"], decided["precision"])
    )
    cost = decided["mean_cost"]
    return (
        f"flagged as {name!r} from {decided['threshold']:.4g} ({rule.asked if rule else ''}): "
        f"{decided['found']} right, {decided['false_alarms']} false alarms, {decided['missed']} "
        f"missed; recall {recall}, precision {precision}"
        + ("" if cost is None else f"; cost of a row {figure(cost)}")
    )


def _confusion(predictive: Any, rows: EncodedRows) -> dict[str, Any]:
    """Count rows by actual (outer list) and predicted class, in their order where they have one."""
    counts, shown = metrics.confusion(predictive, rows.y), predictive.shown
    return {
        "classes": predictive.classes[shown].tolist(),
        "counts": counts[np.ix_(shown, shown)].tolist(),
    }
