"""Parse the options of a fit: rows, columns and hyper-parameters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from bayesprop.cli.actions import Fit, Learning
from bayesprop.table.errors import OPTIONS, InputError, one_line

if TYPE_CHECKING:
    from bayesprop.codec import Json, JsonObject


def rows_asked(options: Learning) -> JsonObject:
    """Return the arguments of `fit` on rows and columns."""
    others = "words", "table", "kind", "max_size"
    names = [one.name for one in fields(Learning) if one.name not in others]
    asked: JsonObject = {name: getattr(options, name) for name in names}
    if options.order is not None:
        asked["order"] = [word.strip() for word in options.order.split(",")]
    if options.missing is not None:
        words = options.missing.split(",") if options.missing != "none" else []
        asked["missing"] = [word.strip() for word in words]
    if bad := [text for text in options.kind if "=" not in text]:
        raise InputError(f"--kind must be COL=KIND, such as lap=duration; got {one_line(bad[0])!r}")
    if options.kind:
        asked["kinds"] = dict(text.rsplit("=", 1) for text in options.kind)
    return asked


def settings_of(fit: Fit) -> JsonObject:
    """Return the hyper-parameters by name."""
    asked = {
        "hidden_layer_sizes": _hidden(fit.hidden) if fit.hidden else None,
        "n_epochs": fit.epochs,
        "batch_size": fit.batch_size,
        "inference": fit.inference,
    }
    by_option = {name: value for name, value in asked.items() if value is not None}
    by_name = _assigned(fit.settings)
    for name in by_name:
        if name in by_option or name in ("random_state", "target_kind", "exposure", "order"):
            raise InputError(f"--set {name}: {OPTIONS[name]} sets this: give only {OPTIONS[name]}")
    return by_option | by_name


def _assigned(assignments: Iterable[str]) -> JsonObject:
    """Read "name=value", the value as JSON, or as plain text where it is none."""
    values: JsonObject = {}
    for text in assignments:
        name, is_given, value = text.partition("=")
        name = name.strip()
        if not is_given or not name.isidentifier():
            raise InputError(
                f"--set must be name=value, such as learning_rate=0.01; got {one_line(text)!r}"
            )
        if name in values:
            raise InputError(f"--set {name} is given twice")
        values[name] = _value(value.strip())
    return values


def _value(text: str) -> Json | tuple:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else value


def _hidden(words: Sequence[str]) -> tuple[int, ...]:
    """Read the units of every hidden layer from "50", "50,50" or a repeated option."""
    parts = [part.strip() for word in words for part in word.split(",")]
    if not all(part.isdecimal() and int(part) >= 1 for part in parts):
        got = one_line(",".join(parts))
        raise InputError(f"--hidden must be whole numbers >= 1, such as 50 or 50,50; got {got}")
    return tuple(int(part) for part in parts)
