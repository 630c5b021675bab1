"""`evaluate`: the metrics of a model on a table that holds the target."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bayesprop.commands.console import print_json, progress, warn
from bayesprop.commands.scores import print_scores, score
from bayesprop.commands.sources import (
    baselines_of,
    encoding_of,
    open_model,
    require_column,
    table_name,
)
from bayesprop.data.tables import read_table

if TYPE_CHECKING:
    from bayesprop.store import SavedModel


def run(model: Path, table: str, *, as_json: bool, quiet: bool) -> None:
    """Predict every row and compare with the target."""
    saved = open_model(model)
    encoding = encoding_of(saved)
    with progress(f"evaluating {table}", quiet=quiet):
        frame = read_table(table)
        require_column(frame, encoding.target_name, table)
        rows, target = encoding.encode(frame), encoding.target(frame)
        scores = score(saved.estimator, baselines_of(saved), rows.X, target)
    warn([*training_rows(saved, table), *rows.warnings])
    if as_json:
        print_json(
            {
                "model": str(model),
                "table": table,
                "target": encoding.target_name,
                "unit": saved.metadata.get("unit", ""),
                "rows": len(target),
                "metrics": scores,
            }
        )
        return
    title = f"{encoding.target_name}: {len(target)} rows of {table_name(table)}"
    print_scores(title, scores, saved.metadata.get("unit", ""))


def training_rows(saved: SavedModel, table: str) -> list[str]:
    """Return the remark that this table was the training table, if its name says so."""
    config = saved.metadata.get("config", {})
    if table == "-" or config.get("table") != table:
        return []
    rows = saved.metadata.get("rows", {})
    return [
        f"the model was fitted on {rows.get('train', 'some')} rows of {table}: "
        "these figures flatter it; the held-out ones are in `bayesprop inspect`"
    ]
