"""What only one task's report shows: of numbers the spread of errors, of classes each class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from bayesprop import metrics
from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.predictive import Predictive
from bayesprop.report.calibration import (
    Abstaining,
    CoverageCurve,
    Diagram,
    Histogram,
    PitHistogram,
    abstaining,
    coverage_curve,
    diagram,
    histogram,
    pit_histogram,
)
from bayesprop.report.confusion import (
    ClassScore,
    Confused,
    Matrix,
    class_scores,
    matrix,
    most_confused,
)

MAX_POINTS = 300
_GROUPED_ROWS = 100
_GROUPS = 5


@dataclass(frozen=True)
class Cloud:
    """Rows to draw, at most `MAX_POINTS`; all in y. `low` and `high` bound the 90 % interval."""

    actual: Float[np.ndarray, " p"]
    mean: Float[np.ndarray, " p"]
    low: Float[np.ndarray, " p"]
    high: Float[np.ndarray, " p"]
    std: Float[np.ndarray, " p"]


@dataclass(frozen=True)
class ErrorGroup:
    """Rows of similar predicted std: its range, and the size that 90 % of their errors keep to."""

    low: float
    high: float
    size: float


@dataclass(frozen=True)
class NumberDetails:
    """What the report of a regressor says besides.

    median_error
        Median absolute error, y.
    calibration_error
        Mean |nominal - actual| coverage.
    is_even
        Whether the model predicts the same std, within 5 %, for nearly all rows.
    """

    median_error: float
    calibration_error: float
    pit: PitHistogram | None
    coverage: CoverageCurve | None
    cloud: Cloud
    groups: tuple[ErrorGroup, ...]
    is_even: bool

    @property
    def examples(self) -> tuple[int, ...]:
        """Places of rows that are shown besides the least sure."""
        return ()


@dataclass(frozen=True)
class ClassDetails:
    """What the report of a classifier says besides.

    classes
        Names of the classes, in sorted order.
    mean_confidence
        Mean probability of the most probable class.
    diagram
        Of the second of two classes; of the answers, where there are more.
    class_scores, matrix, confused
        Of every class or the worst, of every pair of classes or none, and of the worst pairs.
    """

    classes: tuple[str, ...]
    mean_confidence: float
    diagram: Diagram | None
    histogram: Histogram
    abstaining: Abstaining | None
    class_scores: tuple[ClassScore, ...]
    matrix: Matrix | None
    confused: tuple[Confused, ...]

    @property
    def positive(self) -> str:
        """The second of two classes; empty where there are more."""
        return self.classes[1] if len(self.classes) == 2 else ""

    @property
    def examples(self) -> tuple[int, ...]:
        """Places of rows that are shown besides the least sure."""
        return tuple(row for pair in self.confused for row in pair.examples)


def of_numbers(predicted: Predictive, y: Float[np.ndarray, " n"], seed: int) -> NumberDetails:
    """Compute them; the seed draws the rows of the figures."""
    pit = metrics.pit(predicted, y)
    return NumberDetails(
        median_error=float(np.median(np.abs(y - predicted.mean))),
        calibration_error=metrics.calibration_error(predicted, y),
        pit=pit_histogram(pit),
        coverage=coverage_curve(pit),
        cloud=_cloud(predicted, y, seed),
        groups=_groups(predicted, y),
        is_even=_is_even(predicted),
    )


def of_classes(predicted: ClassPredictive, y: np.ndarray) -> ClassDetails:
    """Compute them."""
    right = predicted.label == y
    return ClassDetails(
        classes=tuple(map(str, predicted.classes)),
        mean_confidence=float(np.mean(predicted.confidence)),
        diagram=_diagram(predicted, y),
        histogram=histogram(predicted.confidence, right, len(predicted.classes)),
        abstaining=abstaining(predicted.confidence, right),
        class_scores=class_scores(predicted, y),
        matrix=matrix(predicted, y),
        confused=most_confused(predicted, y),
    )


def _diagram(predicted: ClassPredictive, y: np.ndarray) -> Diagram | None:
    if len(predicted.classes) == 2:
        return diagram(predicted.proba[:, 1], y == predicted.classes[1])
    return diagram(predicted.confidence, predicted.label == y)


def _cloud(predicted: Predictive, y: np.ndarray, seed: int) -> Cloud:
    n = len(y)
    drawn = np.sort(np.random.default_rng(seed).choice(n, min(n, MAX_POINTS), replace=False))
    chosen = predicted[drawn]
    interval = chosen.interval(0.9)
    return Cloud(y[drawn], chosen.mean, interval[:, 0], interval[:, 1], chosen.std)


def _groups(predicted: Predictive, y: np.ndarray) -> tuple[ErrorGroup, ...]:
    """Cut the rows into five by their predicted std, where rows and differences are enough."""
    if len(y) < _GROUPED_ROWS or _is_even(predicted):
        return ()
    std, size = predicted.std, np.abs(y - predicted.mean)
    order = np.argsort(std, kind="stable")
    return tuple(
        ErrorGroup(float(std[part[0]]), float(std[part[-1]]), float(np.quantile(size[part], 0.9)))
        for part in np.array_split(order, _GROUPS)
    )


def _is_even(predicted: Predictive) -> bool:
    """Whether 95 % of the predicted standard deviations lie within 5 % of each other."""
    low, high = np.quantile(predicted.std, (0.025, 0.975))
    return bool(high <= 1.05 * low)
