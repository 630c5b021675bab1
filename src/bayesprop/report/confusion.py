"""Which classes a classifier finds, and which it takes for which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from bayesprop import metrics
from bayesprop.model.class_predictive import ClassPredictive

MAX_CLASSES = 30
_MAX_PAIRS = 8
_N_EXAMPLES = 3


@dataclass(frozen=True)
class ClassScore:
    """How well one class is found.

    n_actual, n_answered
        Rows that are of the class, and rows that are said to be.
    expected, band
        Sum of its probabilities over all rows, and the standard deviation of what a calibrated
        model would have come true.
    precision, recall
        Share of the rows said to be of the class that are; share of those of it that are found.
    """

    name: str
    n_actual: int
    n_answered: int
    expected: float
    band: float
    precision: float
    recall: float


@dataclass(frozen=True)
class Confused:
    """Rows of one class that are taken for another; `examples` are those taken most surely."""

    actual: str
    answered: str
    count: int
    share: float
    examples: tuple[int, ...]


@dataclass(frozen=True)
class Matrix:
    """Counts of rows by actual class (first axis) and answer, in the order of `classes`."""

    classes: tuple[str, ...]
    counts: Int[np.ndarray, "c c"]

    @property
    def share(self) -> Float[np.ndarray, "c c"]:
        """Counts as shares of the rows of each actual class."""
        return self.counts / np.maximum(np.sum(self.counts, axis=1, keepdims=True), 1)


def class_scores(predicted: ClassPredictive, y: np.ndarray) -> tuple[ClassScore, ...]:
    """Judge every class; of more than 30, the 30 whose rows are found worst."""
    counts = metrics.confusion(predicted, y)
    n_actual, n_answered, right = counts.sum(axis=1), counts.sum(axis=0), np.diag(counts)
    with np.errstate(invalid="ignore"):
        precision, recall = right / n_answered, right / n_actual
    p = predicted.proba
    expected, band = np.sum(p, axis=0), np.sqrt(np.sum(p * (1.0 - p), axis=0))
    worst = np.argsort(np.nan_to_num(recall, nan=2.0), kind="stable")[:MAX_CLASSES]
    return tuple(
        ClassScore(
            str(predicted.classes[k]),
            int(n_actual[k]),
            int(n_answered[k]),
            float(expected[k]),
            float(band[k]),
            float(precision[k]),
            float(recall[k]),
        )
        for k in sorted(worst)
    )


def matrix(predicted: ClassPredictive, y: np.ndarray) -> Matrix | None:
    """Count every pair of classes; None if there are too many to look at."""
    if len(predicted.classes) > MAX_CLASSES:
        return None
    return Matrix(tuple(map(str, predicted.classes)), metrics.confusion(predicted, y))


def most_confused(predicted: ClassPredictive, y: np.ndarray) -> tuple[Confused, ...]:
    """Return the pairs of classes that are confused most often, each with its surest rows."""
    codes, answers = predicted.codes(y), predicted.proba.argmax(axis=1)
    rows = np.flatnonzero(codes != answers)
    c = len(predicted.classes)
    pairs, at, count = np.unique(
        codes[rows] * c + answers[rows], return_inverse=True, return_counts=True
    )
    confidence, names = predicted.confidence, list(map(str, predicted.classes))
    confused = []
    for k in np.argsort(-count, kind="stable")[:_MAX_PAIRS]:
        actual, answered = divmod(int(pairs[k]), c)
        mine = rows[at == k]
        surest = mine[np.argsort(-confidence[mine], kind="stable")][:_N_EXAMPLES]
        share = float(count[k] / np.sum(codes == actual))
        examples = tuple(int(row) for row in surest)
        confused.append(Confused(names[actual], names[answered], int(count[k]), share, examples))
    return tuple(confused)
