"""The course of a fit, the same for every estimator: checked rows, a method that learns, advice.

Rows come as users give them: scikit-learn checks them, values that are missing are drawn, and the
first rows give the units. Everything here is a function of an estimator's hyper-parameters and of
rows, and changes nothing: the estimator keeps the `Fitted` that it returns.
"""

from __future__ import annotations

import copy
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from numbers import Real
from typing import NamedTuple, cast

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
)

from bayesprop.distributions.gaussian_copula import NO_INPUT_MODEL, KnownInputs
from bayesprop.estimators.imputation import drawn_as_learnt, expected, with_population
from bayesprop.estimators.shell import EstimatorBase, Seed, validated
from bayesprop.model.fit_report import CONSTANT_TARGET, ORDER_IS_NOT_LEARNT
from bayesprop.model.group_labels import checked_labels
from bayesprop.model.method import (
    Drafts,
    KnowsGroups,
    Learned,
    LearnsMeasured,
    Merges,
    Resumes,
    Streams,
)
from bayesprop.model.progress import NothingLearntError, current, following
from bayesprop.model.task import (
    REGRESSION,
    Classes,
    Encoding,
    Fitted,
    LabelColumns,
    Numbers,
    Standardiser,
    check_exposures,
    classes_of,
    with_log,
)
from bayesprop.numerics.machine import forget_when_crowded
from bayesprop.numerics.rows import Rows, numbered
from bayesprop.targets.bijectors import COUNT, NUMBERS
from bayesprop.targets.kinds import learnt_map

ONE_ROUND = (
    "the time was over before missing or uncertain inputs could be drawn by what was learnt and a "
    "second round be fitted"
)
_DRAFT = 0.4
"""Share of the time that a draft takes."""
NOTHING = cast(Learned, None)
"""Learnt so far: of units that stay, before the first row is learnt."""
_LARGEST_SCALE = 1e150
_LARGEST_WEIGHT = 1e100


class LazyRandomState:
    """The generator of `check_random_state` for a seed, created at the first draw.

    NumPy takes 70 µs to make it, longer than many a method learns a row, and most draw nothing for
    one.
    """

    def __init__(self, seed: Seed) -> None:
        self._seed = seed

    @cached_property
    def _made(self) -> np.random.RandomState:
        return check_random_state(self._seed)

    def __getattr__(self, name: str) -> Callable:
        return getattr(self._made, name)


def fit(
    estimator: EstimatorBase,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    X_std: ArrayLike | None = None,
) -> Fitted:
    """Fit from scratch, or go on from an earlier fit where `warm_start` says so.

    X_std
        As `measured.checked_std` takes it. None: all values are exact.
    """
    forget_when_crowded()
    estimator.check_params()
    before = None
    if getattr(estimator, "warm_start", False):
        before = _earlier(
            estimator,
            "warm_start must be False to fit a pruned model, which kept nothing of its training, "
            "got True: go on with the model before pruning",
        )
    start, rows, gap = checked_rows(estimator, X, y, sample_weight, before)
    if groups is not None:
        start, rows = _in_groups(estimator, start, rows, groups)
    known = rows.x if gap is None else np.where(gap, np.nan, rows.x)
    std = start.encoding.checked_std(known, X_std, start.method.furthest_input)
    learned = None
    if std is not None:
        if before is not None:
            raise ValueError("X_std must be None to go on with warm_start: fit all rows together")
        start, rng = with_population(start, rows, std), check_random_state(estimator.random_state)
        if gap is None and isinstance(start.method, LearnsMeasured):
            data, inputs = standardise(start, rows, rng), start.encoding.true_inputs(rows.x, std)
            learned = start.method.fit_measured(data, inputs, rng)
    if learned is None and before is None and (gap is not None or std is not None):
        learned = _learned_in_two_rounds(estimator, start, rows, gap, std)
    elif learned is None:
        learned = _learned(estimator, start, rows)
    return advised(estimator, rows, replace(start, learned=learned), is_first=True)


