"""The course of a fit, the same for every estimator: checked rows, a method that learns, advice.

Everything here is a function of an estimator's hyper-parameters and of rows, and changes nothing:
the estimator keeps the `Fitted` that it returns.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from jaxtyping import Bool, Float
from sklearn.utils import check_random_state

from bayesprop.distributions.gaussian_copula import NO_INPUT_MODEL
from bayesprop.estimators import checks
from bayesprop.model.fit_report import CONSTANT_TARGET, ORDER_IS_NOT_LEARNT
from bayesprop.model.method import Drafts, Learned, Merges
from bayesprop.model.progress import NothingLearntError, current, following
from bayesprop.model.task import Fitted, Numbers
from bayesprop.numerics.machine import forget_when_crowded
from bayesprop.numerics.rows import Rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from bayesprop.estimators.shell import EstimatorBase, Seed

ONE_ROUND = (
    "the time was over before gaps could be drawn by what was learnt and a second round be fitted"
)
_MOST_CANDIDATES, _LEAST_CANDIDATES, _MOST_PREDICTED = 32, 4, 2**18
_ROWS_AT_ONCE = 4096
_DRAFT = 0.4
"""Share of the time that a draft takes."""


class LazyRandomState:
    """What `check_random_state` gives for a seed, made when something is drawn.

    NumPy takes 70 µs to make it, longer than many a method learns a row, and most draw nothing for
    one.
    """

    def __init__(self, seed: Seed) -> None:
        self._seed = seed

    @cached_property
    def _made(self) -> np.random.RandomState:
        return check_random_state(self._seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)


def fit(
    estimator: EstimatorBase,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
) -> Fitted:
    """Fit from scratch, or go on from an earlier fit where `warm_start` says so."""
    forget_when_crowded()
    estimator.check_params()
    before = None
    if getattr(estimator, "warm_start", False):
        before = _earlier(
            estimator,
            "warm_start must be False to fit a pruned model, which kept nothing of its training, "
            "got True: go on with the model before pruning",
        )
    start, rows, gap = checks.checked_rows(estimator, X, y, sample_weight, before)
    if groups is not None:
        rows = rows._replace(group=checks.groups_of_rows(estimator, groups, len(rows.x)))
    if before is None and gap is not None:
        learned = _learned_in_two_rounds(estimator, start, rows, gap)
    else:
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
    start, rows, _ = checks.checked_rows(estimator, X, y, sample_weight, before, classes)
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
    rng: Any = LazyRandomState(seed) if streams else check_random_state(seed)
    data, method = standardise(start, rows, rng), start.method
    method = cast(Any, method.draft() if as_draft and isinstance(method, Drafts) else method)
    progress = replace(current(), verbose=getattr(estimator, "verbose", 0), cuts=[])
    if streams:
        learned = method.absorb(data, start.learned, rng, progress)
    elif start.learned is not None:
        learned = method.resume(data, start.learned, rng, progress)
    else:
        learned = method.fit(data, rng, progress)
    current().cuts.extend(progress.cuts)
    return _noted(learned, progress.cuts)


def standardise(start: Fitted, rows: Rows, rng: np.random.RandomState) -> Rows:
    """Return rows to learn as the method sees them; counts draw where they lie."""
    x = start.encoding.encode(rows.x, start.method.furthest_input)
    return rows._replace(x=x, y=start.task.of_rows(rows.x).encode(rows.y, rng, x))


def _noted(learned: Learned, sentences: list[str]) -> Learned:
    """Put sentences before the advice of a fit."""
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
    gap: Bool[np.ndarray, "n d"],
) -> Learned:
    """Learn from rows with gaps, and once more with these drawn by what was learnt, in time.

    Where time has no limit the first round is a draft.
    """
    progress, started = current(), time.monotonic()
    as_draft = bool(np.isinf(progress.seconds_left))
    share = _DRAFT if as_draft else 0.5
    with following(progress.part(0.0, share, "round 1 of 2")):
        first = _learned(estimator, start, rows, as_draft=as_draft)
    if progress.seconds_left < time.monotonic() - started or progress.is_over:
        return _noted(first, [ONE_ROUND])
    with following(progress.part(share, share, "gaps")):
        x = filled_as_learnt(replace(start, learned=first), rows, gap, estimator.random_state)
    try:
        with following(progress.part(share, 1.0, "round 2 of 2")):
            second = _learned(estimator, start, rows._replace(x=x))
    except NothingLearntError:
        return _noted(first, [ONE_ROUND])
    if progress.is_over:  # what was cut short is no better than the whole round before it
        return _noted(first, [ONE_ROUND])
    seconds = first.report.seconds + second.report.seconds
    return second._replace(report=replace(second.report, seconds=seconds))


def filled_as_learnt(
    fitted: Fitted, rows: Rows, gap: Bool[np.ndarray, "n d"], seed: Seed
) -> Float[np.ndarray, "n d"]:
    """Return training rows with their gaps drawn anew, as a fit takes them to be.

    Of some candidates, drawn without the target, one is kept by how likely it makes the target:
    data augmentation (Tanner & Wong 1987) by sampling-importance resampling (Rubin 1987).
    """
    if fitted.inputs is None:
        raise ValueError(NO_INPUT_MODEL)
    d, places = rows.x.shape[1], np.flatnonzero(gap.any(axis=1))
    inputs, rng = fitted.inputs.model.of_columns(d), check_random_state(seed)
    n = int(np.clip(_MOST_PREDICTED // len(places), _LEAST_CANDIDATES, _MOST_CANDIDATES))
    filled = rows.x.copy()
    for first in range(0, len(places), _ROWS_AT_ONCE):
        at = places[first : first + _ROWS_AT_ONCE]
        known = np.where(gap[at], np.nan, rows.x[at])
        candidates = inputs.completed(np.repeat(known, n, axis=0), rng)
        y = np.repeat(rows.y[at], n, axis=0)
        y = y[:, 0] if getattr(fitted.task, "is_vector", False) else y
        log_density = fitted.predict(candidates).log_prob(y).reshape(len(at), n, -1)
        filled[at] = candidates.reshape(len(at), n, d)[
            np.arange(len(at)), _drawn(log_density.sum(axis=2), rng)
        ]
    return filled


def _drawn(log_weight: Float[np.ndarray, "n c"], rng: np.random.RandomState) -> np.ndarray:
    """Draw one of c for every row, by unnormalised log probabilities (Gumbel's way)."""
    bounded = np.maximum(np.nan_to_num(log_weight, nan=-np.inf), -1e300)
    return np.argmax(bounded + rng.gumbel(size=bounded.shape), axis=1)
