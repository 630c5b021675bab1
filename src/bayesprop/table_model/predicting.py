"""What an estimator predicts for rows of a table; its refusals in the words of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from bayesprop import metrics
from bayesprop.model.task import ExposureError, FarInputError
from bayesprop.table.encoding import EncodedRows, TableEncoding
from bayesprop.table.errors import one_line
from bayesprop.table_model.plain_values import Scores
from bayesprop.table_model.refusals import InputError, refusals_of_estimator


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
        raise InputError(
            f"{row}{name} must lie within {error.furthest:g} standard deviations of its mean in "
            f"the training table, got {error.value:g}"
        ) from error


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
        raise InputError(
            f"data row {numbers[int(np.argmin(good))]}: the prediction is not finite; its values "
            "lie too far from the training table"
        )
    return predictive if positive is None else replace(predictive, positive=positive)


class Scored(NamedTuple):
    """Figures of every prediction of some rows, and standard errors of the model's."""

    scores: Scores
    errors: dict[str, float]


def scored(models: Mapping[str, Any], rows: EncodedRows) -> Scored:
    """Compute them."""
    each = {name: metrics.summary(one, rows.y, rows.group) for name, one in models.items()}
    return Scored({name: one.values for name, one in each.items()}, each["model"].errors)
