"""What training rows with gaps are taken to be, once a method has learnt from them, and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from sklearn.utils import check_random_state

from bayesprop.distributions.gaussian_copula import NO_INPUT_MODEL, GaussianCopula
from bayesprop.model.method import Learned
from bayesprop.model.progress import NothingLearntError, current, following
from bayesprop.numerics.rows import Rows

ONE_ROUND = (
    "the time was over before gaps could be drawn by what was learnt and a second round be fitted"
)
_MOST_CANDIDATES, _LEAST_CANDIDATES, _MOST_PREDICTED = 32, 4, 2**18
_ROWS_AT_ONCE = 4096
_DRAFT = 0.4
"""Share of the time that a draft takes."""


def in_two_rounds(
    estimator: Any, rows: Rows, gap: Bool[np.ndarray, "n d"], learn: Callable[..., Learned]
) -> tuple[Learned, list[str]]:
    """Learn from rows with gaps, and once more with these drawn by what was learnt, in time.

    Also returns what there was no time for. Where time has no limit the first round is a draft.

    learn
        Takes rows, and whether they are to be learnt as a draft.
    """
    progress, started = current(), time.monotonic()
    as_draft = bool(np.isinf(progress.seconds_left))
    share = _DRAFT if as_draft else 0.5
    with following(progress.part(0.0, share, "round 1 of 2")):
        first = learn(rows, as_draft=as_draft)
    if progress.seconds_left < time.monotonic() - started or progress.is_over:
        return first, [ONE_ROUND]
    estimator.learned_ = first
    with following(progress.part(share, share, "gaps")):
        x = filled_as_learnt(estimator, rows, gap)
    try:
        with following(progress.part(share, 1.0, "round 2 of 2")):
            second = learn(rows._replace(x=x), as_draft=False)
    except NothingLearntError:
        return first, [ONE_ROUND]
    if progress.is_over:  # what was cut short is no better than the whole round before it
        return first, [ONE_ROUND]
    seconds = first.report.seconds + second.report.seconds
    return second._replace(report=replace(second.report, seconds=seconds)), []


def filled_as_learnt(
    estimator: Any, rows: Rows, gap: Bool[np.ndarray, "n d"]
) -> Float[np.ndarray, "n d"]:
    """Return training rows with their gaps drawn anew, as a fitted estimator takes them to be.

    Of some candidates, drawn without the target, one is kept by how likely it makes the target:
    data augmentation (Tanner & Wong 1987) by sampling-importance resampling (Rubin 1987).
    """
    d, places = rows.x.shape[1], np.flatnonzero(gap.any(axis=1))
    inputs = of_inputs(estimator).of_columns(d)
    rng = check_random_state(estimator.random_state)
    n = int(np.clip(_MOST_PREDICTED // len(places), _LEAST_CANDIDATES, _MOST_CANDIDATES))
    filled = rows.x.copy()
    for first in range(0, len(places), _ROWS_AT_ONCE):
        at = places[first : first + _ROWS_AT_ONCE]
        known = np.where(gap[at], np.nan, rows.x[at])
        candidates = inputs.completed(np.repeat(known, n, axis=0), rng)
        y = np.repeat(rows.y[at], n, axis=0)
        y = y[:, 0] if getattr(estimator.task_, "is_vector", False) else y
        log_density = estimator.fitted_.predict(candidates).log_prob(y).reshape(len(at), n, -1)
        filled[at] = candidates.reshape(len(at), n, d)[
            np.arange(len(at)), _drawn(log_density.sum(axis=2), rng)
        ]
    return filled


def of_inputs(estimator: Any) -> GaussianCopula:
    """Return how inputs and targets go together; ValueError where a model does not know it."""
    inputs = getattr(estimator, "inputs_", None)
    if inputs is None:
        raise ValueError(NO_INPUT_MODEL)
    return inputs.model


def _drawn(log_weight: Float[np.ndarray, "n c"], rng: np.random.RandomState) -> np.ndarray:
    """Draw one of c for every row, by unnormalised log probabilities (Gumbel's way)."""
    bounded = np.maximum(np.nan_to_num(log_weight, nan=-np.inf), -1e300)
    return np.argmax(bounded + rng.gumbel(size=bounded.shape), axis=1)
