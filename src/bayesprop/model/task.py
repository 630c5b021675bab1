"""From a person's rows to what a method sees, and back: units, maps and labels.

A task is a value: numbers in their units, or classes by their labels. `Fitted` is all that a
prediction needs: method, task, encoding of inputs, and what was learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import ArrayLike

from bayesprop.codec import Labels
from bayesprop.distributions.categorical import ClassPredictive, Distribution
from bayesprop.distributions.gaussian_copula import NO_INPUT_MODEL, GaussianCopula, KnownInputs
from bayesprop.distributions.imputed import input_draws, n_ways, one_of_each, over_gaps
from bayesprop.distributions.measured import Population, TrueInputs, checked_std
from bayesprop.distributions.predictive import Predictive
from bayesprop.distributions.transformed import TransformedPredictive
from bayesprop.model.group_labels import numbers_among
from bayesprop.model.method import MOST_ROWS, DrawsFunctions, Features, KnowsGroups, Learned, Method
from bayesprop.model.progress import current
from bayesprop.numerics.rows import codes_of
from bayesprop.targets.bijectors import AS_THEY_ARE, NUMBERS, TargetMap
from bayesprop.targets.kinds import CountScores

REGRESSION, CLASSIFICATION = "regression", "classification"
CLASSES, ORDERED = "classes", "ordered"
KINDS_OF_CLASSES = (CLASSES, ORDERED)
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

    @property
    def scale(self) -> Float[np.ndarray, " d"]:
        """One standardised unit in the original units."""
        return self.std * self.unit

    def validate(self) -> None:
        """Raise ValueError unless columns can be divided by their units."""
        if not (self.unit > 0.0).all() or not (self.std > 0.0).all():
            raise ValueError("unit and std of a column must be > 0")


@dataclass(frozen=True, eq=False)
class Numbers:
    """One target or several, mapped onto the whole line, and standardised for the method.

    scaler
        Of the mapped targets, (o,).
    is_vector
        Whether there is one target, without an axis of its own.
    map
        From the support of the targets to the whole line.
    """

    scaler: Standardiser
    is_vector: bool
    map: TargetMap = AS_THEY_ARE

    name = REGRESSION
    order = None

    @property
    def n_outputs(self) -> int:
        """Number of targets."""
        return len(self.scaler.mean)

    @cached_property
    def log_unit(self) -> float:
        """Log of one standardised unit of every target, in y (or as it is mapped), summed."""
        return float(np.sum(np.log(self.scaler.scale)))

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return self.map.kind

    def of_rows(self, X: Float[np.ndarray, "n d"], exposure: int | None) -> Numbers:
        """Return the task of rows in the original units, whose counts have a column of exposures.

        exposure
            How long, or on how many, each row was counted; None: all alike.
        """
        if exposure is None:
            return self
        counts = cast(CountScores, self.map)
        return replace(self, map=replace(counts, exposure=X[:, exposure, None]))

    def encode(
        self,
        y: Float[np.ndarray, "n o"],
        rng: np.random.RandomState,
        x: Float[np.ndarray, "n d"],
    ) -> Float[np.ndarray, "n o"]:
        """Map and standardise targets; counts draw where in their interval they lie."""
        return self.scaler.transform(self.map.encode(y, rng, x))

    def decode(self, predictive: Predictive) -> Predictive:
        """Bring a prediction of standardised targets to the units and the shape of y."""
        shift = self.scaler.inverse_mean(np.zeros((1, self.n_outputs)))[0]
        rescaled = predictive.rescaled(shift, self.scaler.scale)
        rescaled = rescaled.target(0) if self.is_vector else rescaled
        if self.kind == NUMBERS:
            return rescaled
        return TransformedPredictive.of(rescaled, self.map[..., 0] if self.is_vector else self.map)

    def decode_draws(
        self, drawn: Float[np.ndarray, "s n o"], *, include_noise: bool
    ) -> Float[np.ndarray, "s n o"]:
        """Bring draws of standardised targets to the units of y: functions, or observations."""
        z = self.scaler.inverse_mean(drawn)
        if include_noise:
            return self.map.observed(z)
        return np.clip(self.map.inverse(z), *self.map.support)

    def validate(self) -> None:
        """Raise ValueError where a map is not that of the targets."""
        if self.kind != NUMBERS and self.n_outputs != 1:
            raise ValueError(f"a map is of one target, got {self.n_outputs}")


@dataclass(frozen=True, eq=False)
class Classes:
    """Two labels or more, in sorted order; the method sees their places.

    order
        These places from the lowest class to the highest; None: the classes have no order.
    """

    labels: Labels
    order: tuple[int, ...] | None = None

    name = CLASSIFICATION
    log_unit = 0.0
    n_outputs = 1
    """Number of targets."""

    @property
    def n_classes(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def classes(self) -> np.ndarray | list[np.ndarray]:
        """Labels, sorted; of several columns those of each."""
        return self.labels

    @property
    def kind(self) -> str:
        """One of `KINDS_OF_CLASSES`."""
        return CLASSES if self.order is None else ORDERED

    def of_rows(self, X: np.ndarray, exposure: int | None) -> Classes:  # noqa: ARG002
        """Return the task of some rows: the same for all."""
        return self

    def encode(
        self,
        y: np.ndarray,
        rng: np.random.RandomState,  # noqa: ARG002
        x: np.ndarray,  # noqa: ARG002
    ) -> Int[np.ndarray, " n"]:
        """Codes of labels; ValueError names one that is not among them."""
        return codes_of(self.labels, y)

    def decode(self, predictive: ClassPredictive) -> ClassPredictive:
        """Name the columns of a prediction of codes, whose rows come to sum to one."""
        proba = np.asarray(predictive.proba, np.float64)
        entropy = np.asarray(predictive.expected_entropy, np.float64)
        proba = proba / proba.sum(axis=-1, keepdims=True)
        return ClassPredictive(proba, entropy, self.labels, predictive.gap_entropy, self.order)

    def validate(self) -> None:
        """Raise ValueError unless there are two classes, or where the order is not theirs."""
        n = len(self.labels)
        if n < 2 or (self.order is not None and sorted(self.order) != [*range(n)]):
            raise ValueError(f"order must hold the places of two classes or more, got {self.order}")


@dataclass(frozen=True, eq=False)
class LabelColumns(Classes):
    """Several columns of 0 and 1, which are `labels`: each whether a row has a label."""

    n_outputs: int = 2

    @property
    def classes(self) -> list[np.ndarray]:
        """The two labels of every column, as scikit-learn lists them."""
        return [self.labels] * self.n_outputs

    def validate(self) -> None:
        """Raise ValueError unless there are several columns of two labels without an order."""
        if len(self.labels) != 2 or self.order is not None or self.n_outputs < 2:
            raise ValueError(f"columns must be two at least, of two labels, got {self.n_outputs}")


def classes_of(labels: np.ndarray, kind: str, order: Sequence[str | float] | None) -> Classes:
    """Return the task of sorted labels; numbers and truth values sort themselves.

    ValueError where ordered words have no order, or one that does not hold every label.

    order
        Labels from the lowest class to the highest; those that no row has may be among them.
    """
    if kind != ORDERED:
        if order is None:
            return Classes(labels)
        raise ValueError(
            f"order is of ordered classes: target_kind must be {ORDERED!r} with it, got {kind!r}"
        )
    if order is None and labels.dtype.kind in "biuf":
        return Classes(labels, tuple(range(len(labels))))
    words, known = [] if order is None else list(order), labels.tolist()
    if not set(known) <= set(words) or len(set(words)) < len(words):
        raise ValueError(
            "order must name every class once, from the lowest to the highest, got "
            f"{order!r} for {known[:10]}"
        )
    return Classes(labels, tuple(known.index(word) for word in words if word in known))


Task = Numbers | Classes | LabelColumns


def with_log(X: Float[np.ndarray, "n d"], column: int | None) -> Float[np.ndarray, "n d"]:
    """Return rows with the log of one column in its place; None: of none."""
    if column is None:
        return X
    return np.concatenate([X[:, :column], np.log(X[:, [column]]), X[:, column + 1 :]], axis=1)


def check_exposures(X: Float[np.ndarray, "n d"], column: int | None, first_row: int = 0) -> None:
    """Raise ValueError that names the first row whose exposure is no number > 0, or a wild one."""
    if column is None:
        return
    is_good = (X[:, column] > 1e-100) & (X[:, column] < 1e100)
    if not is_good.all():
        row = int(np.argmin(is_good))
        raise ExposureError(first_row + row, column, float(X[row, column]))


class ExposureError(ValueError):
    """An exposure that is no number > 0, or missing; `row` and `column` are counted from 0."""

    def __init__(self, row: int, column: int, value: float) -> None:
        super().__init__(row, column, value)  # what a copy is made of
        self.row, self.column, self.value = row, column, value

    def __str__(self) -> str:
        return self.at(f"row {self.row}", f"column {self.column}")

    def at(self, row: str, column: str) -> str:
        """Say it of a row and a column by the names that their reader knows."""
        value = "none (NaN)" if np.isnan(self.value) else f"{self.value:g}"
        return (
            f"exposure must be a number > 0 (1e-100 to 1e100) in every row, got {value} in {row},"
            f" {column}: leave the row out, or say for how long it was counted"
        )


class FarInputError(ValueError):
    """A value beyond all reason; every number that the message names is an attribute.

    row, column
        Where it is, as counted from 0.
    value, furthest
        The value itself, and how many training standard deviations from the mean are allowed.
    name
        What the estimator calls the column.
    """

    def __init__(
        self, row: int, column: int, value: float, furthest: float, name: str | int
    ) -> None:
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
    """How columns become standardised inputs, and what they are called.

    exposure
        Column whose log is the input; None: there is none.
    groups
        Labels of the groups whose effects were learnt, sorted, of every factor, such as patient
        and site; None: the model knows none.
    population
        Where training rows had errors, how their true inputs are distributed.
    """

    scaler: Standardiser
    names: Labels | None = None
    exposure: int | None = None
    groups: tuple[Labels, ...] | None = None
    population: Population | None = None

    def validate(self) -> None:
        """Raise ValueError unless names and exposure are those of the columns."""
        n = len(self.scaler.mean)
        others = (self.names, None if self.population is None else self.population.mean)
        is_of_all = all(one is None or len(one) == n for one in others)
        if not all(np.array_equal(np.unique(one), one) for one in self.groups or ()):
            raise ValueError("the labels of groups must differ and be sorted")
        if not is_of_all or not (self.exposure is None or 0 <= self.exposure < n):
            raise ValueError(f"names, exposure and population must be those of {n} columns")

    def group_numbers(self, groups: ArrayLike, n_rows: int) -> Int[np.ndarray, "n f"]:
        """Return the places of labels among those known, -1 for a new one.

        ValueError where the model knows no groups, or there is not one label a row of each factor.
        """
        if self.groups is None:
            raise ValueError(
                "groups must be None for a model that keeps no effects of groups: the default"
                " learns them, if it is fitted with groups=... to a table that fits into memory"
            )
        return numbers_among(self.groups, groups, n_rows)

    def knows(self, groups: Shaped[np.ndarray, "n f"] | None) -> Bool[np.ndarray, " n"] | None:
        """Whether every label of a row is known; None without labels, or where none is."""
        if groups is None or self.groups is None:
            return None
        return self.group_numbers(groups, len(groups)).min(axis=1) >= 0

    def standardised(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Standardise rows, wherever they lie."""
        return self.scaler.transform(with_log(X, self.exposure))

    def checked_std(
        self, X: Float[np.ndarray, "n d"], X_std: ArrayLike | None, furthest: float
    ) -> Float[np.ndarray, "n d"] | None:
        """Check what `measured.checked_std` does, and exposures; None: all values are exact.

        ValueError for a std beyond a tenth of `furthest`, or that of an exposure.
        """
        if X_std is None:
            return None
        with np.errstate(over="ignore"):
            most = 0.1 * furthest * self.scaler.scale
        names = range(X.shape[1]) if self.names is None else self.names
        std = checked_std(X, X_std, most, names)
        if self.exposure is not None and std[:, self.exposure].any():
            raise ValueError("X_std must be 0 in the column of exposures, which are taken as exact")
        return std if std.any() else None

    def true_inputs(
        self, X: Float[np.ndarray, "n d"], X_std: Float[np.ndarray, "n d"]
    ) -> TrueInputs:
        """Infer the true inputs of measured rows, standardised; where a population was learnt."""
        error_var = (X_std / self.scaler.scale) ** 2
        return cast(Population, self.population).given(self.standardised(X), error_var)

    def located(
        self, X: Float[np.ndarray, "n d"], X_std: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d *k"]]:
        """Return means and std of the true inputs of measured rows, or roots of covariances."""
        if self.population is None:
            return X, X_std
        inputs, scale = self.true_inputs(X, X_std), self.scaler.scale
        mean = np.where(X_std > 0.0, X + scale * (inputs.mean - self.standardised(X)), X)
        return mean, scale[:, None] * inputs.root

    def encode(
        self, X: Float[np.ndarray, "n d"], furthest: float, first_row: int = 0
    ) -> Float[np.ndarray, "n d"]:
        """Standardise rows but for gaps; FarInputError names a value `furthest` or more std away.

        ValueError names a row whose exposure is no number > 0.

        first_row
            Number of the first of these rows, for the message.
        """
        check_exposures(X, self.exposure, first_row)
        x = self.standardised(X)
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
        How the columns go together; None where rows with gaps are refused.
    """

    method: Method
    task: Task
    encoding: Encoding
    learned: Learned
    inputs: KnownInputs | None

    @property
    def n_inputs(self) -> int:
        """Number of columns."""
        return len(self.encoding.scaler.mean)

    def task_of(self, X: Float[np.ndarray, "n d"]) -> Task:
        """Return the task of rows in the original units, whose counts may have exposures."""
        return self.task.of_rows(X, self.encoding.exposure)

    def encoded(self, X: Float[np.ndarray, "n d"], first_row: int = 0) -> np.ndarray:
        """Standardise rows."""
        return self.encoding.encode(X, self.method.furthest_input, first_row)

    def parts(
        self,
        X: Float[np.ndarray, "n d"],
        X_std: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Iterator[Any]:
        """Predict some rows at a time, in the units of y or by its labels.

        X_std
            As `measured.checked_std` takes it. None: all values are exact.
        groups
            Label of every row's group, or (n, f) of several factors, whose effects move its
            prediction. None: all are new ones.
        """
        number = None
        if groups is not None:
            number = self.encoding.group_numbers(groups, len(X))
        elif self.encoding.groups is not None:
            number = np.full((len(X), len(self.encoding.groups)), -1)
        X_std = self.encoding.checked_std(X, X_std, self.method.furthest_input)
        has_gaps = X_std is not None or bool(np.isnan(X).any())
        most = min(MOST_ROWS, self.method.rows_at_once)
        most //= n_ways(X, X_std).max(initial=1) if has_gaps else 1
        step = max(1, min(most, len(X)))
        for first in range(0, len(X), step):
            some, std = X[first : first + step], None
            x = self.encoded(some, first)
            ask: Callable[..., Any] = self.method.predict
            if X_std is not None:
                some, std = self.encoding.located(some, X_std[first : first + step])
                x = self.encoding.standardised(some)
            of_some = self._over_gaps(ask, some, std) if has_gaps else ask(self.learned.state, x)
            if number is not None:
                own, move = number[first : first + step], cast(KnowsGroups, self.method).in_groups
                of_some = move(self.learned.state, of_some, own, x)
            if step < len(X):
                current().report(min(first + step, len(X)), len(X), "predictions")
            yield self.task_of(some).decode(of_some)

    def _over_gaps(
        self,
        ask: Callable[..., Distribution | np.ndarray],
        X: np.ndarray,
        X_std: np.ndarray | None = None,
    ) -> Any:
        """Ask the method about rows in the original units, some with gaps or a std."""
        state, standardised = self.learned.state, self.encoding.standardised
        inputs = self.known_inputs if np.isnan(X).any() else None
        return over_gaps(lambda rows: ask(state, standardised(rows)), X, inputs, X_std)

    @property
    def known_inputs(self) -> GaussianCopula:
        """How the columns go together; ValueError where the model was saved without."""
        if self.inputs is None:
            raise ValueError(NO_INPUT_MODEL)
        return self.inputs.model

    def predict(
        self,
        X: Float[np.ndarray, "n d"],
        X_std: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Any:
        """Predictive distribution of every row; X_std and groups as of `parts`."""
        parts = list(self.parts(X, X_std, groups))
        return type(parts[0]).joined(parts)

    def filled(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Return rows with their gaps filled in one way of many."""
        gap = np.isnan(X).any(axis=1)
        if not gap.any():
            return X
        filled = X.copy()
        filled[gap] = self.known_inputs.of_columns(X.shape[1]).completions(X[gap], 1)[:, 0]
        return filled

    def features(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n o k"]:
        """Return features whose products are posterior covariances; their mean over imputations."""
        ask, x = cast(Features, self.method).features, self.encoded(X)
        has_gaps = np.isnan(x).any()
        return self._over_gaps(ask, X) if has_gaps else ask(self.learned.state, x)

    def draw(
        self,
        X: np.ndarray,
        rng: np.random.RandomState,
        n: int,
        *,
        include_noise: bool,
        X_std: ArrayLike | None = None,
    ) -> Float[np.ndarray, "s n o"]:
        """Draw functions jointly over all rows, or observations, in the units of y.

        X_std
            As of `parts`: each draw is at one of the inputs that a row may have.
        """
        method, task = cast(DrawsFunctions, self.method), cast(Numbers, self.task_of(X))
        x, encoding = self.encoded(X), self.encoding
        std = encoding.checked_std(X, X_std, self.method.furthest_input)
        ways = int(n_ways(X, std).max(initial=1))
        if ways > 1:
            inputs = self.known_inputs if np.isnan(X).any() else None
            located = encoding.located(X, np.zeros_like(X) if std is None else std)
            x = encoding.standardised(input_draws(*located, ways, inputs).reshape(-1, X.shape[1]))
        functions, observations = method.draw(self.learned.state, x, rng, n)
        drawn = observations() if include_noise else functions()
        if ways > 1:
            drawn = one_of_each(drawn, ways, rng.random_sample((n, len(X))))
        return task.decode_draws(drawn, include_noise=include_noise)
