"""`--target-kind`: what a target can be, as asked for or as its column looks."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real

import numpy as np
import polars as pl

from bayesprop.catalogue import CLASSIFICATION, Params
from bayesprop.model.task import CLASSES, KINDS_OF_CLASSES, ORDERED, Standardiser, Task
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import InputError, Message, listing, one_line
from bayesprop.table.target import Label, class_text
from bayesprop.table_model.listener import current_listener
from bayesprop.table_model.request import RowRequest
from bayesprop.targets.bijectors import (
    CENSORED,
    COUNT,
    NONNEGATIVE,
    NUMBERS,
    PER_CENT,
    POSITIVE,
    SHARE,
    whole_of,
)
from bayesprop.targets.censoring import OFTEN, are_many
from bayesprop.targets.kinds import guessed_kind

WORDS = {
    POSITIVE: "numbers above 0",
    NONNEGATIVE: "numbers from 0 on, some of them 0",
    CENSORED: "numbers that are censored at a limit",
    SHARE: "shares, from 0 to 1 or to 100 %",
    COUNT: "whole numbers from 0 on",
}
"""What targets of a kind are, in words."""


def classes_in_words(classes: Sequence[Label], order: Sequence[int] | None) -> str:
    """List the classes of a target, in their order where they have one."""
    words = list(map(class_text, classes))
    if order is None:
        return listing(words)
    return f"ordered, {' < '.join(words[place] for place in order)}"


def outside_support(task: Task, y: np.ndarray, target: str) -> list[Message]:
    """Word how many evaluated targets are impossible for the target kind of the model."""
    target_map = getattr(task, "map", None)
    if target_map is None or target_map.holds(y).all():
        return []
    bad = y[~target_map.holds(y)]
    own = {"n": len(bad), "have": "has" if len(bad) == 1 else "have", "example": bad[0]}
    return [Message.of("target.impossible", target, kind=WORDS[target_map.kind], **own)]


def settings_of_kind(
    request: RowRequest,
    encoding: TableEncoding,
    train: EncodedRows,
    target: pl.Series,
    *,
    noise: float | str | None = None,
) -> Params:
    """Return the hyper-parameters that say what a target can be; none for classes without order.

    target
        As the table has it.
    noise
        What the fit was told of the noise: a variance goes with numbers as they are only.
    """
    is_class = encoding.task == CLASSIFICATION
    if is_class and request.exposure is None:
        return _settings_of_classes(request, encoding, target)
    kind = None if is_class else _kind_of(request, encoding, train, noise)
    if request.exposure is None:
        return {"target_kind": kind}
    if kind is None or request.target_kind not in (None, COUNT):
        raise InputError(Message.of("exposure.kind"))
    names = encoding.feature_names
    if request.exposure not in names:
        own = {"got": request.exposure, "names": one_line(listing(names))}
        raise InputError(Message.of("exposure.column", **own))
    return {"target_kind": COUNT, "exposure": names.index(request.exposure)}


def _kind_of(
    request: RowRequest,
    encoding: TableEncoding,
    train: EncodedRows,
    noise: float | str | None,
) -> str:
    """Return the kind of a target of numbers, and say where it was guessed."""
    name, limits = one_line(encoding.target_name), encoding.limits
    if request.order or request.target_kind in KINDS_OF_CLASSES:
        code = "order.of_classes" if request.order else "target_kind.of_classes"
        raise InputError(Message.of(code, kind=request.target_kind))
    is_percent = encoding.marks is not None and encoding.marks.unit == "%"
    if request.target_kind == SHARE and not is_percent and whole_of(train.y) == PER_CENT:
        current_listener().note(f"{name} is treated as per cent, because some values exceed 1")
    if request.target_kind is not None or request.exposure is not None:
        return request.target_kind or COUNT
    if isinstance(noise, Real):
        return NUMBERS
    if any(are_many(train.y == limit, times=OFTEN) for limit in limits):
        kind = CENSORED
    else:
        x = train.filled
        z = Standardiser.fit(x).transform(x)
        kind = guessed_kind(z, train.y, train.weight, is_percent=is_percent)
    if kind != NUMBERS:
        current_listener().note(Message.of("target_kind.guessed", name, what=WORDS[kind]))
    return kind


def _settings_of_classes(request: RowRequest, encoding: TableEncoding, target: pl.Series) -> Params:
    """Return the order of classes, as asked for or as their owner's categories have it."""
    name, labels = one_line(encoding.target_name), encoding.classes
    if request.target_kind not in (None, *KINDS_OF_CLASSES):
        raise InputError(Message.of("target_kind.of_numbers", name, kind=request.target_kind))
    if request.target_kind == CLASSES:
        if request.order:
            raise InputError(Message.of("order.unordered"))
        return {}
    words, is_text = request.order, isinstance(labels[0], str)
    words = _levels(target) if words is None else words
    if words is None and request.target_kind is None:
        return {}
    if words is None and is_text:
        example = ",".join(map(str, labels[:5]))
        raise InputError(Message.of("order.words", name, example=example))
    if words is None:
        return {"target_kind": ORDERED}
    settings = {"target_kind": ORDERED, "order": _labels_in_order(name, labels, words)}
    if request.order is None and request.target_kind is None and len(labels) > 2:
        order = " < ".join(map(class_text, settings["order"]))
        note = Message.of("target_kind.ordered", name, order=one_line(order))
        current_listener().note(note)
    return settings


def _levels(target: pl.Series) -> tuple[str, ...] | None:
    """Return the levels of categories that have an order; None of those that have none."""
    kind = target.dtype
    return tuple(kind.categories.to_list()) if isinstance(kind, pl.Enum) else None


def _labels_in_order(
    name: str, labels: tuple[Label, ...], words: tuple[str, ...]
) -> tuple[Label, ...]:
    """Return labels in the order of their words; words that no row has may be among these."""
    by_word = {class_text(label): label for label in labels}
    missing = [word for word in by_word if word not in words]
    if missing or len(set(words)) < len(words):
        code = "order.lacking" if missing else "order.twice"
        raise InputError(Message.of(code, name, missing=one_line(listing(missing))))
    return tuple(by_word[word] for word in words if word in by_word)
