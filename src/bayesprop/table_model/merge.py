"""One model of several files, each fitted to rows that stayed where they were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bayesprop.codec import JsonObject
from bayesprop.scale.merging import merge
from bayesprop.store import SavedModel
from bayesprop.table.errors import InputError, Message, refusals_of_estimator
from bayesprop.table_model.evaluate import UNJUDGED
from bayesprop.table_model.listener import current_listener
from bayesprop.table_model.model import TableModel
from bayesprop.table_model.update import noted

_SHARED = {
    "target_name": "target",
    "columns": "columns, their kinds or levels",
    "classes": "classes",
}


def merged(models: Mapping[str, TableModel], start: TableModel | None = None) -> TableModel:
    """Return the model of all rows that several models were fitted to; see `scale.merging.merge`.

    Raises InputError where the models do not know the same table; rows that may count twice come
    as a warning.

    models
        By the names that messages call them.
    start
        What all of them went on from; its rows count once.
    """
    first = start or next(iter(models.values()))
    for name, model in models.items():
        _check_table(first, model, name)
    with refusals_of_estimator(ValueError):
        estimator = merge([one.estimator for one in models.values()], start and start.estimator)
    current_listener().warn(_learnt_twice(models, start))
    rows = _rows_learnt(models.values(), start)
    updates = _updates(models.values())
    metadata = noted(first, first.command_after(""), rows, UNJUDGED, updates)
    saved = SavedModel.of(estimator, first.encoding, metadata)
    return TableModel.of(saved)


def _check_table(first: TableModel, model: TableModel, name: str) -> None:
    ours, theirs = first.saved.header["method"], model.saved.header["method"]
    if ours != theirs:
        raise InputError(Message.of("merge.methods", name=name, theirs=theirs, ours=ours))
    for part, words in _SHARED.items():
        if getattr(first.encoding, part) != getattr(model.encoding, part):
            raise InputError(Message.of("merge.tables", name=name, what=words))
    units = {model.notes.unit for model in (first, model)} - {""}
    if len(units) > 1:
        own = {"name": name, "theirs": model.notes.unit, "ours": first.notes.unit}
        raise InputError(Message.of("merge.units", **own))


def _learnt_twice(models: Mapping[str, TableModel], start: TableModel | None) -> Iterator[Message]:
    """Name models that have learnt a table of one target, but for what the start had learnt."""
    first_of: dict[str, str] = {}
    ours = set() if start is None else _tables_learnt(start)
    for name, model in models.items():
        tables = _tables_learnt(model) - ours
        for other in {first_of[table]: None for table in tables & set(first_of)}:
            yield Message.of("merge.learnt_twice", other=other, name=name)
        first_of |= dict.fromkeys(tables - set(first_of), name)


def _tables_learnt(model: TableModel) -> set[str]:
    marks = [model.notes.target_sha256, *(one.get("target_sha256") for one in model.notes.updates)]
    return {str(mark) for mark in marks if mark}


def _rows_learnt(models: Iterable[TableModel], start: TableModel | None) -> dict[str, int]:
    """Count the rows of all, those of the start once; nothing is held out of all."""
    before = 0 if start is None else start.notes.rows.get("train", 0)
    learnt = sum(model.notes.rows.get("train", 0) - before for model in models)
    return {"train": before + learnt, "held_out": 0}


def _updates(models: Iterable[TableModel]) -> list[JsonObject]:
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
