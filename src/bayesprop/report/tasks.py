"""The two tasks of a report, numbers and classes: all that differs between their pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import Predictive
from bayesprop.report import (
    conformal,
    details,
    effects,
    figures,
    scoring,
    summary,
    unsure,
    verdict,
)
from bayesprop.report.contents import Contents
from bayesprop.report.details import ClassDetails, NumberDetails
from bayesprop.report.effects import Effect, View
from bayesprop.report.scoring import Score
from bayesprop.report.unsure import Answer
from bayesprop.report.verdict import Verdict
from bayesprop.report.words import percent


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is computed, drawn and said of predictions of one kind.

    template
        The file whose blocks are filled into the page.
    models
        What the page calls each model.
    is_usable
        (predicted, y) -> which rows have a prediction that can be judged.
    least_sure, most_wrong
        Places of the rows to show.
    answer_heads, answers_in_words, missed
        How a table heads the texts of an `Answer`, whether these are words or numbers, and what it
        says of one that is missed.
    tiles
        (name, value, note) of each figure to remember.
    """

    template: str
    models: Mapping[str, str]
    answer_heads: tuple[str, ...]
    answers_in_words: bool
    missed: str
    is_usable: Callable[[Any, np.ndarray], np.ndarray]
    scores: Callable[[Mapping[str, Any], np.ndarray], tuple[Score, ...]]
    verdict: Callable[[Any, np.ndarray], Verdict]
    conformal: Callable[[Any, np.ndarray], str]
    view: Callable[[Any], View]
    least_sure: Callable[[Any], np.ndarray]
    most_wrong: Callable[[Any, np.ndarray], np.ndarray]
    answers: Callable[[Any, np.ndarray], list[Answer]]
    details: Callable[[Any, np.ndarray, int], NumberDetails | ClassDetails]
    figures: Callable[[Contents[Any]], dict[str, str]]
    tiles: Callable[[Contents[Any]], list[tuple[str, str, str]]]
    summary: Callable[[Contents[Any]], list[str]]
    movement: Callable[[Effect], str]
    weights: Callable[[Contents[Any]], str]


def _usable_numbers(predicted: Predictive, y: np.ndarray) -> np.ndarray:
    if np.shape(predicted.mean) != y.shape:
        raise ValueError(
            f"the estimator must predict one output, shape {y.shape}; "
            f"got {np.shape(predicted.mean)}"
        )
    return predicted.is_finite & np.isfinite(predicted.var) & (predicted.var > 0.0)


def _usable_classes(predicted: ClassPredictive, _y: np.ndarray) -> np.ndarray:
    return predicted.is_finite & np.isfinite(predicted.expected_entropy)


NUMBERS = Task(
    template="numbers.html",
    models={"model": "This model", "linear": "Bayesian linear", "constant": "Training mean"},
    answer_heads=("Predicted", f"{percent(0.9)} interval"),
    answers_in_words=False,
    missed="outside",
    is_usable=_usable_numbers,
    scores=scoring.of_numbers,
    verdict=verdict.of_numbers,
    conformal=conformal.of_numbers,
    view=lambda _predicted: effects.MOMENTS,
    least_sure=lambda predicted: unsure.least_sure(predicted.std),
    most_wrong=lambda _predicted, _y: np.empty(0, dtype=np.int64),
    answers=unsure.of_numbers,
    details=details.of_numbers,
    figures=figures.of_numbers,
    tiles=summary.tiles_of_numbers,
    summary=summary.summary_of_numbers,
    movement=summary.movement_of_numbers,
    weights=summary.weights_of_numbers,
)
CLASSES = Task(
    template="classes.html",
    models={
        "model": "This model",
        "logistic": "Logistic regression",
        "constant": "Class frequencies",
    },
    answer_heads=("Most probable",),
    answers_in_words=True,
    missed="wrong",
    is_usable=_usable_classes,
    scores=scoring.of_classes,
    verdict=verdict.of_classes,
    conformal=conformal.of_classes,
    view=lambda predicted: effects.probabilities(predicted.classes),
    least_sure=lambda predicted: unsure.least_sure(-predicted.confidence),
    most_wrong=unsure.most_wrong,
    answers=unsure.of_classes,
    details=lambda predicted, y, _seed: details.of_classes(predicted, y),
    figures=figures.of_classes,
    tiles=summary.tiles_of_classes,
    summary=summary.summary_of_classes,
    movement=summary.movement_of_classes,
    weights=summary.weights_of_classes,
)


def task_of(estimator: Any) -> Task:
    """Return the task of an estimator: the classes that it knows make it a classifier."""
    return CLASSES if hasattr(estimator, "classes_") else NUMBERS
