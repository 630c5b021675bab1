"""Predictions, refused in the table's own words where they make no sense."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bayesprop.cli.console import InputError, refusals_of_estimator
from bayesprop.model.task import FarInputError
from bayesprop.table.errors import one_line

if TYPE_CHECKING:
    from bayesprop.table.encoding import TableEncoding


@contextmanager
def far_rows_by_name(
    features: Float[np.ndarray, "n k"],
    encoding: TableEncoding,
    numbers: Sequence[Any] | np.ndarray,
) -> Iterator[None]:
    """Word a refusal of a far value as the table does, not by places in a matrix."""
    try:
        yield
    except FarInputError as error:  # which may have seen a few of the rows, in another order
        places = np.flatnonzero(features[:, error.column] == error.value)
        row = f"data row {numbers[places[0]]}: " if len(places) else ""
        name = one_line(encoding.feature_names[error.column])
        raise InputError(
            f"{row}{name} must lie within {error.furthest:g} standard deviations of its mean in "
            f"the training table, got {error.value:g}"
        ) from error


def predict_rows(
    estimator: Any,
    features: Float[np.ndarray, "n k"],
    encoding: TableEncoding,
    numbers: Sequence[Any] | np.ndarray,
) -> Any:
    """Predict some rows; refuse values too far from the training table for a finite answer.

    numbers
        What the table calls the rows, for the message.
    """
    with refusals_of_estimator(ValueError), far_rows_by_name(features, encoding, numbers):
        predictive = estimator.predict_dist(features)
    if not np.all(good := predictive.is_finite):
        raise InputError(
            f"data row {numbers[int(np.argmin(good))]}: the prediction is not finite; its values "
            "lie too far from the training table"
        )
    return predictive
