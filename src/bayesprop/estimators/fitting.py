"""The course of a fit, the same for every estimator: checked rows, a method that learns, advice."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial, wraps
from numbers import Real
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from bayesprop.distributions.gaussian_copula import KnownInputs
from bayesprop.estimators.training_gaps import in_two_rounds, of_inputs
from bayesprop.model.fit_report import CONSTANT_TARGET, ORDER_IS_NOT_LEARNT
from bayesprop.model.method import Drafts, Learned, LeavesGroupsOut
from bayesprop.model.progress import current
from bayesprop.model.task import Numbers, Standardiser, check_exposures, with_log
from bayesprop.numerics.forks import check_not_forked
from bayesprop.numerics.machine import forget_when_crowded
from bayesprop.numerics.rows import Rows
from bayesprop.targets.bijectors import COUNT, NUMBERS
from bayesprop.targets.kinds import learnt_map

SECONDS_A_LOOK = 1.0
"""After which the memory maps of compiled programs are counted, which takes milliseconds: longer
than a row of a stream, and too short to compile as many programs as there are maps for."""
_LARGEST_SCALE = 1e150

P = ParamSpec("P")
T = TypeVar("T")
_looks = [0.0]


Gap = Bool[np.ndarray, "n d"] | None
"""Which inputs of checked rows were missing and are drawn; None: none."""


class LazyRandomState:
    """What `check_random_state` gives for a seed, made when something is drawn.

    NumPy takes 70 µs to make it, longer than many a method learns a row, and most draw nothing for
    one.
    """

    def __init__(self, seed: Any) -> None:
        self._seed = seed

    @cached_property
    def _made(self) -> Any:
        return check_random_state(self._seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)


def unharmed(fit: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Put back every attribute when a fit of an estimator raises, Ctrl-C included.

    An earlier fit is whole again, its scaling and columns with it. Attributes must be replaced,
    never changed in place. Programs compiled by many earlier fits are forgotten in time.
    """

    @wraps(fit)
    def whole_or_not_at_all(estimator: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        if time.monotonic() - _looks[-1] >= SECONDS_A_LOOK:
            _looks[:] = [time.monotonic()]
            forget_when_crowded()
        before = dict(vars(estimator))
        try:
            return fit(estimator, *args, **kwargs)
        except BaseException:
            vars(estimator).clear()
            vars(estimator).update(before)
            raise

    return whole_or_not_at_all


@unharmed
def fit(estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> Any:
    """Fit an estimator from scratch, or go on where it is told to."""
    estimator.check_params()
    before = estimator.learned_ if _goes_on(estimator) else None
    rows, gap = estimator.checked_rows(X, y, sample_weight, reset=before is None)
    if groups is not None:
        rows = rows._replace(group=checked_groups(estimator, groups, len(rows.x)))
    vars(estimator).pop("pruned_", None)
    if gap is None or before is not None:
        learned = _learned(estimator, rows, before)
    else:
        learn = partial(_learned, estimator, before=None)
        learned = _noted(*in_two_rounds(estimator, rows, gap, learn))
    estimator.learned_ = advised(estimator, rows, learned, is_first=True)
    return estimator


@unharmed
def partial_fit(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    half_life: float | None = None,
    **labels: Any,
) -> Any:
    """Let an estimator absorb rows, the first of a stream where there was nothing before.

    half_life
        Rows after which one counts half; None: nothing is forgotten.
    """
    estimator.check_params()
    if hasattr(estimator, "pruned_"):
        raise ValueError(
            "partial_fit needs a model that was not pruned, because a weight that was removed "
            "learns no more: go on with the model before pruning, or call fit"
        )
    is_new = not hasattr(estimator, "learned_")  # None: nothing learnt yet, in units that stay
    before = recent = None if is_new else estimator.learned_
    rows, _ = estimator.checked_rows(X, y, sample_weight, reset=is_new, **labels)
    counted = rows
    if half_life is not None:
        from bayesprop.estimators.forgetting import forgetting

        counted, recent = forgetting(estimator, rows, before, half_life)
    learned = _learned(estimator, counted, recent, streams=True)
    estimator.learned_ = advised(estimator, rows, learned, is_first=before is None)
    return estimator


def _goes_on(estimator: Any) -> bool:
    """Whether `fit` continues an earlier fit; ValueError where that one has been pruned."""
    if not (getattr(estimator, "warm_start", False) and hasattr(estimator, "learned_")):
        return False
    if hasattr(estimator, "pruned_"):
        raise ValueError(
            "warm_start must be False to fit a pruned model, which kept nothing of its "
            "training, got True: go on with the model before pruning"
        )
    return True


def _learned(
    estimator: Any,
    rows: Rows,
    before: Learned | None,
    *,
    streams: bool = False,
    as_draft: bool = False,
) -> Learned:
    """Let the method of an estimator learn from checked rows.

    before
        What an earlier call left, if this one goes on from it.
    streams
        Whether the rows are taken once, as they come.
    as_draft
        Whether a quicker version of the method learns, if it has one.
    """
    seed = estimator.random_state
    rng: Any = LazyRandomState(seed) if streams else check_random_state(seed)
    asked, data = as_method_sees(estimator, rows, rng)
    method: Any = asked.draft() if as_draft and isinstance(asked, Drafts) else asked
    progress = replace(current(), verbose=getattr(estimator, "verbose", 0), cuts=[])
    how = rng, progress
    if streams:
        learned = method.absorb(data, before, *how)
    elif before is not None:
        learned = method.resume(data, before, *how)
    else:
        learned = method.fit(data, *how)
    current().cuts.extend(progress.cuts)
    return _noted(learned, progress.cuts)


def as_method_sees(estimator: Any, rows: Rows, rng: np.random.RandomState) -> tuple[Any, Rows]:
    """Return the method of an estimator, and checked rows in its units."""
    task = estimator.task_.of_rows(rows.x)
    method = estimator.build_method(task, rows.x.shape[1])
    x = estimator.encoding_.encode(rows.x, method.furthest_input)
    return method, rows._replace(x=x, y=task.encode(rows.y, rng, x))


def _noted(learned: Learned, sentences: list[str]) -> Learned:
    """Put sentences before the advice of a fit."""
    if not sentences:
        return learned
    advice = [*sentences, *learned.report.warnings]
    return learned._replace(report=replace(learned.report, warnings=advice))


def advised(estimator: Any, rows: Rows, learned: Learned, *, is_first: bool) -> Learned:
    """Show the advice of a fit as warnings; of the first rows also where a target is constant."""
    advice = learned.report.warnings
    if is_first and isinstance(estimator.task_, Numbers):
        counted = rows.y if rows.weight is None else rows.y[rows.weight > 0.0]
        if np.ptp(counted, axis=0).min() == 0.0:
            advice = [CONSTANT_TARGET, *advice]
    if is_first and estimator.task_.order is not None and not estimator.learns_order:
        advice = [*advice, ORDER_IS_NOT_LEARNT]
    advice = list(dict.fromkeys(advice))
    warn(advice)
    if not advice:
        return learned
    return learned._replace(report=replace(learned.report, warnings=advice))


def warn(sentences: list[str]) -> None:
    """Issue a UserWarning for each sentence, placed at the nearest line outside this package.

    Python shows a warning of one place once: at a line of ours, the second fit would be silent.
    """
    if not sentences:
        return
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("bayesprop."):
        level, frame = level + 1, frame.f_back
    for sentence in sentences:
        warnings.warn(sentence, stacklevel=level)


def input_scaler(estimator: Any, X: np.ndarray, weight: np.ndarray | None) -> Standardiser:
    """Learn the scale of inputs, or leave them as they are."""
    if estimator.standardises_inputs:
        return Standardiser.fit(with_log(X, estimator.exposure_column), weight)
    return Standardiser.none(X.shape[1])


def without_gaps(
    estimator: Any,
    X: Float[np.ndarray, "n d"],
    targets: Callable[[np.ndarray], np.ndarray],
    weight: Float[np.ndarray, " n"] | None,
    *,
    reset: bool,
) -> tuple[Float[np.ndarray, "n d"], Gap]:
    """Draw what is missing in rows from what is known of them and of their targets.

    Returns the rows, and where values were missing; None where none was. With `reset`, learns how
    columns go together; ValueError for one without a value.

    targets
        Of chosen rows: numbers, or of every class whether it is the row's, (m, t).
    """
    check_exposures(X, estimator.exposure_column)
    gap = np.isnan(X)
    if reset:
        is_empty = np.asarray((gap if weight is None else gap[weight > 0.0]).all(axis=0))
        if is_empty.any():
            names = getattr(estimator, "feature_names_in_", np.arange(X.shape[1]))
            raise ValueError(
                "X must hold a value in every column, got missing ones (NaN) only in column "
                f"{names[int(np.argmax(is_empty))]}: leave it out"
            )
        estimator.inputs_ = KnownInputs.of_rows(X, targets, weight)
    if not gap.any():
        return X, None
    has_gap = np.asarray(gap.any(axis=1))
    filled, rng = X.copy(), check_random_state(estimator.random_state)
    rows = np.column_stack([X[has_gap], targets(has_gap)])
    filled[has_gap] = of_inputs(estimator).completed(rows, rng)[:, : X.shape[1]]
    return filled, gap


def checked_groups(estimator: Any, groups: Any, n_rows: int) -> Int[np.ndarray, " n"]:
    """Return numbers of groups; ValueError unless one a row, for a method that they change."""
    if not issubclass(estimator.method_class, LeavesGroupsOut):
        raise ValueError(
            f"groups must be None for {type(estimator).__name__}, which leaves no rows out to judge"
            " itself: its fit does not change with them"
        )
    groups = column_or_1d(groups)
    if len(groups) != n_rows:
        raise ValueError(f"groups must hold one label a row, {n_rows}, got {len(groups)}")
    try:
        return np.unique(groups, return_inverse=True)[1]
    except TypeError as error:
        raise ValueError("groups must hold labels of one kind: turn them all into text") from error


def checked_weight(sample_weight: Any, X: np.ndarray) -> Float[np.ndarray, " n"] | None:
    """Return float64 weights of rows; ValueError unless they are not negative, one positive."""
    if sample_weight is None:
        return None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not (weight > 0.0).any():
        raise ValueError("sample_weight must have a positive entry, got zeros only")
    return weight


def checked_numbers(y: Any) -> np.ndarray:
    """Return targets as float64; ValueError for text."""
    try:
        return np.asarray(y, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"y must hold numbers ({error}): for labels take a classifier") from error


def numbers_task(
    estimator: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None, *, is_vector: bool
) -> Numbers:
    """Learn map and units of targets (n, o); ValueError where they do not go with the kind."""
    kind, column = estimator.target_kind, estimator.exposure_column
    if column is not None and kind != COUNT:
        raise ValueError(
            f"exposure is of counts: target_kind must be 'count' with it, got {kind!r}"
        )
    if kind == NUMBERS:
        return Numbers(target_scaler(y, weight), is_vector)
    if isinstance(noise := getattr(estimator, "noise", None), Real):
        raise ValueError(
            f"noise must be learnt with target_kind={kind!r}, because a variance in y² says "
            f"nothing of a mapped target; got {noise!r}: leave it out"
        )
    target_scaler(y, weight)  # which refuses a variance that is no float64
    x = estimator.encoding_.standardised(X)
    learnt = learnt_map(kind, x, y, weight, None if column is None else X[:, column])
    task = Numbers(Standardiser.none(1), is_vector, learnt, column)
    spread = task.of_rows(X).encode(y, check_random_state(0), x)
    return replace(task, scaler=target_scaler(spread, weight))


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


def _is_plain(estimator: Any, X: Any, *y: Any) -> bool:
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


def _are_numbers(column: Any) -> bool:
    values = np.asarray(column)
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return values.dtype.kind != "M"
