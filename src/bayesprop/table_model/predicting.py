"""What an estimator predicts for rows of a table; its refusals in the words of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop import metrics
from bayesprop.distributions.categorical import ClassPredictive
from bayesprop.model.task import ExposureError, FarInputError
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import Message, one_line
from bayesprop.table_model.deciding import decided
from bayesprop.table_model.plain_values import Scores
from bayesprop.table_model.refusals import InputError, refusals_of_estimator

if TYPE_CHECKING:
    from bayesprop.evaluation.baselines import Baselines
    from bayesprop.table_model.model import TableModel


@contextmanager
def refusals_by_name(
    features: Float[np.ndarray, "n k"],
    encoding: TableEncoding,
    numbers: Sequence[Any] | np.ndarray,
) -> Iterator[None]:
    """Word an estimator's refusals as the table does, a far value not by places in a matrix."""
    try:
        with refusals_of_estimator(ValueError):
            yield
    except InputError as refusal:
        error = refusal.__cause__
        if isinstance(error, ExposureError):
            name = one_line(encoding.feature_names[error.column])
            raise InputError(error.at(f"data row {numbers[error.row]}", name)) from error
        if not isinstance(error, FarInputError):
            raise
        # It may have seen a few of the rows, in another order.
        places = np.flatnonzero(features[:, error.column] == error.value)
        row = f"data row {numbers[places[0]]}: " if len(places) else ""
        name = one_line(encoding.feature_names[error.column])
        own = {"furthest": error.furthest, "value": error.value}
        raise InputError(Message.of("predict.too_far", row=row, name=name, **own)) from error


def predict_rows(
    predict: Callable[[Float[np.ndarray, "n k"]], Any],
    features: Float[np.ndarray, "n k"],
    encoding: TableEncoding,
    numbers: Sequence[Any] | np.ndarray,
    positive: int | None = None,
) -> Any:
    """Predict some rows; refuse values too far from the training table for a finite answer.

    numbers
        What the table calls the rows, for the message.
    """
    with refusals_by_name(features, encoding, numbers):
        predictive = predict(features)
    if not np.all(good := predictive.is_finite):
        row = numbers[int(np.argmin(good))]
        raise InputError(Message.of("predict.not_finite", row=row))
    return predictive if positive is None else replace(predictive, positive=positive)


def predictive_of(
    model: TableModel, X: Float[np.ndarray, "n k"], numbers: Sequence[Any] | np.ndarray
) -> Any:
    """Predict some encoded rows by a table's model, as `predict_rows` does."""
    place = model.positive and model.positive.place
    return predict_rows(model.saved.fitted.predict, X, model.encoding, numbers, place)


def beside(model: TableModel, rows: EncodedRows, baselines: Baselines | None) -> dict[str, Any]:
    """Predict some rows by a table's model, under "model", and by baselines."""
    predictive, inputs = predictive_of(model, rows.X, rows.numbers), model.saved.fitted.inputs
    others = {} if baselines is None else baselines.predict(rows.X, predictive, inputs)
    return {"model": predictive, **others}


class Scored(NamedTuple):
    """Figures of every prediction of some rows, and standard errors of the model's."""

    scores: Scores
    errors: dict[str, float]


def scored(models: Mapping[str, Any], rows: EncodedRows) -> Scored:
    """Compute them."""
    each = {name: metrics.summary(one, rows.y, rows.group) for name, one in models.items()}
    return Scored({name: one.values for name, one in each.items()}, each["model"].errors)


class Evaluation(dict[str, dict[str, float]]):
    """Metrics of "model" and of its baselines, by name, on some rows.

    n_rows
        How many rows these are.
    errors
        Standard errors of the metrics of the model.
    confusion
        Rows by actual (outer list) and predicted class, in their order: "classes", "counts". None
        of numbers.
    decided
        What the decision between two classes does, as `deciding.decided` says it; None without.
    """

    def __init__(self, models: Mapping[str, Any], rows: EncodedRows, decided: Any = None) -> None:
        scores, self.errors = scored(models, rows)
        super().__init__(scores)
        self.n_rows, self.decided, predictive = len(rows.y), decided, models["model"]
        self.confusion: dict[str, Any] | None = None
        if isinstance(predictive, ClassPredictive):
            shown, counts = predictive.shown, metrics.confusion(predictive, rows.y)
            classes = predictive.classes[shown].tolist()
            self.confusion = {"classes": classes, "counts": counts[np.ix_(shown, shown)].tolist()}


def evaluation(model: TableModel, rows: EncodedRows) -> Evaluation:
    """Judge a table's model, and the baselines that it holds, on some rows."""
    models = beside(model, rows, model.notes.baselines)
    done = decided(model.notes.rule, model.positive, models["model"], rows.y)
    return Evaluation(models, rows, done)