def partial_fit(
    estimator: EstimatorBase,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    half_life: float | None,
    classes: ArrayLike | None = None,
) -> Fitted:
    """Absorb rows, the first of a stream where there was nothing before.

    half_life
        Rows after which one counts half; None: nothing is forgotten.
    """
    forget_when_crowded()
    estimator.check_params()
    before = _earlier(
        estimator,
        "partial_fit needs a model that was not pruned, because a weight that was removed learns "
        "no more: go on with the model before pruning, or call fit",
    )
    start, rows, _ = checked_rows(estimator, X, y, sample_weight, before, classes)
    recent, counted = start, rows
    if half_life is not None:
        recent, counted = _forgotten(estimator, start, rows, half_life)
    learned = _learned(estimator, recent, counted, streams=True)
    return advised(estimator, rows, replace(start, learned=learned), is_first=before is None)


def _earlier(estimator: EstimatorBase, refusal: str) -> Fitted | None:
    """Return the earlier fit to go on from, if there is one; ValueError where it was pruned."""
    if hasattr(estimator, "pruned_"):
        raise ValueError(refusal)
    return estimator.fitted_ if hasattr(estimator, "learned_") else None


def _learned(
    estimator: EstimatorBase,
    start: Fitted,
    rows: Rows,
    *,
    streams: bool = False,
    as_draft: bool = False,
) -> Learned:
    """Let a method learn from checked rows, on from what an earlier call left, if it did.

    streams
        Whether the rows are taken once, as they come.
    as_draft
        Whether a quicker version of the method learns, if it has one.
    """
    seed = estimator.random_state
    rng = (
        cast(np.random.RandomState, LazyRandomState(seed)) if streams else check_random_state(seed)
    )
    data, method = standardise(start, rows, rng), start.method
    method = method.draft() if as_draft and isinstance(method, Drafts) else method
    progress = replace(current(), verbose=getattr(estimator, "verbose", 0), cuts=[])
    if streams:
        learned = cast(Streams, method).absorb(data, start.learned, rng, progress)
    elif start.learned is not None:
        learned = cast(Resumes, method).resume(data, start.learned, rng, progress)
    else:
        learned = method.fit(data, rng, progress)
    current().cuts.extend(progress.cuts)
    return _noted(learned, progress.cuts)


def standardise(start: Fitted, rows: Rows, rng: np.random.RandomState) -> Rows:
    """Return rows to learn as the method sees them; counts draw where they lie."""
    x = start.encoding.encode(rows.x, start.method.furthest_input)
    return rows._replace(x=x, y=start.task_of(rows.x).encode(rows.y, rng, x))


def _noted(learned: Learned, sentences: Sequence) -> Learned:
    """Put sentences before the advice of a fit, if there are any."""
    if not sentences:
        return learned
    advice = [*sentences, *learned.report.warnings]
    return learned._replace(report=replace(learned.report, warnings=advice))


def advised(estimator: EstimatorBase, rows: Rows, fitted: Fitted, *, is_first: bool) -> Fitted:
    """Show the advice of a fit as warnings; of the first rows also where a target is constant."""
    learned, task = fitted.learned, fitted.task
    advice = learned.report.warnings
    if is_first and isinstance(task, Numbers) and np.ptp(rows.counted.y, axis=0).min() == 0.0:
        advice = [CONSTANT_TARGET, *advice]
    if is_first and task.order is not None and not getattr(estimator, "learns_order", False):
        advice = [*advice, ORDER_IS_NOT_LEARNT]
    advice = list(dict.fromkeys(advice))
    warn(advice)
    if not advice:
        return fitted
    report = replace(learned.report, warnings=advice)
    return replace(fitted, learned=learned._replace(report=report))


