"""Rows as users give them: checked by scikit-learn, gaps drawn, and the units of the first ones."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from bayesprop.distributions.gaussian_copula import NO_INPUT_MODEL, KnownInputs
from bayesprop.model.method import Learned, LeavesGroupsOut
from bayesprop.model.task import (
    REGRESSION,
    Classes,
    Encoding,
    Fitted,
    Numbers,
    Standardiser,
    check_exposures,
    classes_of,
    with_log,
)
from bayesprop.numerics.forks import check_not_forked
from bayesprop.numerics.rows import Rows
from bayesprop.targets.bijectors import COUNT, NUMBERS
from bayesprop.targets.kinds import learnt_map

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from bayesprop.estimators.shell import EstimatorBase

NOTHING = cast(Learned, None)
"""Learnt so far: of units that stay, before the first row is learnt."""
_LARGEST_SCALE = 1e150


class Checked(NamedTuple):
    """Rows that can be learnt.

    start
        Columns and units; what was learnt before, or `NOTHING`.
    rows
        In the user's units, gaps drawn.
    gap
        Which inputs were missing, (n, d); None: none.
    """

    start: Fitted
    rows: Rows
    gap: Bool[np.ndarray, "n d"] | None


def inputs(estimator: EstimatorBase, X: ArrayLike) -> Float[np.ndarray, "n d"]:
    """Return rows to predict at, columns as in `fit`; NaN where a value is missing."""
    check_is_fitted(estimator)
    return np.asarray(validated(estimator, X, reset=False))


def checked_rows(
    estimator: EstimatorBase,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    before: Fitted | None,
    classes: ArrayLike | None = None,
) -> Checked:
    """Check rows of an estimator that was fitted before, or learn columns and units as well.

    classes
        Of a classifier, all labels that there will be; None: those of y.
    """
    is_first, are_numbers = before is None, estimator.task_name == REGRESSION
    seen, how = (copy.copy(estimator) if is_first else estimator), {}
    if are_numbers:
        least = 2 if is_first else 1
        how = {"multi_output": True, "y_numeric": True, "ensure_min_samples": least}
    else:
        _check_is_vector(y)
    x, target = validated(seen, X, y, reset=is_first, **how)
    weight, is_vector = _checked_weight(sample_weight, x), target.ndim == 1
    if are_numbers:
        target = _numbers(target).reshape(len(target), -1)
        labels, targets = None, target.__getitem__
    else:
        labels = _classes_task(estimator, target, classes, before)
        targets = partial(_is_of_each, target, labels.labels)
    if before is None:
        names = getattr(seen, "feature_names_in_", None)
        exposure = _exposure(estimator, x.shape[1], names)
    else:
        names, exposure = before.encoding.names, before.encoding.exposure
    check_exposures(x, exposure)
    known = _known_inputs(names, x, targets, weight) if before is None else before.inputs
    x, gap = _imputed(estimator, known, x, targets)
    if before is None:
        scaler = Standardiser.none(x.shape[1])
        if estimator.standardises_inputs:
            scaler = Standardiser.fit(with_log(x, exposure), weight)
        encoding = Encoding(scaler, names, exposure)
        task = labels
        if task is None:
            task = _numbers_task(estimator, encoding, x, target, weight, is_vector=is_vector)
        method = estimator.build_method(task, x.shape[1])
        before = Fitted(method, task, encoding, NOTHING, known)
    task = before.task
    if isinstance(task, Numbers) and target.shape[1] != task.n_outputs:
        raise ValueError(
            f"y has {target.shape[1]} outputs, but the model was fitted with {task.n_outputs}"
        )
    if isinstance(task, Numbers) and task.map is not None:
        task.map.check(target)
    return Checked(before, Rows(x, target, weight), gap)


def _check_is_vector(y: ArrayLike) -> None:
    """Raise ValueError for several columns of labels."""
    shape = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"y must be a 1d array, one label a row, got shape {shape}: for several labels "
            "sklearn.multioutput.MultiOutputClassifier fits a model to every column"
        )


def _classes_task(
    estimator: EstimatorBase, y: np.ndarray, classes: ArrayLike | None, before: Fitted | None
) -> Classes:
    """Return the task of rows with labels; of a stream that of its first call."""
    try:
        check_classification_targets(y)
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in y.tolist()}))
        raise ValueError(
            f"y must hold labels of one kind, got {kinds}: turn them all into text"
        ) from error
    labels = np.unique(y if classes is None else classes)
    task = None if before is None else cast(Classes, before.task)
    if classes is not None and task is not None and not np.array_equal(labels, task.labels):
        raise ValueError(
            f"classes must be those of the first call, {task.labels.tolist()}, got "
            f"{labels.tolist()}: leave them out, or start again with `fit`"
        )
    if classes is not None and len(labels) < 2:
        raise ValueError(f"classes must be two labels at least, got {classes!r}")
    if task is not None:
        return task
    task = classes_of(labels, estimator.target_kind, getattr(estimator, "order", None))
    if len(labels) < 2:
        only = labels.tolist()[0]
        raise ValueError(f"y must hold at least two classes, got one class only: {only!r}")
    return task


def _is_of_each(y: np.ndarray, labels: np.ndarray, at: np.ndarray) -> Bool[np.ndarray, "m c"]:
    """Whether chosen rows have each label."""
    return y[at][:, None] == labels


def groups_of_rows(
    estimator: EstimatorBase, groups: ArrayLike, n_rows: int
) -> Int[np.ndarray, " n"]:
    """Return numbers of groups; ValueError unless one a row, for a method that they change."""
    if not issubclass(estimator.method_class, LeavesGroupsOut):
        raise ValueError(
            f"groups must be None for {type(estimator).__name__}, which leaves no rows out to judge"
            " itself: its fit does not change with them"
        )
    groups = np.asarray(column_or_1d(groups))
    if len(groups) != n_rows:
        raise ValueError(f"groups must hold one label a row, {n_rows}, got {len(groups)}")
    try:
        return np.unique(groups, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError("groups must hold labels of one kind: turn them all into text") from error


def _exposure(estimator: EstimatorBase, n: int, names: np.ndarray | None) -> int | None:
    """Return the place of the column of exposures, None where there is none; ValueError."""
    exposure = getattr(estimator, "exposure", None)
    if exposure is None:
        return None
    columns = [*range(n), *([] if names is None else names)]
    if isinstance(exposure, bool) or exposure not in columns:
        which = f"0 to {len(columns) - 1}" if names is None else ", ".join(map(str, names[:12]))
        raise ValueError(f"exposure must be a column of X ({which}), got {exposure!r}")
    return columns.index(exposure) % n


def _known_inputs(
    names: np.ndarray | None,
    x: Float[np.ndarray, "n d"],
    targets: Callable[[np.ndarray], np.ndarray],
    weight: Float[np.ndarray, " n"] | None,
) -> KnownInputs:
    """Return how columns go together in the first rows; ValueError for an empty column.

    targets
        Of chosen rows: numbers, or of every class whether it is the row's, (m, t).
    """
    gap = np.isnan(x if weight is None else x[weight > 0.0])
    is_empty = np.asarray(gap.all(axis=0))
    if is_empty.any():
        names = np.arange(x.shape[1]) if names is None else names
        raise ValueError(
            "X must hold a value in every column, got missing ones (NaN) only in column "
            f"{names[int(np.argmax(is_empty))]}: leave it out"
        )
    return KnownInputs.of_rows(x, targets, weight)


def _imputed(
    estimator: EstimatorBase,
    known: KnownInputs | None,
    x: Float[np.ndarray, "n d"],
    targets: Callable[[np.ndarray], np.ndarray],
) -> tuple[Float[np.ndarray, "n d"], Bool[np.ndarray, "n d"] | None]:
    """Draw what is missing in rows from what is known of them and of their targets.

    Returns the rows, and where values were missing; None where none was.
    """
    gap = np.isnan(x)
    if not gap.any():
        return x, None
    if known is None:
        raise ValueError(NO_INPUT_MODEL)
    has_gap = np.asarray(gap.any(axis=1))
    filled, rng = x.copy(), check_random_state(estimator.random_state)
    rows = np.column_stack([x[has_gap], targets(has_gap)])
    filled[has_gap] = known.model.completed(rows, rng)[:, : x.shape[1]]
    return filled, gap


def _numbers_task(
    estimator: EstimatorBase,
    encoding: Encoding,
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    *,
    is_vector: bool,
) -> Numbers:
    """Learn map and units of targets (n, o); ValueError where they do not go with the kind."""
    kind, column = estimator.target_kind, encoding.exposure
    if column is not None and kind != COUNT:
        raise ValueError(
            f"exposure is of counts: target_kind must be 'count' with it, got {kind!r}"
        )
    scaler = _target_scaler(y, weight)  # which refuses a variance that is no float64
    if kind == NUMBERS:
        return Numbers(scaler, is_vector)
    if isinstance(noise := getattr(estimator, "noise", None), Real):
        raise ValueError(
            f"noise must be learnt with target_kind={kind!r}, because a variance in y² says "
            f"nothing of a mapped target; got {noise!r}: leave it out"
        )
    standardised = encoding.standardised(x)
    exposure = None if column is None else x[:, column]
    learnt = learnt_map(kind, standardised, y, weight, exposure)
    task = Numbers(Standardiser.none(1), is_vector, learnt, column)
    spread = task.of_rows(x).encode(y, check_random_state(0), standardised)
    return replace(task, scaler=_target_scaler(spread, weight))


def _target_scaler(y: np.ndarray, weight: np.ndarray | None) -> Standardiser:
    """Learn the units of targets; ValueError where their variance is no float64."""
    scaler = Standardiser.fit(y, weight)
    scale = scaler.scale
    if (scale > _LARGEST_SCALE).any() or (scale < 1.0 / _LARGEST_SCALE).any():
        raise ValueError(
            f"y must have a standard deviation between {1 / _LARGEST_SCALE:g} and "
            f"{_LARGEST_SCALE:g}, so that its variance is a float64; got {scale.max():g}: "
            "rescale the target"
        )
    return scaler


def _checked_weight(
    sample_weight: ArrayLike | None, x: np.ndarray
) -> Float[np.ndarray, " n"] | None:
    """Return float64 weights of rows; ValueError unless they are not negative, one positive."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
    if not (weight > 0.0).any():
        raise ValueError("sample_weight must have a positive entry, got zeros only")
    return weight


