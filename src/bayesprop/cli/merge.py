"""`merge`: one model from several files, each fitted to rows that stayed where they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bayesprop.cli.console import listening, note, print_json, warn
from bayesprop.cli.further_rows import Merge
from bayesprop.cli.options import check_output
from bayesprop.scale.merging import merge
from bayesprop.store import save_model
from bayesprop.table_model.judging import UNJUDGED
from bayesprop.table_model.model import TableModel, open_model
from bayesprop.table_model.refusals import InputError, refusals_of_estimator
from bayesprop.table_model.update import noted

_SHARED = {
    "target_name": "target",
    "columns": "columns, their kinds or levels",
    "classes": "classes",
}


def run(options: Merge) -> None:
    """Check that the models know the same table, merge them, save the model of all rows."""
    paths = [*options.models, *([] if options.start is None else [options.start])]
    check_output(options.out, "--out", paths)
    if not options.models:
        raise InputError("MODELS must be one model file at least")
    if len({path.resolve() for path in options.models}) < len(options.models):
        raise InputError("MODELS names a file twice: its rows would count twice")
    models = [open_model(path) for path in options.models]
    start = None if options.start is None else open_model(options.start)
    first = models[0] if start is None else start
    for path, model in zip(options.models, models, strict=True):
        _check_table(first, model, path)
    with refusals_of_estimator(ValueError):
        merged = merge([one.estimator for one in models], start and start.estimator)
    warn(_learnt_twice(options.models, models, start))
    rows = _rows_learnt(models, start)
    with listening(options):
        command = first.command_after("")
    metadata = noted(first, command, rows, UNJUDGED, _updates(models))
    save_model(options.out, merged, table=first.encoding, metadata=metadata)
    if options.as_json:
        facts = {
            "model": str(options.out),
            "target": first.encoding.target_name,
            "method": first.saved.header["method"],
            "merged": [str(path) for path in options.models],
            "rows": rows,
            "guards": merged.fit_report_.guards,
        }
        print_json(facts)
    note(f"merged {len(models)} models of {rows['train']} rows in all", quiet=options.quiet)
    note(f"model: {options.out}", quiet=options.quiet)


def _check_table(first: TableModel, model: TableModel, path: Path) -> None:
    ours, theirs = first.saved.header["method"], model.saved.header["method"]
    if ours != theirs:
        raise InputError(f"{path} is a model by {theirs}, the others by {ours}: use one method")
    for part, words in _SHARED.items():
        if getattr(first.encoding, part) != getattr(model.encoding, part):
            raise InputError(
                f"{path} differs from the first model in its {words}: prepare the tables alike, or "
                "let all go on from one model by `bayesprop update`"
            )
    units = {model.notes.unit for model in (first, model)} - {""}
    if len(units) > 1:
        raise InputError(
            f"{path} has a target in {model.notes.unit}, the first model in {first.notes.unit}:"
            " convert one of the tables"
        )


def _learnt_twice(
    paths: Sequence[Path], models: list[TableModel], start: TableModel | None
) -> Iterator[str]:
    """Name models that have learnt a table of one target, but for what the start had learnt."""
    first_of: dict[str, Path] = {}
    ours = set() if start is None else _tables_learnt(start)
    for path, model in zip(paths, models, strict=True):
        tables = _tables_learnt(model) - ours
        for other in {first_of[table]: None for table in tables & set(first_of)}:
            yield (
                f"{other} and {path} have learnt a table of the same target: if its rows are the "
                "same, they count twice; name the model that both went on from by --start, or "
                "leave one out"
            )
        first_of |= dict.fromkeys(tables - set(first_of), path)


def _tables_learnt(model: TableModel) -> set[str]:
    marks = [model.notes.target_sha256, *(one.get("target_sha256") for one in model.notes.updates)]
    return {str(mark) for mark in marks if mark}


def _rows_learnt(models: list[TableModel], start: TableModel | None) -> dict[str, int]:
    """Count the rows of all, those of the start once; nothing is held out of all."""
    before = 0 if start is None else start.notes.rows.get("train", 0)
    learnt = sum(model.notes.rows.get("train", 0) - before for model in models)
    return {"train": before + learnt, "held_out": 0}


def _updates(models: list[TableModel]) -> list[dict[str, Any]]:
    fits = [
        {
            "source": one.notes.source,
            "rows": one.notes.rows.get("train", 0),
            "refitted": False,
            "target_sha256": one.notes.target_sha256,
        }
        for one in models
    ]
    return [*fits, *(update for one in models for update in one.notes.updates)]
