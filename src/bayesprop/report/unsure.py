"""The most uncertain rows, and the rows with the largest errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.evaluation.shapley import Explainer, epistemic, raising
from bayesprop.evaluation.words import join, label, number, percent, value
from bayesprop.model.task import Fitted
from bayesprop.report.effects import Feature
from bayesprop.table.encoding import EncodedRows, TableEncoding

N_ROWS, MAX_DRAWN = 10, 300
_N_COMPLETIONS, _MOST_PREDICTED = 4, 20_000
"""For Shapley values: of every set of columns, and rows in all."""
_N_VALUES = 3
_NBSP = "\N{NO-BREAK SPACE}"


class Answer(NamedTuple):
    """Prediction and actual value of a row, in words.

    text
        The mean and the 90 % interval; or the most probable classes.
    is_missed
        Whether the interval does not hold the actual number, or the answer is the wrong class.
    epistemic_share
        Share of the variance, or of the entropy, that more data would remove.
    """

    text: tuple[str, ...]
    actual: str
    is_missed: bool
    epistemic_share: float


class UnsureRow(NamedTuple):
    """A row, what was predicted, and the values that set it most apart from the training rows.

    number
        In the table of the judged rows.
    unusual
        "name = value (+3.1 std)", the most unusual first; std is that of the training rows.
    raised_by
        Columns that raise its epistemic uncertainty most.
    """

    number: int
    answer: Answer
    unusual: tuple[str, ...]
    raised_by: tuple[str, ...] = ()


def with_reasons(
    rows: tuple[UnsureRow, ...],
    X: Float[np.ndarray, "k d"],
    fitted: Fitted | None,
    encoding: TableEncoding,
) -> tuple[UnsureRow, ...]:
    """Add the columns that raise the epistemic uncertainty of rows, of as many as time allows.

    X
        These rows, encoded.
    """
    if fitted is None or fitted.inputs is None:
        return rows
    explainer, explained = Explainer(fitted, encoding, _N_COMPLETIONS), []
    for row, x in zip(rows, X[: _MOST_PREDICTED // explainer.n_predictions], strict=False):
        of, average = map(epistemic, explainer.of_row(x))
        names = [label(explainer.columns[j], 30) for j in raising(of, float(average + of.sum()))]
        explained.append(row._replace(raised_by=tuple(names)))
    return (*explained, *rows[len(explained) :])


def sample(n: int, seed: int) -> Int[np.ndarray, " p"]:
    """Draw the places of the rows to draw and to list, in order; all where they are few."""
    return np.sort(np.random.default_rng(seed).choice(n, min(n, MAX_DRAWN), replace=False))


def describe(
    answers: list[Answer],
    rows: EncodedRows,
    places: Int[np.ndarray, " k"],
    features: tuple[Feature, ...],
    standardise: Callable[[np.ndarray], np.ndarray],
    gap_shares: Float[np.ndarray, " k"],
) -> tuple[UnsureRow, ...]:
    """Describe some rows; `features` is empty where unusual values say nothing."""
    z = standardise(rows.X[places])
    return tuple(
        UnsureRow(
            int(rows.numbers[row]),
            answer,
            unlike_training(rows.X[row], z[k], gap_shares[k], features),
        )
        for k, (row, answer) in enumerate(zip(places, answers, strict=True))
    )


def unlike_training(
    x: Float[np.ndarray, " d"],
    z: Float[np.ndarray, " d"],
    gap_share: float,
    features: tuple[Feature, ...],
    least: float | None = None,
) -> tuple[str, ...]:
    """Word how a row differs from the training rows: missing values, then the furthest values.

    z
        Its standardised values.
    gap_share
        Of the doubt about it, what its missing values make.
    least
        Standard deviations from which a value is named; None: 1, and the furthest in any case.
    """
    missing = _missing_values(x, gap_share, features)
    return (*missing, *_unusual_values(x, z, features, least)) if features else ()


def _missing_values(
    x: Float[np.ndarray, " d"], gap_share: float, features: tuple[Feature, ...]
) -> tuple[str, ...]:
    names = [label(f.name, 30) for f in features if np.isnan(x[list(f.columns)]).any()]
    if not names:
        return ()
    n_more = len(names) - _N_VALUES
    named = join(names[:_N_VALUES]) + f" and {n_more} more" * (n_more > 0)
    return (f"{named} missing ({percent(float(gap_share))} of the uncertainty)",)


def _unusual_values(
    x: Float[np.ndarray, " d"],
    z: Float[np.ndarray, " d"],
    features: tuple[Feature, ...],
    least: float | None,
) -> tuple[str, ...]:
    """Describe the values that set a row most apart; `z` are those of `x`, standardised."""
    distance = np.nan_to_num([np.max(np.abs(z[list(f.columns)])) for f in features], nan=-1.0)
    order = np.argsort(-distance, kind="stable")[:_N_VALUES]
    first, others = (0.0, 1.0) if least is None else (least, least)
    named = [i for k, i in enumerate(order) if distance[i] > (first if k == 0 else others)]
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
        return f"{name} = a level that is not in the training rows"
    level = label(feature.levels[int(np.argmax(same))], 30)
    if not np.any(x[columns] == 1.0):
        return f"{name} = {level}"
    # An indicator that is 1 in a share p of the rows stands sqrt((1 - p) / p) std above its mean.
    share = 1.0 / (1.0 + float(z[columns][np.argmax(x[columns])]) ** 2)
    return f"{name} = {level} ({percent(share)} of{_NBSP}rows)"
