"""The rows a classifier is least sure of, and those it got wrong with most confidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.report.effects import Feature
from bayesprop.report.unsure import N_ROWS, Rows, unusual_values

_N_TOP = 3


@dataclass(frozen=True)
class AnsweredRow:
    """A row with its most probable classes, most probable first.

    row
        Its place among the judged rows.
    epistemic_share
        Share of the entropy that more data would remove.
    unusual
        As in `UnsureRow`; empty where the rows are pictures.
    """

    row: int
    row_id: str
    top: tuple[tuple[str, float], ...]
    actual: str
    is_right: bool
    epistemic_share: float
    unusual: tuple[str, ...]


def least_sure(predicted: ClassPredictive) -> Int[np.ndarray, " k"]:
    """Return the places of the ten rows of least confidence."""
    return np.argsort(predicted.confidence, kind="stable")[:N_ROWS]


def most_wrong(predicted: ClassPredictive, y: np.ndarray) -> Int[np.ndarray, " k"]:
    """Return the places of the ten wrong answers that gave the actual class least probability."""
    wrong = np.flatnonzero(predicted.label != y)
    log_prob = predicted.log_prob(y)[wrong]
    return wrong[np.argsort(log_prob, kind="stable")][:N_ROWS]


def describe(
    predicted: ClassPredictive,
    rows: Rows,
    places: Int[np.ndarray, " k"],
    features: tuple[Feature, ...],
    standardise: Callable[[np.ndarray], np.ndarray],
) -> tuple[AnsweredRow, ...]:
    """Describe some rows; `features` is empty where unusual values say nothing."""
    chosen = predicted[places]
    top = np.argsort(-chosen.proba, axis=1, kind="stable")[:, :_N_TOP]
    entropy, information = chosen.entropy, chosen.mutual_information
    z = standardise(rows.X[places])
    names = list(map(str, predicted.classes))
    return tuple(
        AnsweredRow(
            row=int(row),
            row_id=rows.row_ids[row],
            top=tuple((names[i], float(chosen.proba[k, i])) for i in top[k]),
            actual=str(rows.y[row]),
            is_right=bool(chosen.label[k] == rows.y[row]),
            epistemic_share=float(information[k] / entropy[k]) if entropy[k] > 0.0 else 0.0,
            unusual=unusual_values(rows.X[row], z[k], features) if features else (),
        )
        for k, row in enumerate(places)
    )
