"""The features of a table as its owner knows them, and the rows the model is least sure of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bayesprop.model.predictive import Predictive
from bayesprop.report.effects import Feature
from bayesprop.report.words import label, number, percent, value

if TYPE_CHECKING:
    from bayesprop.table.encoding import TableEncoding

N_ROWS = 10
_N_VALUES = 3
_NBSP = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Rows:
    """Rows of a table, encoded but not standardised, columns as the estimator was fitted.

    y
        The target of every row: a number, or for a classifier a label.
    row_ids
        What a person calls each row: a line number or a key.
    """

    X: Float[np.ndarray, "n d"]
    y: np.ndarray
    row_ids: list[str]


@dataclass(frozen=True)
class UnsureRow:
    """A row with a wide interval, and the values that set it most apart from the training rows.

    low, high
        The 90 % interval, y.
    unusual
        "name = value (+3.1 std)", the most unusual first; std is that of the training rows.
    """

    row_id: str
    mean: float
    low: float
    high: float
    actual: float
    epistemic_share: float
    unusual: tuple[str, ...]


def features_of(
    encoding: TableEncoding | None, names: tuple[str, ...], x: Float[np.ndarray, "n d"]
) -> tuple[Feature, ...]:
    """Group encoded columns by the columns of the table; levels come most frequent first."""
    if encoding is None:
        return tuple(Feature(name, (i,)) for i, name in enumerate(names))
    found: list[Feature] = []
    at = 0
    for column in encoding.columns:
        width = len(column.feature_names)
        levels = getattr(column, "levels", None)
        if levels is None:
            found.append(Feature(column.name, (at,)))
            if column.missing:
                yes_no = np.array([[0.0], [1.0]])
                name = column.feature_names[-1]
                found.append(Feature(name, (at + 1,), yes_no, ("no", "yes")))
        else:
            found.append(_category(column, at, x[:, at : at + width]))
        at += width
    return tuple(found)


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


def least_sure(
    predictive: Predictive,
    rows: Rows,
    features: tuple[Feature, ...],
    standardise: Callable[[np.ndarray], np.ndarray],
) -> tuple[UnsureRow, ...]:
    """Return the ten rows of largest predictive std; `standardise` as the training rows were."""
    worst = np.argsort(-predictive.std, kind="stable")[:N_ROWS]
    chosen = predictive[worst]
    interval = chosen.interval(0.9)
    share = chosen.epistemic_var / chosen.var
    z = standardise(rows.X[worst])
    return tuple(
        UnsureRow(
            row_id=rows.row_ids[row],
            mean=float(chosen.mean[k]),
            low=float(interval[k, 0]),
            high=float(interval[k, 1]),
            actual=float(rows.y[row]),
            epistemic_share=float(share[k]),
            unusual=unusual_values(rows.X[row], z[k], features),
        )
        for k, row in enumerate(worst)
    )


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
