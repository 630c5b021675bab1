"""Update a model with new measurements, by streaming or by a fit to all rows; merge models."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from bayesprop.codec import JsonObject
from bayesprop.scale.merging import merge
from bayesprop.store import SavedModel
from bayesprop.table.division import Division, groups_of, labels_of, weights_of
from bayesprop.table.encoding import EncodedRows
from bayesprop.table.errors import (
    InputError,
    Message,
    Said,
    listing,
    one_line,
    refusals_of_estimator,
)
from bayesprop.table_model.evaluate import UNJUDGED, Judged, evaluation, judge, learn
from bayesprop.table_model.listener import current_listener, plain
from bayesprop.table_model.model import TableModel
from bayesprop.table_model.sources import Table, column, divided, fingerprint, table_name

if TYPE_CHECKING:
    from bayesprop.estimators.shell import ClassifierBase, EstimatorBase, RegressorBase


_SHARED = {
    "target_name": "target",
    "columns": "columns, their kinds or levels",
    "classes": "classes",
}


class _Updated(NamedTuple):
    """The estimator after it has learnt, how many rows in all, and which of these lack a value.

    missing
        As `TableEncoding.gap_shares`, of the rows that its inputs are known from.
    """

    estimator: EstimatorBase
    rows: dict[str, int]
    missing: dict[str, float]
    judged: Judged
    warnings: list[Said]


def update(
    model: TableModel, table: Table, known: Sequence[Table], half_life: float | None
) -> TableModel:
    """Evaluate a model on the measured rows, and return one that has learnt them."""
    listener, what, rule = current_listener(), table_name(table), model.notes.rule
    if any(table is one or (isinstance(table, str) and table == one) for one in known):
        raise InputError(Message.of("known.same", what=what))
    if model.notes.std_of and not known:
        raise InputError(Message.of("known.std_of"))
    if known and half_life is not None:
        raise InputError(Message.of("half_life.known"))
    if not known and not hasattr(model.estimator, "partial_fit"):
        raise InputError(Message.of("known.needed", method=model.saved.header["method"]))
    with listener.doing(f"reading {what}"):
        rows, target = _measured(table, model)
        remarks: list[Said] = list(rows.remarks)
        if (seen := model.seen_before(target, table)) is not None:
            remarks.append(f"{seen}: to learn them twice makes it too sure of them")
    if rule is not None and rule.rate is not None:
        remarks.append(Message.of("rate.before_update", asked=rule.asked))
    listener.warn(remarks)
    before = evaluation(model, rows)
    with (
        listener.doing(f"learning {len(rows.y)} rows"),
        refusals_of_estimator(ValueError),
        warnings.catch_warnings(action="ignore", category=UserWarning),  # its report says the same
    ):
        started = time.perf_counter()
        updated = _refitted(model, known, rows) if known else _streamed(model, rows, half_life)
        seconds = time.perf_counter() - started
    listener.warn(updated.warnings)
    about = {
        "source": what,
        "rows": len(target),
        "learnt": len(rows.y),
        "refitted": bool(known),
        "target_sha256": fingerprint(target),
        "before": before,
        "seconds": seconds,
    }
    tables = f", known={[*map(table_name, known)]!r}" if known else ""
    command = model.command_after(f"model.update({what!r}{tables})")
    updates = [*model.notes.updates, about]
    metadata = noted(model, command, updated.rows, updated.judged, updates)
    metadata["missing"] = updated.missing
    return type(model).of(SavedModel.of(updated.estimator, model.encoding, metadata))


def _measured(table: Table, model: TableModel) -> tuple[EncodedRows, np.ndarray]:
    """Read the rows to learn, with their weights; beside, the target, of weight 0, too."""
    frame = model.read(table, model.encoding.rows)
    rows = model.rows_of(frame, table)
    asked, target = model.notes.learning(table), model.encoding.target_name
    weight = weights_of(frame, asked.weights, target, table_name(table))
    if (factors := model.notes.group) is not None:
        for factor in factors:
            column(frame, factor[-1], table)
        groups = labels_of(frame, factors, groups_of)
        rows = rows._replace(groups=groups[rows.numbers - 1])
    if weight is None:
        return rows, rows.y
    weight = weight[rows.numbers - 1]
    if not np.any(weight > 0.0):
        raise InputError(Message.of("update.no_rows", where=table_name(table)))
    # Rows of weight 0 teach nothing, and judge nothing.
    return rows._replace(weight=weight).of(weight > 0.0), rows.y


def _streamed(model: TableModel, rows: EncodedRows, half_life: float | None) -> _Updated:
    """Absorb the new rows only; the held-out rows are unknown, so nothing is evaluated."""
    forget = {} if half_life is None else {"half_life": half_life}
    estimator = cast("RegressorBase | ClassifierBase", copy.copy(model.estimator))
    estimator.partial_fit(rows.X, rows.y, **rows.weights, **forget)
    counts = {"train": model.notes.rows.get("train", 0) + len(rows.y), "held_out": 0}
    judged = Judged(model.notes.baselines)
    remarks: list[Said] = list(estimator.fit_report_.warnings)
    return _Updated(estimator, counts, model.notes.missing, judged, remarks)


def _refitted(model: TableModel, known: Sequence[Table], rows: EncodedRows) -> _Updated:
    """Fit from scratch to the training rows of the fit, those learnt since, and the new ones."""
    old, encoding = model.estimator, model.encoding
    first, test = _division(known[0], model).encoded(encoding)
    later = [_measured(table, model)[0] for table in known[1:]]
    train = _joined([first, *later, rows])
    remarks = _forgotten(known, model, len(train.y) - len(rows.y))
    estimator = type(old)(**old.get_params(deep=False))
    remarks += learn(estimator, train)
    counts = {"train": len(train.y), "held_out": len(test.y)}
    place = model.positive and model.positive.place
    judged = judge(estimator, encoding, train, test, positive=place)
    return _Updated(estimator, counts, encoding.gap_shares(train.X), judged, remarks)


def _division(table: Table, model: TableModel) -> Division:
    """Divide the table of the fit as the fit did; refuse another table."""
    encoding, notes, frame = model.encoding, model.notes, model.read(table)
    column(frame, encoding.target_name, table)
    parts = divided(notes.learning(table), frame, encoding.target_name, encoding.task)
    current_listener().warn(parts.remarks)
    if fingerprint(encoding.target(parts.target)) != notes.target_sha256:
        own = {"what": table_name(table), "source": one_line(notes.source) or "unknown"}
        raise InputError(Message.of("known.first", encoding.target_name, **own))
    return parts


def _joined(parts: Sequence[EncodedRows]) -> EncodedRows:
    X, y, numbers, weights, _, groups, _, stds = zip(*parts, strict=True)
    each = (weights, groups, stds)
    weight, group, std = (None if one[0] is None else np.concatenate(one) for one in each)
    rows = map(np.concatenate, (X, y, numbers))
    same = parts[0].are_exchangeable
    return EncodedRows(*rows, weight=weight, groups=group, are_exchangeable=same, X_std=std)


def _forgotten(known: Sequence[Table], model: TableModel, n_known: int) -> list[Message]:
    n_before = model.notes.rows.get("train", n_known)
    if n_before == n_known:
        return []
    own = {"tables": listing([*map(table_name, known)]), "s": "s" * (len(known) == 1)}
    return [Message.of("known.forgotten", n_before=n_before, n=n_known, **own)]


def noted(
    model: TableModel,
    command: str,
    rows: dict[str, int],
    judged: Judged,
    updates: Sequence[JsonObject],
) -> JsonObject:
    """Return the notes of a model's fit, as they are after it has learnt more."""
    return plain(
        {
            **model.saved.metadata,
            "command": command,
            "rows": rows,
            "held_out": judged.scores,
            "standard_errors": dict(judged.errors),
            "judged_by": model.notes.judged_by if judged.scores else "",
            "baselines": judged.baselines and judged.baselines.to_dict(),
            "updates": updates,
        }
    )


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
