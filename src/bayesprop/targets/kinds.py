"""Kinds of targets: the map of each, learnt from rows or read from a file; a guess by the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from jaxtyping import Float
from scipy import special

from bayesprop.targets.bijectors import (
    CENSORED,
    COUNT,
    NONNEGATIVE,
    NUMBERS,
    PER_CENT,
    POSITIVE,
    SHARE,
    Identity,
    Logit,
    SoftplusInverse,
    TargetMap,
    whole_of,
)
from bayesprop.targets.censoring import (
    OFTEN,
    CensoredMap,
    are_many,
    learn_from_zero,
    learn_limits,
    left_out_score,
    zero_inflated,
)
from bayesprop.targets.counts import CountScores, learnt_scores
from bayesprop.targets.left_out import Ridge, curves, evenly

KINDS = (NUMBERS, POSITIVE, NONNEGATIVE, CENSORED, SHARE, COUNT)
_FEW_ROWS = 20
_GAINS = {SHARE: -0.1, POSITIVE: 0.1}
_GAIN_BY_BOUNDS, _FEW_BOUNDS = 0.05, 0.05
"""Nats a row that the map must gain a ridge; and where so many of its intervals begin below 0."""
_MOST_ERROR, _MOST_SHARE = 0.25, 0.1
"""Largest error of a ridge that tells whole numbers apart, and its share of their spread."""
_LOW_COUNT, _MOST_SQUARES = 10.0, 2.25
"""Median of counts that may have a cliff, a few zeros with nothing between them and the rest; and
mean square of a ridge's errors through their map, over that without, which says that they have."""
_FEW_ROWS_OF_KIND, _FEW_VALUES = 50, 3
_MOST_ROWS_OF_CURVES = 1000

UNLEARNT: dict[str, TargetMap] = {
    POSITIVE: SoftplusInverse(1.0),
    NONNEGATIVE: zero_inflated(NONNEGATIVE, np.inf),
    CENSORED: CensoredMap(CENSORED, Identity(), -np.inf, np.inf),
    SHARE: zero_inflated(SHARE, 1.0),
    COUNT: CountScores(np.array([0.5]), np.array([0.0])),
}
"""A map of every kind but numbers as they are; shares between 0 and the whole have `Logit`."""


def learnt_map(
    kind: str,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, "n o"],
    weight: Float[np.ndarray, " n"] | None = None,
    exposure: Float[np.ndarray, " n"] | None = None,
) -> TargetMap:
    """Learn the map of a kind from training rows; ValueError where a target leaves its support.

    x
        Standardised inputs: a ridge on them judges scales of `SoftplusInverse` on rows left out,
        and says where in its interval a count lies.
    weight
        Of each row; rows of weight 0 teach nothing.
    exposure
        Of counts: how long, or on how many, each was counted. None: all alike.
    """
    counted = np.ones(len(y), bool) if weight is None else weight > 0.0
    whole = whole_of(y[counted])
    unlearnt = zero_inflated(SHARE, whole) if kind == SHARE else UNLEARNT[kind]
    unlearnt.check(y)
    if y.shape[1] != 1:
        raise ValueError(
            f"target_kind={kind!r} takes one target, got {y.shape[1]}: fit one model a target"
        )
    weight = np.ones(len(y)) if weight is None else weight
    x, y, weight = x[counted], y[counted, 0], weight[counted]
    if kind == SHARE and Logit(whole).holds(y).all():
        return Logit(whole)
    ridge = Ridge.of_some(x, weight)
    if kind == POSITIVE:
        maps = SoftplusInverse.candidates(y)[: None if len(y) >= _FEW_ROWS else 1]
        return max(maps, key=lambda one: left_out_score(one, ridge, y[ridge.at]))
    if kind == COUNT:
        return learnt_scores(ridge, y, weight, None if exposure is None else exposure[counted])
    if kind == CENSORED:
        return learn_limits(ridge, y)
    return learn_from_zero(cast(CensoredMap, unlearnt), ridge, y)


