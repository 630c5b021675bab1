"""A method that has learnt, with all that turns a person's rows into predictions in their units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesprop.model.method import Learned, Method
from bayesprop.model.standardiser import Standardiser
from bayesprop.model.task import Numbers, Task


class FarInputError(ValueError):
    """A value beyond all reason; every number that the message names is an attribute.

    row, column
        Where it is, as counted from 0.
    value, furthest
        The value itself, and how many training standard deviations from the mean are allowed.
    name
        What the estimator calls the column.
    """

    def __init__(self, row: int, column: int, value: float, furthest: float, name: Any) -> None:
        super().__init__(row, column, value, furthest, name)  # what a copy is made of
        self.row, self.column, self.name = row, column, name
        self.value, self.furthest = value, furthest

    def __str__(self) -> str:
        return (
            f"X must lie within {self.furthest:g} training standard deviations of the "
            f"training mean, got {self.value:g} in row {self.row}, column {self.name}"
        )


@dataclass(frozen=True, eq=False)
class Encoding:
    """How columns become standardised inputs, and what they are called."""

    scaler: Standardiser
    names: np.ndarray | None = None

    def encode(
        self, X: Float[np.ndarray, "n d"], furthest: float, first_row: int = 0
    ) -> Float[np.ndarray, "n d"]:
        """Standardise rows; FarInputError names a value beyond `furthest` standard deviations.

        first_row
            Number of the first of these rows, for the message.
        """
        x = self.scaler.transform(X)
        if max(x.max(initial=0.0), -x.min(initial=0.0)) > furthest:
            row, column = (int(place) for place in np.argwhere(np.abs(x) > furthest)[0])
            name = column if self.names is None else self.names[column]
            raise FarInputError(first_row + row, column, float(X[row, column]), furthest, name)
        return x


@dataclass(frozen=True, eq=False)
class Fitted:
    """Everything that a prediction needs; rows in the original units, checked for shape already."""

    method: Method
    task: Task
    encoding: Encoding
    learned: Learned

    def encoded(self, X: Float[np.ndarray, "n d"], first_row: int = 0) -> np.ndarray:
        """Standardise rows."""
        return self.encoding.encode(X, self.method.furthest_input, first_row)

    def parts(self, X: Float[np.ndarray, "n d"]) -> Iterator[Any]:
        """Predict some rows at a time, in the units of y or by its labels."""
        step = min(self.method.rows_at_once, max(len(X), 1))
        for first in range(0, len(X), step):
            x = self.encoded(X[first : first + step], first)
            predictive: Any = self.method.predict(self.learned.state, x)
            yield self.task.decode(predictive)

    def predict(self, X: Float[np.ndarray, "n d"]) -> Any:
        """Predictive distribution of every row."""
        parts = list(self.parts(X))
        return type(parts[0]).joined(parts)

    def draw(
        self, X: np.ndarray, rng: np.random.RandomState, n: int, *, include_noise: bool = False
    ) -> Float[np.ndarray, "s n o"]:
        """Draw functions jointly over all rows, or observations, in the units of y."""
        if not isinstance(self.task, Numbers):
            raise TypeError("only functions of numbers are drawn, not those of classes")
        method: Any = self.method
        drawn = method.draw(
            self.learned.state, self.encoded(X), rng, n, include_noise=include_noise
        )
        return self.task.scaler.inverse_mean(drawn)
