"""From a person's rows to what a method sees, and back: units, labels, what was learnt.

A task is a value: numbers in their units, or classes by their labels. `Fitted` holds all that a
prediction needs, without scikit-learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from jaxtyping import Float, Int

from bayesprop.model.class_predictive import ClassPredictive
from bayesprop.model.completed_predictive import completed, one_of_each
from bayesprop.model.input_model import COMPLETIONS, NO_INPUT_MODEL, InputModel, KnownInputs
from bayesprop.model.method import Learned, Method
from bayesprop.model.pooled import pooled
from bayesprop.model.predictive import Predictive
from bayesprop.model.progress import current
from bayesprop.model.target_kinds import NUMBERS, TargetMap, map_from_dict
from bayesprop.model.transformed_predictive import transformed

REGRESSION, CLASSIFICATION = "regression", "classification"
_LABEL_KINDS: dict[str, type] = {"text": str, "bool": bool, "int": int, "float": float}
_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Standardiser:
    """Per-column shift and scale, held in powers of two so that no column can overflow.

    unit
        A power of two per column, near its largest absolute value, in the column's own units.
    mean, std
        Weighted mean and standard deviation (ddof 0) in those units. A column without variation
        beyond rounding has std 1: it becomes exactly zero.
    """

    unit: Float[np.ndarray, " d"]
    mean: Float[np.ndarray, " d"]
    std: Float[np.ndarray, " d"]

    @classmethod
    def fit(
        cls, x: Float[np.ndarray, "n d"], sample_weight: Float[np.ndarray, " n"] | None = None
    ) -> Standardiser:
        """Learn shift and scale.

        Rows of weight zero count as absent, also where a column is constant without them.
        """
        if sample_weight is not None:
            x, sample_weight = x[sample_weight > 0.0], sample_weight[sample_weight > 0.0]
        largest = np.max(np.abs(x), axis=0, initial=0.0)
        _, exponent = np.frexp(np.where(largest > 0.0, largest, 1.0))
        unit = np.ldexp(1.0, np.clip(exponent, -1021, 1023))
        scaled = x / unit
        mean = np.average(scaled, axis=0, weights=sample_weight)
        std = np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=sample_weight))
        spread = np.ptp(scaled, axis=0)
        is_constant = (spread <= _ROUNDING * largest / unit) | (std == 0.0)
        return cls(unit, np.where(is_constant, scaled[0], mean), np.where(is_constant, 1.0, std))

    @classmethod
    def none(cls, n_columns: int) -> Standardiser:
        """Leave columns as they are."""
        return cls(np.ones(n_columns), np.zeros(n_columns), np.ones(n_columns))

    def transform(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Standardise rows given in the original units."""
        return (x / self.unit - self.mean) / self.std

    def inverse_mean(self, m: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Bring standardised means back to the original units."""
        return (m * self.std + self.mean) * self.unit

    def inverse_var(self, v: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Bring standardised variances back to the squared original units."""
        return v * (self.std * self.unit) ** 2

    @property
    def scale(self) -> Float[np.ndarray, " d"]:
        """One standardised unit in the original units."""
        return self.std * self.unit

    def to_dict(self) -> dict[str, Any]:
        """Return the three vectors as lists, exactly."""
        return {k: getattr(self, k).tolist() for k in ("unit", "mean", "std")}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Standardiser:
        """Rebuild from `to_dict`."""
        return cls(*(np.asarray(stored[k], dtype=np.float64) for k in ("unit", "mean", "std")))

    @classmethod
    def checked(cls, stored: dict[str, Any], name: str, size: int | None = None) -> Standardiser:
        """`from_dict` of a file: ValueError unless finite, positive and of one size.

        name
            For the message.
        size
            Number of columns; None: any.
        """
        size = len(stored["mean"]) if size is None else size
        for part, values in stored.items():
            column = np.asarray(values, dtype=np.float64)
            if column.shape != (size,) or not np.isfinite(column).all():
                raise ValueError(f"{name} must hold {size} finite numbers as {part}")
            if part != "mean" and not (column > 0.0).all():
                raise ValueError(f"{name} must hold numbers > 0 as {part}")
        return cls.from_dict(stored)


@dataclass(frozen=True, eq=False)
class Numbers:
    """One target or several, mapped onto the whole line, and standardised for the method.

    scaler
        Of the mapped targets, (o,).
    is_vector
        Whether there is one target, without an axis of its own.
    map
        From the support of the targets to the whole line; None: they are learnt as they are.
    """

    scaler: Standardiser
    is_vector: bool
    map: TargetMap | None = None

    name = REGRESSION

    @property
    def n_outputs(self) -> int:
        """Number of targets."""
        return len(self.scaler.mean)

    @property
    def log_unit(self) -> float:
        """Log of one standardised unit of every target, in y (or as it is mapped), summed."""
        return float(np.sum(np.log(self.scaler.scale)))

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return NUMBERS if self.map is None else self.map.kind

    def encode(
        self, y: Float[np.ndarray, "n o"], rng: np.random.RandomState
    ) -> Float[np.ndarray, "n o"]:
        """Map and standardise targets; counts draw where in their unit interval they lie."""
        return self.scaler.transform(y if self.map is None else self.map.encode(y, rng))

    def decode(self, predictive: Predictive) -> Predictive:
        """Bring a prediction of standardised targets to the units and the shape of y."""
        shift = self.scaler.inverse_mean(np.zeros((1, self.n_outputs)))[0]
        rescaled = predictive.rescaled(shift, self.scaler.scale)
        rescaled = rescaled.target(0) if self.is_vector else rescaled
        return rescaled if self.map is None else transformed(rescaled, self.map)

    def decode_draws(
        self, drawn: Float[np.ndarray, "s n o"], *, include_noise: bool
    ) -> Float[np.ndarray, "s n o"]:
        """Bring draws of standardised targets to the units of y: functions, or observations."""
        z = self.scaler.inverse_mean(drawn)
        if self.map is None:
            return z
        return (
            self.map.observed(z)
            if include_noise
            else np.clip(self.map.inverse(z), *self.map.support)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what `task_from_dict` reads, for JSON."""
        stored = {"y_is_vector": self.is_vector, "y_scaler": self.scaler.to_dict()}
        return stored if self.map is None else stored | {"y_map": self.map.to_dict()}


@dataclass(frozen=True, eq=False)
class Classes:
    """Two labels or more, in sorted order; the method sees their places."""

    labels: np.ndarray

    name = CLASSIFICATION
    log_unit = 0.0

    @property
    def n_classes(self) -> int:
        """Number of labels."""
        return len(self.labels)

    def encode(
        self,
        y: np.ndarray,
        rng: np.random.RandomState,  # noqa: ARG002
    ) -> Int[np.ndarray, " n"]:
        """Codes of labels; ValueError names one that is not among them."""
        codes = np.minimum(np.searchsorted(self.labels, y), len(self.labels) - 1)
        unknown = self.labels[codes] != y
        if unknown.any():
            raise ValueError(
                f"y must hold classes of the first fit, {self.labels.tolist()}, "
                f"got {y.tolist()[int(np.argmax(unknown))]!r}"
            )
        return codes

    def decode(self, predictive: ClassPredictive) -> ClassPredictive:
        """Name the columns of a prediction of codes, whose rows come to sum to one."""
        proba = np.asarray(predictive.proba, np.float64)
        entropy = np.asarray(predictive.expected_entropy, np.float64)
        proba = proba / proba.sum(axis=1, keepdims=True)
        return ClassPredictive(proba, entropy, self.labels, predictive.gap_entropy)

    def to_dict(self) -> dict[str, Any]:
        """Return what `task_from_dict` reads, for JSON; TypeError for labels of several kinds."""
        labels = self.labels.tolist()
        for name, kind in _LABEL_KINDS.items():
            if all(type(label) is kind for label in labels):
                is_text = self.labels.dtype.kind == "U"
                return {"classes": labels, "label_kind": name, "is_text_array": is_text}
        raise TypeError(
            f"only labels of one kind, text, bool or numbers, can be saved, got {labels}"
        )


Task = Numbers | Classes


def task_from_dict(stored: dict[str, Any]) -> Task:
    """Rebuild what `to_dict` of either gave; ValueError where it does not fit together."""
    if "classes" not in stored:
        scaler = Standardiser.checked(stored["y_scaler"], "y_scaler")
        learnt = map_from_dict(stored["y_map"]) if "y_map" in stored else None
        if learnt is not None and len(scaler.mean) != 1:
            raise ValueError(f"y_map is of one target, and y_scaler of {len(scaler.mean)}")
        return Numbers(scaler, bool(stored["y_is_vector"]), learnt)
    kind, labels = _LABEL_KINDS[stored["label_kind"]], stored["classes"]
    if len(labels) < 2 or not all(type(label) is kind for label in labels):
        raise ValueError(f"classes must be two labels or more of kind {stored['label_kind']}")
    is_object = kind is str and not stored["is_text_array"]
    return Classes(np.asarray(labels, dtype=object if is_object else kind))


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
        """Standardise rows but for gaps; FarInputError names a value `furthest` or more std away.

        first_row
            Number of the first of these rows, for the message.
        """
        x = self.scaler.transform(X)
        if (
            max(np.fmax.reduce(x, None, initial=0.0), -np.fmin.reduce(x, None, initial=0.0))
            > furthest
        ):
            row, column = (int(place) for place in np.argwhere(np.abs(x) > furthest)[0])
            name = column if self.names is None else self.names[column]
            raise FarInputError(first_row + row, column, float(X[row, column]), furthest, name)
        return x


@dataclass(frozen=True, eq=False)
class Fitted:
    """Everything that a prediction needs; rows in the original units, checked for shape already.

    inputs
        How the columns go together; None in older files, by which rows with gaps are refused.
    """

    method: Method
    task: Task
    encoding: Encoding
    learned: Learned
    inputs: KnownInputs | None

    def encoded(self, X: Float[np.ndarray, "n d"], first_row: int = 0) -> np.ndarray:
        """Standardise rows."""
        return self.encoding.encode(X, self.method.furthest_input, first_row)

    def parts(self, X: Float[np.ndarray, "n d"]) -> Iterator[Any]:
        """Predict some rows at a time, in the units of y or by its labels."""
        has_gaps = bool(np.isnan(X).any())
        most = self.method.rows_at_once // (COMPLETIONS if has_gaps else 1)
        step = max(1, min(most, len(X)))
        for first in range(0, len(X), step):
            x = self.encoded(X[first : first + step], first)
            of_some = self._of_gaps(X[first : first + step], x) if has_gaps else self._of(x)
            if step < len(X):
                current().report(min(first + step, len(X)), len(X), "predictions")
            yield self.task.decode(of_some)

    def _of(self, x: Float[np.ndarray, "n d"]) -> Any:
        """Predict standardised targets, or codes, at standardised rows without gaps."""
        return self.method.predict(self.learned.state, x)

    def _of_gaps(self, X: Float[np.ndarray, "n d"], x: Float[np.ndarray, "n d"]) -> Any:
        """Predict what `_of` does; of rows with gaps a mixture over completions."""
        gap = np.isnan(x).any(axis=1)
        complete, rows = np.flatnonzero(~gap), np.flatnonzero(gap)
        each = self._of(np.concatenate([x[complete], self._completions(X[rows])]))
        n = len(complete)
        parts = [each[:n], completed(each[n:], COMPLETIONS)]
        kept = [k for k, places in enumerate((complete, rows)) if len(places)]
        return pooled([parts[k] for k in kept], [(complete, rows)[k] for k in kept])

    def _completions(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m d"]:
        """Return standardised completions of rows, those of a row after one another."""
        d = X.shape[1]
        completions = self._known_inputs.of_columns(d).completions(X)  # the others are targets
        return self.encoding.scaler.transform(completions.reshape(-1, d))

    @property
    def _known_inputs(self) -> InputModel:
        if self.inputs is None:
            raise ValueError(NO_INPUT_MODEL)
        return self.inputs.model

    def predict(self, X: Float[np.ndarray, "n d"]) -> Any:
        """Predictive distribution of every row."""
        parts = list(self.parts(X))
        return type(parts[0]).joined(parts)

    def filled(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return rows with their gaps filled in one way of many."""
        gap = np.isnan(X).any(axis=1)
        if not gap.any():
            return X
        filled = X.copy()
        filled[gap] = self._known_inputs.of_columns(X.shape[1]).completions(X[gap], 1)[:, 0]
        return filled

    def features(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n o k"]:
        """Return what has the posterior covariances of functions, of rows with gaps their mean."""
        method, x = cast(Any, self.method), self.encoded(X)
        gap = np.isnan(x).any(axis=1)
        if not gap.any():
            return method.features(self.learned.state, x)
        complete, rows = np.flatnonzero(~gap), np.flatnonzero(gap)
        each = np.concatenate([x[complete], self._completions(X[rows])])
        found = method.features(self.learned.state, each)
        n = len(complete)
        mean = found[n:].reshape(len(rows), COMPLETIONS, *found.shape[1:]).mean(axis=1)
        return np.concatenate([found[:n], mean])[np.argsort(np.concatenate([complete, rows]))]

    def draw(
        self, X: np.ndarray, rng: np.random.RandomState, n: int, *, include_noise: bool = False
    ) -> Float[np.ndarray, "s n o"]:
        """Draw functions jointly over all rows, or observations, in the units of y."""
        method, task = cast(Any, self.method), cast(Numbers, self.task)
        x = self.encoded(X)
        has_gaps = np.isnan(x).any()
        if has_gaps:
            x = self._completions(X)
        drawn = method.draw(self.learned.state, x, rng, n, include_noise=include_noise)
        if has_gaps:
            drawn = one_of_each(drawn, COMPLETIONS, rng.random_sample((n, len(X))))
        return task.decode_draws(drawn, include_noise=include_noise)
