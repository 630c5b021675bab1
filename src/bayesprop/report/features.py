"""The features of a table as its owner knows them, and what is unusual about a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bayesprop.report.words import label, number, percent, value

if TYPE_CHECKING:
    from bayesprop.table.encoding import TableEncoding

_N_VALUES = 3
_NBSP = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, eq=False)
class Feature:
    """A column of the user's table, as encoded columns.

    columns
        Indices of the encoded columns that it fills.
    settings
        For a categorical column, the encoded values of each level, one row a level.
    levels
        Names of these levels; empty for a number.
    """

    name: str
    columns: tuple[int, ...]
    settings: Float[np.ndarray, "g c"] | None = None
    levels: tuple[str, ...] = ()


def features_of(
    encoding: TableEncoding | None, names: tuple[str, ...], x: Float[np.ndarray, "n d"]
) -> tuple[Feature, ...]:
    """Group encoded columns by the columns of the table; levels come most frequent first."""
    if encoding is None:
        return tuple(Feature(name, (i,)) for i, name in enumerate(names))
    features: list[Feature] = []
    at = 0
    for column in encoding.columns:
        width = len(column.feature_names)
        levels = getattr(column, "levels", None)
        if levels is None:
            features.append(Feature(column.name, (at,)))
            if column.missing:
                yes_no = np.array([[0.0], [1.0]])
                name = column.feature_names[-1]
                features.append(Feature(name, (at + 1,), yes_no, ("no", "yes")))
        else:
            features.append(_category(column, at, x[:, at : at + width]))
        at += width
    return tuple(features)


def _category(column: Any, at: int, x: np.ndarray) -> Feature:
    settings, levels = np.eye(x.shape[1]), list(column.levels)
    if column.missing:
        levels.append("(missing)")
    counts = list(np.sum(x, axis=0))
    if column.rare:
        settings = np.vstack([settings, np.zeros(x.shape[1])])
        levels.append("(rarer levels)")
        counts.append(len(x) - sum(counts))
    order = np.argsort(-np.asarray(counts), kind="stable")
    columns = tuple(range(at, at + x.shape[1]))
    return Feature(column.name, columns, settings[order], tuple(levels[i] for i in order))


def unusual_values(
    x: Float[np.ndarray, " d"], z: Float[np.ndarray, " d"], features: tuple[Feature, ...]
) -> tuple[str, ...]:
    """Describe the values that set a row most apart; `z` are those of `x`, standardised."""
    distance = np.array([np.max(np.abs(z[list(f.columns)])) for f in features])
    order = np.argsort(-distance, kind="stable")[:_N_VALUES]
    # The first is named whatever it is; others only if they do stand out.
    named = [i for k, i in enumerate(order) if k == 0 or distance[i] > 1.0]
    return tuple(_described(x, z, features[i]) for i in named)


def _described(x: np.ndarray, z: np.ndarray, feature: Feature) -> str:
    name = label(feature.name, 30)
    columns = list(feature.columns)
    if feature.settings is None:
        off = number(float(z[columns[0]]), 2)
        sign = "+" if z[columns[0]] > 0 else ""
        return f"{name} = {value(float(x[columns[0]]))} ({sign}{off}{_NBSP}std)"
    same = np.all(feature.settings == x[columns], axis=1)
    if not np.any(same):
        return f"{name} = a level that training did not have"
    level = label(feature.levels[int(np.argmax(same))], 30)
    if not np.any(x[columns] == 1.0):
        return f"{name} = {level}"
    # An indicator that is 1 in a share p of the rows stands sqrt((1 - p) / p) std above its mean.
    share = 1.0 / (1.0 + float(z[columns][np.argmax(x[columns])]) ** 2)
    return f"{name} = {level} ({percent(share)} of{_NBSP}rows)"