def warn(sentences: Sequence, kind: type[Warning] = UserWarning) -> None:
    """Issue a warning for each sentence, placed at the nearest line outside this package.

    Python shows a warning of one place once: at a line of ours, the second fit would be silent.
    """
    if not sentences:
        return
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("bayesprop."):
        level, frame = level + 1, frame.f_back
    for sentence in sentences:
        warnings.warn(kind(sentence), stacklevel=level)


def _forgotten(
    estimator: EstimatorBase, start: Fitted, rows: Rows, half_life: float
) -> tuple[Fitted, Rows]:
    """Let each row count 2^(-rows since then / half_life), those learnt before as well.

    What was learnt before is the prior times (posterior / prior) to that power, a power prior
    (Ibrahim & Chen 2000): where posteriors are exact, that of weighted rows.
    """
    method, n = start.method, len(rows.x)
    if not isinstance(method, Merges):
        raise ValueError(
            f"half_life must be None for {type(estimator).__name__}, whose posterior cannot be "
            f"tempered toward its prior, got {half_life!r}: linear, logistic and pbp forget"
        )
    if isinstance(half_life, bool) or not isinstance(half_life, Real) or not float(half_life) > 0.0:
        raise ValueError(f"half_life must be a number of rows > 0, got {half_life!r}")
    weight = 2.0 ** (-np.arange(n - 1.0, -1.0, -1.0) / half_life)
    counted = rows._replace(weight=weight if rows.weight is None else weight * rows.weight)
    before = start.learned
    if before is None:
        return start, counted
    share = 2.0 ** (-n / half_life)
    parts, powers = [before, method.without_rows(before)], [share, 1.0 - share]
    tempered = method.combined(parts, powers)._replace(n_iter=before.n_iter)
    return replace(start, learned=tempered), counted


def _learned_in_two_rounds(
    estimator: EstimatorBase,
    start: Fitted,
    rows: Rows,
    gap: Bool[np.ndarray, "n d"] | None,
    std: Float[np.ndarray, "n d"] | None,
) -> Learned:
    """Learn from rows with gaps or errors, and once more with inputs drawn by what was learnt.

    In time; where it has no limit the first round is a draft. This takes measured inputs to be what
    they are on average (Carroll et al. 2006, section 4.2, "regression calibration").
    """
    progress, started = current(), time.monotonic()
    as_draft = bool(np.isinf(progress.seconds_left))
    share = _DRAFT if as_draft else 0.5
    with following(progress.part(0.0, share, "round 1 of 2")):
        first = rows if std is None else rows._replace(x=expected(start.encoding, rows.x, std))
        first = _learned(estimator, start, first, as_draft=as_draft)
    if progress.seconds_left < time.monotonic() - started or progress.is_over:
        return _noted(first, [ONE_ROUND])
    with following(progress.part(share, share, "gaps" if std is None else "inputs")):
        seed = estimator.random_state
        x = drawn_as_learnt(replace(start, learned=first), rows, gap, std, seed)
    try:
        with following(progress.part(share, 1.0, "round 2 of 2")):
            second = _learned(estimator, start, rows._replace(x=x))
    except NothingLearntError:
        return _noted(first, [ONE_ROUND])
    if progress.is_over:  # what was cut short is no better than the whole round before it
        return _noted(first, [ONE_ROUND])
    seconds = first.report.seconds + second.report.seconds
    return second._replace(report=replace(second.report, seconds=seconds))


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
    seen = copy.copy(estimator) if is_first else estimator
    how: dict[str, bool | int] = {}
    if are_numbers:
        least = 2 if is_first else 1
        how = {"multi_output": True, "y_numeric": True, "ensure_min_samples": least}
    else:
        how = {"multi_output": _has_columns(estimator, y)}
    x, target = validated(seen, X, y, reset=is_first, **how)
    weight, is_vector = _checked_weight(sample_weight, x), target.ndim == 1
    if are_numbers:
        target = _numbers(target).reshape(len(target), -1)
        labels, targets = None, target.__getitem__
    else:
        labels = _classes_task(estimator, target, classes, before)
        targets = target.__getitem__
        if target.ndim == 1:
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
    n_outputs = 1 if target.ndim == 1 else target.shape[1]
    if n_outputs != task.n_outputs:
        raise ValueError(
            f"y has {n_outputs} outputs, but the model was fitted with {task.n_outputs}"
        )
    if isinstance(task, Numbers) and task.kind != NUMBERS:
        task.map.check(target)
    return Checked(before, Rows(x, target, weight), gap)


