"""What the report of a search for the best shows, out of its model, its rows and a suggestion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from bayesprop.active_learning.goal import Goal, centres
from bayesprop.evaluation.words import join, number, percent, value
from bayesprop.report.effects import effects, features_of, moments
from bayesprop.report.search_page import Search
from bayesprop.table_model.conditions import Requirement
from bayesprop.table_model.model import TableModel
from bayesprop.table_model.suggest import Suggestions, measured_rows

_PROSPECTS = (
    ("chance", "Chance to beat the best", percent),
    ("expected_gain", "Expected gain", number),
    ("met", "Probability of meeting all", percent),
)
"""Of `Suggestions.records`."""


def search_of(
    model: TableModel,
    table: pl.DataFrame,
    goal: Goal,
    requires: Sequence[Requirement],
    suggested: Suggestions,
) -> Search:
    """Return the contents of the page.

    table
        The rows so far, planned ones included.
    """
    estimator, encoding = model.estimator, model.encoding
    rows, is_met = measured_rows(model, table, requires)
    at, counts = rows.numbers - 1, is_met | ~is_met.any()
    means = centres(estimator, rows.X)
    best = int(np.argmax(np.where(counts, goal.sign * means, -np.inf)))
    values, is_met_of_all = np.full(len(table), np.nan), np.zeros(len(table), dtype=bool)
    values[at], is_met_of_all[at] = rows.y, is_met
    planned, chosen = table.filter(np.isnan(values)), model.read(suggested.frame)
    expected = np.concatenate([_expected(model, one) for one in (planned, chosen) if len(one)])
    mean, low, high = expected[-len(chosen) :].T.tolist()
    names, records = [one.name for one in encoding.columns], suggested.records
    columns = [(name, map(_text, chosen[name])) for name in names]
    columns += [(f"Expected {encoding.target_name}", map(value, mean))]
    columns += [("90 % interval", map("{} to {}".format, map(value, low), map(value, high)))]
    columns += [
        (head, [write(one[name]) for one in records])
        for name, head, write in _PROSPECTS
        if name in records[0]
    ]
    heads, cells = zip(*columns, strict=True)
    X = estimator.fitted_.filled(rows.X) if np.isnan(rows.X).any() else rows.X
    learnt = getattr(estimator.task_, "map", None)
    support = (-np.inf, np.inf) if learnt is None else learnt.support
    own = table.select(names).row(int(at[best]))
    return Search(
        target=encoding.target_name,
        unit=model.notes.unit,
        source=model.notes.source,
        command=model.notes.command,
        sign=goal.sign,
        requires=join([one.words for one in requires]),
        values=values,
        is_met=is_met_of_all,
        best=int(at[best]),
        best_mean=float(means[best]),
        best_row=join([f"{name} = {_text(one)}" for name, one in zip(names, own, strict=True)]),
        expected=expected,
        heads=heads,
        rows=[*zip(*cells, strict=True)],
        effects=effects(
            estimator.predict_dist, X, features_of(encoding, X), moments(support), at=X[best]
        ),
    )


def _expected(model: TableModel, frame: pl.DataFrame) -> np.ndarray:
    predictive = model.predict_dist(frame)
    return np.column_stack([predictive.mean, predictive.interval(0.9)])


def _text(cell: str | float | None) -> str:
    if cell is None:
        return "(missing)"
    return value(cell) if isinstance(cell, float) else str(cell)
