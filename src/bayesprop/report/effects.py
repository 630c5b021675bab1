"""Partial dependence: how the prediction moves with each feature, and how sure the model is of it.

Friedman (2001): set one feature to a value in many rows, leave the rest as they are, average.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.distributions.predictive import Predictive
from bayesprop.evaluation.words import join, label, number, value
from bayesprop.table.encoding import TableEncoding

MAX_SHOWN = 12
MAX_LEVELS = 12
MAX_LISTED = 40
_MAX_CANDIDATES = 40
_MAX_ROWS = 200
_GRID_SIZE = 25
_FEW_VALUES, _TWO_VALUES = 12, 2
_N_BINS = 24
_VALUE_BUDGET = 40_000_000
_CHUNK_VALUES = 4_000_000
_SCREENING_QUANTILES = (0.05, 0.5, 0.95)

Predict = Callable[[np.ndarray], Distribution]


class Feature(NamedTuple):
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


def features_of(encoding: TableEncoding, x: Float[np.ndarray, "n d"]) -> tuple[Feature, ...]:
    """Group encoded columns by the columns of the table; levels come most frequent first."""
    features: list[Feature] = []
    columns: tuple[Any, ...] = encoding.columns
    at = 0
    for column in columns:
        width = len(column.feature_names)
        if not hasattr(column, "levels"):
            features += _of_numbers(column, at)
            if column.marked:
                yes_no = np.array([[0.0], [1.0]])
                name, last = column.feature_names[-1], at + width - 1
                features.append(Feature(name, (last,), yes_no, ("no", "yes")))
        else:
            if column.is_numbers:  # they stand before their levels
                features.append(Feature(column.name, (at,)))
            first = at + column.is_numbers
            features.append(_category(column, first, x[:, first : at + width]))
        at += width
    return tuple(features)


def _of_numbers(column: Any, at: int) -> list[Feature]:
    """One feature a column; the seven columns of a weekday are one."""
    names = column.feature_names[: len(column.feature_names) - column.marked]
    days = [k for k, name in enumerate(names) if name in getattr(column, "weekdays", ())]
    features = [Feature(name, (at + k,)) for k, name in enumerate(names) if k not in days]
    if days:
        columns, levels = tuple(at + k for k in days), tuple(calendar.day_name)
        features.append(Feature(f"{column.name} (weekday)", columns, np.eye(len(days)), levels))
    return features


def _category(column: Any, at: int, x: np.ndarray) -> Feature:
    settings, levels = np.eye(x.shape[1]), list(column.levels)
    if column.marked:
        levels.append("(missing)")
        settings[-1, :-1] = np.nan
    order = np.argsort(-np.sum(x, axis=0), kind="stable")
    columns = tuple(range(at, at + x.shape[1]))
    name = f"{column.name} (by name)" if column.is_numbers else column.name
    return Feature(name, columns, settings[order], tuple(levels[i] for i in order))


class Curve(NamedTuple):
    """The average prediction at each setting of a feature, all but `of` in its units.

    epistemic_std, std
        Root of the mean variance of the rows at each setting; None where there is none (a
        probability has no other variance than the epistemic one).
    of
        What the average is of, where it is not the target itself.
    support
        Where it can be: a band ends there.
    """

    mean: Float[np.ndarray, " g"]
    epistemic_std: Float[np.ndarray, " g"] | None = None
    std: Float[np.ndarray, " g"] | None = None
    of: str = ""
    support: tuple[float, float] = (-np.inf, np.inf)

    @property
    def movement(self) -> float:
        """Largest minus smallest average."""
        return float(np.max(self.mean) - np.min(self.mean))


class View(NamedTuple):
    """The averaged quantities, k per predicted row, and the curve of their averages.

    n_classes
        Whose square the doubt about a row may take, as an integral over all of them; 1 of numbers.
    """

    quantities: Callable[[Any], Float[np.ndarray, "k n"]]
    curve: Callable[[Float[np.ndarray, "k g"]], Curve]
    n_classes: int = 1


def moments(support: tuple[float, float]) -> View:
    """Average mean and variances of a number, where it can be."""

    def averaged(rows: Predictive) -> np.ndarray:
        return np.stack([rows.mean, rows.epistemic_var, rows.var])

    return View(averaged, lambda each: Curve(each[0], *np.sqrt(each[1:]), support=support))


def probabilities(predicted: ClassPredictive) -> View:
    """Average the probability of the positive class, or of the class that changes most."""
    names = list(map(str, predicted.classes))

    def curve(averages: Float[np.ndarray, "k g"]) -> Curve:
        means, variances = np.split(averages, 2)
        moved = np.max(means, axis=1) - np.min(means, axis=1)
        chosen = predicted.positive if len(names) == 2 else int(np.argmax(moved))
        stds = np.sqrt(variances[chosen])
        return Curve(means[chosen], stds, of=names[chosen], support=(0.0, 1.0))

    averaged = lambda rows: np.concatenate([rows.proba.T, _epistemic_var(rows).T])  # noqa: E731
    return View(averaged, curve, len(names))


def _epistemic_var(rows: ClassPredictive) -> Float[np.ndarray, "n c"]:
    """Return the variance of every probability over the posterior, 2 p (1 - p) I.

    I is the mutual information of class and weights. Of two classes it is I to second order; of
    more a bound, to the same order: that the class is k or not tells less than which it is.
    """
    p = np.asarray(rows.proba, np.float64)
    return 2.0 * p * (1.0 - p) * rows.mutual_information[:, None]


class Effect(NamedTuple):
    """The partial dependence of the prediction on one feature.

    grid
        The values that the feature was set to; 0, 1, ... for levels.
    levels
        Names of the levels, or empty for a number of more than two values.
    edges, n_rows
        Rows between neighbouring edges, so that thin data can be seen; those of each level, whose
        edges are empty.
    """

    name: str
    grid: Float[np.ndarray, " g"]
    levels: tuple[str, ...]
    curve: Curve
    edges: Float[np.ndarray, " b"]
    n_rows: Int[np.ndarray, " k"]
    hidden_levels: int = 0


class Effects(NamedTuple):
    """Effects that move the prediction most, and the movement of all others.

    screened
        Whether the others were measured on a coarse grid only.
    """

    shown: tuple[Effect, ...]
    others: tuple[tuple[str, float], ...]
    n_background: int
    screened: bool

    @property
    def others_listed(self) -> str:
        """Name the others, with the movement of each."""
        listed = [f"{label(name, 40)} ({number(moved, 2)})" for name, moved in self.others]
        if len(listed) > MAX_LISTED:
            listed[MAX_LISTED:] = [f"{len(listed) - MAX_LISTED:,} more that move it less"]
        return join(listed)


def effects(
    predict: Predict,
    x: Float[np.ndarray, "n d"],
    features: tuple[Feature, ...],
    view: View,
    *,
    seed: int = 0,
    at: Float[np.ndarray, " d"] | None = None,
) -> Effects:
    """Measure every feature on a sample of the rows, and keep the dozen that matter most.

    at
        The one row to change instead, such as the best.

    The number of predictions is bounded whatever the size of the table: at most 200 rows, fewer of
    many inputs or classes, 25 values a feature, and beyond 40 features a screening by three values
    comes first.
    """
    rng, width = np.random.default_rng(seed), max(x.shape[1], view.n_classes**2)
    around = x if at is None else at[None]
    varies = [bool(np.any(x[:, list(f.columns)] != x[0, list(f.columns)])) for f in features]
    varying = [f for f, moves in zip(features, varies, strict=True) if moves]
    others = [(f.name, 0.0) for f, moves in zip(features, varies, strict=True) if not moves]
    screened = len(varying) > _MAX_CANDIDATES
    if screened:
        background = _background(rng, around, 3 * len(varying) * width, most=20)
        coarse = [_curve(predict, background, f, _coarse(x, f), view) for f in varying]
        moved = [curve.movement for curve in coarse]
        order = np.argsort(moved, kind="stable")[::-1]
        others += [(varying[i].name, moved[i]) for i in order[_MAX_CANDIDATES:]]
        varying = [varying[i] for i in order[:_MAX_CANDIDATES]]
    background = _background(rng, around, _GRID_SIZE * len(varying) * width, most=_MAX_ROWS)
    measured = [_effect(predict, background, x, f, view) for f in varying]
    measured.sort(key=lambda effect: -effect.curve.movement)
    others += [(e.name, e.curve.movement) for e in measured[MAX_SHOWN:]]
    others.sort(key=lambda other: -other[1])
    return Effects(tuple(measured[:MAX_SHOWN]), tuple(others), len(background), screened)


def _background(rng: np.random.Generator, x: np.ndarray, n_values: int, *, most: int) -> np.ndarray:
    affordable = _VALUE_BUDGET // max(n_values, 1)
    n = min(len(x), int(np.clip(affordable, 5, most)))
    return x[np.sort(rng.choice(len(x), n, replace=False))]


def _coarse(x: np.ndarray, feature: Feature) -> np.ndarray:
    if feature.settings is not None:
        return feature.settings[:MAX_LEVELS]
    column = x[:, feature.columns[0]]
    return np.quantile(column, _SCREENING_QUANTILES, method="inverted_cdf")[:, None]


def _grid(column: np.ndarray) -> np.ndarray:
    """Every value where there are few, otherwise even steps over the central 95 %."""
    values = np.unique(column)
    if len(values) <= _FEW_VALUES:
        return values
    low, high = np.quantile(column, (0.025, 0.975), method="inverted_cdf")
    if low == high:
        low, high = values[0], values[-1]
    return _steps(low, high, _GRID_SIZE)


def _steps(low: float, high: float, n: int) -> np.ndarray:
    share = np.linspace(0.0, 1.0, n)
    # Not low + share (high - low): the difference may overflow.
    return low * (1.0 - share) + high * share


def _effect(
    predict: Predict, background: np.ndarray, x: np.ndarray, feature: Feature, view: View
) -> Effect:
    hidden = 0
    if feature.settings is None:
        grid = _grid(x[:, feature.columns[0]])
        settings = grid[:, None]
        levels = tuple(value(float(v)) for v in grid) if len(grid) <= _TWO_VALUES else ()
    else:
        hidden = max(len(feature.settings) - MAX_LEVELS, 0)
        settings, levels = feature.settings[:MAX_LEVELS], feature.levels[:MAX_LEVELS]
        grid = np.arange(float(len(settings)))
    values, edges = x[:, list(feature.columns)], np.empty(0)
    if levels:
        n_rows = np.array([np.sum(np.all(values == setting, axis=1)) for setting in settings])
    else:
        edges = _steps(grid[0], grid[-1], _N_BINS + 1)
        n_rows = np.histogram(values[:, 0], edges)[0]
    curve = _curve(predict, background, feature, settings, view)
    return Effect(feature.name, grid, levels, curve, edges, n_rows, hidden)


def _curve(
    predict: Predict, background: np.ndarray, feature: Feature, settings: np.ndarray, view: View
) -> Curve:
    """Average the predictions at each setting, some settings at a time."""
    step = max(1, _CHUNK_VALUES // max(background.size, 1))
    parts = []
    for first in range(0, len(settings), step):
        some = settings[first : first + step]
        rows = np.tile(background, (len(some), 1))
        rows[:, list(feature.columns)] = np.repeat(some, len(background), axis=0)
        quantities = view.quantities(predict(rows))
        shape = (len(quantities), len(some), len(background))
        parts.append(np.mean(np.reshape(quantities, shape), axis=2))
    return view.curve(np.concatenate(parts, axis=1))
