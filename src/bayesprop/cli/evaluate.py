"""`evaluate`: the metrics of a model on a table that holds the target."""

from __future__ import annotations

from bayesprop.cli.actions import Evaluate
from bayesprop.cli.console import ask, listening, print_json, print_scores, print_table, wrapped
from bayesprop.table.target import class_text
from bayesprop.table_model.answers import decided_in_words
from bayesprop.table_model.model import open_model
from bayesprop.table_model.sources import table_name

MAX_SHOWN_CLASSES = 10


def run(options: Evaluate) -> None:
    """Print the metrics of every row that has a target."""
    with listening(options) as listener:
        model = open_model(options.model)
        evaluated = ask(model.evaluate, options)
    target, confusion = model.encoding.target_name, evaluated.confusion
    by_group = evaluated.coverage_by_group
    if options.as_json:
        print_json(
            {
                "model": str(options.model),
                "table": options.table,
                "task": model.encoding.task,
                "target": target,
                "unit": model.notes.unit,
                "rows": evaluated.n_rows,
                "metrics": evaluated,
                "standard_errors": evaluated.errors,
                "confusion": confusion,
                "positive": model.positive and model.positive.label,
                "decided": evaluated.decided,
                "coverage_by_group": by_group and [one.facts for one in by_group],
                "warnings": listener.warnings,
            }
        )
        return
    title = f"{target}: {evaluated.n_rows} rows of {table_name(options.table)}"
    print_scores(title, evaluated, model.notes.unit, evaluated.errors)
    if by_group is not None:
        heads = ("groups, and single ones below 90 %", "rows", "inside 90 %", "± s.e.")
        print()
        print_table("", heads, [one.words for one in by_group], right=range(1, 4))
    if confusion is not None and len(confusion["classes"]) <= MAX_SHOWN_CLASSES:
        labels = [class_text(label) for label in confusion["classes"]]
        counts = zip(labels, confusion["counts"], strict=True)
        cells = [(label, *map(str, row)) for label, row in counts]
        print()
        print_table("", ("actual, predicted:", *labels), cells, right=range(1, 1 + len(labels)))
    rule, positive, done = model.notes.rule, model.positive, evaluated.decided
    if rule is not None and positive is not None and done is not None:
        print()
        print(wrapped(decided_in_words(rule, positive, done)))
