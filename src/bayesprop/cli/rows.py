"""Encoded rows of a table, and predictions for them, refused in the table's own words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from bayesprop.cli.failures import InputError, one_line, refusals_of_estimator
from bayesprop.estimators.inputs import FarInputError

if TYPE_CHECKING:
    import polars as pl

    from bayesprop.table.encoding import TableEncoding


class Rows(NamedTuple):
    """Encoded rows with a target.

    numbers
        Of the rows in their table, from 1.
    weight
        None for equal weights.
    remarks
        Sentences on what was left out, filled or not known.
    """

    X: Float[np.ndarray, "n k"]
    y: Shaped[np.ndarray, " n"]
    numbers: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"] | None = None
    remarks: Sequence[str] = ()

    def fit(self, estimator: Any) -> None:
        """Fit an estimator to the rows."""
        estimator.fit(self.X, self.y, **self.weights)

    @property
    def weights(self) -> dict[str, Any]:
        """The keyword of the weights, if there are any."""
        return {} if self.weight is None else {"sample_weight": self.weight}

    def of(self, chosen: np.ndarray) -> Rows:
        """Select rows (a mask or index array)."""
        weight = None if self.weight is None else self.weight[chosen]
        return Rows(self.X[chosen], self.y[chosen], self.numbers[chosen], weight, self.remarks)


def known_rows(encoding: TableEncoding, frame: pl.DataFrame) -> Rows:
    """Encode the rows of a whole table that have a target."""
    encoded = encoding.encode(frame)  # whole, so that messages name rows of the table
    known = encoding.known_target(frame)
    remarks = [*known.warnings, *encoded.warnings]
    return Rows(encoded.X[known.places], known.values, known.places + 1, None, remarks)


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