def _has_columns(estimator: EstimatorBase, y: ArrayLike) -> bool:
    """Whether labels have several columns; ValueError where an estimator does not take them."""
    shape = getattr(y, "shape", None) or np.asarray(y).shape
    if len(shape) != 2 or shape[1] < 2:
        return False
    if not estimator.__sklearn_tags__().classifier_tags.multi_label:
        raise ValueError(
            f"y must be a 1d array, one label a row, got shape {shape}: for several labels "
            "PBPClassifier fits one network to all columns, and "
            "sklearn.multioutput.MultiOutputClassifier a model to every column"
        )
    if hasattr(y, "toarray"):
        raise ValueError("y must be a dense array, got a sparse one: give y.toarray()")
    return True


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
    if y.ndim == 2:
        return _columns_task(task, y)
    if len(labels) < 2:
        only = labels.tolist()[0]
        raise ValueError(f"y must hold at least two classes, got one class only: {only!r}")
    return task


def _columns_task(task: Classes, y: np.ndarray) -> LabelColumns:
    """Return the task of several columns of labels, which must be 0 or 1 and have no order."""
    labels = np.arange(2).astype(y.dtype)
    if task.order is not None or not np.isin(task.labels, labels).all():
        raise ValueError(
            "y of several columns must hold 0 and 1, whether a row has each label, with "
            f"target_kind='classes'; got {task.labels.tolist()[:10]} with "
            f"target_kind={task.kind!r}: encode them by sklearn.preprocessing.MultiLabelBinarizer"
        )
    return LabelColumns(labels, n_outputs=y.shape[1])


def _is_of_each(y: np.ndarray, labels: np.ndarray, at: np.ndarray) -> Bool[np.ndarray, "m c"]:
    """Whether chosen rows have each label."""
    return y[at][:, None] == labels


def _in_groups(
    estimator: EstimatorBase, start: Fitted, rows: Rows, groups: ArrayLike
) -> tuple[Fitted, Rows]:
    """Give rows the numbers of their groups, and keep the labels."""
    if not isinstance(start.method, KnowsGroups):
        raise ValueError(
            f"groups must be None for {type(estimator).__name__}, which holds out no rows"
            " itself: its fit does not change with them"
        )
    labels = checked_labels(groups, len(rows.x))
    rows = rows._replace(group=np.stack([numbered(one) for one in labels], axis=1))
    known = slice(None) if rows.weight is None else rows.weight > 0.0
    names = tuple(np.unique(one[known]) for one in labels)
    return replace(start, encoding=replace(start.encoding, groups=names)), rows


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
    task = Numbers(Standardiser.none(1), is_vector, learnt)
    spread = task.of_rows(x, column).encode(y, check_random_state(0), standardised)
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
    if weight.max() > _LARGEST_WEIGHT:
        raise ValueError(
            f"sample_weight must be at most {_LARGEST_WEIGHT:g}, so that sums over rows are "
            f"float64; got {weight.max():g}: divide it by its mean"
        )
    return weight


def _numbers(y: ArrayLike) -> np.ndarray:
    """Return targets as float64; ValueError for text."""
    try:
        return np.asarray(y, dtype=np.float64)
    except ValueError as error:
        raise ValueError(f"y must hold numbers ({error}): for labels take a classifier") from error
