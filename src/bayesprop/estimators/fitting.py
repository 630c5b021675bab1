"""What the two shells share: rows on their way in, what a fit leaves, and its advice."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bayesprop.model.fit_report import CONSTANT_TARGET
from bayesprop.model.fitted import Encoding, Fitted
from bayesprop.model.method import Learned, Method, Progress, TrainingRows
from bayesprop.model.standardiser import Standardiser
from bayesprop.model.task import Task

_LARGEST_SCALE = 1e150


def of_learned(name: str) -> Any:
    """Attribute of a fitted estimator that is part of what learning left."""
    return property(lambda self: getattr(self.learned_, name))


def of_state(name: str) -> Any:
    """Attribute of a fitted estimator that is part of the state of its method."""
    return property(lambda self: getattr(self.learned_.state, name))


def has(ability: type) -> Callable[[Any], bool]:
    """Whether the method of an estimator has an ability, for `available_if`."""
    return lambda estimator: issubclass(estimator.method_class, ability)


def checked_weight(sample_weight: Any, X: np.ndarray) -> Float[np.ndarray, " n"] | None:
    """Return float64 weights of rows; ValueError unless they are not negative, one positive."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not (weight > 0.0).any():
        raise ValueError("sample_weight must have a positive entry, got zeros only")
    return weight


def as_numbers(y: Any) -> np.ndarray:
    """Return targets as float64; ValueError for text."""
    try:
        return np.asarray(y, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"y must hold numbers ({error}): for labels take a classifier") from error


def target_scaler(y: np.ndarray, weight: np.ndarray | None) -> Standardiser:
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


def advice_on_target(y: Float[np.ndarray, "n o"], weight: np.ndarray | None) -> list[str]:
    """Say so where a target is constant in the rows that count."""
    counted = y if weight is None else y[weight > 0.0]
    return [CONSTANT_TARGET] if np.ptp(counted, axis=0).min() == 0.0 else []


def check_labels(y: np.ndarray) -> None:
    """Raise ValueError unless y can be labels."""
    try:
        check_classification_targets(y)
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in y.tolist()}))
        raise ValueError(
            f"y must hold labels of one kind, got {kinds}: turn them all into text"
        ) from error


def input_scaler(X: np.ndarray, weight: np.ndarray | None, *, is_scaled: bool) -> Standardiser:
    """Learn the scale of inputs, or leave them as they are."""
    return Standardiser.fit(X, weight) if is_scaled else Standardiser.none(X.shape[1])


def checked_inputs(estimator: Any, X: Any) -> Float[np.ndarray, "n d"]:
    """Return rows to predict at, columns as in `fit`."""
    check_is_fitted(estimator)
    return np.asarray(validate_data(estimator, X, dtype=np.float64, reset=False, order="C"))


def encoding_of(estimator: Any) -> Encoding:
    """Return how the columns of an estimator become inputs of its method."""
    return Encoding(estimator.x_scaler_, getattr(estimator, "feature_names_in_", None))


def fitted_of(estimator: Any) -> Fitted:
    """Return method, task, encoding and state; the method as the hyper-parameters are now."""
    method = estimator.build_method(estimator.task_, estimator.n_features_in_)
    return Fitted(method, estimator.task_, encoding_of(estimator), estimator.learned_)


def learn(
    estimator: Any,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    *,
    before: Learned | None = None,
    streams: bool = False,
) -> Learned:
    """Let the method of an estimator learn from checked rows, and show its advice as warnings.

    before
        What an earlier call left, if this one goes on from it.
    streams
        Whether the rows are taken once, as they come.
    """
    X, y, weight = rows
    task: Task = estimator.task_
    method: Any = estimator.build_method(task, X.shape[1])
    x = encoding_of(estimator).encode(X, method.furthest_input)
    data, progress = TrainingRows(x, task.encode(y), weight), Progress(_verbosity(estimator))
    rng = check_random_state(estimator.random_state)
    if streams:
        return method.absorb(data, before, rng, progress)
    return _fit(method, data, before, rng, progress)


def _fit(method: Method, data: TrainingRows, before: Learned | None, rng: Any, at: Any) -> Learned:
    if before is None:
        return method.fit(data, rng, at)
    resumes: Any = method
    return resumes.resume(data, before, rng, at)


def _verbosity(estimator: Any) -> int:
    return int(getattr(estimator, "verbose", 0))


def warned(learned: Learned, *more: str) -> Learned:
    """Show the advice of a fit as warnings; `more` comes first, and is not said twice."""
    told = learned.report.warnings
    advice = [sentence for sentence in more if sentence not in told] + list(told)
    warn(advice)
    return learned._replace(report=replace(learned.report, warnings=advice))


def warn(sentences: Iterable[str]) -> None:
    """Issue a UserWarning for each sentence, placed at the nearest line outside this package.

    Python shows a warning of one place once: at a line of ours, the second fit would be silent.
    """
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("bayesprop."):
        level, frame = level + 1, frame.f_back
    for sentence in sentences:
        warnings.warn(sentence, stacklevel=level)


@dataclass(frozen=True)
class Pruned:
    """What was removed from an estimator.

    share, by_layer
        As asked for.
    n_weights, n_removed
        Counts over the whole network.
    threshold
        Signal-to-noise, |mean| / std, below which the share of all weights lay.
    """

    share: float
    by_layer: bool
    n_weights: int
    n_removed: int
    threshold: float


def goes_on(estimator: Any) -> bool:
    """Whether `fit` continues an earlier fit; ValueError where that one has been pruned."""
    if not (getattr(estimator, "warm_start", False) and hasattr(estimator, "state_")):
        return False
    if hasattr(estimator, "pruned_"):
        raise ValueError(
            "warm_start must be False to fit a pruned model, which kept nothing of its "
            "training, got True: go on with the model before pruning"
        )
    return True


def check_streams(estimator: Any) -> None:
    """Raise ValueError where `partial_fit` would teach a pruned model."""
    if hasattr(estimator, "pruned_"):
        raise ValueError(
            "partial_fit needs a model that was not pruned, because a weight that was removed "
            "learns no more: go on with the model before pruning, or call fit"
        )


def forget(estimator: Any) -> None:
    """Let a new fit be a whole network again."""
    vars(estimator).pop("pruned_", None)