def guessed_kind(
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"] | None = None,
    *,
    is_percent: bool = False,
) -> str:
    """Return one of `KINDS`: numbers unless another kind is clearly better.

    Whole numbers from 0 on are counts, unless a ridge tells them apart on rows left out, as it does
    sums of other columns, or errs much more through the map of high counts. Other numbers from 0
    on, a fiftieth of them 0, are nonnegative if a ridge errs less through their map, as it does not
    of formulas; shares if they end at 1, as a fiftieth do. Numbers between 0 and 1 are shares
    unless their map loses a tenth of a nat a row for a ridge on rows left out, others above 0 are
    positive if their map gains as much, or half of it where intervals of the ridge would begin
    below 0.

    Per cent between 0 and 100, a twenty-fifth of them above 1, are judged as shares, and are
    neither counts nor nonnegative; their bounds count however few rows are there.

    x
        Standardised inputs.
    is_percent
        Whether the targets were written with per cent signs: 24.7 is then a share of 100.
    """
    if weight is not None:
        x, y, weight = x[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
    if len(y) < _FEW_ROWS_OF_KIND or len(np.unique(y)) < _FEW_VALUES:
        return NUMBERS
    weight = np.ones(len(y)) if weight is None else weight
    scale = float(np.std(y))
    share = zero_inflated(SHARE, PER_CENT if is_percent else 1.0)
    is_in_unit = not is_percent or are_many(y > 1.0, times=OFTEN)
    can_be_share = is_in_unit and bool(share.holds(y).all())
    is_percent = is_percent and can_be_share
    if not is_percent and UNLEARNT[COUNT].holds(y).all() and np.min(y) == 0.0:
        ridge = Ridge.of_some(x, weight)
        error = np.sqrt(ridge.left_out(y[ridge.at]).mean_square)
        if error < min(_MOST_ERROR, _MOST_SHARE * scale):
            return NUMBERS
        if np.median(y) < _LOW_COUNT:
            return COUNT
        plain, mapped = _errors_by_map(COUNT, x, y, weight, np.square)
        return NUMBERS if mapped > _MOST_SQUARES * plain else COUNT
    is_inside = Logit(share.high).holds(y).all()
    is_at_bound = not is_inside if is_percent else can_be_share and are_many(y == 1.0)
    if np.min(y) >= 0.0 and (is_at_bound or are_many(y == 0.0)):
        kind = SHARE if is_at_bound else NONNEGATIVE
        plain, mapped = _errors_by_map(kind, x, y, weight, np.abs)
        return kind if mapped < plain else NUMBERS
    kind = SHARE if can_be_share and is_inside else POSITIVE
    if np.min(y) <= 0.0:
        return NUMBERS
    ridge = Ridge.of_some(x, weight)
    plain, mapped = (
        left_out_score(one, ridge, y[ridge.at])
        for one in (Identity(), learnt_map(kind, x, y[:, None], weight))
    )
    gain = mapped - plain
    if gain > _GAINS[kind]:
        return kind
    is_bound = kind == POSITIVE and gain > _GAIN_BY_BOUNDS and _reaches_below_0(ridge, y[ridge.at])
    return POSITIVE if is_bound else NUMBERS


def _reaches_below_0(ridge: Ridge, y: Float[np.ndarray, " n"]) -> bool:
    """Whether 90 % intervals of a ridge for rows left out begin below 0 in more than a few."""
    best = ridge.left_out(y)
    low = y - best.errors + special.ndtri(0.05) * np.sqrt(best.mean_square)
    return bool(np.average(low < 0.0, weights=ridge.weight) > _FEW_BOUNDS)


def _errors_by_map(
    kind: str,
    x: Float[np.ndarray, "n d"],
    y: Float[np.ndarray, " n"],
    weight: Float[np.ndarray, " n"],
    size: Callable[[np.ndarray], np.ndarray],
) -> tuple[float, float]:
    """Return the mean size of errors of a ridge of curves, plain and through the map of a kind."""
    at = evenly(len(x), _MOST_ROWS_OF_CURVES)
    x, y, weight = x[at], y[at, None], weight[at]
    learnt = learnt_map(kind, x, y, weight)
    z = learnt.encode(y, np.random.RandomState(0), x)
    ridge = Ridge.of(curves(x), weight)
    plain = ridge.left_out_errors(y)
    mapped = learnt.inverse(z - ridge.left_out_errors(z)) - y
    of_plain, of_mapped = (
        float(np.average(size(errors[..., 0]), axis=1, weights=weight).min())
        for errors in (plain, mapped)
    )
    return of_plain, of_mapped
