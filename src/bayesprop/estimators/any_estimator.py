"""An estimator, of this library or of scikit-learn: whether it is sure, and what it predicts.

One of scikit-learn has `predict(X, return_std=True)` or `predict_proba`, and may be a pipeline: its
doubt is not divided into epistemic and noise.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.distributions.mixture import MixturePredictive
from bayesprop.distributions.predictive import GaussianPredictive, Predictive

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from bayesprop.estimators.shell import ClassifierBase, RegressorBase

CHUNK_ROWS = 65_536
_FEW_ROWS, _DRAW_VALUES = 1024, 8_000_000


class Inputs(Protocol):
    """Rows of inputs, (n, d): an array, or a frame of pandas or Polars."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""
        ...

    def __len__(self) -> int: ...
    def __getitem__(self, rows: slice | np.ndarray, /) -> Inputs: ...
    def __array__(self) -> np.ndarray: ...


class Estimator(Protocol):
    """An estimator of this library or of scikit-learn, perhaps a pipeline."""

    def fit(self, X: Inputs, y: np.ndarray) -> Self:
        """Learn from rows."""
        ...


class WithStd(Estimator, Protocol):
    """A regressor that says how sure it is."""

    def predict(self, X: Inputs, return_std: bool) -> tuple[np.ndarray, np.ndarray]:
        """Predict mean and standard deviation."""
        ...


class WithProba(Estimator, Protocol):
    """A classifier that says how sure it is."""

    classes_: np.ndarray

    def predict_proba(self, X: Inputs) -> np.ndarray:
        """Predict the probability of every class."""
        ...


def predictives_of(estimator: Estimator, X: Inputs) -> Iterator[Predictive | ClassPredictive]:
    """Predict with any estimator, some rows at a time; of no rows in its own words."""
    step = rows_at_once(estimator, X)
    for first in range(0, max(len(X), 1), step):
        yield predictive_of(estimator, X[first : first + step])


def rows_at_once(estimator: Estimator, X: Inputs) -> int:
    """Return how many rows to predict at a time: a mixture over draws holds a number for each."""
    if len(X) <= _FEW_ROWS:
        return _FEW_ROWS
    predicted = predictive_of(estimator, X[:1])
    n_draws = len(predicted.means) if isinstance(predicted, MixturePredictive) else 1
    return max(1, min(CHUNK_ROWS, _DRAW_VALUES // n_draws))


def tells_parts(estimator: Estimator) -> bool:
    """Whether an estimator divides its doubt into epistemic and noise."""
    return hasattr(last_step(estimator), "predict_dist")


def is_classifier(estimator: Estimator) -> bool:
    """Whether an estimator predicts classes."""
    return hasattr(last_step(estimator), "predict_proba")


def predictive_of(estimator: Estimator, X: Inputs) -> Predictive | ClassPredictive:
    """Predict with any estimator; of one that is not ours all variance counts as epistemic.

    Raises ValueError where it cannot say how sure it is.
    """
    check_estimator(estimator)
    model, inputs = unwrapped(estimator, X)
    if hasattr(model, "predict_dist"):
        return cast("RegressorBase | ClassifierBase", model).predict_dist(inputs)
    if hasattr(model, "predict_proba"):
        classifier = cast(WithProba, model)
        proba = np.asarray(classifier.predict_proba(inputs), np.float64)
        return ClassPredictive(proba, np.zeros(len(proba)), classifier.classes_)
    mean, std = cast(WithStd, model).predict(inputs, return_std=True)
    return GaussianPredictive(np.asarray(mean), np.square(std), np.zeros(np.shape(mean)))


def check_estimator(estimator: Estimator) -> None:
    """Raise ValueError for an estimator that cannot say how sure it is."""
    model = last_step(estimator)
    if any(hasattr(model, name) for name in ("predict_dist", "predict_proba")):
        return
    predict = getattr(model, "predict", None)
    if predict is None or "return_std" not in inspect.signature(predict).parameters:
        raise ValueError(
            "the estimator must have predict_dist, predict_proba or predict(X, return_std=True), "
            f"got {type(model).__name__}: it does not say how sure it is"
        )


def unwrapped(estimator: Estimator, X: Inputs) -> tuple[Estimator, Inputs]:
    """Return the last step of a pipeline and what the earlier ones make of X."""
    if not hasattr(estimator, "steps"):
        return estimator, X
    pipeline = cast("Pipeline", estimator)
    inputs = cast(Inputs, pipeline[:-1].transform(X)) if len(pipeline) > 1 else X
    return last_step(estimator), inputs


def last_step(estimator: Estimator) -> Estimator:
    """Return the estimator that predicts: the last one of a pipeline."""
    steps = getattr(estimator, "steps", None)
    return estimator if steps is None else steps[-1][1]


def checked_values(y: ArrayLike, *, classes: bool) -> np.ndarray:
    """Return targets as an array; ValueError if those of a regressor are not numbers."""
    values = np.asarray(y)
    if classes or values.dtype.kind in "biuf":
        return values
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y must hold numbers for a regressor ({error}): for labels take a classifier"
        ) from error
