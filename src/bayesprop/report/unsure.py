"""Rows worth a look: those the model is least sure of, and the answers that were most wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import Predictive
from bayesprop.report.features import Feature, unusual_values
from bayesprop.report.rows import Rows
from bayesprop.report.words import alike, label, percent

N_ROWS = 10
_N_TOP = 3


class Answer(NamedTuple):
    """What was predicted for a row, in words, and what came.

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


@dataclass(frozen=True)
class UnsureRow:
    """A row, what was predicted, and the values that set it most apart from the training rows.

    row
        Its place among the judged rows.
    unusual
        "name = value (+3.1 std)", the most unusual first; std is that of the training rows. Empty
        where the rows are pictures.
    """

    row: int
    row_id: str
    answer: Answer
    unusual: tuple[str, ...]


def least_sure(doubt: Float[np.ndarray, " n"]) -> Int[np.ndarray, " k"]:
    """Return the places of the ten rows of most doubt."""
    return np.argsort(-doubt, kind="stable")[:N_ROWS]


def most_wrong(predicted: ClassPredictive, y: np.ndarray) -> Int[np.ndarray, " k"]:
    """Return the places of the ten wrong answers that gave the actual class least probability."""
    wrong = np.flatnonzero(predicted.label != y)
    log_prob = predicted.log_prob(y)[wrong]
    return wrong[np.argsort(log_prob, kind="stable")][:N_ROWS]


def describe(
    answers: list[Answer],
    rows: Rows,
    places: Int[np.ndarray, " k"],
    features: tuple[Feature, ...],
    standardise: Callable[[np.ndarray], np.ndarray],
) -> tuple[UnsureRow, ...]:
    """Describe some rows; `features` is empty where unusual values say nothing."""
    z = standardise(rows.X[places])
    return tuple(
        UnsureRow(
            row=int(row),
            row_id=rows.row_ids[row],
            answer=answer,
            unusual=unusual_values(rows.X[row], z[k], features) if features else (),
        )
        for k, (row, answer) in enumerate(zip(places, answers, strict=True))
    )


def of_numbers(predicted: Predictive, y: Float[np.ndarray, " n"]) -> list[Answer]:
    """Write every row's numbers with as many decimals as its interval deserves."""
    interval = predicted.interval(0.9)
    share = predicted.epistemic_var / predicted.var
    answers = []
    for k, (low, high) in enumerate(interval):
        numbers = [predicted.mean[k], low, high, y[k]]
        mean, *ends, actual = alike(list(map(float, numbers)), float(high - low) / 3)
        is_missed = not low <= y[k] <= high
        answers.append(Answer((mean, " to ".join(ends)), actual, is_missed, float(share[k])))
    return answers


def of_classes(predicted: ClassPredictive, y: np.ndarray) -> list[Answer]:
    """Write every row's most probable classes."""
    top = np.argsort(-predicted.proba, axis=1, kind="stable")[:, :_N_TOP]
    entropy, information = predicted.entropy, predicted.mutual_information
    answers = []
    for k, chosen in enumerate(top):
        classes = [(label(predicted.classes[i], 24), predicted.proba[k, i]) for i in chosen]
        text = ", ".join(f"{name} ({percent(float(p))})" for name, p in classes)
        share = float(information[k] / entropy[k]) if entropy[k] > 0.0 else 0.0
        is_missed = bool(predicted.label[k] != y[k])
        answers.append(Answer((text,), label(y[k], 24), is_missed, share))
    return answers