def _numbers(y: ArrayLike) -> np.ndarray:
    """Return targets as float64; ValueError for text."""
    try:
        return np.asarray(y, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"y must hold numbers ({error}): for labels take a classifier") from error


def validated(estimator: Any, X: Any, *y: Any, **how: Any) -> Any:
    """Do what `validate_data` of scikit-learn does, NaN allowed, float64 in C order.

    ValueError names a column of text or dates.
    """
    if how.get("reset") is False and _is_plain(estimator, X, *y):
        return (X, *y) if y else X  # as they stand; the checks take longer than one row
    if any(type(each).__module__.startswith("polars") for each in (X, *y)):
        check_not_forked("Polars")
    how = {"dtype": np.float64, "order": "C", "ensure_all_finite": "allow-nan"} | how
    try:
        if any(str(kind).lower().startswith("date") for kind in set(getattr(X, "dtypes", ()))):
            raise TypeError("dates would be taken for nanoseconds")
        return validate_data(estimator, X, *y, **how)
    except (TypeError, ValueError) as error:
        name = next((one for one in getattr(X, "columns", ()) if not _are_numbers(X[one])), None)
        if name is None:
            raise
        raise ValueError(
            f"column {name!r} holds text, categories or dates, and an estimator takes numbers: "
            "bayesprop.fit(df, target=...) fits to such a table, and encodes it"
        ) from error


def _is_plain(estimator: EstimatorBase, X: Any, *y: Any) -> bool:
    """Whether `validate_data` has nothing to change, to refuse or to warn of."""
    return (
        all(type(each) is np.ndarray and each.dtype == np.float64 for each in (X, *y))
        and X.ndim == 2
        and X.flags.c_contiguous
        and len(X) > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
        and not np.isinf(X).any()
        and all(each.shape == (len(X),) and np.isfinite(each).all() for each in y)
    )


def _are_numbers(column: ArrayLike) -> bool:
    values = np.asarray(column)
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return values.dtype.kind != "M"
